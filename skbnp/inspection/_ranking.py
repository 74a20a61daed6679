"""Ranking of topics for readers: by share times distinctiveness."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, rel_entr

from skbnp.inspection._terms import doc_shares, scaled_counts, without_negligible
from skbnp.utils import fitted as read
from skbnp.utils.ordering import largest

Array = NDArray[np.float64]

#: Share of documents from which a topic is one of all of them.
COMMON = 0.5


@dataclass(frozen=True, eq=False)
class Ranking:
    """Share, presence and value of each topic for a reader, (n_components,) each."""

    shares: Array  # of the tokens
    order: NDArray[np.intp]  # most informative first; topics of most documents last
    is_common: NDArray[np.bool_]  # whether in more than half of the documents
    examples: NDArray[np.intp]  # row of the most typical document; -1 if there is none


def rank_topics(estimator: Any, X: Any = None, epochs: Any = None) -> Ranking:
    """Rank topics by share times distinctiveness.

    With documents, shares of tokens, the number of documents with a topic, and an
    example are those of the documents; else those of the fit. The value of a topic is
    its share times its distinctiveness, in nats: its part of the mutual information of
    topics and words.
    """
    model = read.fitted_model(estimator)
    _, distr = read.topics(estimator)
    shares, n = read.token_shares(estimator), len(distr)
    examples, presence = np.full(n, -1), _expected_presence(model, shares)
    gives_shares = hasattr(model, "transform") and not hasattr(
        model, "inverse_transform"
    )
    if X is not None and gives_shares:
        measured, presence, examples = _measured(estimator, X, epochs, shares)
        shares = shares if hasattr(model, "tree_") else measured
    is_flat = not hasattr(model, "tree_") and not read.are_directions(model)
    is_common, value = (presence > COMMON) & is_flat, shares
    if not read.are_directions(model):
        value = shares * distinctiveness(shares, distr)
    order = largest(value, n)
    order = np.concatenate([order[~is_common[order]], order[is_common[order]]])
    return Ranking(shares, order, is_common, examples)


def distinctiveness(shares: Array, distr: Array) -> Array:
    """Divergence of each topic from the mean of all topics, in nats."""
    return np.maximum(rel_entr(distr, shares @ distr).sum(axis=1), 0.0)


def _expected_presence(model: Any, shares: Array) -> Array:
    """Expected share of documents of mean length with a token of each topic.

    Under the Dirichlet prior of documents; zeros if a model has none.
    """
    n_docs = getattr(model, "n_samples_seen_", 0)
    tokens = getattr(model, "_topic_tokens", None)
    has_prior = hasattr(model, "doc_concentration_")
    if tokens is None or not has_prior or not n_docs:
        return np.zeros(len(shares))
    length, alpha = tokens.sum() / n_docs, read.concentration_of(model)
    rest = np.maximum(alpha * (1.0 - model.topic_weights_), 1e-10)
    log_none = gammaln(rest + length) - gammaln(rest)
    log_none -= gammaln(alpha + length) - gammaln(alpha)
    return -np.expm1(np.minimum(log_none, 0.0))


def _measured(estimator, X, epochs, shares):
    """Return shares, presence and examples in given documents."""
    model, rows = read.fitted_model(estimator), read.model_rows(estimator, X)
    distr = doc_shares(model, rows, epochs)
    counts, totals = scaled_counts(model, rows, distr)
    tokens = without_negligible(counts, totals)
    if not tokens.any():
        return shares, np.zeros(len(shares)), np.full(len(shares), -1)
    presence = (tokens > 0.0).sum(axis=0) / max((totals > 0.0).sum(), 1)
    value = tokens * distr  # much of the topic, and little else
    examples = np.where(tokens.any(axis=0), value.argmax(axis=0), -1)
    return counts.sum(axis=0) / counts.sum(), presence, examples
