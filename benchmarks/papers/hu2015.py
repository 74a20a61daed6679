"""Hu, Ho, Dubey and Xing (2015), Table 3 and Figures 3 to 7: variational or sampled.

    SKBNP_DATA=... python benchmarks/papers/hu2015.py [table] [curves] [threads]
        [growth] [tree] [planted] [--corpora NAME ...] [--seeds N ...] [--sweeps N]
        [--rows N] [--suffix NAME]

Table 3 of the paper leaves constants out (its numbers are no log densities, see
`plug_in_gain` of `dependent_trees.py`); here all is a gain over the uniform density.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import common  # before NumPy: it pins the threads
import matplotlib
import numpy as np
from common import RESULTS, cpu_seconds, save
from dependent_trees import flat_gains, mixture_gains, split, unit_rows
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from skbnp import DependentTrees, GibbsDependentTrees
from skbnp.datasets import make_dependent_trees
from skbnp.estimators import EpochMoves
from skbnp.inspection import EpochTreeDisplay, top_terms
from skbnp.models.dependent_trees.updates import spherical_kmeans

matplotlib.use("Agg")
from matplotlib import pyplot as plt

CORPORA = ("nips", "sotu")
MERGES = ("safe", "lax", "none")


def show(row):
    print({k: v for k, v in row.items() if k != "points"}, flush=True)
    return row


def rows_of(name, n_rows=None):
    """Rows and epochs of a corpus; of each epoch no more than some, drawn once."""
    X, epochs = unit_rows(name)
    if n_rows is None:
        return X, epochs
    rng = np.random.default_rng(0)
    kept = np.concatenate(
        [
            np.sort(rng.permutation(np.flatnonzero(epochs == epoch))[:n_rows])
            for epoch in np.unique(epochs)
        ]
    )
    return X[kept], epochs[kept]


def sampler(sweeps, seed, **more):
    return GibbsDependentTrees(max_iter=sweeps, random_state=seed, **more)


def variational(merge, seed, **more):
    moves = EpochMoves(merge=merge)
    return DependentTrees(structure_moves=moves, random_state=seed, **more)


def by_the_paper(setting, seed):
    """Moves of the paper, with concentrations of a fit, or kappa_0 as printed."""
    fit, kappa_0 = setting
    return DependentTrees(
        structure_moves=EpochMoves.paper(),
        vmf_concentration=fit.vmf_concentration_,
        prior_concentration=kappa_0 or fit.prior_concentration_,
        past_weight=1.0,
        random_state=seed,
    )


def sizes_of(trees):
    """Nodes with a row, epoch by epoch."""
    return [int((record.masses >= 1.0).sum()) for record in trees.epochs_.values()]


# -- table: held-out gains -------------------------------------------------------------

TABLE = """
Table 3 of the paper: held-out gain over the uniform density, nats per row; a fifth of
each epoch is held out, another one with each seed. Mean and standard deviation over
seeds. "variational" with safe, lax and no merges; "sampler" {sweeps} sweeps of each
epoch, the second half of which is averaged over; both from the same clusters. "k-means"
is a mixture of as many spherical k-means clusters in each epoch as the fit named has
nodes with a row, of one concentration, which maximises the density of training rows,
each left out of its own cluster; "one vMF" is one direction. "the paper's moves":
`EpochMoves.paper()` with the concentrations of the first line and kappa_2 of 1, or with
kappa_0 of 100, as printed. "nodes" are those with a
row, over epochs and seeds. "seconds" are of the processor. {rows}

The paper prints the opposite order: the sampler ahead by 1.9 % on PNAS, titles (4,562
+- 116 against 4,479 +- 103), and by 1.0 % on NIPS (9,811 +- 232 against 9,712 +- 143),
less than a standard deviation, in numbers that leave constants out. `nips` is its
corpus; `arxiv_titles` (hu2015_table_titles) takes the place of PNAS, `sotu` is
paragraphs of speeches. Here variational inference is ahead on all three, on `nips` and
`sotu` by more than both standard deviations. There the sampler, which moves one row at
a time, ends epochs with fewer nodes, while a birth moves up to 1,000 rows at once.
Where it has about as many nodes it is nearer: within 4.0 % on titles, .12 % on planted
trees (hu2015_planted) and .3 % on all of `nips` as one epoch (hu2015_curves). Safe and
lax merges give the same trees.
"""


def flat_gain(X, epochs, held, sizes, seed):
    """Mean gain of a mixture of clusters in each epoch."""
    gains = []
    for epoch, size in zip(np.unique(epochs), sizes, strict=True):
        train, test = (X[(epochs == epoch) & part] for part in (~held, held))
        if size == 1:
            alone = np.zeros(train.shape[0], dtype=np.intp)
            gains.append(mixture_gains(train, test, alone))
            continue
        rng = np.random.default_rng(seed)
        labels = spherical_kmeans(
            train.astype(np.float32), min(size, train.shape[0]), rng
        )
        gains.append(flat_gains(train, test, labels))
    return float(np.concatenate(gains).mean())


def table_of(name, seed, sweeps, n_rows):
    X, epochs = rows_of(name, n_rows)
    fits = {
        **{f"variational, {merge}": (variational, merge) for merge in MERGES},
        "sampler": (sampler, sweeps),
    }
    rows, held, first = [], split(epochs, seed), None
    fits |= {
        "variational, the paper's moves": (by_the_paper, None),
        "variational, the paper's moves and kappa_0": (by_the_paper, 100.0),
    }
    for method, (make, setting) in fits.items():
        if make is by_the_paper:
            setting = first, setting
        trees, seconds = cpu_seconds(
            lambda make=make, setting=setting: make(setting, seed).fit(
                X[~held], epochs=epochs[~held]
            )
        )
        first = trees if first is None else first
        sizes = sizes_of(trees)
        row = {"corpus": name, "seed": seed, "method": method}
        row["gain"] = trees.score(X[held], epochs=epochs[held])
        row |= {"seconds": seconds, "sizes": sizes}
        rows.append(show(row))
        if method in ("variational, safe", "sampler"):
            gain = flat_gain(X, epochs, held, sizes, seed)
            flat = {"corpus": name, "seed": seed, "sizes": sizes}
            flat |= {"method": f"k-means, nodes of {method}", "gain": gain}
            rows.append(show(flat))
    one = [1] * len(np.unique(epochs))
    alone = {"corpus": name, "seed": seed, "method": "one vMF", "sizes": one}
    alone["gain"] = flat_gain(X, epochs, held, one, seed)
    rows.append(show(alone))
    return rows


def table(options):
    rows = []
    for seed in options.seeds:  # what there is so far is saved
        for name in options.corpora:
            rows += table_of(name, seed, options.sweeps, options.rows)
        summary = summarised(rows)
        columns = list(summary[0])
        limit = f"At most {options.rows} rows of each epoch." if options.rows else ""
        reading = TABLE.format(sweeps=options.sweeps, rows=limit)
        result, title = [*summary, *rows], options.name("hu2015_table")
        save(title, result, columns, reading, n_shown=len(summary))


def summarised(rows):
    """Means and standard deviations over seeds."""
    summary = []
    for name, method in dict.fromkeys((r["corpus"], r["method"]) for r in rows):
        same = [r for r in rows if (r["corpus"], r["method"]) == (name, method)]
        gains = np.array([r["gain"] for r in same])
        sizes = [size for r in same for size in r["sizes"]]
        seconds = [r["seconds"] for r in same if "seconds" in r]
        summary.append(
            {
                "corpus": name,
                "method": method,
                "seeds": len(same),
                "gain": round(float(gains.mean()), 1),
                "sd": round(float(gains.std(ddof=1)), 1) if len(same) > 1 else "",
                "nodes": f"{min(sizes)} to {max(sizes)}",
                "seconds": round(float(np.mean(seconds)), 1) if seconds else "",
            }
        )
    return summary


# -- curves: gain and nodes against time -----------------------------------------------

CURVES = """
Figures 3, 4 and 6 of the paper on one epoch, which are all rows of a corpus (the paper:
8.4 million abstracts as one epoch on up to 4 machines of 16 cores; here one thread of
one): held-out gain (nats per row), nodes with a row and depth, against seconds of the
processor, those of looks left out; seed {seed}, at most {limit:g} s. Looks at the
sampler are at its present state, which is one sample. "time to L1", as the paper
measures speedups: seconds to the first look with 99 % of the final gain of
"variational, safe". Curves are in hu2015_curves.png.

Variational fits end by their tolerance, 2.0 and 2.1 % above their first look; the
sampler reaches L1 after 27 s on `nips`, where it is .3 % behind at 40 s (at 4 s 2.4 %),
and is 4.6 % behind and rises still on `sotu`; the paper calls it too slow to converge
on its corpus. Trees begin as clusters and grow by 3 to 9 %, to 6 to 16 layers;
the paper's grows to over 10,000 nodes in 8, that of dependent_trees_large to 9,857 in
5. The paper's Figure 4 is of machines, which this page does not have.
"""


def curve_of(trees, X, held, limit):
    """Fit by looks; returns [seconds, gain, nodes, depth]."""

    def look(fitted):
        (record,) = fitted.epochs_.values()
        nodes, depth = int((record.masses >= 1.0).sum()), int(record.tree.max_depth)
        return [fitted.score(X[held]), nodes, depth]

    curve = common.Curve(look, limit=limit, spacing=1.1, gap=0.0)
    trees.set_callbacks(curve).fit(X[~held])
    return [*curve.points, [curve.seconds(), *look(trees)]]


def curves(options):
    rows, seed, limit = [], options.seeds[0], options.seconds
    for name in options.corpora:
        X, _ = rows_of(name, options.rows)
        held = split(np.zeros(X.shape[0]), seed)
        fits = {f"variational, {merge}": variational(merge, seed) for merge in MERGES}
        burn_in, many = options.sweeps - 1, 10**6
        fits["sampler"] = sampler(options.sweeps, seed, burn_in=burn_in, thin=many)
        for method, trees in fits.items():
            points = curve_of(trees, X, held, limit)
            row = {"corpus": name, "method": method, "points": points}
            row |= zip(("seconds", "gain", "nodes", "depth"), points[-1], strict=True)
            rows.append(show(row))
        own = [row for row in rows if row["corpus"] == name]
        for row in own:
            goal = 0.99 * own[0]["gain"]
            row["time to L1"] = common.time_to(goal, row["points"])
    draw_curves(rows, options)
    columns = [name for name in rows[0] if name != "points"]
    reading = CURVES.format(seed=seed, limit=limit)
    save(options.name("hu2015_curves"), rows, columns, reading)


LABELS = ("held-out gain, nats per row", "nodes with a row", "depth, layers")


def draw_curves(rows, options):
    """Figure 3 above, Figure 6 below."""
    names = options.corpora
    figure, panels = plt.subplots(
        3, len(names), figsize=(5 * len(names), 8), layout="constrained", squeeze=False
    )
    for name, column in zip(names, panels.T, strict=True):
        for row in rows:
            if row["corpus"] == name:
                seconds, *values = np.array(row["points"]).T
                for panel, value in zip(column, values, strict=True):
                    # Lax and safe merges often give the same fit.
                    style = "--" if row["method"] == "variational, lax" else "-"
                    panel.plot(seconds, value, style, label=row["method"])
        for panel, what in zip(column, LABELS, strict=True):
            panel.set(xscale="log", xlabel="CPU seconds", ylabel=what)
            panel.grid(alpha=0.3)
        column[0].set_title(name)
    panels[0][0].legend(fontsize=8)
    figure.savefig(RESULTS / f"{options.name('hu2015_curves')}.png", dpi=100)


# -- threads: time against threads -----------------------------------------------------

THREADS = """
Figure 5 of the paper, speedups on PNAS against the number of cores: 1.37 times for the
parallel sampler on 8 cores, and more for its variational inference. Here: seconds of
the clock with one and two threads, in turns, the least of {repeats}; one epoch of
`{name}`, {n_rows} rows. `DependentTrees` ten passes without moves,
`GibbsDependentTrees` forty sweeps. Results are the same bits. Target: two threads 1.6
times as fast.
"""


def threads(options):
    name, repeats = options.corpora[0], 3
    X, epochs = rows_of(name, options.rows)
    X = X[epochs == epochs.max()]
    makers = {
        "variational": lambda jobs: DependentTrees(
            max_iter=10, tol=0.0, structure_moves=False, random_state=0, n_jobs=jobs
        ),
        "sampler": lambda jobs: sampler(40, 0, n_jobs=jobs),
    }
    rows = []
    for method, make in makers.items():
        times = {1: [], 2: []}
        for _ in range(repeats):
            for jobs in times:
                begin = time.perf_counter()
                trees = make(jobs).fit(X)
                times[jobs].append(time.perf_counter() - begin)
        one, two = (min(times[jobs]) for jobs in (1, 2))
        row = {"method": method, "nodes": trees.n_components_}
        row |= {"one thread": one, "two threads": two, "speedup": one / two}
        rows.append(show(row))
    reading = THREADS.format(repeats=repeats, name=name, n_rows=X.shape[0])
    save(options.name("hu2015_threads"), rows, list(rows[0]), reading)


# -- growth: nodes and depth over epochs -----------------------------------------------

GROWTH = """
Nodes and depth over the epochs of `{name}`, seed {seed}; "nodes" are those with a row.
Figure 6 of the paper is growth in the fit of one epoch, for which see hu2015_curves and
dependent_trees_large; it prints no sizes of epochs. Curves are in hu2015_growth.png.

Trees start with some 30 nodes in two layers and grow with the years: variational fits
to {}, with merges, and {}, without,
the sampler to {}.
"""


def growth(options):
    name, seed = options.corpora[0], options.seeds[0]
    X, epochs = rows_of(name, options.rows)
    fits = {
        "variational, safe": variational("safe", seed),
        "variational, none": variational("none", seed),
        "sampler": sampler(options.sweeps, seed),
    }
    rows = []
    for method, trees in fits.items():
        trees.fit(X, epochs=epochs)
        for label, record in trees.epochs_.items():
            row = {"method": method, "epoch": str(label)}
            row["nodes"] = int((record.masses >= 1.0).sum())
            row["depth"] = int(record.tree.max_depth)
            rows.append(show(row))
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.2))
    for ax, what, label in zip(axes, ("nodes", "depth"), LABELS[1:], strict=True):
        for method in fits:
            own = [row for row in rows if row["method"] == method]
            ax.plot(
                [row["epoch"] for row in own], [row[what] for row in own], label=method
            )
        ax.set(xlabel="epoch", ylabel=label)
        ax.tick_params(axis="x", rotation=60)
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(RESULTS / f"{options.name('hu2015_growth')}.png", dpi=110)
    last = [row for row in rows if row["epoch"] == rows[-1]["epoch"]]
    sizes = [f"{row['nodes']} nodes in {row['depth']} layers" for row in last]
    reading = GROWTH.format(*sizes, name=name, seed=seed)
    save(options.name("hu2015_growth"), rows, list(rows[0]), reading)


# -- tree: Figure 7, topics over epochs ------------------------------------------------


def tree(options):
    name, seed = options.corpora[0], options.seeds[0]
    X, epochs = rows_of(name, options.rows)
    terms = (common.data_folder() / f"{name}.vocab.txt").read_text().split()
    trees = variational("safe", seed).fit(X, epochs=epochs)
    display = EpochTreeDisplay.from_estimator(trees, feature_names=terms)
    display.figure_.savefig(RESULTS / "hu2015_tree.png", dpi=110, bbox_inches="tight")
    print(top_terms(trees, feature_names=terms))


# -- planted: trees that are known -----------------------------------------------------

PLANTED = """
Beside Table 3 of the paper, which is of text alone: planted trees, root + 3 + 6 nodes,
400 rows to learn from and 400 to predict, as in `dependent_trees_planted`; {sweeps}
sweeps. "ARI" is that of the rows and their planted nodes, "gain" the mean log density
of the other rows over the uniform one. Target: the sampler predicts as well as the
variational fit. It does, within .12 % in each draw, in 10 to 43 times the time.
"""


def planted(options):
    rows = []
    for n_features in (40, 400):
        for seed in options.seeds:
            corpus = make_dependent_trees(
                800,
                n_features=n_features,
                concentration=3.0 * n_features,
                prior_concentration=2.5 * n_features,
                random_state=seed,
            )
            X, X_test = corpus.data[:400], corpus.data[400:]
            row = {"features": n_features, "seed": seed}
            for method, trees in (
                ("variational", variational("safe", seed)),
                ("sampler", sampler(options.sweeps, seed)),
            ):
                _, seconds = cpu_seconds(lambda trees=trees, X=X: trees.fit(X))
                result = trees.apply(X)
                ari = adjusted_rand_score(corpus.target[:400], result)
                row |= {
                    f"{method}, ARI": float(ari),
                    f"{method}, gain": float(trees.score(X_test)),
                    f"{method}, nodes": trees.n_components_,
                    f"{method}, seconds": round(seconds, 1),
                }
            rows.append(show(row))
    reading = PLANTED.format(sweeps=options.sweeps)
    save(options.name("hu2015_planted"), rows, list(rows[0]), reading)


PARTS = {
    "table": table,
    "curves": curves,
    "threads": threads,
    "growth": growth,
    "tree": tree,
    "planted": planted,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--corpora", nargs="+", default=list(CORPORA))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--sweeps", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0, help="of curves")
    parser.add_argument("--rows", type=int, help="rows of an epoch, at the most")
    parser.add_argument("--suffix", default="", help="of the names of results")
    given = parser.parse_args()
    given.name = lambda name: f"{name}{given.suffix}"
    warnings.simplefilter("ignore", ConvergenceWarning)
    for part in given.parts or list(PARTS):
        PARTS[part](given)


if __name__ == "__main__":
    main()
