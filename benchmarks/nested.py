"""`NestedCRP` and `GibbsNestedCRP`: unseen text, time of sweeps, fits and passes, a
long stream.

    SKBNP_DATA=... python benchmarks/nested.py [text] [sweeps] [fits] [passes] [stream]
        [--runs N] [--documents N] [--corpora NAME ...]

tomotopy must be installed for the first two. Rows of "text" take the place of saved
ones of their corpus, so that the table can be made in several runs.
"""

import argparse
import resource
import time

import common  # before NumPy: it pins the threads
import numpy as np
import scipy.sparse as sp
from nested_hdp import hlda, load
from sklearn.base import BaseEstimator
from sklearn.metrics import adjusted_rand_score

from skbnp import GibbsNestedCRP, NestedCRP
from skbnp.components.tree_sticks import LevelPriors
from skbnp.datasets import make_tree
from skbnp.models.nested_crp_walks import (
    NestedChain,
    NestedPriors,
    NestedStart,
    NestedState,
)

LEVELS = (50.0, 20.0, 10.0)


def show(row):
    print(row, flush=True)
    return row


# -- text: beside tomotopy's trees ----------------------------------------------------

TEXT = """
`NestedCRP` and `GibbsNestedCRP` with their defaults, and tomotopy's HLDA: three levels,
alpha = 1, gamma = 1, {sweeps} sweeps, the last state, the best eta of 0.1, 0.3 and 1 by
what is reported here. They learn from a random 80 % of the documents; the others are
predicted: `score`, nats per token, by document completion, the state of HLDA by the
paths and levels of `GibbsNestedCRP`.

"nodes": of each level; "only": nodes below the root that have a single child, which
`to_text` puts on one line with it. "s": processor time, one thread; that of HLDA is of
one eta. Settings were chosen on `arxiv2000` alone. Seeds: {seeds}.
"""
TEXT_CORPORA = ("arxiv2000", "nips_abstracts", "jacm", "kos")
N_SWEEPS = 150


def text(options):
    _, rows = common.stored("nested_text")
    for corpus in options.corpora:
        rows = [row for row in rows if row["corpus"] != corpus]
        rows += [show(unseen(corpus, seed)) for seed in range(options.runs or 1)]
        seeds = sorted({row["seed"] for row in rows})
        reading = TEXT.format(sweeps=N_SWEEPS, seeds=", ".join(map(str, seeds)))
        common.save("nested_text", rows, list(rows[0]), reading)


def unseen(corpus, seed):
    """Scores, trees and times of one corpus."""
    train, test = load(corpus)
    _, eta, seconds, peer = hlda(train, test, seed, N_SWEEPS)
    row = {"corpus": corpus, "seed": seed, "documents": train.shape[0]}
    row |= {"HLDA": peer, "eta": eta, "HLDA s": seconds}
    for name, crp in (("VI", NestedCRP()), ("Gibbs", GibbsNestedCRP())):
        crp.set_params(random_state=seed)
        _, seconds = common.cpu_seconds(lambda crp=crp: crp.fit(train))
        tree = crp.tree_
        n_children = np.bincount(tree.parent[1:], minlength=tree.n_nodes)
        row |= {
            name: float(crp.score(test)),
            f"{name} nodes": np.bincount(tree.depth, minlength=3).tolist(),
            f"{name} only": int((n_children[1:] == 1).sum()),
            f"{name} s": seconds,
        }
    return row


# -- sweeps: beside tomotopy's -------------------------------------------------------

SWEEPS = """
Processor time of a sweep of `GibbsNestedCRP` and of tomotopy's HLDAModel, one thread,
three levels, alpha = (50, 20, 10), the same topic prior "eta" and concentration "gamma"
in both: the priors of Wang and Blei (2009), and a pair that makes large trees (with
gamma = 1 tomotopy's stays below some thirty nodes whatever the topic prior, where ours
has hundreds at 0.1). Our sweep is all that `fit` does in it, log joint included.
Medians of {turns} turns, and of {runs} runs (first rows).

Both make {before} sweeps from their own starts. "own": then both are timed in turns, a
sweep each; "own nodes" are ours; ratios are tomotopy's time over ours. "equal": before
each of our sweeps the chain takes over the state of tomotopy's, paths and levels, which
is not timed, so that both start from the same tree; "nodes after" says how many nodes
our sweep leaves behind, since it opens branches more readily. Targets: equal ratio at
least 1, stretch 2. Medians: {ratios}.
"""
#: Corpus, eta, gamma.
SWEEP_CASES = (("jacm", 1.0, 1.0), ("arxiv2000", 1.0, 1.0), ("jacm", 0.1, 1e4))
BEFORE, TURNS = 200, 15


def sweeps(options):
    from hlda import HLDA

    rows, n_runs = [], options.runs or 3
    for corpus, eta, gamma in SWEEP_CASES:
        counts = common.load_corpus(corpus)
        priors = LevelPriors(gamma, np.array(LEVELS), np.full(3, eta))
        for seed in range(n_runs):
            row = {"corpus": corpus, "eta": eta, "gamma": gamma, "seed": seed}
            peer = HLDA(counts, priors, seed)
            rows.append(show(row | compare(peer, seed)))
    rows = common.medians(rows, ("corpus", "eta", "gamma")) + rows
    result = [row for row in rows if row["seed"] == "median"]
    reading = SWEEPS.format(
        before=BEFORE,
        turns=TURNS,
        runs=n_runs,
        ratios=", ".join(f"{row['equal ratio']:.2f}" for row in result),
    )
    common.save("nested_sweeps", rows, list(rows[-1]), reading)


def compare(peer, seed):
    """Times of a sweep, from states of their own and from the same ones."""
    tokens, priors = peer.tokens, NestedPriors(False, False)
    own = NestedChain(tokens, priors, seed, NestedStart(priors=peer.priors))
    for _ in range(BEFORE):
        sweep(own)
    peer.model.train(BEFORE, workers=1)
    times, after = [], []
    for _ in range(TURNS):
        equal = chain_at(peer, seed)
        chains = [
            common.cpu_seconds(lambda chain=chain: sweep(chain))[1]
            for chain in (own, equal)
        ]
        theirs = common.cpu_seconds(lambda: peer.model.train(1, workers=1))[1]
        times.append([*chains, theirs])
        after.append(len(equal.state.ids))
    mine, equal, theirs = np.median(times, axis=0).tolist()
    return {
        "tokens": len(tokens),
        "own nodes": len(own.state.ids),
        "tomotopy nodes": peer.model.live_k,
        "nodes after": float(np.median(after)),
        "own ms": 1e3 * mine,
        "equal ms": 1e3 * equal,
        "tomotopy ms": 1e3 * theirs,
        "own ratio": theirs / mine,
        "equal ratio": theirs / equal,
    }


def sweep(chain):
    for piece in range(chain.n_pieces):
        chain.run(piece)
    chain.accept()


def chain_at(peer, seed):
    """Return a chain of ours at the state of tomotopy's."""
    paths = peer.paths()
    n_nodes = int((paths.node.max(axis=0) + 1).sum())
    state = NestedState(
        number=0,
        step=0,
        ids=np.arange(n_nodes),
        next_id=n_nodes,
        lineage=[],
        begin=0,
        log_joint=0.0,
        paths=paths,
        priors=peer.priors,
    )
    return NestedChain(peer.tokens, NestedPriors(False, False), seed, state)


# -- fits: time until they end --------------------------------------------------------

FITS = """
Processor time of `NestedCRP().fit` with its defaults, one thread: all of `jacm`, and
{some} random documents of `arxiv_large` with the words in at least {least} of them.
Of that, "start and first pass" is the choice of a start, which the fit itself follows.
Targets: 60 s for `jacm`, 600 s for 5000 documents. Found, medians: {found}.
"""
LEAST_DOCS, FIT_CORPORA = 5, ("jacm", "arxiv_large")


class Clock:
    """A callback that notes when passes end, in processor time."""

    def setup(self, estimator, context):
        self.times = [time.process_time()]

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, **_):
        if context.task_name == "pass":
            self.times.append(time.process_time())
        return False


def timed(crp, counts):
    """Fit; return seconds of start and first pass, and of each later pass."""
    clock = Clock()
    crp.set_callbacks(clock).fit(counts)
    return np.diff(clock.times)


def fits(options):
    rows = []
    for corpus in FIT_CORPORA:
        counts = common.load_corpus(corpus)
        n_runs = options.runs or (3 if corpus == "jacm" else 1)
        if corpus != "jacm":
            some = np.random.default_rng(0).permutation(counts.shape[0])
            counts = counts[np.sort(some[: options.documents])]
            in_docs = np.asarray((counts > 0).sum(axis=0)).ravel()
            counts = counts[:, in_docs >= LEAST_DOCS]
        for seed in range(n_runs):
            crp = NestedCRP(random_state=seed)
            seconds = timed(crp, counts)
            row = {"corpus": corpus, "seed": seed, "documents": counts.shape[0]}
            row |= {"words": counts.shape[1], "CPU s": float(seconds.sum())}
            row |= {"start and first pass": float(seconds[0]), "passes": crp.n_iter_}
            row |= {"converged": crp.converged_, "ELBO": crp.elbo_}
            row |= dict(zip(("level 2", "leaves"), levels(crp), strict=True))
            rows.append(show(row))
    rows = common.medians(rows, ("corpus",)) + rows
    result = [row for row in rows if row["seed"] == "median"]
    texts = (f"{row['corpus']} {row['CPU s']:.0f} s" for row in result)
    reading = FITS.format(
        some=options.documents, least=LEAST_DOCS, found=", ".join(texts)
    )
    common.save("nested_fits", rows, list(rows[-1]), reading)


def levels(crp):
    """Nodes of the second and third level."""
    return np.bincount(crp.tree_.depth, minlength=3)[1:].tolist()


# -- passes: against documents and nodes ----------------------------------------------

PASSES = """
Processor time of a pass of `NestedCRP` without moves: documents of {n_words} words over
a vocabulary of {n_features}, from a planted tree, started at the true paths and levels.
The median of passes 3 to {passes}; "docs" and "nodes" vary one at a time. Exponents of
the time, fitted: {docs:.2f} of documents, {nodes:.2f} of nodes. "paths": mean number of
paths that a document has left in the end, those within 20 nats.
"""
DOCS, BRANCHING = (1000, 2000, 4000, 8000), (3, 6, 12, 20)
N_FEATURES, N_WORDS, N_PASSES = 500, 60, 8


class TruePaths(BaseEstimator):
    """The paths of documents as a fitted tree, to start `GibbsNestedCRP` from."""

    def __init__(self, corpus):
        self.corpus, self.tree_ = corpus, corpus.tree
        self.n_features_in_ = corpus.data.shape[1]

    def fit(self, X, y=None):
        return self

    def decision_path(self, X):
        passes = np.zeros((X.shape[0], self.tree_.n_nodes), dtype=bool)
        np.put_along_axis(passes, self.corpus.path, True, axis=1)
        return sp.csr_array(passes)


def time_pass(n_docs, branching, seed):
    corpus = make_tree(
        n_docs,
        n_features=N_FEATURES,
        n_words=N_WORDS,
        branching=(branching, branching),
        random_state=seed,
    )
    priors = {"level_prior": 4.0, "topic_word_prior": 0.1, "random_state": seed}
    start = GibbsNestedCRP(init=TruePaths(corpus), max_iter=1, **priors)
    crp = NestedCRP(
        init=start.fit(corpus.data),
        structure_moves=False,
        max_iter=N_PASSES,
        tol=0.0,
        **priors,
    )
    seconds = timed(crp, corpus.data)
    return {
        "docs": n_docs,
        "nodes": crp.n_components_,
        "seed": seed,
        "pass ms": 1e3 * float(np.median(seconds[2:])),
        "paths": crp.doc_paths(corpus.data).nnz / n_docs,
    }


def passes(options):
    sizes = [(n, 5) for n in DOCS] + [(2000, width) for width in BRANCHING]
    rows = []
    for n_docs, branching in sizes:
        same = [
            show(time_pass(n_docs, branching, seed))
            for seed in range(options.runs or 3)
        ]
        row = {"seed": "median"}
        row |= {
            k: float(np.median([one[k] for one in same])) for k in ("pass ms", "paths")
        }
        row |= {k: int(np.median([one[k] for one in same])) for k in ("docs", "nodes")}
        rows.append(row | {"each": same})
    parts = {"docs": rows[: len(DOCS)], "nodes": rows[len(DOCS) :]}
    slopes = {
        name: np.polyfit(
            np.log([row[name] for row in part]), np.log([r["pass ms"] for r in part]), 1
        )[0]
        for name, part in parts.items()
    }
    reading = PASSES.format(
        n_words=N_WORDS, n_features=N_FEATURES, passes=N_PASSES, **slopes
    )
    common.save("nested_passes", rows, ["docs", "nodes", "pass ms", "paths"], reading)


# -- stream: documents without end ----------------------------------------------------

CHUNK, N_STREAM, SMALL, N_SMALL = 1000, 100_000, 100, 10_000
WIDTHS, N_TEST = (5, 6), 2000
LOOKS = (5_000, 10_000, 25_000, 50_000, 75_000, 100_000)


class Planted:
    """Documents of a planted tree, as many as are asked for."""

    def __init__(self, seed):
        corpus = make_tree(
            1, n_features=N_FEATURES, branching=WIDTHS, random_state=seed
        )
        self.tree, self.topics = corpus.tree, corpus.topic_word_distr
        self.paths = np.array([self.tree.path(leaf) for leaf in self.tree.leaves])
        self.rng = np.random.default_rng(seed)

    def draw(self, n_docs):
        """Counts and paths."""
        path = self.paths[self.rng.integers(len(self.paths), size=n_docs)]
        shares = self.rng.dirichlet(np.full(3, 4.0), n_docs)
        words = np.einsum("dl,dlw->dw", shares, self.topics[path])
        return sp.csr_array(self.rng.multinomial(N_WORDS, words).astype(float)), path


def stream(options):
    rows = []
    for seed in range(options.runs or 1):
        planted = Planted(seed)
        test, path = planted.draw(N_TEST)
        for size, n_docs in ((CHUNK, N_STREAM), (SMALL, N_SMALL)):
            crp = NestedCRP(level_prior=4.0, topic_word_prior=0.1, random_state=seed)
            chunks = (planted.draw(size)[0] for _ in range(n_docs // size))
            for row in follow(crp, chunks, size):
                own = {"stream": "planted", "seed": seed}
                rows.append(show(own | row | match(crp, test, path)))
        counts = common.load_corpus("arxiv_large")
        chunks = (counts[at : at + CHUNK] for at in range(0, N_STREAM, CHUNK))
        for row in follow(NestedCRP(random_state=seed), chunks, CHUNK):
            rows.append(show({"stream": "arxiv_large", "seed": seed} | row))
    common.save("nested_stream", rows, list(rows[0]))


def follow(crp, chunks, size):
    """Yield how a stream goes on."""
    seconds, first = 0.0, None
    for number, chunk in enumerate(chunks, start=1):
        seconds += common.cpu_seconds(lambda rows=chunk: crp.partial_fit(rows))[1]
        if number * size not in LOOKS:
            continue
        now, peak = (
            common.resident(),
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        )
        first = peak if first is None else first
        kinds = [entry.kind for entry in crp.lineage_]
        yield {
            "chunk": size,
            "docs": number * size,
            "nodes": crp.n_components_,
            "inner": levels(crp)[0],
            "leaves": levels(crp)[1],
            **{f"{k}s": kinds.count(k) for k in ("birth", "split", "merge", "prune")},
            "CPU s": seconds,
            "docs/s": number * size / seconds,
            "resident MB": now,
            "peak MB": peak,
            "growth MB": peak - first,
        }


def match(crp, test, path):
    """Adjusted Rand index of level 2 and of leaves."""
    steps = crp.decision_path(test).toarray().astype(bool)
    result = {}
    for level, name in ((1, "level 2"), (2, "leaf")):
        here = steps & (crp.tree_.depth <= level)
        ends = np.where(here, crp.tree_.depth, -1).argmax(axis=1)
        result[name] = float(adjusted_rand_score(path[:, level], ends))
    return result


SECTIONS = {
    "text": text,
    "sweeps": sweeps,
    "fits": fits,
    "passes": passes,
    "stream": stream,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("section", nargs="*", help=", ".join(SECTIONS))
    parser.add_argument("--runs", type=int)
    parser.add_argument("--corpora", nargs="+", default=TEXT_CORPORA, help="of text")
    parser.add_argument("--documents", type=int, default=5000, help="of fits")
    options = parser.parse_args()
    for name in options.section or SECTIONS:
        SECTIONS[name](options)
