"""A stream that learns some hundred texts every night: ids, numbers, time and score.

    SKBNP_DATA=... python benchmarks/stream_nights.py [--AXIS VALUE ...] [--write]

`sweep.py` has the options. Documents come by date or section, or in random order, in
which nothing is new after the first nights.
"""

import gc
import warnings
from functools import partial
from itertools import pairwise

import common  # before NumPy: it pins the threads
import corpora
import numpy as np
from sweep import Case, Fit, main
from topic_numbers import timed

from skbnp import HDP
from skbnp.datasets import load_docstrings
from skbnp.models.hdp.stream_trials import StreamTrials
from skbnp.utils.matching import cosines

CHOICE = ("arxiv_large", "docstrings", "kos", "reuters395", "bbc_tech", "jacm")
REPORT = ("sotu", "nips_abstracts", "citeulike_titles", "ap")
#: Corpora of which some documents at random are few.
FEW = ("arxiv2000", "sotu", "kos", "ap", "nips_abstracts", "citeulike_titles")
#: Nights, texts of one at the most, and texts that test.
N_NIGHTS, MOST_TEXTS, N_TEST = 30, 400, 600
#: Cosine from which a topic is the same as on the night before.
SAME = 0.8


def nights(corpus, order):
    """Documents of all nights in their order, and those that test, from among them.

    "150 of X" are 150 documents of a corpus, and 600 that test.
    """
    n_few, _, name = corpus.rpartition(" of ")
    counts = corpora.load_counts(name)
    if n_few:
        n_few = int(n_few)
        rows = np.random.default_rng(1).permutation(counts.shape[0])
        train, test = (
            counts[np.sort(some)] for some in (rows[:n_few], rows[n_few:][:N_TEST])
        )
        used = np.asarray(train.sum(axis=0)).ravel() > 0
        return corpora.Documents(train[:, used], test[:, used])
    if corpus == "docstrings":
        counts = counts[np.argsort(load_docstrings().target, kind="stable")]
    counts = counts[np.asarray(counts.sum(axis=1)).ravel() >= 2]
    counts = counts[: N_NIGHTS * MOST_TEXTS + N_TEST]
    rng = np.random.default_rng(0)
    rows = rng.permutation(counts.shape[0])
    n_test = min(N_TEST, len(rows) // 10)
    test, rows = np.sort(rows[:n_test]), rows[n_test:]
    rows = np.sort(rows) if order == "in order" else rows
    train = counts[rows]
    used = np.asarray(train.sum(axis=0)).ravel() > 0
    return corpora.Documents(train[:, used], counts[test][:, used])


class Yesterday:
    """Ids, topics and shares of a night's documents, as they were a night before."""

    def __init__(self, hdp, docs):
        self.ids, self.topics = hdp.component_ids_, hdp.topic_word_distr_
        self.shares = hdp.transform(docs)

    def compared(self, hdp, docs):
        """Weight of the same ids and topics, change of documents' shares, drift."""
        shares, ids = hdp.transform(docs), hdp.component_ids_
        _, new, old = np.intersect1d(ids, self.ids, return_indices=True)
        topics = hdp.topic_word_distr_
        cosine = np.diag(cosines(topics[new], self.topics[old]))
        total = np.abs(shares[:, new] - self.shares[:, old]).sum()
        total += np.delete(shares, new, axis=1).sum()
        total += np.delete(self.shares, old, axis=1).sum()
        return {
            "same": float(shares[:, new[cosine > SAME]].sum() / shares.sum()),
            "moved": float(total / (2.0 * len(shares))),
            "drift": float(np.median(cosine)) if len(cosine) else 0.0,
        }


def learn_nights(docs, seed):
    """Learn night by night; yield a fit after each."""
    hdp, n_docs = HDP(random_state=seed), docs.train.shape[0]
    limits = np.linspace(0, n_docs, N_NIGHTS + 1).astype(int)
    if n_docs > N_NIGHTS * MOST_TEXTS:
        limits = np.arange(N_NIGHTS + 1) * MOST_TEXTS
    total, n_logged = 0.0, 1
    gc.collect()
    gc.freeze()
    for night, (begin, end) in enumerate(pairwise(limits)):
        part, more = docs.train[begin:end], {}
        if night > 0:
            before = Yesterday(hdp, part)
        with timed([(StreamTrials, ("restart",))]) as clock:
            _, seconds = common.cpu_seconds(partial(hdp.partial_fit, part))
        total += seconds
        if night > 0:
            more = before.compared(hdp, part)
        kinds = [entry.kind for entry in hdp.lineage_[n_logged:]]
        n_logged = len(hdp.lineage_)
        more |= {
            "night": night + 1,
            "seconds": seconds,
            "trials": clock.seconds,
            "log": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
        }
        fit = Fit(docs, hdp, total, more)
        if night + 1 == N_NIGHTS:
            with warnings.catch_warnings(action="ignore"):
                whole = HDP(random_state=seed).fit(docs.train[: limits[-1]])
            more["score of a fit"] = whole.score(docs.test)
            more["topics of a fit"] = whole.n_components_
        yield fit


def summary(rows):
    """One row for each stream."""
    result = []
    for key, some in common.groups(rows, ("corpus", "order", "seed")):
        numbers = np.array([row["topics"] for row in some])
        seconds, trials = (
            np.array([row[name] for row in some]) for name in ("seconds", "trials")
        )
        after = some[1:]
        same, moved = (
            np.array([row[name] for row in after]) for name in ("same", "moved")
        )
        jumps = np.abs(numbers[1:] / numbers[:-1] - 1.0)
        last = some[-1]
        result.append(
            {
                **key,
                "seed": str(key["seed"]),
                "first": int(numbers[0]),
                "topics": int(numbers[-1]),
                "of a fit": last["topics of a fit"],
                "same, median": float(np.median(same)),
                "same, least": float(same.min()),
                "nights >= .95": int((same >= 0.95).sum()),
                "moved, median": float(np.median(moved)),
                "moved, most": float(moved.max()),
                "nights within 15 %": int((jumps <= 0.15).sum()),
                "score": last["score"],
                "behind a fit": last["score of a fit"] - last["score"],
                "CPU s": float(seconds.sum()),
                "longest call": float(seconds.max() / np.median(seconds)),
                "trials, most": float((np.cumsum(trials) / np.cumsum(seconds)).max()),
                "trials": float(trials.sum() / seconds.sum()),
            }
        )
    return result


CASES = {
    "stream_nights": Case(
        axes={
            "corpus": (*CHOICE, *REPORT, *(f"150 of {name}" for name in FEW)),
            "order": ("in order", "shuffled"),
            "seed": (0, 1),
        },
        documents=nights,
        learn=learn_nights,
        records={"score": lambda fit: fit.model.score(fit.docs.test)},
        summary=summary,
        over="seed",
        keeps=("corpus", "order", "seed", "night"),
    )
}

if __name__ == "__main__":
    main(__doc__, CASES)
