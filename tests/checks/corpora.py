"""Corpora of the checks."""

import numpy as np
import scipy.sparse as sp

FORMATS = ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"]


def topic_counts(n_docs, n_words, *, n_topics=3, length=20.0, seed=0):
    """Draw documents from a topic model: canonical, no empty row, no empty column."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.2), size=n_topics)
    shares = rng.dirichlet(np.full(n_topics, 0.3), size=n_docs)
    X = rng.poisson(length * shares @ topics).astype(np.float64)
    X[np.arange(n_docs), np.arange(n_docs) % n_words] += 1.0
    X[np.arange(n_words) % n_docs, np.arange(n_words)] += 1.0
    return sp.csr_array(X)


def n_found(hdp, topics, least=0.95):
    """Number of given topics with a fitted one of a larger cosine."""
    one, other = (
        rows / np.linalg.norm(rows, axis=1, keepdims=True)
        for rows in (topics, hdp.topic_word_distr_)
    )
    return int(((one @ other.T).max(axis=1) > least).sum())
