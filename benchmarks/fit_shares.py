"""Where the time of default fits of HDP goes, and what calls of few documents cost.

    SKBNP_DATA=... python benchmarks/fit_shares.py [corpus ...] [--runs N] [--large]

Compiled loops are timed call by call, by the processor time of the thread. A fit by two
threads is predicted: of each map over blocks, the longer of its longest block and half
of all, and everything else as it is. With `--large`: passes over a large corpus,
streams and an import instead.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from tempfile import TemporaryDirectory

import common  # before NumPy: it pins the threads
import numpy as np
import scipy.sparse as sp
from corpora import load
from sklearn.decomposition import LatentDirichletAllocation

from skbnp import HDP
from skbnp.components.word_topics import WordTopics
from skbnp.inference.engine import Learner
from skbnp.inference.executor import Executor

CORPORA = ("ap", "kos", "docstrings", "100 short documents")
N_DOCS, N_ROWS, N_CHUNKS, CHUNK_SIZE = 1000, 200, 150, 20
#: Corpora in a stream, in so many calls; topics and passes of a large corpus.
STREAMS, N_CALLS, N_TOPICS, N_PASSES = ("nips", "arxiv_large"), 77, 100, 3


class Clock:
    """Seconds of the thread in some calls; calls within calls count once."""

    def __init__(self):
        self.seconds, self.depth, self.n_calls = 0.0, 0, 0

    def around(self, function):
        """Return the function, timed."""

        def timed(*args, **kwargs):
            begin = time.thread_time()
            self.depth += 1
            try:
                return function(*args, **kwargs)
            finally:
                self.depth -= 1
                if self.depth == 0:
                    self.seconds += time.thread_time() - begin
                    self.n_calls += 1

        return timed

    def around_steps(self, function):
        """Return a function that returns an iterator, timed step by step."""

        def timed(*args, **kwargs):
            steps = function(*args, **kwargs)
            while True:
                begin = time.thread_time()
                try:
                    step = next(steps)
                except StopIteration as end:
                    self.n_calls += 1
                    return end.value
                finally:
                    self.seconds += time.thread_time() - begin
                yield step

        return timed


@contextmanager
def timed_parts():
    """Time kernels, passes of learners, and maps over blocks while inside."""
    kernels, passes, saved, changed = Clock(), Clock(), [0.0], []

    def put(owner, name, value):
        changed.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def timed_map(self, function, items, ahead=2):
        seconds = []
        for item in items:
            begin = time.thread_time()
            result = function(item)
            seconds.append(time.thread_time() - begin)
            yield result
        saved[0] += sum(seconds) - max(max(seconds, default=0.0), sum(seconds) / 2)

    around = {}
    for name, module in list(sys.modules.items()):
        if not name.startswith("skbnp.") or name.startswith("skbnp.kernels"):
            continue
        for attribute, value in list(vars(module).items()):
            home = getattr(value, "__module__", None) or ""
            if home.startswith("skbnp.kernels") and type(value).__name__ in (
                "cython_function_or_method",
                "builtin_function_or_method",
            ):
                timed = around.setdefault(id(value), kernels.around(value))
                put(module, attribute, timed)
    given = WordTopics.weights.__kwdefaults__  # has a kernel, which is not an attribute
    given = given | {"fill_rows": around[id(given["fill_rows"])]}
    put(WordTopics.weights, "__kwdefaults__", given)
    put(Learner, "steps", passes.around_steps(Learner.steps))
    put(Executor, "map", timed_map)
    try:
        yield kernels, passes, saved
    finally:
        for owner, name, value in reversed(changed):
            setattr(owner, name, value)


def few_words(n_docs=100, n_tokens=10, n_words=100, n_topics=5):
    """Documents of few words, drawn from a few topics."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(n_words, 0.05), n_topics)
    mixed = rng.dirichlet(np.full(n_topics, 0.3), n_docs) @ topics
    counts = [rng.multinomial(n_tokens, row / row.sum()) for row in mixed]
    return sp.csr_array(np.array(counts, dtype=float))


def seconds_of(function, n_runs):
    """Median processor seconds of some runs, after one that does not count."""
    function()
    return float(np.median([common.cpu_seconds(function)[1] for _ in range(n_runs)]))


def shares(name):
    """Fit by default; returns the model, the rows of a test and a row of the table."""
    train, test = (few_words(), few_words()) if "short" in name else load(name, 50_000)
    hdp = HDP(random_state=0, min_gain=0)
    _, plain = common.cpu_seconds(lambda: HDP(random_state=0, min_gain=0).fit(train))
    with timed_parts() as (kernels, passes, saved):
        _, seconds = common.cpu_seconds(lambda: hdp.fit(train))
    return (
        hdp,
        train,
        test,
        {
            "corpus": name,
            "fit s": plain,
            "kernels": kernels.seconds / seconds,
            "passes": passes.seconds / seconds,
            "passes made": passes.n_calls,
            "predicted by 2 threads": seconds / (seconds - saved[0]),
            "passes of fit": hdp.n_iter_,
            "K": hdp.n_components_,
        },
    )


def beside_lda(hdp, train, test, n_runs):
    """Ratios of the processor time of scikit-learn's LDA to ours."""
    X = sp.csr_array(test[:N_DOCS])
    given = {"n_components": hdp.n_components_, "random_state": 0}
    lda = LatentDirichletAllocation(max_iter=5, learning_method="online", **given)
    _, online = common.cpu_seconds(lambda: lda.fit(sp.csr_matrix(train)))
    rows = [sp.csr_array(X[[at]]) for at in np.arange(N_ROWS) % X.shape[0]]

    def one_by_one(model, kind):
        for row in rows:
            model.transform(kind(row))

    row = {
        "LDA s a pass": online / 5,
        "transform": seconds_of(lambda: lda.transform(sp.csr_matrix(X)), n_runs)
        / seconds_of(lambda: hdp.transform(X), n_runs),
        "score": seconds_of(lambda: lda.score(sp.csr_matrix(X)), n_runs)
        / seconds_of(lambda: hdp.score(X), n_runs),
    }
    one = seconds_of(lambda: one_by_one(hdp, sp.csr_array), n_runs) / N_ROWS
    theirs = seconds_of(lambda: one_by_one(lda, sp.csr_matrix), n_runs) / N_ROWS
    return row | {"one row ms": 1e3 * one, "LDA one row ms": 1e3 * theirs}


def stream(train):
    """Milliseconds of `partial_fit` of a few documents: median, and worst."""
    hdp, seconds = HDP(random_state=0, min_gain=0), []
    for number in range(min(N_CHUNKS, train.shape[0] // CHUNK_SIZE)):
        chunk = train[number * CHUNK_SIZE : (number + 1) * CHUNK_SIZE]
        seconds.append(common.cpu_seconds(partial(hdp.partial_fit, chunk))[1])
    if not seconds:
        return {}
    return {
        "partial_fit ms": 1e3 * float(np.median(seconds)),
        "worst ms": 1e3 * max(seconds),
    }


def large_pass(train, burstiness):
    """Seconds of a pass over a large corpus, by one thread and by two, and memory."""

    def learn(n_passes):
        options = {"split_merge": False, "max_iter": n_passes, "tol": 0.0}
        hdp = HDP(
            N_TOPICS, burstiness=burstiness, random_state=0, **options, min_gain=0
        )
        with timed_parts() as (_, _, saved):
            seconds = common.cpu_seconds(lambda: hdp.fit(train))[1]
        return np.array([seconds, seconds - saved[0]])

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    first = learn(1)
    seconds = (learn(1 + N_PASSES) - first) / N_PASSES
    return {
        "what": f"a pass, K = {N_TOPICS}, burstiness={burstiness!r}",
        "tokens": int(train.sum()),
        "CPU s": seconds[0],
        "predicted by 2 threads": seconds[0] / seconds[1],
        "more MB": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
    }


def calls(name):
    """Seconds of a stream of a corpus in its order, and of its calls."""
    train = common.load_corpus(name).astype(float)
    hdp, seconds = HDP(random_state=0, min_gain=0), []
    for rows in np.array_split(np.arange(train.shape[0]), N_CALLS):
        chunk = train[rows[0] : rows[-1] + 1]
        seconds.append(common.cpu_seconds(partial(hdp.partial_fit, chunk))[1])
    return {
        "what": f"{N_CALLS} calls of partial_fit, {name}",
        "tokens": int(train.sum()),
        "CPU s": sum(seconds),
        "median call s": float(np.median(seconds)),
        "worst call s": max(seconds),
        "K": hdp.n_components_,
    }


def import_seconds(what, n_runs):
    """Processor seconds of a statement after the import of scikit-learn's LDA.

    The first run, which does not count, writes bytecode, as installing does.
    """
    code = (
        "import time, sklearn.decomposition, scipy.sparse; begin = time.process_time();"
        f"{what}; print(time.process_time() - begin)"
    )
    command = [sys.executable, "-c", code]
    with TemporaryDirectory() as folder:
        env = os.environ | {"PYTHONPYCACHEPREFIX": folder}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        _, *runs = (
            subprocess.run(command, capture_output=True, env=env).stdout
            for _ in range(1 + n_runs)
        )
    return {"what": what, "CPU s": float(np.median([float(run) for run in runs]))}


def large_rows(n_runs):
    """Yield the rows of the page of what is large."""
    for what in IMPORTS:
        yield import_seconds(what, n_runs)
    train = common.load_corpus("arxiv_large").astype(float)
    for burstiness in ("auto", False):
        yield large_pass(train, burstiness)
    del train
    yield from map(calls, STREAMS)


IMPORTS = ("import skbnp", "import skbnp; skbnp.HDP")
LARGE_COLUMNS = ["what", "tokens", "CPU s", "predicted by 2 threads", "more MB"]
LARGE_COLUMNS += ["median call s", "worst call s", "K"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="*", default=CORPORA)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    rows = []
    if options.large:
        for row in large_rows(options.runs):
            rows.append(row)
            print(row, flush=True)
            common.save("fit_shares_large", rows, LARGE_COLUMNS)
        raise SystemExit
    for name in options.corpora:
        hdp, train, test, row = shares(name)
        row |= beside_lda(hdp, train, test, options.runs) | stream(train)
        row["equal passes"] = row["LDA s a pass"] * row["passes made"] / row["fit s"]
        rows.append(row)
        print(row, flush=True)
        common.save("fit_shares", rows, list(rows[0]))
