"""Dependent trees: what they find of planted ones, and what they predict of text.

    SKBNP_DATA=... python benchmarks/dependent_trees.py PART ...
        [--corpora NAME ...] [--seeds N ...] [--past-weight K ...] [--minutes N]
        [--n-jobs N] [--without KIND ...]

The parts are planted, drift, quiet, text, flat, large and moves.

Peers on text, at mean directions: one von Mises-Fisher distribution for each epoch, and
spherical k-means with as many clusters as the tree has nodes, as a mixture, for each
epoch and for all. At maximum likelihood k-means takes the spread of its own rows for
that of others; so its concentration is learned, too, from rows that are left out of
their clusters one by one (flat mixtures). Constants were chosen by `nips` and `sotu`
(seeds 0 to 2, 5 to 11 and 20 to 23), titles of 400 rows an epoch (seeds 0 to 3) and
planted trees of seeds 0 to 12, 22, 30 to 519, moves of names by drift of seeds 0 to 39;
all else was run once, as it is found here.
"""

import argparse
import resource
import time
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import common  # before NumPy: it pins the threads
import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from common import cpu_seconds
from scipy.optimize import linear_sum_assignment, minimize_scalar
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree
from scipy.special import logsumexp
from sklearn.metrics import adjusted_rand_score

from skbnp import DependentTrees
from skbnp.datasets import make_dependent_trees
from skbnp.distributions import inverse_bessel_ratio, log_normaliser
from skbnp.inference.executor import Executor
from skbnp.inference.monitor import Monitor, new_history
from skbnp.models.dependent_trees import assignments, structure
from skbnp.models.dependent_trees.epoch import rows_by_epoch
from skbnp.models.dependent_trees.state import log_normaliser_gain
from skbnp.models.dependent_trees.structure import EpochEdits
from skbnp.models.dependent_trees.updates import spherical_kmeans
from skbnp.utils.arrays import padded

#: Least ratio to one component for each epoch.
TARGETS = {"nips": 1.22, "arxiv_titles": 1.05, "sotu": 1.05}
N_EPOCHS = {"arxiv_titles": 10, "arxiv_large": 1, "arxiv2000": 10}
FLAT = ("sotu", "nips_abstracts", "arxiv2000")


# Planted trees ------------------------------------------------------------------------


def matched(target, result):
    """The node that has most rows of each planted one."""
    return {
        int(node): int(np.bincount(result[target == node]).argmax())
        for node in np.unique(target)
    }


def planted(seeds):
    rows = []
    for n_features in (40, 400):
        for seed in seeds:
            corpus = make_dependent_trees(
                400,
                n_features=n_features,
                concentration=3.0 * n_features,
                prior_concentration=2.5 * n_features,
                random_state=seed,
            )
            trees, seconds = cpu_seconds(
                lambda corpus=corpus, seed=seed: DependentTrees(random_state=seed).fit(
                    corpus.data
                )
            )
            result, parent = trees.apply(corpus.data), corpus.tree.parent
            match, directions = matched(corpus.target, result), corpus.directions[0]
            cosines = directions @ directions.T
            close = [
                node
                for node in range(1, len(parent))
                if cosines[node, parent[node]] >= 0.7
            ]
            right = sum(
                trees.tree_.parent[match[node]] == match[parent[node]]
                and match[node] != match[parent[node]]
                for node in close
            )
            middle = np.argmax(directions @ corpus.data.sum(axis=0))
            known = [
                int(np.sum(largest_tree(cosines, root)[close] == parent[close]))
                for root in (middle, 0)
            ]
            rows.append(
                {
                    "features": n_features,
                    "seed": seed,
                    "ARI": round(adjusted_rand_score(corpus.target, result), 3),
                    "nodes": trees.n_components_,
                    "edges": len(close),
                    "edges right": int(right),
                    "edges right, directions known": known[0],
                    "edges right, directions and root known": known[1],
                    "seconds": round(seconds, 2),
                }
            )
            print(rows[-1], flush=True)
    return rows


def largest_tree(cosines, root):
    """Parents in the maximum spanning tree of cosines, from a root.

    Under it the directions have the highest density, as all edges have the same
    concentration; that does not depend on the root.
    """
    tree = minimum_spanning_tree(2.0 - cosines)
    _, parents = breadth_first_order(tree, root, directed=False)
    return parents


def planted_counts(rows):
    """Count draws by number of features."""
    counts = []
    for n_features in dict.fromkeys(row["features"] for row in rows):
        some = [row for row in rows if row["features"] == n_features]

        ari = np.array([row["ARI"] >= 0.95 for row in some])
        # Of nine edges eight; of fewer that are that close, all but one.
        kinds = "", ", directions known", ", directions and root known"
        edges = {
            kind: np.array(
                [row[f"edges right{kind}"] > row["edges"] - 2 for row in some]
            )
            for kind in kinds
        }
        counts.append(
            {
                "features": n_features,
                "seeds": f"{some[0]['seed']} to {some[-1]['seed']}",
                "draws": len(some),
                "ARI 0.95": int(ari.sum()),
                "both": int((ari & edges[""]).sum()),
                **{f"8 edges{kind}": int(edges[kind].sum()) for kind in kinds},
                "ARI, median": float(np.median([row["ARI"] for row in some])),
                "edges, mean": float(np.mean([row["edges right"] for row in some])),
                "seconds, median": float(np.median([row["seconds"] for row in some])),
            }
        )
    return counts


def can_be_told(corpus, lifetimes, past_weight):
    """Whether the planted names are the best for one who knows all parameters.

    And the tree and the node of each row: directions are those of the sums of rows, and
    names the assignment of past directions of the highest density.
    """
    n_epochs, _, V = corpus.directions.shape
    sums = np.zeros_like(corpus.directions)
    np.add.at(sums, (corpus.epochs, corpus.target), corpus.data)
    lengths = np.linalg.norm(sums, axis=-1, keepdims=True)
    theta, parent = sums / np.maximum(lengths, 1e-300), corpus.tree.parent
    begin, end = lifetimes.T
    for epoch in range(1, n_epochs):
        now, old = (
            np.flatnonzero((begin <= t) & (t <= end)) for t in (epoch, epoch - 1)
        )
        of_parents = 100.0 * theta[epoch, parent[now]] * (now > 0)[:, None]
        of_pasts = 100.0 * past_weight * theta[epoch - 1, old]
        naturals = of_parents[:, None] + np.pad(of_pasts, ((0, 1), (0, 0)))
        densities = naturals @ theta[epoch, now][:, :, None]
        squares = np.square(naturals).sum(axis=-1)
        gains = densities[..., 0] + log_normaliser_gain(squares, V)
        n_new = len(np.setdiff1d(now, old))
        gains = np.hstack([gains[:, :-1], np.repeat(gains[:, -1:], n_new, axis=1)])
        _, names = linear_sum_assignment(gains, maximize=True)
        names = np.append(old, np.full(n_new, -1))[names]
        if not np.array_equal(names, np.where(np.isin(now, old), now, -1)):
            return False
    return True


def drift(seeds, past_weight):
    """Six epochs: one leaf begins in the third, another ends after the third."""
    lifetimes = np.tile([0, 5], (10, 1))
    lifetimes[9, 0], lifetimes[6, 1] = 2, 2
    rows = []
    for seed in seeds:
        corpus = make_dependent_trees(
            300,
            n_epochs=6,
            lifetimes=lifetimes,
            past_weight=past_weight,
            random_state=seed,
        )
        trees, seconds = cpu_seconds(
            lambda corpus=corpus, seed=seed: DependentTrees(random_state=seed).fit(
                corpus.data, epochs=corpus.epochs
            )
        )
        names, scores = [], []
        for epoch in range(6):
            of, record = corpus.epochs == epoch, trees.epochs_[epoch]
            nearest = (corpus.data[of] @ record.components.T).argmax(axis=1)
            result = record.component_ids[nearest]
            scores.append(adjusted_rand_score(corpus.target[of], result))
            names.append(matched(corpus.target[of], result))
        always = [node for node in range(10) if node not in (6, 9)]
        kept = sum(len({names[t][node] for t in range(6)}) == 1 for node in always)
        born = next(
            (
                t
                for t in range(6)
                if 9 in names[t]
                and names[t][9] not in names[1].values()
                and names[t][9] != names[t][7]
            ),
            None,
        )
        ended = names[0][6]
        masses = [
            float(record.masses[record.component_ids == ended].sum())
            for record in trees.epochs_.values()
        ]
        end = next((t for t in range(3, 6) if masses[t] < 1.0), None)
        above = record.component_ids[record.tree.parent]
        parents = dict(zip(record.component_ids.tolist(), above.tolist(), strict=True))
        edges = sum(
            parents[names[5][node]] == names[5][int(corpus.tree.parent[node])]
            for node in names[5]
            if node > 0
        )
        first = set(trees.epochs_[0].component_ids.tolist())
        new = set().union(*(set(r.component_ids) for r in trees.epochs_.values()))
        rows.append(
            {
                "past weight": past_weight,
                "seed": seed,
                "least ARI": round(min(scores), 3),
                "names kept": kept,
                "born in": born,
                "without rows from": end,
                "other births": len(new - first) - (born is not None),
                "edges": edges,
                "can be told": can_be_told(corpus, lifetimes, past_weight),
                "seconds": round(seconds, 1),
            }
        )
        print(rows[-1], flush=True)
    return rows


def by_weight(draw, seeds, past_weights):
    """Rows of planted drift, or of quiet epochs, for each past weight."""
    return [row for weight in past_weights for row in draw(seeds, weight)]


def drift_counts(rows):
    """Count draws by weight, those of the moves' choice apart."""
    counts = []
    for weight in dict.fromkeys(row["past weight"] for row in rows):
        for first in sorted({row["seed"] // 40 * 40 for row in rows}):
            seeds = range(first, first + 40)
            some = [
                row
                for row in rows
                if row["past weight"] == weight and row["seed"] in seeds
            ]
            if not some:
                continue
            tests = {
                "birth": [row["born in"] in (2, 3) for row in some],
                "end": [row["without rows from"] in (3, 4) for row in some],
                "all names": [row["names kept"] == 8 for row in some],
                "no other birth": [row["other births"] == 0 for row in some],
            }
            tests["all of it"] = np.all(list(tests.values()), axis=0)
            counts.append(
                {
                    "past weight": weight,
                    "seeds": f"{first} to {first + 39}" + ", of choice" * (first == 0),
                    "draws": len(some),
                    "can be told": sum(row["can be told"] for row in some),
                    **{kind: int(np.sum(result)) for kind, result in tests.items()},
                    "edges, mean": float(np.mean([row["edges"] for row in some])),
                    "least ARI, median": float(
                        np.median([row["least ARI"] for row in some])
                    ),
                    "seconds, median": float(
                        np.median([row["seconds"] for row in some])
                    ),
                }
            )
    return counts


def quiet(seeds, past_weight):
    """Fifty epochs in which topics drift, and none begins."""
    rows = []
    for seed in seeds:
        corpus = make_dependent_trees(
            200, n_epochs=50, past_weight=past_weight, random_state=seed
        )
        trees, seconds = cpu_seconds(
            lambda corpus=corpus, seed=seed: DependentTrees(random_state=seed).fit(
                corpus.data, epochs=corpus.epochs
            )
        )
        epochs = trees.epochs_
        first = set(epochs[0].component_ids.tolist())
        new = {
            node
            for record in epochs.values()
            for node in record.component_ids[record.masses >= 1.0].tolist()
        } - first
        rows.append(
            {
                "past weight": past_weight,
                "seed": seed,
                "nodes, first epoch": epochs[0].tree.n_nodes,
                "nodes, last epoch": epochs[49].tree.n_nodes,
                "topics that emerged": len(new),
                "seconds": round(seconds, 1),
            }
        )
        print(rows[-1], flush=True)
    return rows


# Text ---------------------------------------------------------------------------------


def unit_rows(name):
    """Rows of length one and their epochs."""
    X = common.load_corpus(name)
    years = np.load(common.data_folder() / f"{name}.years.npy").astype(int)
    if name == "nips":
        years = np.minimum(years, 1998)  # 12 years; the last has what is left
    if name == "sotu":
        years = years // 10 * 10
    if name in N_EPOCHS:
        inner = np.quantile(years, np.linspace(0, 1, N_EPOCHS[name] + 1)[1:-1])
        years = np.searchsorted(np.unique(inner), years, side="right")
    used = np.diff(X.indptr) > 0
    X, years = X[used], years[used]
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X.data /= np.repeat(lengths, np.diff(X.indptr))
    return X, years


def split(epochs, seed):
    """Hold out a fifth of each epoch."""
    rng, held = np.random.default_rng(seed), np.zeros(len(epochs), dtype=bool)
    for epoch in np.unique(epochs):
        rows = np.flatnonzero(epochs == epoch)
        held[rng.permutation(rows)[: max(1, len(rows) // 5)]] = True
    return held


def mixture_gains(train, test, labels):
    """Gains of held-out rows under a mixture of clusters, at maximum likelihood."""
    n_clusters, dimension = int(labels.max()) + 1, train.shape[1]
    spread = sp.csr_array(
        (np.ones(len(labels)), (labels, np.arange(len(labels)))),
        shape=(n_clusters, len(labels)),
    )
    sums = (spread @ train).toarray()
    lengths = np.linalg.norm(sums, axis=1)
    beta = float(inverse_bessel_ratio(lengths.sum() / len(labels), dimension))
    logs = np.log(np.bincount(labels) / len(labels))
    constant = float(log_normaliser(beta, dimension) - log_normaliser(0.0, dimension))
    cosines = test @ (sums / lengths[:, None]).T
    return logsumexp(logs + constant + beta * cosines, axis=1)


def plug_in_gain(trees, X, epochs):
    """Mean gain at mean directions, by section 5 of Hu et al. (2015)."""
    rows, _ = trees._rows(X, "score")
    gains, priors = np.zeros(rows.shape[0]), trees._tree_priors()
    for epoch, of in rows_by_epoch(trees._known_epochs(), epochs, len(gains)):
        state = epoch.state
        lengths = np.linalg.norm(state.means, axis=1, keepdims=True)
        directions = padded(state.means / lengths, rows.shape[1])
        beta, weights = (
            state.concentration,
            state.sticks(priors).mean_weights(state.tree),
        )
        whole, flat = log_normaliser(np.array([beta, 0.0]), state.dimension)
        logs = np.log(weights) + beta * (rows[of] @ directions.T) + whole - flat
        rest = np.log(max(1.0 - weights.sum(), 1e-300))
        gains[of] = np.logaddexp(logsumexp(logs, axis=1), rest)
    return float(gains[np.diff(rows.indptr) > 0].mean())


def flat_gains(train, test, labels):
    """Gains of held-out rows under a flat mixture whose concentration is learned.

    It maximises the density of training rows, each left out of its own cluster.
    """
    n_clusters, (n_rows, dimension) = int(labels.max()) + 1, train.shape
    spread = sp.csr_array(
        (np.ones(n_rows), (labels, np.arange(n_rows))), shape=(n_clusters, n_rows)
    )
    sums, counts = (spread @ train).toarray(), np.bincount(labels).astype(float)
    lengths, rows = np.linalg.norm(sums, axis=1), np.arange(n_rows)
    cosines = train @ (sums / np.maximum(lengths, 1e-300)[:, None]).T
    logs = np.tile(np.log(counts / n_rows), (n_rows, 1))
    # The own cluster without the row: |s - x|^2 = |s|^2 - 2 s'x + 1.
    along = cosines[rows, labels] * lengths[labels]
    rest = np.sqrt(np.maximum(lengths[labels] ** 2 - 2.0 * along + 1.0, 1e-12))
    cosines[rows, labels] = (along - 1.0) / rest
    with np.errstate(divide="ignore"):
        logs[rows, labels] = np.log((counts[labels] - 1.0) / n_rows)

    def gains(log_beta, logs, cosines):
        beta = np.exp(log_beta)
        constant = log_normaliser(beta, dimension) - log_normaliser(0.0, dimension)
        return logsumexp(logs + float(constant) + beta * cosines, axis=1)

    best = minimize_scalar(
        lambda log_beta: -gains(log_beta, logs, cosines).mean(),
        bounds=np.log([0.01 * dimension, 100.0 * dimension]),
        method="bounded",
    )
    cosines = test @ (sums / np.maximum(lengths, 1e-300)[:, None]).T
    return gains(best.x, np.log(counts / n_rows), cosines)


def text(names, seeds):
    rows = []
    for name in names:
        X, epochs = unit_rows(name)
        for seed in seeds:
            held = split(epochs, seed)
            trees, seconds = cpu_seconds(
                lambda X=X, epochs=epochs, held=held, seed=seed: DependentTrees(
                    random_state=seed
                ).fit(X[~held], epochs=epochs[~held])
            )
            gain = trees.score(X[held], epochs=epochs[held])
            one, means, flat, sizes, depths = [], [], [], [], []
            for epoch, record in trees.epochs_.items():
                train, test = (X[(epochs == epoch) & part] for part in (~held, held))
                alone = np.zeros(train.shape[0], dtype=np.intp)
                one.append(mixture_gains(train, test, alone))
                sizes.append(int((record.masses >= 1.0).sum()))
                depths.append(record.masses @ record.tree.depth / record.masses.sum())
                rng = np.random.default_rng(seed)
                labels = spherical_kmeans(
                    train.astype(np.float32), min(sizes[-1], train.shape[0]), rng
                )
                means.append(mixture_gains(train, test, labels))
                flat.append(flat_gains(train, test, labels))
            one, means, flat = (
                float(np.concatenate(part).mean()) for part in (one, means, flat)
            )
            labels = spherical_kmeans(
                X[~held].astype(np.float32), max(sizes), np.random.default_rng(seed)
            )
            rows.append(
                {
                    "corpus": name,
                    "seed": seed,
                    "epochs": len(sizes),
                    "rows": int((~held).sum()),
                    "nodes": f"{min(sizes)} to {max(sizes)}",
                    "depth": f"{depths[0]:.1f} to {depths[-1]:.1f}",
                    "gain": round(gain, 1),
                    "plug-in": round(
                        plug_in_gain(trees, X[held], epochs=epochs[held]), 1
                    ),
                    "one component": round(one, 1),
                    "k-means mixture": round(means, 1),
                    "flat mixture": round(flat, 1),
                    "flat mixture, all epochs": round(
                        float(flat_gains(X[~held], X[held], labels).mean()), 1
                    ),
                    "ratio to one": round(gain / one, 3),
                    "target": TARGETS.get(name),
                    "converged": trees.converged_,
                    "seconds": round(seconds, 1),
                }
            )
            print(rows[-1], flush=True)
    return rows


# Kinds of moves -----------------------------------------------------------------------

#: Functions that make a kind of moves, and what each returns in its place.
WITHOUT = {
    "merges": {(EpochEdits, "_merge"): None},
    "merges into the root": {(EpochEdits, "_merge_into_root"): None},
    "births": {(EpochEdits, "_propose_births"): 0},
    "births at the start": {(assignments, "_propose_births"): []},
    "other parents": {(EpochEdits, "_attach"): None},
    "reversals": {(structure, "propose_reversals"): []},
    "attachments": {(structure, "propose_attachments"): []},
    "exchanges": {(EpochEdits, "_exchange"): None},
    "reviews": {(EpochEdits, "_review_parents"): None},
    "revivals": {(EpochEdits, "_revive_nodes"): None},
}
#: Numbers of seeds of each sort of data.
N_SEEDS = {"planted": 24, "drift": 16, "quiet": 8, "text": 8}


@contextmanager
def without(kind):
    """Leave a kind of moves out of fits, or several, joined by commas."""
    with ExitStack() as stack:
        for one in filter(None, (name.strip() for name in kind.split(","))):
            for (owner, name), result in WITHOUT[one].items():
                stack.enter_context(
                    patch.object(owner, name, lambda *given, of=result, **named: of)
                )
        yield


def small_text(name, seed):
    """Rows of four epochs, 150 of each at most, and their epochs."""
    X, epochs = unit_rows(name)
    rng, rows = np.random.default_rng(seed), []
    for epoch in np.unique(epochs)[-5:-1]:
        some = np.flatnonzero(epochs == epoch)
        rows.append(np.sort(rng.permutation(some)[:150]))
    rows = np.concatenate(rows)
    return X[rows], epochs[rows]


def moves(names, seeds):
    """What fits lose without each kind of moves, for the same draws.

    The first of the seeds begins the half that chooses, the second one the other.
    """
    rows = []
    for half, first in zip(("choice", "confirmation"), seeds, strict=False):
        for kind in ("", *names):
            for sort, n_seeds in N_SEEDS.items():
                for seed in range(first, first + n_seeds):
                    with without(kind):
                        measured = MEASURES[sort](seed)
                    row = {"half": half, "without": kind or "-", "data": sort}
                    rows.append({**row, "seed": seed, **measured})
                    print(rows[-1], flush=True)
    return rows


def fitted(X, epochs, seed):
    """A fit, its bound, nats per row as a mean over epochs, and its seconds."""
    trees, seconds = cpu_seconds(
        lambda: DependentTrees(random_state=seed).fit(X, epochs=epochs)
    )
    steps, bounds = (np.array(trees.history_[name]) for name in ("step", "elbo"))
    begins = [epoch.first_step for epoch in trees._posterior.epochs]
    ends = np.searchsorted(steps, [*begins[1:], steps[-1]], side="right") - 1
    bound = float(bounds[ends].mean())
    return trees, {"bound": bound, "seconds": round(seconds, 2)}


def moves_planted(seed):
    """One epoch of a planted tree."""
    corpus = make_dependent_trees(random_state=seed)
    trees, measured = fitted(corpus.data, np.zeros(400, dtype=int), seed)
    result, parent = trees.apply(corpus.data), corpus.tree.parent
    match, above = matched(corpus.target, result), trees.tree_.parent
    return {
        "ARI": adjusted_rand_score(corpus.target, result),
        "edges": sum(above[match[n]] == match[parent[n]] for n in range(1, 10)),
        "more nodes": trees.n_components_ - 10,
        **measured,
    }


def moves_drift(seed):
    """Planted drift, a birth and an end."""
    (row,) = drift([seed], 1.0)
    return {
        "ARI": row["least ARI"],
        "edges": row["edges"],
        "names": row["names kept"],
        "birth": int(row["born in"] in (2, 3)),
        "end": int(row["without rows from"] in (3, 4)),
        "alarms": row["other births"],
        "seconds": row["seconds"],
    }


def moves_quiet(seed):
    """Eight epochs in which no topic begins."""
    corpus = make_dependent_trees(200, n_epochs=8, past_weight=1.0, random_state=seed)
    trees, measured = fitted(corpus.data, corpus.epochs, seed)
    epochs = trees.epochs_
    first = epochs[0].component_ids
    new = [np.setdiff1d(one.component_ids, first) for one in epochs.values()]
    last = corpus.epochs == 7
    result = trees.apply(corpus.data[last], epochs=corpus.epochs[last])
    return {
        "ARI": adjusted_rand_score(corpus.target[last], result),
        "alarms": len(np.unique(np.concatenate(new))),
        **measured,
    }


def moves_text(seed):
    """Small samples of two corpora."""
    X, epochs = small_text(("nips", "sotu")[seed % 2], seed)
    held = split(epochs, seed)
    trees, measured = fitted(X[~held], epochs[~held], seed)
    return {"score": trees.score(X[held], epochs=epochs[held]), **measured}


MEASURES = {
    "planted": moves_planted,
    "drift": moves_drift,
    "quiet": moves_quiet,
    "text": moves_text,
}


def moves_counts(rows):
    """Mean differences from fits with all kinds, and their standard errors."""
    whole = {(r["data"], r["seed"]): r for r in rows if r["without"] == "-"}
    counts = {}
    for row in rows:
        for name, value in row.items():
            if name in ("half", "without", "data", "seed"):
                continue
            base = 0.0
            if row["without"] != "-":
                base = whole[row["data"], row["seed"]][name]
            at = counts.setdefault((row["half"], row["data"], name), {})
            at.setdefault(row["without"], []).append(float(value) - base)
    table = []
    for (half, sort, name), by_kind in counts.items():
        line = {"half": half, "data": sort, "measure": name}
        for kind, changes in by_kind.items():
            mean, n = np.mean(changes), len(changes)
            if kind == "-":
                line |= {"draws": n, "all kinds": f"{mean:.3f}"}
            else:
                error = np.std(changes, ddof=1) / np.sqrt(n)
                line[kind] = f"{mean:+.3f} ({error:.3f})"
        table.append(line)
    return table


# Long tail ----------------------------------------------------------------------------

LARGE = """
Figure 6 of Hu, Ho, Dubey and Xing (2015): growth of one tree. Four fifths of
`arxiv_large` as one epoch, {minutes:g} minutes of the clock, {n_threads} threads; the
paper has 8.4 million abstracts of PubMed, four machines of 16 cores, and in the end
over 10,000 nodes in 8 layers. "held-out gain": over the uniform density, nats per row
of the last fifth. Curves are in dependent_trees_large.png.

Nearly as printed, the tree ends with some 10,000 nodes, though of 120,000 abstracts:
the 8,000 clusters that it starts from, and births. It has 5 layers and still grows,
slower with each pass.
"""
TAIL = """
Table 2 of Hu, Ho, Dubey and Xing (2015), small topics: three of those of `arxiv_large`
with 15 to 40 of {n_rows} abstracts (the paper: 4 to 28 of 8.4 million), drawn among
{n_nodes} nodes: the most probable words, those of the parent, and of three abstracts
drawn from those at the node the words that are heaviest.

As printed, they have themes as narrow: packings, gender, dimensions of a space.
"""


def large(minutes, n_jobs):
    """Passes over one epoch, and what is held out after some of them."""
    X, epochs = unit_rows("arxiv_large")
    held = split(epochs, 0)
    test = X[np.flatnonzero(held)[:2000]]
    trees = DependentTrees(random_state=0, n_jobs=n_jobs)
    begin, results, history = time.perf_counter(), [], new_history()
    used = time.process_time()
    with Executor(n_jobs) as executor:
        rows = trees._read(X[~held], reset=True, method="fit")
        posterior = trees._start(trees._make_model(), rows, 0, rows.shape[0])
        around = trees._around(posterior, rows.X, executor)
        learner = trees._make_learner(posterior, around, False)
        posterior.n_open, monitor = rows.shape[0], Monitor(history)
        has_ended = False
        while not has_ended:
            learner.one_pass(monitor)
            passed = (time.perf_counter() - begin) / 60.0
            has_ended = passed > minutes
            last = results[-1]["minutes"] if results else 0.0
            if has_ended or passed >= max(1.1 * last, last + 0.5):
                result = trees._fitted_attributes(posterior, history, learner.n_passes)
                vars(trees).update(result)
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
                moves = posterior.n_moves
                results.append(
                    {
                        "minutes": round(passed, 1),
                        "processor minutes": round(
                            (time.process_time() - used) / 60.0, 1
                        ),
                        "pass": learner.n_passes,
                        "nodes": trees.n_components_,
                        "depth": int(trees.tree_.max_depth),
                        "births": moves["n_births"],
                        "merges": moves["n_merges"],
                        "held-out gain": round(trees.score(test), 1),
                        "GB": round(peak, 2),
                    }
                )
                print(results[-1], flush=True)
    draw_growth(results)
    topics = small_topics(trees, rows.X)
    reading = TAIL.format(n_rows=rows.shape[0], n_nodes=trees.n_components_)
    common.save("dependent_trees_tail", topics, list(topics[0]), reading)
    return results


def draw_growth(results):
    """Nodes, depth and held-out gain against the time of the processor."""
    minutes = [row["processor minutes"] for row in results]
    figure, axes = plt.subplots(1, 3, figsize=(9, 2.8), layout="constrained")
    for axis, name in zip(axes, ("nodes", "depth", "held-out gain"), strict=True):
        axis.plot(minutes, [row[name] for row in results], color="C0")
        axis.set(xlabel="processor minutes", ylabel=name)
    axes[0].set_ylim(bottom=0)
    axes[1].set_ylim(bottom=0)
    figure.savefig(common.RESULTS / "dependent_trees_large.png", dpi=120)
    plt.close(figure)


def small_topics(trees, X):
    """Three topics of small mass, drawn, with their words and abstracts."""
    path = common.data_folder() / "arxiv_large.vocab.txt"
    words = np.array(path.read_text().split())

    def heaviest(values, n):
        order = np.argsort(-values, kind="stable")[:n]
        return " ".join(words[order[values[order] > 0.0]])

    record = trees.epochs_[trees._posterior.label]
    small = np.flatnonzero((record.masses >= 15.0) & (record.masses <= 40.0))
    if len(small) < 3:
        small = np.argsort(record.masses)[-3:]
    rng, nodes = np.random.default_rng(0), trees.apply(X)
    rows = []
    for node in np.sort(rng.choice(small, size=min(3, len(small)), replace=False)):
        parent = record.tree.parent[node]
        own = np.flatnonzero(nodes == node)
        drawn = rng.choice(own, size=min(3, len(own)), replace=False)
        rows.append(
            {
                "node": int(record.component_ids[node]),
                "abstracts": round(float(record.masses[node]), 1),
                "words": heaviest(trees.components_[node], 8),
                "parent": heaviest(trees.components_[parent], 6),
                "three of them": "; ".join(
                    heaviest(X[[row]].toarray()[0], 8) for row in drawn
                ),
            }
        )
    return rows


COUNTS = {"planted": planted_counts, "drift": drift_counts, "moves": moves_counts}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="+")
    parser.add_argument("--corpora", nargs="+", default=list(TARGETS))
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--past-weight", type=float, nargs="+", default=[3.0, 1.0])
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--without", nargs="+", default=list(WITHOUT))
    given = parser.parse_args()
    runs = {
        "planted": lambda: planted(given.seeds or range(10)),
        "drift": lambda: by_weight(drift, given.seeds or range(80), given.past_weight),
        "quiet": lambda: by_weight(quiet, given.seeds or range(8), given.past_weight),
        "text": lambda: text(given.corpora, given.seeds or range(2)),
        "flat": lambda: text(FLAT, given.seeds or range(2)),
        "large": lambda: large(given.minutes, given.n_jobs),
        "moves": lambda: moves(given.without, given.seeds or (800, 900)),
    }
    large_text = LARGE.format(minutes=given.minutes, n_threads=given.n_jobs)
    for part in given.parts:
        results = runs[part]()
        name = f"dependent_trees_{part}"
        count = COUNTS.get(part)
        counts = [] if count is None else count(results)
        rows = [*counts, *results]
        above = large_text if part == "large" else None
        common.save(name, rows, list(rows[0]), above, n_shown=len(counts) or None)


if __name__ == "__main__":
    main()
