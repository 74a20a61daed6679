"""How documents are folded in: collapsed, by mean field, and by Gibbs sampling.

    SKBNP_DATA=... python benchmarks/fold_in.py [corpus ...] [--seeds N ...]

Topics and the Dirichlet prior of documents are held fixed.
"""

import argparse

import common  # before NumPy: it pins the threads
import numpy as np
import scipy.sparse as sp
from corpora import load

from skbnp import HDP
from skbnp.inference.executor import Executor
from skbnp.metrics import split_tokens
from skbnp.models.hdp.fold_in import fold_in, fold_in_by_mean_field, mix

#: Drawn documents: topics, prior of all of them, topic prior, words, mean length, and
#: the share of tokens that are of the same distribution in all topics.
DRAWN = {
    "20 topics, titles": (20, 0.5, 0.1, 500, 20, 0.0),
    "5 flat topics": (5, 0.5, 1.0, 100, 60, 0.0),
    "60 topics, few in a document": (60, 1.0, 0.05, 1000, 100, 0.0),
    "60 topics, many in a document": (60, 6.0, 0.05, 1000, 100, 0.0),
    "200 topics": (200, 3.0, 0.02, 2000, 50, 0.0),
    "200 topics, long documents": (200, 3.0, 0.02, 2000, 300, 0.0),
    "30 topics that share words": (30, 1.0, 0.05, 2000, 50, 0.5),
    "30 topics that share words, long documents": (30, 1.0, 0.05, 2000, 600, 0.5),
}
TEXT = ("ap", "kos", "docstrings")
N_DOCS, N_SWEEPS, N_BURN_IN = 100, 250, 50


def draw(n_topics, concentration, eta, n_words, length, shared, rng):
    """Topics (K, V), the prior (K,), and documents of them."""
    topics = rng.dirichlet(np.full(n_words, eta), n_topics)
    same = rng.dirichlet(np.full(n_words, eta))
    topics = np.maximum((1.0 - shared) * topics + shared * same, 1e-12)
    topics /= topics.sum(axis=1, keepdims=True)
    weights = 0.9 * rng.dirichlet(np.ones(n_topics)) + 0.1 / n_topics
    prior = concentration * weights
    theta = rng.dirichlet(prior, N_DOCS)
    lengths = rng.poisson(length, N_DOCS) + 2
    counts = [
        rng.multinomial(n, p @ topics) for n, p in zip(lengths, theta, strict=True)
    ]
    return topics, prior, sp.csr_array(np.array(counts, dtype=float))


def learn(corpus, seed):
    """Topics and prior of a default fit, and test documents."""
    train, test = load(corpus, 50_000)
    hdp = HDP(random_state=seed, min_gain=0).fit(train)
    prior = hdp.doc_concentration_ * hdp.topic_weights_
    return hdp.topic_word_distr_, prior, test[:N_DOCS]


def sample(topics, prior, X, rng):
    """Posterior means of N by Gibbs sampling, token by token, all documents at once."""
    lengths = np.asarray(X.sum(axis=1)).ravel().astype(int)
    order = np.argsort(-lengths, kind="stable")
    words = np.zeros((X.shape[0], lengths.max()), int)
    for row, doc in enumerate(order):
        part = slice(X.indptr[doc], X.indptr[doc + 1])
        tokens = np.repeat(X.indices[part], X.data[part].astype(int))
        words[row, : len(tokens)] = tokens
    with Executor(None) as executor:
        start = fold_in(topics.T.copy(), prior, X, executor).toarray()[order]
    weights, z = np.ascontiguousarray(topics.T), np.zeros(words.shape, int)
    counts, total = np.zeros_like(start), np.zeros_like(start)
    for sweep in range(N_SWEEPS + 1):  # the first assigns topics
        for place in range(words.shape[1]):
            rows = np.arange((lengths > place).sum())
            own = z[rows, place]
            if sweep:
                counts[rows, own] -= 1.0
            base = counts if sweep else start
            chances = ((base[rows] + prior) * weights[words[rows, place]]).cumsum(1)
            drawn = rng.random(len(rows))[:, None] * chances[:, -1:]
            own = np.minimum((chances < drawn).sum(axis=1), len(prior) - 1)
            z[rows, place] = own
            counts[rows, own] += 1.0
        if sweep > N_BURN_IN:
            total += counts
    result = np.empty_like(total)
    result[order] = total / (N_SWEEPS - N_BURN_IN)
    return result


def score(topics, prior, tokens, held):
    """Nats per held-out token under mean proportions."""
    theta = tokens + prior
    theta /= theta.sum(axis=1, keepdims=True)
    mixed = mix(theta, np.ascontiguousarray(topics.T), held)
    return float((held.data * np.log(mixed)).sum() / held.sum())


def run(name, seed):
    rng = np.random.default_rng(seed)
    made = draw(*DRAWN[name], rng) if name in DRAWN else learn(name, seed)
    topics, prior, test = made
    row = {"corpus": name, "seed": seed, "topics": len(topics)}
    splits = {"tokens": split_tokens(test, random_state=0)}
    splits["types"] = common.split_types(test)
    for split, (observed, held) in splits.items():
        observed = sp.csr_array(observed)
        by = topics.T.copy(), prior, observed
        with Executor(None) as executor:
            result = {"collapsed": fold_in(*by, executor).toarray()}
            result["mean field"] = fold_in_by_mean_field(*by, executor)
        result["Gibbs"] = sample(topics, prior, observed, rng)
        row |= {
            f"{split}, {how}": score(topics, prior, tokens, held)
            for how, tokens in result.items()
        }
    return row


HOWS = ("collapsed", "mean field", "Gibbs")
COLUMNS = ["corpus", "topics"]
COLUMNS += [f"{split}, {how}" for split in ("tokens", "types") for how in HOWS]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus", nargs="*", default=[*DRAWN, *TEXT])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    options = parser.parse_args()
    rows = []
    for corpus in options.corpus:
        for seed in options.seeds:
            rows.append(run(corpus, seed))
            print(rows[-1], flush=True)
    table = common.medians(rows, ("corpus",))
    common.save("fold_in", table + rows, COLUMNS, n_shown=len(table))
