"""`HDP` with and without burstiness: prediction, coherence, topics and time.

    SKBNP_DATA=... python benchmarks/burstiness.py PAGE [PAGE ...]
        [--AXIS VALUE ...] [--write]

A page of results is a case in `CASES`; `sweep.py` has the options. The model "tomotopy"
of "burstiness" needs that package.
"""

import time
from dataclasses import replace

import common  # before NumPy: it pins the threads
import corpora
import numpy as np
import scipy.sparse as sp
from corpora import Documents
from sweep import Case, Fit, fitted, main

from skbnp import HDP
from skbnp.datasets import make_hdp
from skbnp.inference.executor import Executor
from skbnp.inference.protocols import LocalStop, StepInput, Visit
from skbnp.metrics import held_out_log_likelihood, split_tokens
from skbnp.models.hdp.burstiness import Burstiness
from skbnp.models.hdp.local import MAX_ITER, TOL, CollapsedStep
from skbnp.rows.batch import Batch

CHOICE = ("ap", "kos", "docstrings", "bbc_tech")
REPORT = ("nips", "sotu", "arxiv_large_30", "jacm", "reuters395", "citeulike_titles")
MODELS = {"topics alone": {"burstiness": False}, "burstiness": {}}
#: Topics and sweeps of the peer, latent Dirichlet allocation by Gibbs sampling.
PEER = "tomotopy"
PEER_TOPICS, PEER_SWEEPS = 100, 200
#: Share of the documents that test.
TEST_SHARE = 0.25
#: Most likely terms whose coherence is measured.
N_TERMS = 10


def load(corpus):
    """Training documents, and a quarter as test documents."""
    return Documents(*corpora.load(corpus, test_share=TEST_SHARE))


def coherence(topics, weights, test):
    """NPMI of the top terms of topics in test documents: weighted, and plain means."""
    shown = sp.csc_array((test > 0).astype(np.float64))
    n_docs, values = test.shape[0], []
    for topic in topics:
        top = np.argsort(-topic, kind="stable")[:N_TERMS]
        some = shown[:, top]
        both = (some.T @ some).toarray() / n_docs
        one, other = np.triu_indices(len(top), 1)
        p, p_both = both.diagonal(), both[one, other]
        with np.errstate(divide="ignore", invalid="ignore"):
            npmi = np.log(p_both / (p[one] * p[other])) / -np.log(p_both)
        values.append(np.where(p_both > 0, np.minimum(npmi, 1.0), -1.0).mean())
    values = np.array(values)
    return float(values @ weights / weights.sum()), float(values.mean())


def measure(topics, prior, weights, test):
    """All scores of topics: (K, V), Dirichlet parameters, weights."""
    tokens, types = split_tokens(test, random_state=0), common.split_types(test)
    weighted, plain = coherence(topics, weights, test)
    return {
        "tokens": held_out_log_likelihood(topics, prior, *tokens, repeats=True),
        "types": common.type_score(topics, prior, *types),
        "tokens, no cache": held_out_log_likelihood(
            topics, prior, *tokens, repeats=False
        ),
        "raw types": held_out_log_likelihood(topics, prior, *types, repeats=False),
        "NPMI": weighted,
        "NPMI, mean": plain,
    }


def measured(fit):
    """A fit with all scores, discount and concentration."""
    hdp = fit.model
    topics, weights = hdp.topic_word_distr_, hdp.topic_weights_
    fit.more |= measure(topics, common.hdp_prior(hdp), weights, fit.docs.test)
    fit.more |= {"d": hdp.word_discount_, "c": hdp.word_concentration_}
    return fit


def fit_peer(docs, seed):
    """Topics of tomotopy, which have the cache at prediction alone."""
    import tomotopy

    train, lda = docs.train, tomotopy.LDAModel(k=PEER_TOPICS, seed=seed)
    names = np.array([str(word) for word in range(train.shape[1])])
    for row in range(train.shape[0]):
        part = slice(train.indptr[row], train.indptr[row + 1])
        counts = train.data[part].astype(np.int64)
        lda.add_doc(np.repeat(names[train.indices[part]], counts).tolist())
    _, seconds = common.cpu_seconds(lambda: lda.train(PEER_SWEEPS, workers=1))
    topics = np.full((lda.k, train.shape[1]), 1e-12)
    columns = [int(name) for name in lda.used_vocabs]
    for k in range(lda.k):
        topics[k, columns] = lda.get_topic_word_dist(k)
    weights, prior = np.asarray(lda.get_count_by_topics(), float), np.array(lda.alpha)
    more = measure(topics, prior.astype(float), weights, docs.test)
    return Fit(docs, (topics, prior, lda.k), seconds, more | {"d": np.nan, "c": np.nan})


def learn(docs, model, seed):
    if model == PEER:
        yield fit_peer(docs, seed)
    else:
        yield measured(
            fitted(HDP(random_state=seed, **MODELS[model], min_gain=0), docs)
        )


def by_corpus(rows):
    """Medians over seeds, and the commits that these are of."""
    table = []
    for key, same in common.groups(rows, ("corpus", "model")):
        (line,) = common.medians(same, ("corpus", "model"))
        commits = ", ".join(sorted({row["commit"] for row in same}))
        line = key | {"seed": "median", "seeds": len(same)} | line
        table.append(line | {"commit": commits})
    return table


def draw_bursty(concentration, seed):
    """600 documents of 15 topics, whose tokens a Dirichlet process of each repeats."""
    drawn = make_hdp(600, n_features=500, n_components=15, random_state=seed)
    rng = np.random.default_rng(seed)
    counts = np.zeros(drawn.data.shape)
    means = drawn.doc_topic_distr @ drawn.topic_word_distr
    for row, mean in zip(counts, means, strict=True):
        words = rng.choice(len(mean), p=mean / mean.sum(), size=rng.poisson(100))
        for at in range(len(words)):
            if rng.random() * (concentration + at) >= concentration:
                words[at] = words[rng.integers(at)]
        np.add.at(row, words, 1.0)
    return counts


def learn_planted(docs, draw):
    alone = HDP(burstiness=False, random_state=draw, min_gain=0).fit(docs.train)
    fit = fitted(HDP(random_state=draw, min_gain=0), docs)
    fit.more["topics without"] = alone.n_components_
    fit.more["c found"] = fit.model.word_concentration_
    fit.more["d found"] = fit.model.word_discount_
    yield fit


def learn_stream(docs, model, chunk, seed):
    hdp = HDP(random_state=seed, **MODELS[model], min_gain=0)
    order = np.random.default_rng(seed).permutation(docs.train.shape[0])

    def learn_chunks():
        for first in range(0, len(order), chunk):
            hdp.partial_fit(docs.train[order[first : first + chunk]])

    _, seconds = common.cpu_seconds(learn_chunks)
    yield measured(Fit(docs, hdp, seconds))


def learn_some(docs, at_most, seed):
    hdp = HDP(at_most, max_components=at_most, random_state=seed, min_gain=0)
    yield measured(fitted(hdp, docs))


def some_documents(corpus, documents):
    """The first documents of a corpus, or a draw."""
    if corpus == "draw":
        return Documents(sp.csr_array(draw_bursty(20.0, 0)))
    return Documents(load(corpus).train[:documents])


def learn_pass(docs, K):
    """Measure the document step without and with tables, the least of seven runs."""
    hdp = HDP(K, split_merge=False, burstiness=False, max_iter=12, tol=0)
    fit = fitted(hdp.set_params(random_state=0), docs)
    posterior = hdp._posterior
    batch = Batch.from_counts(docs.train, posterior.state.n_components)
    best = [np.inf, np.inf]
    with Executor(None) as executor:
        for at in 7 * (0, 1):
            there = posterior.copy()
            if at:
                there.state = replace(
                    there.state, burstiness=Burstiness(0.73, 31.0), by_tables=True
                )
            begin = time.process_time()
            stop, counted = LocalStop(MAX_ITER, TOL), np.ones(batch.n_docs)
            given = StepInput(there, batch, stop, executor, Visit(remembered=counted))
            CollapsedStep.prepare(given).collect(given)
            best[at] = min(best[at], time.process_time() - begin)
    fit.more = {"tokens": float(docs.train.sum()), "without, s": best[0]}
    fit.more |= {"with, s": best[1], "ratio": best[1] / best[0]}
    yield fit


CASES = {
    "burstiness": Case(
        axes={"corpus": CHOICE + REPORT, "seed": (0, 1, 2), "model": MODELS},
        documents=load,
        learn=learn,
        records={"commit": lambda fit: common.commit()},
        summary=by_corpus,
        over="seed",
        shows_rows=True,
        keeps=("corpus", "model", "seed"),
    ),
    "burstiness_planted": Case(
        axes={"c": (20.0, 100.0), "draw": range(3)},
        documents=lambda c, draw: Documents(draw_bursty(c, draw)),
        learn=learn_planted,
    ),
    "burstiness_streams": Case(
        axes={
            "corpus": ("docstrings", "arxiv2000", "nips_abstracts", "ap"),
            "model": MODELS,
            "chunk": (20, 100),
            "seed": range(2),
        },
        documents=load,
        learn=learn_stream,
        summary=lambda rows: common.medians(rows, ("corpus", "model", "chunk")),
        over="seed",
        shows_rows=True,
    ),
    "burstiness_numbers": Case(
        axes={
            "corpus, at_most": (
                *(("ap", 147), ("ap", 80)),
                *(("docstrings", 400), ("docstrings", 280), ("docstrings", 200)),
            ),
            "seed": (0, 1, 2),
        },
        documents=load,
        learn=learn_some,
    ),
    "burstiness_passes": Case(
        axes={
            "corpus, documents": (
                *(("ap", 600), ("nips", 150), ("docstrings", 600), ("draw", None)),
            ),
            "K": (100, 300),
        },
        documents=some_documents,
        learn=learn_pass,
    ),
}


if __name__ == "__main__":
    main(__doc__, CASES)
