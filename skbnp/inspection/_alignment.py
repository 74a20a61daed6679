"""Alignment of two fits, and draws of the topics of fits that are compared."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from skbnp.inspection._over_time import _pandas
from skbnp.utils import fitted as read
from skbnp.utils.arrays import rows_of
from skbnp.utils.matching import cosines, matched
from skbnp.utils.typing import Array, Ints
from skbnp.utils.validation import Interval, validate_params

if TYPE_CHECKING:
    from pandas import DataFrame


#: By how much a topic must raise the cosine of a sum to be a part of it.
LEAST_RISE = 0.02
SIMILARITY = Interval(Real, -1, 1, closed="both")


@dataclass(frozen=True, eq=False)
class Alignment:
    """Topics of two fits, a and b, matched; topics are rows of `components_`.

    Parameters
    ----------
    pairs : ndarray of int of shape (n_pairs, 2)
        Topics that are the same: row of a, row of b; the most similar first.
    similarity : ndarray of shape (n_pairs,)
        Cosines of the pairs.
    splits : dict of int to list of int
        Topics of a that are several of b.
    merges : dict of int to list of int
        Topics of b that are several of a.
    unmatched_a, unmatched_b : ndarray of int
        Topics in use that are in no pair, and no part of a split or merge.
    cosines : ndarray of shape (n_components of a, n_components of b)
        Cosines of all topics.
    numbers_a, numbers_b : ndarray of int
        What the rows are called: numbers in `component_ids_`; of nodes, rows, but
        over epochs ids.
    """

    pairs: Ints
    similarity: Array
    splits: dict[int, list[int]]
    merges: dict[int, list[int]]
    unmatched_a: Ints
    unmatched_b: Ints
    cosines: Array
    numbers_a: Ints
    numbers_b: Ints

    def to_frame(self) -> "DataFrame":
        """Return a table of all topics of both fits, by their numbers.

        Returns
        -------
        frame : pandas DataFrame
            "topic_a", "topic_b" (missing where there is none), "similarity" and "kind":
            "match", "split" (a further part of topic_a), "merge" (a further part of
            topic_b), "only in a" or "only in b".

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pd = _pandas()
        rows: list[tuple[int | None, int | None, str]]
        rows = [(i, j, "match") for i, j in self.pairs.tolist()]
        pairs = set(map(tuple, self.pairs.tolist()))
        for i, parts in self.splits.items():
            rows += [(i, j, "split") for j in parts if (i, j) not in pairs]
        for j, parts in self.merges.items():
            rows += [(i, j, "merge") for i in parts if (i, j) not in pairs]
        rows += [(i, None, "only in a") for i in self.unmatched_a.tolist()]
        rows += [(None, j, "only in b") for j in self.unmatched_b.tolist()]
        at_a = [None if i is None else int(self.numbers_a[i]) for i, _, _ in rows]
        at_b = [None if j is None else int(self.numbers_b[j]) for _, j, _ in rows]
        similarity = [
            np.nan if i is None or j is None else self.cosines[i, j] for i, j, _ in rows
        ]
        return pd.DataFrame(
            {
                "topic_a": pd.array(at_a, dtype="Int64"),
                "topic_b": pd.array(at_b, dtype="Int64"),
                "similarity": similarity,
                "kind": [kind for _, _, kind in rows],
            }
        )


@validate_params({"min_similarity": [SIMILARITY]})
def align_components(
    a: BaseEstimator | ArrayLike,
    b: BaseEstimator | ArrayLike,
    *,
    min_similarity: float = 0.5,
) -> Alignment:
    """Match the topics of two fits.

    Parameters
    ----------
    a, b : fitted topic models, Pipelines that end in one, or array-like
        Anything with `components_`, or arrays of shape (n_components, n_features).
        Columns are matched by their names; where either has none, both must have the
        same columns in the same order.
    min_similarity : float, default=0.5
        Least cosine of topics that are the same.

    Returns
    -------
    alignment : Alignment
        `pairs` and their `similarity`, `splits`, `merges`, `unmatched_a` and
        `unmatched_b`; `to_frame` lists them all.

    Raises
    ------
    NotFittedError
        If a model is not fitted.
    ValueError
        If columns cannot be matched.

    See Also
    --------
    consensus_components : Topics that recur in many fits.
    stability : How well fits agree.

    Notes
    -----
    Each topic is in one pair at most, and the sum of cosines of the pairs is the
    largest that there is [1]_; cosines are those of probabilities of terms. Terms that
    one vocabulary lacks have no probability in its topics. A topic of b that is left
    over is a part of the topic of a that it is most like, if their cosine is
    `min_similarity` at least, or if the topic of a is better matched by it and the
    parts found before, added by their weights (a cosine higher by 0.02, and
    `min_similarity` at least); likewise for merges. Topics not in use are left out.

    References
    ----------
    .. [1] Harold W. Kuhn, "The Hungarian Method for the Assignment Problem", Naval
       Research Logistics Quarterly 2, 1955.

    Examples
    --------
    >>> from skbnp.inspection import align_components
    >>> a = [[5, 5, 0, 0, 0, 0], [0, 0, 5, 5, 5, 5]]
    >>> b = [[0, 0, 6, 6, 0, 0], [5, 5, 0, 0, 0, 0], [0, 0, 0, 0, 5, 5]]
    >>> found = align_components(a, b)
    >>> found.pairs.tolist(), found.splits
    ([[0, 1], [1, 0]], {1: [0, 2]})
    """
    columns, n_features = vocabulary([a, b])
    (w_a, phi_a, used_a), (w_b, phi_b, used_b) = (
        _on(model, of, n_features) for model, of in zip((a, b), columns, strict=True)
    )
    similarity = cosines(phi_a, phi_b)
    rows, others = matched(similarity[used_a][:, used_b], min_similarity)
    pairs = np.column_stack([used_a[rows], used_b[others]])
    result = similarity[pairs[:, 0], pairs[:, 1]]
    order = np.argsort(-result, kind="stable")
    pairs, result = pairs[order], result[order]
    left_a = np.setdiff1d(used_a, pairs[:, 0])
    left_b = np.setdiff1d(used_b, pairs[:, 1])
    splits = _parts(
        phi_a, phi_b, w_b, pairs, left_b, similarity, used_a, min_similarity
    )
    merges = _parts(
        phi_b, phi_a, w_a, pairs[:, ::-1], left_a, similarity.T, used_b, min_similarity
    )
    of_splits = [j for parts in splits.values() for j in parts]
    of_merges = [i for parts in merges.values() for i in parts]
    return Alignment(
        pairs=pairs,
        similarity=result,
        splits=splits,
        merges=merges,
        unmatched_a=np.setdiff1d(left_a, [*of_merges, *splits]),
        unmatched_b=np.setdiff1d(left_b, [*of_splits, *merges]),
        cosines=similarity,
        numbers_a=read.topic_numbers(a, len(phi_a)),
        numbers_b=read.topic_numbers(b, len(phi_b)),
    )


def _on(model, columns, n_features):
    """Return weights, topics on a common vocabulary, and rows in use."""
    weights, values = read.topics(model)
    phi = spread(values, columns, n_features)
    return weights, phi, np.flatnonzero(read.in_use(model))


def spread(values: Array, columns: Ints, n_features: int) -> Array:
    """Return the rows of topics on a common vocabulary of `n_features`."""
    result = np.zeros((len(values), n_features))
    result[:, columns] = values
    return result


def _parts(whole, other, weights, pairs, left, similarity, used, least):
    """Topics of `whole` that are several topics of `other`, the matched one first."""
    partner = dict(pairs.tolist())
    near: dict[int, list[int]] = {}
    for j in left.tolist():
        near.setdefault(int(used[similarity[used, j].argmax()]), []).append(j)
    result = {}
    for i, candidates in near.items():
        parts = [partner[i]] if i in partner else []
        total, best = np.zeros(whole.shape[1]), -1.0
        for j in parts:
            total, best = total + weights[j] * other[j], similarity[i, j]
        for j in np.array(candidates)[np.argsort(-similarity[i, candidates])].tolist():
            more = total + weights[j] * other[j]
            value = cosines(whole[[i]], more[None])[0, 0]
            is_part = value >= least and (not parts or value >= best + LEAST_RISE)
            if similarity[i, j] >= least or is_part:
                total, best, parts = more, max(best, value), [*parts, j]
        if len(parts) > 1:
            result[i] = parts
    return dict(sorted(result.items()))


def vocabulary(models: Sequence[Any]) -> tuple[list[Ints], int]:
    """Number the columns of each model in a common vocabulary, by their names."""
    widths = [read.fitted(model, "components_").shape[1] for model in models]
    if not all(map(read.are_named, models)):
        if len(set(widths)) > 1:
            raise ValueError(
                f"Topics have {sorted(set(widths))} columns, and no names to match "
                "these by: fit DataFrames, or Pipelines of texts."
            )
        return [np.arange(width) for width in widths], widths[0]
    number: dict[str, int] = {}
    columns = []
    for model, width in zip(models, widths, strict=True):
        names = read.column_names(model, width)
        columns.append(
            np.array([number.setdefault(name, len(number)) for name in names])
        )
    if len(models) > 1 and len(number) == sum(widths):
        raise ValueError("Topics must have terms in common, got none.")
    return columns, len(number)


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

    def merged(self, onto: Ints) -> "Draw":
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
    estimator: Any, columns: Ints, n_features: int, *, by_sample: bool
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
    sample: Any, columns: Ints | None = None, n_features: int = 0
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
