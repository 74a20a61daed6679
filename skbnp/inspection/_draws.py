"""Draws of topics from fits or samples, and of their shares in documents."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.inspection._alignment import spread
from skbnp.utils import fitted as read
from skbnp.utils.arrays import rows_of

Array = NDArray[np.float64]

#: Updates that find where draws of documents start, and draws left out.
UPDATES, LEFT_OUT = 20, 3


@dataclass(frozen=True, slots=True)
class Draw:
    """Topics of one fit, or of one kept sample of a chain."""

    values: Array  # (n_components, n_features), what draws of topics are made of
    weights: Array  # (n_components,)
    prior: Array | None  # (n_components,) Dirichlet of the topics of a document
    is_random: bool  # values are Dirichlet parameters

    def distr(self) -> Array:
        """Return expected topics, rows normalised, or directions as they are."""
        return _normalised(self.values) if self.is_random else self.values

    def sample(self, rng: np.random.Generator) -> Array:
        """Draw topics from their posterior, rows normalised."""
        if not self.is_random:
            return self.values
        return _normalised(rng.standard_gamma(self.values))

    def merged(self, onto: NDArray[np.intp]) -> "Draw":
        """Add up topics: topic k of this draw becomes topic ``onto[k]``."""
        n, k = onto.max() + 1, len(onto)
        sums = sp.csr_array((np.ones(k), (onto, np.arange(k))), shape=(n, k))
        scale = 1.0 if self.is_random else self.weights[:, None]
        values = sums @ (self.values * scale)
        if not self.is_random:
            length = np.linalg.norm(values, axis=1, keepdims=True)
            values = values / np.where(length > 0.0, length, 1.0)
        return replace(
            self,
            values=values,
            weights=sums @ self.weights,
            prior=None if self.prior is None else sums @ self.prior,
        )


def _normalised(rows: Array) -> Array:
    total = rows.sum(axis=1, keepdims=True)
    return rows / np.where(total > 0.0, total, 1.0)


def draws_of(
    estimator: Any, columns: NDArray[np.intp], n_features: int, *, by_sample: bool
) -> Iterator[Draw]:
    """Yield the topics of a fit, or, `by_sample`, of all kept samples of its chains."""
    model = read.fitted_model(estimator)
    samples = getattr(model, "samples_", None)
    if by_sample and samples and hasattr(samples[0], "topic_word_counts"):
        for sample in samples:
            yield draw_of_sample(sample, columns, n_features)
        return
    components, used = read.fitted(estimator, "components_"), read.in_use(estimator)
    weights = read.weights_of(estimator, components)
    is_random = not read.are_directions(model)
    if is_random and np.allclose(components.sum(axis=1), 1.0):
        is_random = False  # probabilities, of an unknown number of tokens
    prior = None
    if hasattr(model, "doc_concentration_"):
        prior = read.concentration_of(model) * weights[used]
    elif hasattr(model, "doc_topic_prior_"):
        prior = np.full(used.sum(), float(model.doc_topic_prior_))
    values = spread(components[used], columns, n_features)
    yield Draw(values, weights[used], prior, is_random)


def draw_of_sample(
    sample: Any, columns: NDArray[np.intp] | None = None, n_features: int = 0
) -> Draw:
    """Return the topics of a sample: counts plus prior, without empty topics."""
    counts = sample.topic_word_counts
    tokens = np.asarray(counts.sum(axis=1)).ravel()
    used = np.flatnonzero(tokens > 0)
    prior = np.asarray(sample.topic_word_prior, dtype=np.float64)
    if prior.ndim:  # of each level of a tree
        prior = prior[sample.depth[used]][:, None]
    values = counts[used].toarray() + prior
    if columns is not None:
        values = spread(values, columns, n_features)
    of_docs = None
    if hasattr(sample, "doc_prior"):
        of_docs = sample.doc_prior[used]
    return Draw(values, tokens[used] / max(tokens.sum(), 1), of_docs, True)


class DocumentDraws:
    """Gibbs draws of the shares of fixed topics in documents.

    Gibbs sampling: tokens of a word choose topics by theta_jk phi_kw, and theta_j is
    Dirichlet given these. Counts, (n_docs, n_features), are rounded.
    """

    def __init__(self, counts: sp.csr_array):
        """Store the counts of documents."""
        n_docs, n = counts.shape[0], counts.nnz
        self.words = counts.indices
        self.n_tokens = np.rint(counts.data).astype(np.int64)
        self.rows = rows_of(counts.indptr)
        self.sums = sp.csr_array(
            (np.ones(n), (self.rows, np.arange(n))), shape=(n_docs, n)
        )

    def mode(self, topics: Array, prior: Array) -> Array:
        """Return start shares by some steps of expectation maximisation."""
        theta = np.tile(prior / prior.sum(), (self.sums.shape[0], 1))
        for _ in range(UPDATES):
            masses = self._masses(theta, topics)
            theta = read.normalised_rows(
                prior + self.sums @ (self.n_tokens[:, None] * masses)
            )
        return theta

    def after(
        self,
        theta: Array,
        topics: Array,
        prior: Array,
        n_draws: int,
        rng: np.random.Generator,
    ) -> Iterator[Array]:
        """Yield draws of shares, (n_docs, n_topics), after a burn-in of `LEFT_OUT`."""
        for step in range(LEFT_OUT + n_draws):
            drawn = rng.multinomial(self.n_tokens, self._masses(theta, topics))
            theta = read.normalised_rows(
                rng.standard_gamma(prior + self.sums @ drawn), prior
            )
            if step >= LEFT_OUT:
                yield theta

    def _masses(self, theta: Array, topics: Array) -> Array:
        """Unnormalised probabilities of topics for each word of each document."""
        masses = theta[self.rows]
        masses *= topics.T[self.words]
        return read.normalised_rows(masses, np.ones(len(topics)))
