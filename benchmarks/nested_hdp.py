"""`NestedHDP` beside a flat HDP and tomotopy's HLDA: prediction, seeds, coherence.

    SKBNP_DATA=... python benchmarks/nested_hdp.py [CORPUS ...] [--seeds N] [--sweeps N]

Rows of three seeds take the place of saved ones, so that the table can be made in
several runs; a run of other seeds shows its rows.
tomotopy must be installed; "docstrings" is `load_docstrings`, all other corpora are
files `<name>.npz` of `SKBNP_DATA`.
"""

import argparse
from itertools import combinations

import common  # before NumPy: it pins the threads
import numpy as np
from corpora import load_counts
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import adjusted_rand_score

from skbnp import HDP, NestedHDP
from skbnp.components.tree_sticks import LevelPriors
from skbnp.metrics import document_completion_score, topic_coherence

READING = """
`NestedHDP` and `HDP` with their defaults, and tomotopy's HLDA: three levels, alpha =
{alpha}, gamma = {gamma}, eta of {etas}, {sweeps} sweeps, the last state. They learn
from a random 80 % of the documents; the others are predicted.

- "HLDA", "flat", "nested": `score` of the unseen documents, nats per token; of HLDA
  that of the best eta, by the levels and paths of `GibbsNestedCRP` and with the same
  cache for repeated words, learned alike, of the first seed; "40 nodes" is
  `NestedHDP(max_components=40)`, of the first seed. "alone": by topics alone.
- "s": processor time, one thread; that of HLDA is of one eta, that of the tree contains
  the flat fit that it starts from.
- NPMI of the 10 top terms in the training documents: mean over all topics of the flat
  fit, over leaves of the tree, and over its 40 heaviest leaves.
- "agreement": adjusted Rand index of `apply` on training documents that have {clear} %
  of their tokens in the main branch under this seed and the next one; "clear" is their
  share.

Settings were chosen on `arxiv2000`, `jacm`, `kos` and docstrings; that leaves of one
document stay, on `bbc_tech`. `nips_abstracts` and `ap` decided nothing. Medians of the
seeds come first.
"""
CORPORA = ("arxiv2000", "docstrings", "nips_abstracts", "jacm", "kos")
#: Share of a document that its main branch has, where branches are compared.
CLEAR = 0.6
ETAS, ALPHA, GAMMA = (0.1, 0.3, 1.0), 1.0, 1.0


def load(name):
    """Return counts, those to learn from and those to predict."""
    X = load_counts(name)
    order = np.random.default_rng(0).permutation(X.shape[0])
    n_test = X.shape[0] // 5
    train = X[np.sort(order[n_test:])]
    return train[np.diff(train.indptr) > 0], X[np.sort(order[:n_test])]


def main_branches(nested, X):
    """Return the main branch of each document, and whether it is clear."""
    tree, shares = nested.tree_, nested.transform(X)
    branch = np.zeros(tree.n_nodes, dtype=int)
    for node in range(1, tree.n_nodes):
        branch[node] = tree.path(node)[1]
    main = nested.apply(X)
    share = (shares * (branch == main[:, None])).sum(axis=1)
    return main, share >= CLEAR


def agreements(branches):
    """Adjusted Rand index of clear documents, and their share, by pairs of seeds."""
    for (one, clear), (other, too) in combinations(branches, 2):
        both = clear & too
        yield float(adjusted_rand_score(one[both], other[both])), float(both.mean())


class NodeMixture(BaseEstimator):
    """A tree as topics that documents mix, which anybody's cache can be added to."""

    def __init__(self, tree, topic_prior):
        self.tree = tree
        counts = tree.samples[0].topic_word_counts
        self.components_ = counts.toarray() + topic_prior

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return self.tree.transform(X)


def hlda(train, test, seed, n_sweeps):
    """Best score over etas, its eta and processor time, best score of topics alone."""
    from hlda import HLDA

    results = []
    for eta in ETAS:
        priors = LevelPriors(GAMMA, np.full(3, ALPHA), np.full(3, eta))
        peer = HLDA(train, priors, seed)
        _, seconds = common.cpu_seconds(
            lambda peer=peer: peer.model.train(n_sweeps, workers=1)
        )
        sample = peer.sample()
        tree = common.TreeSamples([sample])
        score = document_completion_score(NodeMixture(tree, eta), test, repeats="learn")
        results.append((float(score), eta, seconds, float(tree.score(test))))
    best = max(results)
    return *best[:3], max(alone for *_, alone in results)


def measure(name, seeds, n_sweeps):
    """Yield a row of figures for each seed."""
    train, test = load(name)
    rows, branches = [], []
    for seed in seeds:
        flat = HDP(random_state=seed, min_gain=0)
        flat_seconds = common.cpu_seconds(lambda flat=flat: flat.fit(train))[1]
        nested = NestedHDP(init=FrozenEstimator(flat), random_state=seed)
        seconds = common.cpu_seconds(lambda nested=nested: nested.fit(train))[1]
        if not rows:
            peer, eta, peer_seconds, peer_alone = hlda(train, test, seed, n_sweeps)
            small = NestedHDP(max_components=40, random_state=seed).fit(train)
            small_score = small.score(test)
        tree, weights = nested.tree_, nested.topic_weights_
        leaves = tree.leaves[np.argsort(-weights[tree.leaves], kind="stable")]
        coherence = topic_coherence(nested.components_[leaves], train)
        of_flat = topic_coherence(flat.components_, train)
        row = {
            "corpus": name,
            "seed": seed,
            "HLDA": peer,
            "eta": eta,
            "flat": flat.score(test),
            "nested": nested.score(test),
            "40 nodes": small_score,
            "HLDA alone": peer_alone,
            "flat alone": flat.score(test, repeats=False),
            "nested alone": nested.score(test, repeats=False),
            "HLDA s": peer_seconds,
            "flat s": flat_seconds,
            "nested s": flat_seconds + seconds,
            "topics": flat.n_components_,
            "nodes": tree.n_nodes,
            "themes": len(tree.children(0)),
            "NPMI flat": float(np.nanmean(of_flat)),
            "leaves": float(np.nanmean(coherence)),
            "heaviest": float(np.nanmean(coherence[:40])),
        }
        print(row, flush=True)
        rows.append(row)
        branches.append(main_branches(nested, train))
    for row, (agreement, clear) in zip(rows, agreements(branches), strict=False):
        row |= {"agreement": agreement, "clear": clear}
    return rows


def main():
    """Measure the corpora that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="*", default=CORPORA)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sweeps", type=int, default=150)
    given = parser.parse_args()
    reading = READING.format(
        alpha=ALPHA,
        gamma=GAMMA,
        etas=ETAS,
        sweeps=given.sweeps,
        clear=round(100 * CLEAR),
    )
    for name in given.corpora:
        new = measure(name, range(given.seeds), given.sweeps)
        if given.seeds == 3:
            save([row for row in saved_rows() if row["corpus"] != name] + new, reading)
        else:
            print(*new, sep="\n")


def saved_rows():
    """Rows of earlier runs, without medians."""
    _, rows = common.stored("nested_hdp")
    return [row for row in rows if row["seed"] != "median"]


def save(rows, reading):
    """Write the table, medians first."""
    columns = list(rows[0])
    rows = common.medians(rows, ("corpus",)) + rows
    common.save("nested_hdp", rows, columns, reading)


if __name__ == "__main__":
    main()
