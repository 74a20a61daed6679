"""`HDP` with and without burstiness: prediction, coherence, topics and time.

SKBNP_DATA=... python benchmarks/burstiness.py [CORPUS ...] [--seeds SEED ...]
    [--models MODEL ...]

Rows of other corpora, seeds and models are kept in results/burstiness.json.
"""

import argparse
import json

import common  # before NumPy: it pins the threads
import corpora
import numpy as np
import scipy.sparse as sp

from skbnp import HDP
from skbnp.inference.executor import Executor
from skbnp.metrics import held_out_log_likelihood, split_tokens
from skbnp.models.hdp.prediction import MixturePredictor

CHOICE = ("ap", "kos", "docstrings", "bbc_tech")
REPORT = ("nips", "sotu", "arxiv_large_30", "jacm", "reuters395", "citeulike_titles")
MODELS = {"topics alone": {"burstiness": False}, "burstiness": {}}
#: Share of the documents that test, and these at most.
TEST_SHARE, MOST_TEST = 0.25, 2000
#: Most likely terms whose coherence is measured.
N_TERMS = 10
COLUMNS = (
    "corpus",
    "model",
    "seed",
    "tokens",
    "types",
    "tokens, no cache",
    "raw types",
    "NPMI",
    "NPMI, mean",
    "topics",
    "d",
    "c",
    "CPU s",
)


def load(name):
    """Training documents, and a quarter as test documents."""
    counts = corpora.docstring_counts() if name == "docstrings" else None
    if counts is None:
        counts = common.load_corpus(name.removesuffix("_30"))
    if name.endswith("_30"):
        rows = np.random.default_rng(1).permutation(counts.shape[0])
        counts = counts[np.sort(rows[: int(0.3 * counts.shape[0])])]
    train, test = common.standard_split(counts, TEST_SHARE)
    return train, test[:MOST_TEST]


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


def by_types(topics, prior, observed, held):
    """Log probability of new word types, each once, among words not yet observed."""
    predictor = MixturePredictor.of_topics(topics, prior, repeats=True)
    (sample,), n_words = predictor.samples, topics.shape[1]
    with Executor(None) as executor:
        burstiness = predictor._burstiness(sample, observed, executor)
        if burstiness is None:
            theta = predictor.infer(sample, observed, executor)
        else:
            seated = predictor._seat(sample, observed, burstiness, executor)
            theta = seated.doc_topic.toarray() + sample.doc_prior[:-1]
    rest, total = sample.doc_prior[-1], 0.0
    for row in range(held.shape[0]):
        mixed = theta[row] @ topics + rest / n_words
        mixed /= theta[row].sum() + rest
        seen = observed.indices[observed.indptr[row] : observed.indptr[row + 1]]
        new = held.indices[held.indptr[row] : held.indptr[row + 1]]
        total += np.log(mixed[new] / (1.0 - mixed[seen].sum())).sum()
    return float(total / held.nnz)


def measure(hdp, test):
    """All scores of a fit."""
    topics, prior = hdp.topic_word_distr_, common.hdp_prior(hdp)
    tokens, types = split_tokens(test, random_state=0), common.split_types(test)
    weighted, plain = coherence(topics, hdp.topic_weights_, test)
    return {
        "tokens": held_out_log_likelihood(topics, prior, *tokens, repeats=True),
        "types": by_types(topics, prior, *types),
        "tokens, no cache": held_out_log_likelihood(
            topics, prior, *tokens, repeats=False
        ),
        "raw types": held_out_log_likelihood(topics, prior, *types, repeats=False),
        "NPMI": weighted,
        "NPMI, mean": plain,
        "topics": hdp.n_components_,
        "d": getattr(hdp, "word_discount_", np.nan),
        "c": getattr(hdp, "word_concentration_", np.nan),
    }


def run(corpus, seed, models):
    """Rows of some models on a corpus."""
    train, test = load(corpus)
    for name in models:
        hdp = HDP(random_state=seed, **MODELS[name])
        _, seconds = common.cpu_seconds(lambda hdp=hdp: hdp.fit(train))
        where = {"corpus": corpus, "model": name, "seed": seed}
        yield where | measure(hdp, test) | {"CPU s": seconds}


READING = """
Default fits of `HDP`, and those with `burstiness=False`, of topics alone. "tokens":
nats per held-out token of test documents, 80 % of the tokens observed, with repeats
(the cache is learned from the observed tokens for either model); "types": new word
types, each once, renormalised to words that the document has not shown; "tokens, no
cache" and "raw types": the same splits by topics alone. "NPMI": coherence of the ten
most likely terms of topics in test documents, weighted by topics, and as plain mean.
"d", "c": discount and concentration of words. Designs were chosen on ap, kos,
docstrings and bbc_tech; the other corpora decided nothing.
"""


def main():
    """Run what is asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", nargs="*", default=CHOICE + REPORT)
    parser.add_argument("--seeds", type=int, nargs="+", default=(0, 1, 2))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=tuple(MODELS))
    given = parser.parse_args()
    path = common.RESULTS / "burstiness.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    rows = [row for row in rows if row["seed"] != "median"]
    for corpus in given.corpora:
        for seed in given.seeds:
            rows = [
                row
                for row in rows
                if (row["corpus"], row["seed"]) != (corpus, seed)
                or row["model"] not in given.models
            ]
            for row in run(corpus, seed, given.models):
                print(*(row[name] for name in COLUMNS), flush=True)
                rows.append(row)
    order = CHOICE + REPORT
    rows.sort(key=lambda r: (order.index(r["corpus"]), r["model"], r["seed"]))
    shown = [row for row in rows if row["corpus"] in order]
    table = common.medians(shown, ("corpus", "model"))
    common.save("burstiness", rows, COLUMNS, READING, n_shown=0)
    common.save("burstiness", [*table, *rows], COLUMNS, READING)


if __name__ == "__main__":
    main()
