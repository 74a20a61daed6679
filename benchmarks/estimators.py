"""Time, memory and growth of `HDP` beside scikit-learn's LatentDirichletAllocation.

    SKBNP_DATA=... python benchmarks/estimators.py [section ...] [--runs N] [--share S]

Sections: online, single, threads, memory, growth; all of them where none is
named. `--share` takes the first part of the training documents, to try things out.
"""

import argparse
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import common  # before NumPy: it pins the threads
import draws
import matplotlib
import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import LatentDirichletAllocation

from skbnp import HDP

matplotlib.use("Agg")
from matplotlib import pyplot as plt

BATCH_SIZE = 256


def make_lda(n_topics, total_samples, seed=0):
    """scikit-learn's online LDA with its own defaults, but for the minibatches."""
    return LatentDirichletAllocation(
        n_topics,
        learning_method="online",
        batch_size=BATCH_SIZE,
        total_samples=total_samples,
        random_state=seed,
    )


def split(corpus, share):
    """Training documents, or the first part of them, and test documents."""
    train, test = common.standard_split(common.load_corpus(corpus))
    return train[: int(np.ceil(share * train.shape[0]))], test


def show(row):
    print(row, flush=True)
    return row


# -- online: one step with a large vocabulary -----------------------------------------

ONLINE_WORDS, ONLINE_TOPICS, ONLINE_TOKENS = 100_000, 300, 115
ONLINE_FIRST, STEPS_PER_RUN, ONLINE_SAMPLES = 5, 4, 1e6


def zipf_corpus(n_docs, n_words, n_tokens, n_topics, seed=0):
    """Documents of equal length from topics around Zipf's law, a few in each."""
    rng = np.random.default_rng(seed)
    base = rng.permutation(1.0 / np.arange(1, n_words + 1))
    # Frequent words are much the same in all topics, rare ones are of a few.
    topics = rng.standard_gamma(5000.0 * base / base.sum(), size=(n_topics, n_words))
    shares = rng.dirichlet(np.full(n_topics, 5.0 / n_topics), size=n_docs)
    lengths = rng.multinomial(n_tokens, shares)
    return draws.of_topics(topics, lengths, rng)


def online(options):
    n_steps = ONLINE_FIRST + STEPS_PER_RUN * options.runs
    corpus = zipf_corpus(
        BATCH_SIZE * n_steps, ONLINE_WORDS, ONLINE_TOKENS, ONLINE_TOPICS
    )
    warm = {"warm_up": 0, "total_samples": ONLINE_SAMPLES, "random_state": 0}
    models = {
        "LDA": make_lda(ONLINE_TOPICS, ONLINE_SAMPLES),
        "HDP(split_merge=False)": HDP(ONLINE_TOPICS, split_merge=False, **warm),
        "HDP": HDP(ONLINE_TOPICS, **warm),
    }
    seconds, words = {name: [] for name in models}, []
    for begin in range(0, corpus.shape[0], BATCH_SIZE):
        minibatch = corpus[begin : begin + BATCH_SIZE]
        words.append(len(np.unique(minibatch.indices)))
        for name, model in models.items():
            seconds[name].append(wall_seconds(model.partial_fit, minibatch))
        show({name: times[-1] for name, times in seconds.items()})
    rows = []
    for name, times in seconds.items():
        late = times[ONLINE_FIRST:]
        rows.append({"model": name, "median s": float(np.median(late))})
        rows[-1] |= {"mean s": float(np.mean(late)), "steps": len(late)}
        rows[-1] |= {"ratio": rows[0]["median s"] / rows[-1]["median s"]}
        rows[-1] |= {"topics": len(models[name].components_)}
        rows[-1] |= {"words": int(np.median(words))}
    common.save("estimators_online", rows, list(rows[0]))


def wall_seconds(function, *arguments):
    begin = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - begin


# -- single: one document, as a service would ask for it ------------------------------

SINGLE_WORDS, SINGLE_TOPICS, SINGLE_TRAIN, CALLS_PER_RUN = 10_000, 300, 2048, 100


def single(options):
    n_calls = CALLS_PER_RUN * options.runs
    n_train = int(np.ceil(options.share * SINGLE_TRAIN))
    corpus = zipf_corpus(n_train + n_calls, SINGLE_WORDS, ONLINE_TOKENS, SINGLE_TOPICS)
    models = {
        "LDA": make_lda(SINGLE_TOPICS, n_train),
        "HDP": HDP(SINGLE_TOPICS, split_merge=False, max_iter=10, random_state=0),
    }
    for model in models.values():
        model.fit(corpus[:n_train])
        model.transform(corpus[:1])
    times = {name: [] for name in models}
    for row in range(n_train, corpus.shape[0]):
        document = corpus[row : row + 1]
        for name, model in models.items():
            times[name].append(1e3 * wall_seconds(model.transform, document))
    rows = []
    for name, values in times.items():
        rows.append({"model": name, "median ms": float(np.median(values))})
        rows[-1] |= {"ninth decile ms": float(np.quantile(values, 0.9))}
        rows[-1] |= {"ratio": rows[0]["median ms"] / rows[-1]["median ms"]}
        show({**rows[-1], "calls": n_calls})
    common.save("estimators_single", rows, list(rows[0]))


# -- threads: two against one ---------------------------------------------------------

THREADS_TOPICS = (100, 300)
WORK = {
    "transform": {"max_iter": 1},
    "fit, batch": {"learning_method": "batch", "max_iter": 2},
    "fit, online": {"max_iter": 2},
    "fit, online, moves": {"max_iter": 2, "split_merge": True},
}


def threads(options):
    train, _ = split("arxiv_large", options.share)
    rows = []
    for seed in range(options.runs):
        for work in WORK:
            for n_topics in THREADS_TOPICS:
                rows.append(show(two_against_one(work, train, n_topics, seed)))
    columns = ["work", "K", "seed", "one thread s", "two threads s", "ratio"]
    columns += ["same bits", "topics"]
    rows = common.medians(rows, ("work", "K")) + rows
    common.save("estimators_threads", rows, columns)


def two_against_one(work, train, n_topics, seed):
    options = {"split_merge": False, "warm_up": 0, "tol": 0} | WORK[work]
    hdp, seconds, results = HDP(n_topics, random_state=seed, **options), [], []
    if work == "transform":
        hdp.fit(train[: train.shape[0] // 6])
    for n_jobs in (1, 2):
        hdp.set_params(n_jobs=n_jobs)
        begin = time.perf_counter()
        if work == "transform":
            results.append(hdp.transform(train))
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # two passes do not converge
                results.append(hdp.fit(train).components_)
        seconds.append(time.perf_counter() - begin)
    row = {"work": work, "K": n_topics, "seed": seed, "one thread s": seconds[0]}
    row |= {"two threads s": seconds[1], "ratio": seconds[0] / seconds[1]}
    row["same bits"] = results[0].tobytes() == results[1].tobytes()
    return {**row, "topics": hdp.n_components_}


# -- memory: peak of a pass -----------------------------------------------------------

MEMORY_TOPICS = 300
MEMOIZED = {"learning_method": "memoized", "max_iter": 2}
MEAN_FIELD = {"variational_family": "mean_field"}
#: Each returns the model, so that it lives until memory is read.
LEARNERS = {
    "corpus and libraries": lambda X: None,
    "LDA, fit": lambda X: one_pass_lda(X).fit(X),
    "LDA, partial_fit": lambda X: one_pass_lda(X).partial_fit(X),
    "HDP, fit": lambda X: one_pass_hdp().fit(X),
    "HDP, partial_fit": lambda X: one_pass_hdp(total_samples=X.shape[0]).partial_fit(X),
    "HDP, memoized": lambda X: one_pass_hdp(**MEMOIZED).fit(X),
    "HDP, mean field": lambda X: one_pass_hdp(**MEAN_FIELD).fit(X),
}


def one_pass_lda(train):
    return make_lda(MEMORY_TOPICS, train.shape[0]).set_params(max_iter=1)


def one_pass_hdp(max_iter=1, **changes):
    return HDP(MEMORY_TOPICS, max_iter=max_iter, random_state=0, **changes)


def memory(options):
    train, _ = split("arxiv_large", options.share)
    rows = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "train.npz"
        sp.save_npz(path, train, compressed=False)  # loading leaves no peak behind
        for seed in range(options.runs):
            for name in LEARNERS:
                rows.append({"model": name, "seed": seed, "peak MB": peak(name, path)})
                first = rows[seed * len(LEARNERS)]
                rows[-1]["more MB"] = rows[-1]["peak MB"] - first["peak MB"]
                show(rows[-1])
    rows = common.medians(rows, ("model",)) + rows
    columns = ["model", "seed", "peak MB", "more MB"]
    common.save("estimators_memory", rows, columns)


def peak(name, path):
    """Peak of a process that does nothing else."""
    with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
        return fresh.submit(learn_and_measure, name, path).result()


def learn_and_measure(name, path):
    """Peak after learning, MB; `ru_maxrss` would count the process that began this."""
    model = LEARNERS[name](sp.load_npz(path))
    status = dict(
        line.split(":", 1)
        for line in Path("/proc/self/status").read_text().splitlines()
    )
    del model
    return int(status["VmHWM"].split()[0]) / 2**10


# -- growth: time against tokens, topics and words ------------------------------------

#: The columns that tell points of the curves apart.
CASE = ("against", "model", "at")
GROWTH_TOPICS, GROWTH_DOCUMENTS = 100, 2048
GROWTH_TOKENS = (1 / 8, 1 / 4, 1 / 2, 1)
GROWTH_K = (25, 50, 100, 300, 800)
GROWTH_MODELS = ("LDA", "HDP", "HDP, mean field")
GROWTH_WORDS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000)


def growth(options):
    points = []
    for seed in range(options.runs):
        for against, value, corpus, n_topics in growth_cases(options.share):
            for name in GROWTH_MODELS:
                seconds = late_pass(name, corpus, n_topics, seed)
                row = {"against": against, "model": name, "at": value, "seed": seed}
                points.append(show({**row, "CPU s": seconds}))
    middle = common.medians(points, CASE)
    for row in middle:
        same = [p for p in points if all(p[n] == row[n] for n in CASE)]
        row["runs"] = [point["CPU s"] for point in same]
    rows = slopes(middle) + middle
    columns = ["against", "model", "slope", "at", "CPU s"]
    common.save("estimators_growth", rows, columns)
    draw(rows)


def growth_cases(share):
    """What grows, its size, the corpus and the number of topics."""
    train, _ = split("arxiv_large", share)
    for part in GROWTH_TOKENS:
        rows = train[: int(part * train.shape[0])]
        yield "tokens", int(rows.sum()), rows, GROWTH_TOPICS
    train, _ = split("ap", share)
    for n_topics in GROWTH_K:
        yield "topics", n_topics, train, n_topics
    for n_words in GROWTH_WORDS:
        size = (GROWTH_DOCUMENTS, n_words, ONLINE_TOKENS, GROWTH_TOPICS)
        yield "words", n_words, zipf_corpus(*size), GROWTH_TOPICS


def late_pass(name, corpus, n_topics, seed):
    """Processor seconds of the third pass."""
    if name == "LDA":
        model = make_lda(n_topics, corpus.shape[0], seed)
        model.partial_fit(corpus).partial_fit(corpus)
        return common.cpu_seconds(lambda: model.partial_fit(corpus))[1]
    family = "mean_field" if "mean field" in name else "collapsed"
    options = {"split_merge": False, "max_iter": 3, "tol": 0.0, "warm_up": 1}
    options |= {"batch_size": BATCH_SIZE, "random_state": seed}
    hdp, ends = HDP(n_topics, variational_family=family, **options), PassEnds()
    hdp.set_callbacks(ends).fit(corpus)
    return ends.seconds[2] - ends.seconds[1]


class PassEnds:
    """A callback that notes the processor seconds at the end of each pass."""

    def __init__(self):
        self.seconds = []

    def setup(self, estimator, context):
        self.seconds.clear()

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, **given):
        if context.task_name == "pass":
            self.seconds.append(time.process_time())


def curves(rows):
    """Sizes and seconds for each thing that grows and each model."""
    result = {}
    for row in rows:
        if "at" in row:
            result.setdefault((row["against"], row["model"]), []).append(row)
    return {
        key: ([row["at"] for row in same], [row["CPU s"] for row in same])
        for key, same in result.items()
    }


def slopes(points):
    return [
        {
            "against": against,
            "model": name,
            "slope": float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0]),
        }
        for (against, name), (sizes, seconds) in curves(points).items()
    ]


#: Labels of the panels.
PANELS = {
    "tokens": "Tokens of the corpus",
    "topics": "Topics",
    "words": "Words in the vocabulary",
}


def short(number):
    """The number as a tick says it: 300 k, 1.15 M."""
    for unit, letter in ((1e6, " M"), (1e3, " k")):
        if number >= unit:
            return f"{number / unit:.3g}{letter}"
    return f"{number}"


def draw(rows):
    slope = {(r["against"], r["model"]): r["slope"] for r in rows if "slope" in r}
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    panel = dict(zip(PANELS, axes, strict=True))
    for (against, name), (sizes, seconds) in curves(rows).items():
        label = f"{name}, slope {slope[against, name]:.2f}"
        panel[against].loglog(sizes, seconds, marker="o", label=label)
        panel[against].set_xticks(sizes, [short(size) for size in sizes])
        panel[against].minorticks_off()
    for against, ax in panel.items():
        ax.set(xlabel=PANELS[against], ylabel="Processor time of a pass (s)")
        ax.grid(alpha=0.3)
        ax.set_ylim(top=6.0 * ax.get_ylim()[1])  # the legend stands above the lines
        ax.legend(loc="upper left")
    figure.savefig(common.RESULTS / "estimators_growth.png", dpi=120)


SECTIONS = {
    "online": online,
    "single": single,
    "threads": threads,
    "memory": memory,
    "growth": growth,
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("section", nargs="*", help=", ".join(SECTIONS))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--share", type=float, default=1.0)
    options = parser.parse_args()
    for name in options.section or SECTIONS:
        SECTIONS[name](options)
