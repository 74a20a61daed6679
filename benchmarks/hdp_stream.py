"""Streams: numbers of topics that `HDP.partial_fit` finds, scores, time and memory.

SKBNP_DATA=... python benchmarks/hdp_stream.py [planted] [dates] [late] [quiet]
    [--seeds SEED ...]
"""

import argparse
import resource
import time
from contextlib import contextmanager

import numpy as np
import scipy.sparse as sp
from common import hdp_prior, load_corpus, save, standard_score
from hdp_topic_numbers import load, n_found

from skbnp import HDP
from skbnp.models.hdp.stream_trials import PausedTrials

PLANTED = (
    "bars 5x5, 10000",
    "bars 10x10, 10000",
    "hdp 15, 10000",
    "hdp 40, 10000",
)
#: Chunks of a stream in the order of its dates, and after how many scores are taken.
CHUNK, MARKS = 1000, (1, 2, 4, 8, 16, 32, 64, 100, 150)
N_TEST = 600
#: Documents of streams with late topics, starts, shares before these begin, chunks.
LATE = (
    (4000, 2, (0.5, 0.7, 0.9), (20, 100, 500)),
    (8000, 300, (0.7,), (20, 100, 500)),
    (20_000, 2, (0.9,), (100,)),
)
#: Documents before a share of time is taken; of all topics before 50 quiet chunks.
FIRST, BEFORE_QUIET, N_QUIET = 1000, 3000, 50


def planted(name, start, chunk, seed):
    """Topics found of those that the documents were drawn from."""
    train, test, (topics, prior) = load(name, seed)
    hdp = HDP(start, random_state=seed)
    begin = time.process_time()
    for first in range(0, train.shape[0], chunk):
        hdp.partial_fit(train[first : first + chunk])
    return {
        "corpus": name,
        "start": start,
        "chunk": chunk,
        "seed": seed,
        "topics": hdp.n_components_,
        "true topics": len(topics),
        "found": n_found(hdp.topic_word_distr_, topics),
        "score": standard_score(hdp.topic_word_distr_, hdp_prior(hdp), test),
        "truth": standard_score(topics, prior, test),
        "CPU s": time.process_time() - begin,
    }


def resident():
    """Resident memory, MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def dates(start, moves, seed):
    """Documents of `arxiv_large` by date; test documents are of all dates."""
    counts = load_corpus("arxiv_large")
    rows = np.random.default_rng(seed).permutation(counts.shape[0])
    n_test = min(N_TEST, len(rows) // 10)
    test, train = counts[np.sort(rows[:n_test])], counts[np.sort(rows[n_test:])]
    hdp, seconds, table = HDP(start, split_merge=moves, random_state=seed), 0.0, []
    for number, first in enumerate(range(0, train.shape[0], CHUNK), start=1):
        begin = time.process_time()
        hdp.partial_fit(train[first : first + CHUNK])
        seconds += time.process_time() - begin
        if number in MARKS:
            births = sum(entry.kind == "birth" for entry in hdp.lineage_)
            table.append(
                {
                    "start": start,
                    "moves": moves,
                    "seed": seed,
                    "documents": number * CHUNK,
                    "topics": hdp.n_components_,
                    "births": births,
                    "score": standard_score(
                        hdp.topic_word_distr_, hdp_prior(hdp), test
                    ),
                    "CPU s": seconds,
                    "resident MB": resident(),
                }
            )
            print(table[-1], flush=True)
    return table


def plant_late(n_docs, begin, seed, n_topics=20, n_words=500, length=60):
    """Documents, topics and shares; a quarter of the topics begins late."""
    rng = np.random.default_rng(seed + 1000)
    topics = rng.dirichlet(np.full(n_words, 0.05), n_topics)
    weights, n_late = rng.dirichlet(np.full(n_topics, 5.0)), n_topics // 4
    shares = np.empty((n_docs, n_topics))
    for row, share in enumerate(shares):
        share[:] = rng.gamma(np.maximum(0.15 * n_topics * weights, 1e-3))
        if row < begin:
            share[:n_late] = 0.0
        share /= share.sum()
    lengths = rng.poisson(length, n_docs) + 2
    pairs = zip(lengths, shares, strict=True)
    counts = np.stack([rng.multinomial(n, share @ topics) for n, share in pairs])
    return sp.csr_array(counts.astype(float)), topics, shares, n_late


@contextmanager
def timed_trials():
    """Yield a list to which each share of trials adds its processor seconds."""
    seconds, names = [], ("advance", "advance_by_steps")
    plain = {name: getattr(PausedTrials, name) for name in names}

    def timed(method):
        def measured(*args):
            begin = time.process_time()
            try:
                return method(*args)
            finally:
                seconds.append(time.process_time() - begin)

        return measured

    for name in names:
        setattr(PausedTrials, name, timed(plain[name]))
    try:
        yield seconds
    finally:
        for name in names:
            setattr(PausedTrials, name, plain[name])


def late(n_docs, begins_at, start, chunk, seed):
    """Late topics of a cosine of .9 within 500 of their documents."""
    begin = int(begins_at * n_docs)
    X, topics, shares, n_late = plant_late(n_docs, begin, seed)
    hdp, calls, of_trials = HDP(start, random_state=seed), [], []
    n_own = (shares[:, :n_late] >= 0.1).cumsum(axis=0)
    after = np.full(n_late, np.inf)
    for first in range(0, n_docs, chunk):
        clock = time.process_time()
        with timed_trials() as seconds:
            hdp.partial_fit(X[first : first + chunk])
        calls.append(time.process_time() - clock)
        of_trials.append(sum(seconds))
        last = min(first + chunk, n_docs) - 1
        if last >= begin:
            is_near = near(topics, hdp)[:n_late] >= 0.9
            after[is_near] = np.minimum(after, n_own[last])[is_near]
    shares_of_time = np.cumsum(of_trials) / np.cumsum(calls)
    return {
        "documents": n_docs,
        "begin": begins_at,
        "start": start,
        "chunk": chunk,
        "seed": seed,
        "late": n_late,
        "within 500": int((after <= 500).sum()),
        "in the end": int((near(topics, hdp) >= 0.9).sum()),
        "topics": hdp.n_components_,
        "worst call": float(np.max(calls) / np.median(calls)),
        "trials": float(shares_of_time[FIRST // chunk - 1 :].max()),
        "trials, end": float(shares_of_time[-1]),
        "CPU s": float(np.sum(calls)),
    }


def quiet(start, chunk, seed):
    """Topics born in chunks without a new topic, and what is there in the end."""
    n_docs = BEFORE_QUIET + N_QUIET * chunk
    X, topics, _, _ = plant_late(n_docs, 0, seed)
    hdp = HDP(start, random_state=seed)
    for first in range(0, BEFORE_QUIET, chunk):
        hdp.partial_fit(X[first : first + chunk])
    before, born = set(hdp.component_ids_), set()
    n_near = int((near(topics, hdp) >= 0.9).sum())
    for first in range(BEFORE_QUIET, n_docs, chunk):
        hdp.partial_fit(X[first : first + chunk])
        born |= {*hdp.component_ids_} - before
    n_near_last = int((near(topics, hdp) >= 0.9).sum())
    return {
        "start": start,
        "chunk": chunk,
        "seed": seed,
        "topics before": len(before),
        "of 20 before": n_near,
        "born": len(born),
        "stay": len(born & {*hdp.component_ids_}),
        "topics": hdp.n_components_,
        "of 20": n_near_last,
        "beyond": hdp.n_components_ - n_near_last,
    }


def near(topics, hdp):
    """Largest cosine of each true topic."""
    one, other = (
        rows / np.linalg.norm(rows, axis=1, keepdims=True)
        for rows in (topics, hdp.topic_word_distr_)
    )
    return (one @ other.T).max(axis=1)


READING_LATE = """
Documents of 20 planted topics, of which five begin after a share of the documents;
`HDP(start).partial_fit` in chunks. "within 500": late topics that have one of a cosine
of .9 after at most 500 documents with a tenth of them; "in the end": of all 20. "worst
call": the longest over the median. "trials": largest share of processor time that
trials have had since the first document, at any call after the first 1,000 documents;
"trials, end": after all. Settings were chosen on seeds 0 to 4, 10 to 12 and 100 to 109,
those of steps of trials on seeds 20 to 22, the weight of small calls on seeds 30 to 32;
seeds from 33 on decided nothing.
"""
READING_QUIET = f"""
Streams of documents of 20 planted topics, all from the first document on:
{BEFORE_QUIET} documents, then {N_QUIET} chunks; `HDP(start).partial_fit`. "before":
topics then, and those of the 20 with one of a cosine of .9; "born": topics that are new
after some later call; "stay": those of them in the end, most of which have taken the
place of an older topic; "beyond": topics in the end less the planted ones with such a
cosine, which is how many false ones there are at most.
"""
READING_PLANTED = """
Documents drawn from known topics, `HDP(start).partial_fit` in chunks. "found": true
topics with one of a cosine of .95 at least; "score": nats per token of new documents,
"truth" that of the topics they were drawn from.
"""
READING_DATES = """
Documents of `arxiv_large` by date, `HDP(start).partial_fit` in chunks of 1000, other
parameters default; "moves": `split_merge`. Scores are of 600 documents of all dates.
Resident memory includes the corpus and the test documents.
"""


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("groups", nargs="*", default=["planted", "dates"])
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    chosen = parser.parse_args()
    if "planted" in chosen.groups:
        rows = []
        for seed in chosen.seeds:
            for name in PLANTED:
                for start, chunk in ((2, 100), (2, 500), (300, 100), (300, 500)):
                    rows.append(planted(name, start, chunk, seed))
                    print(rows[-1], flush=True)
        save("hdp_stream_planted", rows, list(rows[0]), READING_PLANTED)
    if "late" in chosen.groups:
        rows = [
            late(n_docs, begins_at, start, chunk, seed)
            for n_docs, start, shares, chunks in LATE
            for begins_at in shares
            for chunk in chunks
            for seed in chosen.seeds
        ]
        save("hdp_stream_late", rows, list(rows[0]), READING_LATE)
    if "quiet" in chosen.groups:
        rows = [
            quiet(start, chunk, seed)
            for start in (2, 300)
            for chunk in (20, 100)
            for seed in chosen.seeds
        ]
        save("hdp_stream_quiet", rows, list(rows[0]), READING_QUIET)
    if "dates" in chosen.groups:
        rows = [
            row
            for seed in chosen.seeds
            for start, moves in ((2, True), (300, True), (300, False))
            for row in dates(start, moves, seed)
        ]
        save("hdp_stream", rows, list(rows[0]), READING_DATES)
