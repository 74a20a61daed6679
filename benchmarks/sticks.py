"""`StickBreakingHDP` beside gensim's HdpModel, the same algorithm.

    SKBNP_DATA=... python benchmarks/sticks.py [loop] [target] [--runs N] [--share S]

gensim must be installed. `--share` takes the first part of arxiv_large.
"""

import argparse
import logging
import time

import common  # before NumPy: it pins the threads
import numpy as np
import scipy.sparse as sp
from gensim import matutils
from gensim.matutils import Sparse2Corpus
from gensim.models import HdpModel, hdpmodel

from skbnp import StickBreakingHDP
from skbnp.inference.executor import Executor
from skbnp.inference.protocols import LocalStop, StepInput
from skbnp.models.hdp_sticks import TableStep
from skbnp.rows.batch import Batch

logging.getLogger("gensim").setLevel(logging.ERROR)

N_TOPICS, N_TABLES = 150, 15
ETA, OFFSET, DECAY, BATCH_SIZE = 0.05, 64.0, 0.6, 256


def gensim_documents(counts):
    return list(Sparse2Corpus(counts, documents_columns=False))


def show(row):
    print({k: v for k, v in row.items() if k != "looks"}, flush=True)
    return row


# -- loop: one iteration of the documents ---------------------------------------------

LOOP_DOCS = 200


def loop(options):
    rows = []
    for corpus in ("ap", "nips", "arxiv_large"):
        train, _ = common.standard_split(common.load_corpus(corpus))
        train = train[: min(train.shape[0], 5000)]
        model = StickBreakingHDP(N_TOPICS, N_TABLES, max_iter=4, random_state=0)
        model.fit(train)
        sample = train[:LOOP_DOCS]
        for seed in range(options.runs):
            theirs = gensim_iteration(model, train.shape[1], sample)
            mine, everything = our_iteration(model, sample)
            row = {"corpus": corpus, "seed": seed, "gensim us": theirs}
            row |= {"skbnp us": mine, "all us": everything}
            rows.append(show({**row, "ratio": theirs / mine}))
    rows = common.medians(rows, ("corpus",)) + rows
    common.save("sticks_loop", rows, list(rows[0]))


def gensim_iteration(model, n_words, sample):
    """Time of its loop over the iterations that it made, for a document."""
    docs = gensim_documents(sample)
    names = {word: str(word) for word in range(n_words)}
    other = HdpModel(docs[:1], names, max_chunks=1, T=N_TOPICS, K=N_TABLES)
    other.m_lambda = model.components_ - other.m_eta
    other.m_lambda_sum = other.m_lambda.sum(axis=1)
    every_word = Batch.from_counts(sp.csr_array(np.ones((1, n_words))), N_TOPICS)
    with Executor(1) as executor:
        given = StepInput(model._posterior, every_word, LocalStop(1, 0.0), executor)
        logs = TableStep.prepare(given).logs
    other.m_Elogbeta = logs[:, :N_TOPICS].T.astype(float)
    log_weights = model._posterior.state.log_weights
    n_steps, normalize = 0, matutils.ret_log_normalize_vec

    def counting(*arguments):
        nonlocal n_steps
        n_steps += 1
        return normalize(*arguments)

    seconds = 0.0
    for doc in docs:
        words, counts = zip(*doc, strict=True)
        unique = {word: place for place, word in enumerate(words)}
        stats = hdpmodel.SuffStats(N_TOPICS, n_words, len(words))
        matutils.ret_log_normalize_vec = counting
        begin = time.process_time()
        try:
            other.doc_e_step(stats, log_weights, unique, words, counts, -1e30)
        finally:
            seconds += time.process_time() - begin
            matutils.ret_log_normalize_vec = normalize
    return 1e6 * seconds / (n_steps / 2)


def our_iteration(model, sample):
    batch = Batch.from_counts(sample, N_TOPICS)
    times = {n: np.inf for n in (1, 10, 30)}
    with Executor(1) as executor:
        for _ in range(3):
            for n_iter in times:
                stop = LocalStop(n_iter, 0.0)
                given = StepInput(model._posterior, batch, stop, executor)
                step = TableStep.prepare(given)
                begin = time.process_time()
                list(step.visit(batch.blocks, executor))
                seconds = time.process_time() - begin
                times[n_iter] = min(times[n_iter], seconds)
    each = 1e6 / sample.shape[0]
    return each * (times[30] - times[10]) / 20, each * times[1]


# -- target: time to the score that gensim ends at ------------------------------------

TARGET_PASSES = {"ap": 20, "arxiv_large": 1}
CANDIDATES = {
    "StickBreakingHDP": {},
    "StickBreakingHDP(warm_up=0)": {"warm_up": 0},
    "StickBreakingHDP(warm_up=0, learn_priors=False)": {
        "warm_up": 0,
        "learn_priors": False,
    },
}


def target(options):
    rows = []
    for corpus, n_passes in TARGET_PASSES.items():
        train, test = common.standard_split(common.load_corpus(corpus))
        if corpus == "arxiv_large":
            train = train[: int(np.ceil(options.share * train.shape[0]))]
        for seed in range(options.runs):
            theirs = race_gensim(train, test, n_passes, seed)
            goal = max(point[1] for point in theirs)
            begin = common.time_to(goal, theirs)
            for name, changes in CANDIDATES.items():
                points = race(train, test, changes, seed, theirs[-1][0])
                seconds = common.time_to(goal, points)
                row = {"corpus": corpus, "model": name, "seed": seed}
                row |= {"gensim s": begin, "gensim score": goal, "skbnp s": seconds}
                row |= {"ratio": begin / seconds, "last": points[-1][1]}
                rows.append(show({**row, "looks": points, "gensim looks": theirs}))
    columns = ["corpus", "model", "seed", "gensim s", "gensim score", "skbnp s"]
    columns += ["ratio", "last"]
    rows = common.medians(rows, ("corpus", "model")) + rows
    common.save("sticks_target", rows, columns)


class Announced:
    """Documents that say they are more: gensim learns from what it is made of."""

    def __init__(self, docs, n_docs):
        self.docs, self.n_docs = docs, n_docs

    def __iter__(self):
        return iter(self.docs)

    def __len__(self):
        return self.n_docs


def race_gensim(train, test, n_passes, seed):
    names = {word: str(word) for word in range(train.shape[1])}
    stream = common.minibatches(train, BATCH_SIZE, seed)
    n_steps = n_passes * -(-train.shape[0] // BATCH_SIZE)
    chunks = [gensim_documents(next(stream)) for _ in range(n_steps)]
    model = HdpModel(
        Announced(chunks[0], train.shape[0]),
        names,
        max_chunks=1,
        kappa=DECAY,
        tau=OFFSET,
        K=N_TABLES,
        T=N_TOPICS,
        alpha=1,
        gamma=1,
        eta=ETA,
        chunksize=BATCH_SIZE,
        random_state=seed,
    )

    def look():
        model.update_expectations()
        prior, topics = model.hdp_to_lda()
        topics, prior = np.maximum(topics, 1e-300), np.maximum(prior, 1e-12)
        return common.standard_score(topics, prior, test), N_TOPICS

    points, seconds = [], 0.0
    for number, chunk in enumerate(chunks[1:]):
        seconds += common.cpu_seconds(lambda chunk=chunk: model.update_chunk(chunk))[1]
        is_last = number == len(chunks) - 2
        if not points or seconds >= 1.15 * points[-1][0] or is_last:
            points.append([seconds, *look()])
    return points


def race(train, test, changes, seed, seconds):
    model = StickBreakingHDP(
        N_TOPICS,
        N_TABLES,
        topic_word_prior=ETA,
        learning_offset=OFFSET,
        learning_decay=DECAY,
        batch_size=BATCH_SIZE,
        total_samples=train.shape[0],
        random_state=seed,
        **changes,
    )
    stream = common.minibatches(train, BATCH_SIZE, seed)

    def look():
        prior = model.doc_concentration_ * model.topic_weights_
        topics = model.topic_word_distr_
        return common.standard_score(topics, prior, test), model.n_active_components_

    def step():
        model.partial_fit(next(stream))

    return common.watch(step, look, seconds, spacing=1.1)


SECTIONS = {"loop": loop, "target": target}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("section", nargs="*", help=", ".join(SECTIONS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0)
    options = parser.parse_args()
    for name in options.section or SECTIONS:
        SECTIONS[name](options)
