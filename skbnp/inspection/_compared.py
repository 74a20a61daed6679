"""Alignment of fits and catalogues, and draws of the topics of fits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls
from scipy.special import digamma
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state, resample

from skbnp.inspection._terms import top_terms
from skbnp.kernels._word_topics import draw_tokens
from skbnp.models.hdp.fold_in import mix
from skbnp.utils import fitted as read
from skbnp.utils import validation as valid
from skbnp.utils.arrays import members, row_parts, rows_of
from skbnp.utils.lazy import import_pandas
from skbnp.utils.matching import cosines, matched, unit_rows
from skbnp.utils.random import Purpose, draw_seed_entropy, stream
from skbnp.utils.typing import Array, DataFrame, Flags, Ints
from skbnp.utils.warnings import warn_caller

#: By how much a topic must raise the cosine of a sum to be a part of it.
LEAST_RISE = 0.02


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

    def to_frame(self) -> DataFrame:
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
        pd, pairs = import_pandas(), self.pairs.tolist()
        splits = [[i, j] for i, parts in self.splits.items() for j in parts]
        merges = [[i, j] for j, parts in self.merges.items() for i in parts]
        rows = [(i, j, "match") for i, j in pairs]
        rows += [(i, j, "split") for i, j in splits if [i, j] not in pairs]
        rows += [(i, j, "merge") for i, j in merges if [i, j] not in pairs]
        rows += [(i, -1, "only in a") for i in self.unmatched_a.tolist()]
        rows += [(-1, j, "only in b") for j in self.unmatched_b.tolist()]
        at_a, at_b, kind = zip(*rows, strict=True)
        missing = np.pad(self.cosines, (0, 1), constant_values=np.nan)
        numbers_a = pd.array([*self.numbers_a.tolist(), None], dtype="Int64")
        numbers_b = pd.array([*self.numbers_b.tolist(), None], dtype="Int64")
        return pd.DataFrame(
            {
                "topic_a": numbers_a[list(at_a)],
                "topic_b": numbers_b[list(at_b)],
                "similarity": missing[at_a, at_b],
                "kind": kind,
            }
        )


@valid.validated()
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
    (w_a, phi_a), (w_b, phi_b) = map(read.topics, (a, b))
    phi_a = spread(phi_a, columns[0], n_features)
    phi_b = spread(phi_b, columns[1], n_features)
    used_a, used_b = (np.flatnonzero(read.in_use(model)) for model in (a, b))
    similarity = cosines(phi_a, phi_b)
    at_a, at_b = matched(similarity[used_a][:, used_b], min_similarity)
    pairs = np.column_stack([used_a[at_a], used_b[at_b]])
    pairs = pairs[np.argsort(-similarity[*pairs.T], kind="stable")]
    left_a = np.setdiff1d(used_a, pairs[:, 0])
    left_b = np.setdiff1d(used_b, pairs[:, 1])
    of_a, of_b = (phi_a, w_a, used_a), (phi_b, w_b, used_b)
    splits = _parts(of_a, of_b, pairs, left_b, min_similarity)
    merges = _parts(of_b, of_a, pairs[:, ::-1], left_a, min_similarity)
    return Alignment(
        pairs=pairs,
        similarity=similarity[*pairs.T],
        splits=splits,
        merges=merges,
        unmatched_a=np.setdiff1d(left_a, sum(merges.values(), [*splits])),
        unmatched_b=np.setdiff1d(left_b, sum(splits.values(), [*merges])),
        cosines=similarity,
        numbers_a=read.topic_numbers(a, len(phi_a)),
        numbers_b=read.topic_numbers(b, len(phi_b)),
    )


def spread(values: Array, columns: Ints, n_features: int) -> Array:
    """Return the rows of topics on a common vocabulary of `n_features`."""
    result = np.zeros((len(values), n_features))
    result[:, columns] = values
    return result


def _parts(of_whole, of_parts, pairs, left, least) -> dict[int, list[int]]:
    """Topics of one fit that are several topics of the other, the matched one first.

    Of each fit its topics, their weights, and those in use; `left` are unmatched ones
    of the other.
    """
    (whole, _, used), (topics, weights, _) = of_whole, of_parts
    similarity, partner = cosines(whole, topics), dict(pairs.tolist())
    near: dict[int, list[int]] = {}
    for j in left.tolist():
        near.setdefault(int(used[similarity[used, j].argmax()]), []).append(j)
    result = {}
    for i, candidates in sorted(near.items()):
        parts = [partner[i]] if i in partner else []
        best = similarity[i, parts].max(initial=-1.0)
        for j in sorted(candidates, key=lambda j: -similarity[i, j]):
            more = [*parts, j]
            value = cosines(whole[[i]], weights[None, more] @ topics[more])[0, 0]
            is_part = value >= least and (not parts or value >= best + LEAST_RISE)
            if similarity[i, j] >= least or is_part:
                best, parts = max(best, value), more
        if len(parts) > 1:
            result[i] = parts
    return result


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


#: Steps of expectation maximisation from a fit, and as many of a bootstrap sample.
STEPS = 20


@dataclass(frozen=True, eq=False)
class Matches:
    """Topics of a fit beside those of a catalogue.

    Parameters
    ----------
    topics : ndarray of int of shape (n_components,)
        Numbers of the topics in use, the heaviest first.
    weights : ndarray of shape (n_components,)
        Their weights.
    references : list of str
        Names of the topics of the catalogue.
    kind : list of str of length n_components
        "match", "combination" of two references, or "new".
    parts : list of list of int
        Places of the references of each topic: one, two, or, of a new topic, the most
        similar one.
    shares : list of list of float
        Shares of these references in the topic, which sum to one.
    similarity : ndarray of shape (n_components,)
        Cosine to the reference, or to the combination.
    low : ndarray of shape (n_components,)
        Limit above which it is in bootstrap samples, nan without documents.
    recurrence : ndarray of shape (n_components,)
        Share of the bootstrap samples with the same references, nan without documents.
    cosines : ndarray of shape (n_components, n_references)
        Cosines of all topics and references.
    """

    topics: Ints
    weights: Array
    references: list[str]
    kind: list[str]
    parts: list[list[int]]
    shares: list[list[float]]
    similarity: Array
    low: Array
    recurrence: Array
    cosines: Array

    def __repr__(self) -> str:
        counts = [
            f"{self.kind.count(of)} {of}" for of in ("match", "combination", "new")
        ]
        return f"Matches({', '.join(counts)})"

    def to_frame(self) -> DataFrame:
        """Return a table of the topics.

        Returns
        -------
        frame : pandas DataFrame
            "topic", "weight", "kind", "reference" (of a combination both, with their
            shares; of a new topic the most similar one), "similarity", "low",
            "recurrence".

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        named = []
        for parts, shares in zip(self.parts, self.shares, strict=True):
            names = [self.references[place] for place in parts]
            pairs = zip(shares, names, strict=True)
            text = " + ".join(f"{100 * share:.0f} % {name}" for share, name in pairs)
            named.append(text if len(names) > 1 else names[0])
        return import_pandas().DataFrame(
            {
                "topic": self.topics,
                "weight": self.weights,
                "kind": self.kind,
                "reference": named,
                "similarity": self.similarity,
                "low": self.low,
                "recurrence": self.recurrence,
            }
        )


@valid.validated()
def match_components(
    estimator: BaseEstimator | ArrayLike,
    reference: Any,
    X: Any = None,
    *,
    min_similarity: float = 0.9,
    confidence: float = 0.9,
    n_draws: int = 100,
    random_state: Any = 0,
) -> Matches:
    """Match topics with those of a catalogue, such as known mutational signatures.

    Parameters
    ----------
    estimator : fitted topic model, Pipeline that ends in one, or array-like of shape \
            (n_components, n_features)
        Anything with `components_`, also a :class:`Consensus`, or topics.
    reference : DataFrame, fitted topic model, or array-like of shape (n_references, \
            n_features)
        The catalogue. A frame may have topics as rows or as columns, as catalogues of
        signatures do, if the features of the model have names; otherwise they are
        rows. Features that one of both lacks have probability zero there.
    X : array-like or sparse of shape (n_samples, n_features), or iterable of str, \
            default=None
        Documents of the fit, from which the bootstrap draws; None has no limits.
    min_similarity : float, default=0.9
        Least cosine of a match or combination. 0.9 is usual for mutational signatures,
        0.5 finds the topics of another fit to texts.
    confidence : float, default=0.9
        Share of the bootstrap samples whose cosine is above the limit.
    n_draws : int, default=100
        Bootstrap samples.
    random_state : int, RandomState instance or None, default=0
        Names the samples.

    Returns
    -------
    matches : Matches
        Of each topic in use what it is: a match, a combination, or new. Its `to_frame`
        lists them.

    Raises
    ------
    NotFittedError
        If a model is not fitted.
    TypeError
        If topics have signs, or `X` is given for an array.
    ValueError
        If there are no features in common, or names have to be given.

    See Also
    --------
    align_components : Two fits, with splits and merges.

    Notes
    -----
    Each reference matches one topic at most, and the sum of cosines is the largest that
    there is. A topic without a match is a combination if two references that explain it
    by non-negative least squares have a cosine of `min_similarity` with it, and one by
    0.02 higher than either alone. A single fit cannot tell whether such a topic is a
    process of its own, or two that always come together.

    Bootstrap samples weight documents by draws from an exponential distribution; topics
    are estimated again by expectation maximisation, 20 steps from those of the fit, so
    that limits are of topics that the fit has, and not of their number. A limit is the
    angle of the fit times the ratio of angles in a sample and without weights.

    Examples
    --------
    >>> from skbnp.inspection import match_components
    >>> topics = [[5, 5, 0, 0, 0], [0, 0, 6, 6, 0], [3, 3, 2, 2, 0], [0, 0, 0, 1, 9]]
    >>> catalogue = [[1, 1, 0, 0, 0], [0, 0, 1, 1, 0]]
    >>> match_components(topics, catalogue)
    Matches(2 match, 1 combination, 1 new)
    """
    references, names = _catalogue(estimator, reference)
    _, values = read.topics(estimator)
    if values.min() < 0.0 or references.min() < 0.0:
        raise TypeError("topics must not be negative, as directions with signs are.")
    values = read.normalised_rows(np.asarray(values, np.float64), 0.0)
    weights = read.token_shares(estimator)
    order = np.argsort(-weights, kind="stable")
    used = order[read.in_use(estimator)[order]]
    explained = _explained(values[used], references, min_similarity)
    low, recurrence = np.full((2, len(used)), np.nan)
    if X is not None:
        if read.is_array(estimator):
            raise TypeError("X must be None for topics that are given as an array.")
        model = read.fitted_model(estimator)
        counts = valid.check_counts(
            read.model_rows(estimator, X), whom="match_components"
        )
        eta = float(np.median(getattr(model, "topic_word_prior_", 0.0)))
        rng = stream(draw_seed_entropy(random_state), Purpose.INTERVALS, 0)
        angles, same = np.zeros((2, n_draws + 1, len(used)))
        for draw, topics in enumerate(_resampled(values, counts, eta, n_draws, rng)):
            drawn = _explained(topics[used], references, min_similarity)
            of = cosines(topics[used], references)
            for k, (kind, parts, *_) in enumerate(explained):
                has_parts = kind == "new" or parts == drawn[k][1]
                same[draw, k] = has_parts and kind == drawn[k][0]
                angles[draw, k] = np.arccos(_combined(of[k], references, parts)[0])
        ratio = np.quantile(angles[1:], confidence, axis=0)
        ratio /= np.maximum(angles[0], 1e-300)
        fitted = np.arccos(np.minimum([of[3] for of in explained], 1.0))
        low = np.cos(np.minimum(fitted * ratio, np.pi))
        recurrence = same[1:].mean(axis=0)
    return Matches(
        topics=read.topic_numbers(estimator, len(values))[used],
        weights=weights[used],
        references=names,
        kind=[of[0] for of in explained],
        parts=[list(of[1]) for of in explained],
        shares=[of[2] for of in explained],
        similarity=np.array([of[3] for of in explained]),
        low=low,
        recurrence=recurrence,
        cosines=cosines(values[used], references),
    )


def _catalogue(estimator, reference) -> tuple[Array, list[str]]:
    """Return the topics of a catalogue by the columns of a model, and their names."""
    n_features = read.topics(estimator)[1].shape[1]
    if not hasattr(reference, "columns"):
        values = read.topics(reference)[1]
        if values.shape[1] != n_features:
            raise ValueError(
                f"reference must have {n_features} features, got {values.shape[1]}: "
                "pass a DataFrame, and a model whose features have names."
            )
        numbers = read.topic_numbers(reference, len(values))
        return read.normalised_rows(values, 0.0), [str(of) for of in numbers]
    frame = reference
    if read.are_named(estimator):
        terms = [str(of) for of in read.column_names(estimator, n_features)]
        axes = frame.index, frame.columns
        n_rows, n_columns = (len({*map(str, names)} & {*terms}) for names in axes)
        if not n_rows and not n_columns:
            raise ValueError(
                f"reference must name features of the model, such as {terms[:3]}, in "
                f"its rows or columns, got {[*frame.index[:3], *frame.columns[:3]]}."
            )
        frame = frame.T if n_rows > n_columns else frame
        named = frame.set_axis([str(of) for of in frame.columns], axis=1)
        frame = named.reindex(columns=terms, fill_value=0.0)
    elif frame.shape[1] != n_features:
        raise ValueError(
            f"reference must have {n_features} columns, got {frame.shape[1]}. If these "
            "are topics, fit a DataFrame, whose columns name the features."
        )
    values = np.asarray(frame, dtype=np.float64)
    return read.normalised_rows(values, 0.0), [str(of) for of in frame.index]


def _explained(
    topics: Array, references: Array, least: float
) -> list[tuple[str, tuple[int, ...], list[float], float]]:
    """Return kind, references, their shares and the cosine of each topic."""
    similarity = cosines(topics, references)
    partner = dict(np.column_stack(matched(similarity, least)).tolist())
    result: list[tuple[str, tuple[int, ...], list[float], float]] = []
    for k, of in enumerate(similarity):
        best = partner.get(k, int(of.argmax()))
        result.append(("match" if k in partner else "new", (best,), [1.0], of[best]))
        pair = _best_pair(of, references)
        if k not in partner and len(pair) > 1:
            value, shares = _combined(of, references, pair)
            if value >= max(least, of[best] + LEAST_RISE):
                result[k] = "combination", pair, shares, value
    return result


def _best_pair(similar, references) -> tuple[int, ...]:
    """Find the two references that explain most of a topic, with positive weights."""
    between = cosines(references, references)
    left = similar[:, None] - between * similar  # of the first weight, times 1 - g^2
    is_pair = (left > 0.0) & (left.T > 0.0) & (between < 1.0 - 1e-9)
    explained = similar[:, None] * left + similar * left.T
    explained /= np.where(is_pair, 1.0 - between**2, 1.0)
    explained[~is_pair] = -1.0
    place = np.unravel_index(explained.argmax(), explained.shape)
    if explained[place] < 0.0:
        return (int(similar.argmax()),)
    return tuple(sorted(int(of) for of in place))


def _combined(similar, references, parts) -> tuple[float, list[float]]:
    """Cosine of a topic to the best mixture of some references, and their shares."""
    some = unit_rows(references[list(parts)])
    # In a basis of these, cosines give the coordinates of the topic.
    root = np.linalg.cholesky(some @ some.T + 1e-12 * np.eye(len(some)))
    weights, _ = nnls(root.T, np.linalg.solve(root, similar[list(parts)]))
    mixture = weights @ some
    value = float(weights @ similar[list(parts)])
    value = min(value / max(float(np.linalg.norm(mixture)), 1e-300), 1.0)
    shares = weights * some.sum(axis=1)
    return value, (shares / max(shares.sum(), 1e-300)).tolist()


def _resampled(topics, counts, eta, n_draws, rng) -> Iterator[Array]:
    """Yield topics of all documents and of bootstrap samples, by steps from a fit."""
    n_docs, k = counts.shape[0], len(topics)
    theta = np.full((n_docs, k), 1.0 / k)

    def step(topics, theta, weights):
        rates = rates_of(counts, theta, topics)
        words = eta + topics * (rates.T @ (weights[:, None] * theta)).T
        theta = read.normalised_rows(theta * (rates @ topics.T))
        return read.normalised_rows(words, 0.0), theta

    for _ in range(STEPS):
        _, theta = step(topics, theta, np.ones(n_docs))
    for draw in range(n_draws + 1):
        weights = rng.standard_exponential(n_docs) if draw else np.ones(n_docs)
        drawn, own = topics, theta
        for _ in range(STEPS):
            drawn, own = step(drawn, own, weights)
        yield drawn


def rates_of(counts: sp.csr_array, theta: Array, topics: Array) -> sp.csr_array:
    """Divide counts by what shares of topics in documents expect of each word.

    Times theta_jk phi_kw these are the expected tokens of topic k.
    """
    rates, norm = counts.copy(), mix(theta, np.ascontiguousarray(topics.T), counts)
    rates.data = counts.data / np.maximum(norm, 1e-300)
    return rates


#: Updates that find where draws of documents start, and draws left out.
UPDATES, LEFT_OUT = 20, 3
#: Draws of topics of a fit, sweeps that are left out, and sweeps from one to the next.
SAMPLES, BURN_IN, THIN = 20, 50, 3


@dataclass(frozen=True, slots=True)
class Draws:
    """Topics of fits, or of kept samples of chains, on one vocabulary, draw by draw."""

    values: Array  # (n, n_features), what draws of topics are made of
    weights: Array  # (n,)
    prior: Array  # (n,) Dirichlet of the topics of a document; nan where there is none
    is_random: Flags  # (n,) values are Dirichlet parameters
    draw: Ints  # (n,) of each topic, not decreasing
    owners: Sequence[int] = ()  # (n_draws,) numbers of their models
    columns: Sequence[Ints] = ()  # (n_models,) places of the columns of each

    def rows(self) -> list[Ints]:
        """Rows of the topics of each draw."""
        begins = np.searchsorted(self.draw, np.arange(1, self.draw[-1] + 1))
        return np.split(np.arange(len(self.draw)), begins)

    def distr(self) -> Array:
        """Return expected topics, rows normalised, or directions as they are."""
        expected = read.normalised_rows(self.values, 0.0)
        return np.where(self.is_random[:, None], expected, self.values)

    def sample(self, rows: Ints, rng: np.random.Generator) -> Array:
        """Draw the topics in some rows from their posterior, rows normalised."""
        result, random = self.values[rows], self.is_random[rows]
        drawn = rng.standard_gamma(result[random])
        result[random] = read.normalised_rows(drawn, 0.0)
        return result

    def merged(self, onto: Ints) -> "Draws":
        """Add up topics of one draw: topic k becomes topic ``onto[k]``."""
        _, first = np.unique(onto, return_index=True)
        sums, is_random = members(onto, len(first)), self.is_random[first]
        scale = np.where(self.is_random, 1.0, self.weights)
        values = sums @ (self.values * scale[:, None])
        values[~is_random] = unit_rows(values[~is_random])
        parts = sums @ self.weights, sums @ self.prior, is_random, self.draw[first]
        return Draws(values, *parts, self.owners, self.columns)

    def without_copies(self, least: float) -> "Draws":
        """Add up the topics of each draw that are copies."""
        distr, onto, n = self.distr(), np.zeros(len(self.draw), dtype=np.intp), 0
        for rows in self.rows():
            onto[rows] = n + duplicates(distr[rows], self.weights[rows], least)
            n = onto[rows].max() + 1
        return self.merged(onto)


def draws_of(models: Sequence[Any], *, by_sample: bool) -> Draws:
    """Return the topics in use of fits, or, `by_sample`, of kept samples of words."""
    (columns, n_features), parts, owners = vocabulary(models), [], list[int]()
    for owner, (estimator, terms) in enumerate(zip(models, columns, strict=True)):
        samples = getattr(read.fitted_model(estimator), "samples_", None)
        given = [_topics_of_fit(estimator)]
        if by_sample and samples and hasattr(samples[0], "topic_word_counts"):
            given = [(*topics_of_sample(sample), True) for sample in samples]
        for values, weights, prior, is_random in given:
            flags = np.full(len(values), is_random)
            number = np.full(len(values), len(owners))
            values = spread(values, terms, n_features)
            parts.append((values, weights, prior, flags, number))
            owners.append(owner)
    values, weights, prior, flags, number = (
        np.concatenate(arrays) for arrays in zip(*parts, strict=True)
    )
    return Draws(values, weights, prior, flags, number, owners, columns)


def _topics_of_fit(estimator: Any) -> tuple[Array, Array, Array, bool]:
    """Return topics in use, their weights and prior, and whether they are random."""
    model, used = read.fitted_model(estimator), read.in_use(estimator)
    components = read.fitted(estimator, "components_")
    weights = read.weights_of(estimator, components)[used]
    is_random = not read.are_directions(model)
    if is_random and np.allclose(components.sum(axis=1), 1.0):
        is_random = False  # probabilities, of an unknown number of tokens
    prior = np.full(used.sum(), float(getattr(model, "doc_topic_prior_", np.nan)))
    if hasattr(model, "doc_concentration_"):
        prior = read.concentration_of(model) * weights
    return components[used], weights, prior, is_random


def topics_of_sample(sample: Any) -> tuple[Array, Array, Array]:
    """Return the topics of a sample, without empty ones: values, weights, prior.

    Values are counts plus prior.
    """
    counts = sample.topic_word_counts
    tokens = np.asarray(counts.sum(axis=1)).ravel()
    used = np.flatnonzero(tokens > 0)
    prior = np.asarray(sample.topic_word_prior, dtype=np.float64)
    if prior.ndim:  # of each level of a tree
        prior = prior[sample.depth[used]][:, None]
    values = counts[used].toarray() + prior
    of_docs = np.full(len(used), np.nan)
    if hasattr(sample, "doc_prior"):
        of_docs = sample.doc_prior[used]
    return values, tokens[used] / max(tokens.sum(), 1), of_docs


class TopicCounts(NamedTuple):
    """What topics have without some documents."""

    eta: float  # symmetric Dirichlet prior
    counts: Array  # (n_topics, n_features) of other documents, and further priors
    is_fixed: Flags  # (n_topics,) topics that are given

    @classmethod
    def of(cls, topics: Array, prior: float | Array, words: sp.csr_array) -> Self:
        """Return those of a fit, (n_topics, n_features) counts plus `prior`.

        `words` are of documents of the fit, whose topics have words of other ones in
        the same shares.
        """
        counts, eta = np.maximum(topics - prior, 0.0), float(np.median(prior))
        unseen = max(1.0 - words.sum() / max(counts.sum(), 1e-300), 0.0)
        more = np.maximum(prior - eta, 0.0)
        return cls(eta, more + unseen * counts, np.zeros(len(topics), dtype=bool))


def _growth(prior: Array, counts: Array) -> Array:
    """psi(prior + n) - psi(prior), of positive counts."""
    result, used = np.zeros(counts.shape), counts > 0.0
    least = prior[used]
    result[used] = digamma(least + counts[used]) - digamma(least)
    return result


def _concentration(prior: Array, counts: Array) -> float:
    """Learn the sum of Dirichlet parameters, (n, k) rows of one sum, from counts.

    A step to the mode under Gamma(1, 1), as of `HDP`.
    """
    rise = (prior * _growth(prior, counts)).sum()
    growth = _growth(prior.sum(axis=1), counts.sum(axis=1)).sum()
    return float((1.0 + rise) / (1.0 + growth))


class DocumentDraws:
    """Gibbs draws of the topics of tokens in documents.

    Tokens of a word choose topics by theta_jk phi_kw, and theta_j is Dirichlet given
    these. Counts, (n_docs, n_features), are rounded.
    """

    def __init__(self, counts: sp.csr_array):
        """Store the counts of documents."""
        self.words = counts.indices.astype(np.intp)
        self.limits = counts.indptr.astype(np.int64)
        self.n_tokens = np.rint(counts.data).astype(np.int64)
        self.rows = rows_of(counts.indptr)
        self.sums = members(self.rows, counts.shape[0])

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
            tokens, _ = self._drawn(theta, topics, rng)
            theta = read.normalised_rows(rng.standard_gamma(prior + tokens), prior)
            if step >= LEFT_OUT:
                yield theta

    def with_topics(
        self,
        topics: Array,
        given: TopicCounts,
        prior: Array,
        parts: Ints,
        n_draws: int,
        rng: np.random.Generator,
    ) -> Iterator[tuple[Array, Array, Array]]:
        """Yield draws of topics, of their tokens, and of the priors of `parts`.

        Topics start from `topics`, (n_topics, n_features). Documents of one of the
        parts, (n_docs,), share a mean m_g of their theta. With S and N the tokens of
        topics by words and by documents, R the counts of other documents, t(x, n) =
        x [psi(x + n) - psi(x)], and b the shares of `prior`, each sweep draws

            phi_k ~ Dirichlet(eta + R_k + S_k),
            m_g ~ Dirichlet(b + sum_(j in g) t(alpha m_g, N_j)),
            theta_j ~ Dirichlet(alpha m_g + N_j),

        where topics are not fixed, and learns the sums alpha and V eta of the last
        and the first. Expected tables t stand in the place of drawn ones.
        """
        (eta, other, is_fixed), fixed = given, topics
        alpha, base, n_words = prior.sum(), prior / prior.sum(), topics.shape[1]
        of_parts = members(parts, parts.max() + 1)
        means = np.tile(base, (parts.max() + 1, 1))
        theta = np.tile(base, (len(parts), 1))
        for step in range(BURN_IN + THIN * n_draws):
            tokens, words = self._drawn(theta, topics, rng)
            if step >= LEFT_OUT:
                words = (words + other)[~is_fixed]
                eta = _concentration(np.full(words.shape, eta), words) / n_words
                topics = fixed.copy()
                drawn = rng.standard_gamma(eta + words)
                topics[~is_fixed] = read.normalised_rows(drawn)
            own = np.maximum(alpha * means[parts], valid.SMALLEST_PRIOR)
            tables, alpha = own * _growth(own, tokens), _concentration(own, tokens)
            means = read.normalised_rows(
                rng.standard_gamma(base + of_parts @ tables), base
            )
            own = np.maximum(alpha * means[parts], valid.SMALLEST_PRIOR)
            theta = read.normalised_rows(rng.standard_gamma(own + tokens), base)
            if step >= BURN_IN and (step - BURN_IN) % THIN == THIN - 1:
                yield topics, tokens, alpha * means

    def _masses(self, theta: Array, topics: Array) -> Array:
        """Probabilities of topics for each word of each document."""
        masses = theta[self.rows]
        masses *= topics.T[self.words]
        return read.normalised_rows(masses, np.ones(len(topics)))

    def _drawn(
        self, theta: Array, topics: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Draw tokens of topics in documents, and of words, (n_topics, n_features)."""
        of_docs, of_words = np.zeros(theta.shape), np.zeros(topics.T.shape)
        given = self.limits, self.words, self.n_tokens, of_docs, of_words
        draw_tokens(np.ascontiguousarray(topics.T), theta, *given, rng.bit_generator)
        return of_docs, of_words.T


#: Share of tokens in topics that do not recur above which intervals are not trusted.
MOST_UNMATCHED = 0.1
#: Rounds of matching, at most; documents of a block.
ROUNDS, DOCS = 10, 512


class Consensus(read.GivenTopics):
    """Topics on which fits agree, which functions of `inspection` read as a model's.

    Parameters
    ----------
    components : ndarray of shape (n_components, n_features)
        Mean topics.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Mean topics, rows sum to one, the heaviest first. Of directions, unit vectors.
    topic_weights_ : ndarray of shape (n_components,)
        Mean weights where topics are.
    recurrence_ : ndarray of shape (n_components,)
        Share of the draws, fits or samples of chains, that have the topic.
    similarity_ : ndarray of shape (n_components,)
        Mean cosine of the topics of the draws to the mean topic.
    components_interval_ : ndarray of shape (2, n_components, n_features)
        Lower and upper ends of the intervals of probabilities.
    doc_topic_distr_ : ndarray of shape (n_samples, n_components)
        Mean shares of topics in documents, where documents were given. What a row lacks
        to one belongs to topics that do not recur.
    doc_topic_interval_ : ndarray of shape (2, n_samples, n_components)
        Lower and upper ends of the intervals of shares.
    n_draws_ : int
        Fits, or samples of chains.
    n_components_ : int
        Topics.
    feature_names_in_ : ndarray of str objects of shape (n_features,)
        Names of terms, where models have them.
    """

    topic_weights_: Array
    recurrence_: Array
    similarity_: Array
    components_interval_: Array
    doc_topic_distr_: Array
    doc_topic_interval_: Array
    n_draws_: int
    n_components_: int
    feature_names_in_: NDArray[np.object_]

    def __init__(self, components: Array):  # may have signs
        self.components_ = components
        self.n_components_ = len(components)

    def __repr__(self) -> str:
        n_draws = getattr(self, "n_draws_", None)
        return f"Consensus(n_components={self.n_components_}, n_draws={n_draws})"

    def to_frame(self, n_terms: int = 10) -> DataFrame:
        """Return a table of the topics.

        Parameters
        ----------
        n_terms : int, default=10
            Terms of each topic.

        Returns
        -------
        frame : pandas DataFrame
            "recurrence", "similarity", "weight" and "terms" of each topic.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        return import_pandas().DataFrame(
            {
                "recurrence": self.recurrence_,
                "similarity": self.similarity_,
                "weight": self.topic_weights_,
                "terms": top_terms(self, n=n_terms),
            }
        )


@valid.validated()
def consensus_components(
    estimators: BaseEstimator | Sequence[BaseEstimator],
    X: Any = None,
    *,
    min_recurrence: float = 0.8,
    min_similarity: float = 0.7,
    merge_similarity: float = 0.9,
    confidence: float = 0.9,
    n_draws: int = 200,
    random_state: Any = 0,
) -> Consensus:
    """Find the topics on which fits, or samples of chains, agree.

    One sample of a chain has topics of a few tokens that come and go, and two for
    one; which, differs from sample to sample. What most have is left.

    Parameters
    ----------
    estimators : fitted sampler, or list of fitted topic models or Pipelines
        Of samplers of words, all `samples_` of all chains are used; of other models
        each is one draw. Columns are matched by their names, as by
        :func:`align_components`.
    X : array-like or sparse of shape (n_samples, n_features), or iterable of str, \
            default=None
        Documents whose shares are asked for; raw ones for text Pipelines.
    min_recurrence : float, default=0.8
        Topics that a smaller share of the draws has are left out.
    min_similarity : float, default=0.7
        Least cosine of a topic of a draw to the mean topic.
    merge_similarity : float, default=0.9
        Cosine from which two topics of one draw are one.
    confidence : float, default=0.9
        Probability of the intervals.
    n_draws : int, default=200
        Draws by which intervals are estimated, at least; as many from each fit or
        sample.
    random_state : int, RandomState instance or None, default=0
        Draws topics, and shares of documents.

    Returns
    -------
    consensus : Consensus
        Topics with how often they recur, and intervals. :func:`top_terms`,
        :func:`topics_to_frame` and displays read it as they read a model.

    Raises
    ------
    NotFittedError
        If a model is not fitted.
    TypeError
        If `X` is given and a model has no Dirichlet prior of shares, as trees have not.
    ValueError
        If there are fewer than two draws, or columns cannot be matched.

    Warns
    -----
    UserWarning
        If no topic recurs, or if those that do not have more than a tenth of the shares
        of documents: intervals are then too narrow.

    See Also
    --------
    stability : Fits for this, from several seeds and resampled documents.
    align_components : Two fits, topic by topic.

    Notes
    -----
    In each draw, topics whose cosine is `merge_similarity` or more are added up, the
    most similar first. Draws are then matched with the mean topics, each topic with one
    at most, for the largest sum of cosines; what is left over begins a further mean;
    means are computed again, until matches stay. This follows the extraction of
    components of [1]_ with optimal matching in the place of clustering.

    Intervals are equal-tailed, over draws that have the topic. Topics are drawn from
    Dirichlet distributions, whose parameters are counts plus prior of a sample, or
    `components_` of other models. Shares of a document are drawn by Gibbs sampling,
    given the topics and the prior of a sample; of a fit with its topics, the topic
    prior and the concentration of documents. Given probabilities and directions have
    no such distribution: intervals are those over fits. Variational fits with similar
    starts are less spread than a posterior; samples of documents, as :func:`stability`
    draws them, make up for it. Chains must have converged: intervals of chains that
    have a topic in parts are too narrow. In one chain topics that end slowly seem to
    recur: use several.

    Of corpora with their stop words, topics may have a cosine of `merge_similarity` by
    those alone: leave them out, or raise it.

    References
    ----------
    .. [1] Nicola D. Roberts, "Patterns of somatic genome rearrangement in human cancer"
       (the R package hdp), University of Cambridge, 2018.

    Examples
    --------
    >>> from skbnp import GibbsHDP
    >>> from skbnp.datasets import make_bars
    >>> from skbnp.inspection import consensus_components
    >>> X = make_bars(200, random_state=0).data
    >>> hdp = GibbsHDP(max_iter=60, thin=5, n_chains=2, random_state=0).fit(X)
    >>> consensus = consensus_components(hdp)
    >>> consensus.n_components_, consensus.n_draws_
    (20, 12)
    """
    models = list(estimators) if isinstance(estimators, (list, tuple)) else [estimators]
    if not models:
        raise ValueError("estimators must be a sampler or a list of models, got [].")
    draws, X = draws_of(models, by_sample=True), read.documents_of(X)
    if (n := len(draws.owners)) < 2:
        name = type(read.fitted_model(models[0])).__name__
        raise ValueError(
            f"estimators must have two draws or more, {name} has {n}: pass a list of "
            "fits, or a sampler with several kept samples (thin, n_chains)."
        )
    levels = min_recurrence, min_similarity, merge_similarity
    return consensus_of(draws, models, X, levels, confidence, n_draws, random_state)


def consensus_of(
    draws, models, X, levels, confidence=0.9, n_draws=200, random_state=None
) -> Consensus:
    """Find the consensus of draws of some models, see :func:`consensus_components`."""
    min_recurrence, min_similarity, merge_similarity = levels
    n, each = len(draws.owners), -(-n_draws // len(draws.owners))
    draws = draws.without_copies(merge_similarity)
    draws, topic = matched_draws(draws, min_similarity, merge_similarity)
    recurrence = np.bincount(topic) / n
    kept = np.flatnonzero(recurrence >= min_recurrence)
    if len(kept) == 0:
        warn_caller(
            f"No topic recurs in {100 * min_recurrence:g} % of {n} draws: "
            "they do not agree. Use more documents, or a lower min_similarity or "
            "min_recurrence."
        )
    weights = np.array([draws.weights[topic == k].mean() for k in kept])
    kept = kept[np.argsort(-weights, kind="stable")]
    number = np.full(len(recurrence), -1)
    number[kept] = np.arange(len(kept))
    topic = number[topic]
    seed_entropy = draw_seed_entropy(random_state)
    rng = stream(seed_entropy, Purpose.INTERVALS, 0)
    result = _summarised(draws, topic, each, confidence, rng)
    result.topic_weights_, result.recurrence_ = -np.sort(-weights), recurrence[kept]
    result.n_draws_ = n
    if all(map(read.are_named, models)):
        names = np.empty(draws.values.shape[1], dtype=object)
        for model, terms in zip(models, draws.columns, strict=True):
            names[terms] = read.column_names(model, len(terms))
        result.feature_names_in_ = names
    if X is not None:
        _add_documents(result, X, models, draws, topic, each, confidence, seed_entropy)
        unmatched = 1.0 - result.doc_topic_distr_.sum(axis=1).mean()
        if result.n_components_ and unmatched > MOST_UNMATCHED:
            warn_caller(
                f"Topics that do not recur have {100 * unmatched:.0f} % of the shares "
                "of documents: intervals of those that do may not hold the true "
                "shares. Use longer chains (max_iter) or more documents; a lower "
                "min_recurrence or min_similarity keeps more topics."
            )
    return result


def duplicates(distr: Array, weights: Array, least: float) -> Ints:
    """Number topics, copies with the same number."""
    values = distr * weights[:, None]
    groups = [[k] for k in range(len(values))]
    similarity = cosines(values, values)
    np.fill_diagonal(similarity, -2.0)
    while len(groups) > 1 and similarity.max() >= least:
        i, j = sorted(np.unravel_index(similarity.argmax(), similarity.shape))
        groups[i] += groups.pop(j)
        values[i] += values[j]
        values = np.delete(values, j, axis=0)
        similarity = np.delete(np.delete(similarity, j, axis=0), j, axis=1)
        similarity[i] = similarity[:, i] = cosines(values[[i]], values)[0]
        similarity[i, i] = -2.0
    onto = np.empty(len(weights), dtype=np.intp)
    for number, group in enumerate(groups):
        onto[group] = number
    return onto


def matched_draws(
    draws: Draws, min_similarity: float, merge_similarity: float
) -> tuple[Draws, Ints]:
    """Match the topics of draws; topics whose means are one are added up.

    Returns the draws, and the number that each topic shares with its matches.
    """
    while True:
        distr = draws.distr()
        topic = match_all(distr, draws.rows(), min_similarity)
        weights = members(topic, topic.max() + 1) @ draws.weights
        onto = duplicates(_means(distr, topic), weights, merge_similarity)
        topic = onto[topic]
        places = draws.draw * len(onto) + topic
        _, joined = np.unique(places, return_inverse=True)
        if joined.max() + 1 == len(topic):  # no draw has two that are one topic
            return draws, topic
        draws = draws.merged(joined)


def _means(distr: Array, topic: Ints) -> Array:
    return np.array([distr[topic == k].mean(axis=0) for k in range(topic.max() + 1)])


def match_all(distr: Array, draws: Sequence[Ints], least: float) -> Ints:
    """Number topics of all draws, given the rows of each; matched ones share one."""
    means, topic = distr[draws[0]], np.full(len(distr), -1)
    for _ in range(ROUNDS):
        before = topic.copy()
        for rows in draws:
            matches, of_means = matched(cosines(distr[rows], means), least)
            new = np.setdiff1d(np.arange(len(rows)), matches)
            topic[rows[matches]] = of_means
            topic[rows[new]] = len(means) + np.arange(len(new))
            means = np.vstack([means, distr[rows[new]]])
        _, topic = np.unique(topic, return_inverse=True)
        if np.array_equal(topic, before):
            break
        means = _means(distr, topic)
    return topic


def _ends(values, confidence):
    """Ends of an equal-tailed interval of draws, with unbiased coverage."""
    tail = (1.0 - confidence) / 2.0
    return np.quantile(values, [tail, 1.0 - tail], axis=0, method="weibull")


def _summarised(draws: Draws, topic: Ints, each: int, confidence, rng) -> Consensus:
    """Return means and intervals of topics over draws."""
    means = np.zeros((topic.max() + 1, draws.values.shape[1]))
    ends, similarity = np.zeros((2, *means.shape)), np.zeros(len(means))
    all_distr, has_signs = draws.distr(), draws.values.min() < 0.0
    for k in range(len(means)):
        rows = np.flatnonzero(topic == k)
        distr = all_distr[rows]
        means[k] = distr.mean(axis=0)
        if has_signs and not draws.is_random[rows[0]]:
            means[k] = unit_rows(means[[k]])[0]
        similarity[k] = cosines(distr, means[[k]]).mean()
        samples = draws.sample(np.repeat(rows, each), rng)
        ends[:, k] = _ends(samples, confidence)
    result = Consensus(means)
    result.similarity_, result.components_interval_ = similarity, ends
    return result


def _add_documents(
    result, X, models, draws, topic, each, confidence, seed_entropy
) -> None:
    """Add shares of documents to a consensus in place, drawn block by block."""
    owners = draws.owners
    without = np.flatnonzero(np.isnan(draws.prior))
    if len(without):
        owner = owners[draws.draw[without[0]]]
        name = type(read.fitted_model(models[owner])).__name__
        raise TypeError(
            f"X must be None for {name}, which has no Dirichlet prior of the "
            "topics of a document: intervals of terms alone can be estimated."
        )
    counts = [
        valid.check_counts(read.model_rows(model, X), whom="X") for model in models
    ]
    n_docs, n_topics, n_draws = counts[0].shape[0], result.n_components_, len(owners)
    result.doc_topic_distr_ = np.zeros((n_docs, n_topics))
    result.doc_topic_interval_ = np.zeros((2, n_docs, n_topics))
    rng = stream(seed_entropy, Purpose.INTERVALS, 1)
    if each > SAMPLES:  # as many for each draw of topics
        each = -(-each // SAMPLES) * SAMPLES
    sampled = [*_topics_and_priors(draws, models, counts, each, rng)]
    is_there = np.zeros((n_draws, n_topics), dtype=bool)
    is_there[draws.draw[topic >= 0], topic[topic >= 0]] = True
    for number, block in enumerate(row_parts((n_docs, 1), DOCS)):
        rng = stream(seed_entropy, Purpose.INTERVALS, 2, number)
        samples = np.zeros((n_draws, each, block.stop - block.start, n_topics))
        documents: dict[int, DocumentDraws] = {}
        before: Array | None = None  # shares of the consensus in the last draw
        for s, (rows, owner) in enumerate(zip(draws.rows(), owners, strict=True)):
            if owner not in documents:
                documents[owner] = DocumentDraws(counts[owner][block])
            own, at = np.flatnonzero(topic[rows] >= 0), 0
            has = topic[rows[own]]
            n = each // len(sampled[s])
            for topics, prior in sampled[s]:
                if before is None:
                    theta = documents[owner].mode(topics, prior)
                else:  # what topics of the same place had, and a little of all
                    theta = np.tile(prior / prior.sum(), (len(before), 1))
                    theta *= 0.01
                    theta[:, own] += before[:, has]
                shares = documents[owner].after(theta, topics, prior, n, rng)
                for drawn in shares:
                    samples[s, at][:, has] = drawn[:, own]
                    at += 1
                before = samples[s, at - 1]
        for k in range(n_topics):
            drawn = np.concatenate(samples[is_there[:, k], :, :, k])  # (n, n_docs)
            result.doc_topic_distr_[block, k] = drawn.mean(axis=0)
            result.doc_topic_interval_[:, block, k] = _ends(drawn, confidence)


def _topics_and_priors(
    draws, models, counts, each, rng
) -> Iterator[list[tuple[Array, Array]]]:
    """Yield draws of topics, with the prior of documents, of each fit or sample.

    A fit has several, which are drawn with the topics of its documents, and their
    concentration: that by which it predicts is larger where most documents have a few
    of many topics, and small shares are then too sure to be large.
    """
    for rows, owner in zip(draws.rows(), draws.owners, strict=True):
        columns, prior = draws.columns[owner], draws.prior[rows]
        if draws.owners.count(owner) > 1:  # samples
            yield [(draws.sample(rows, rng)[:, columns], prior)]
            continue
        words, values = counts[owner], draws.values[rows][:, columns]
        eta = getattr(read.fitted_model(models[owner]), "topic_word_prior_", 0.0)
        given = TopicCounts.of(values, float(np.median(eta)), words)
        given = given._replace(is_fixed=~draws.is_random[rows])
        topics, one = draws.distr()[rows][:, columns], np.zeros(words.shape[0], np.intp)
        chain = DocumentDraws(words).with_topics(
            topics, given, prior, one, min(each, SAMPLES), rng
        )
        yield [(topics, own[0]) for topics, _, own in chain]


#: Largest seed, and share of documents in a subsample.
SEEDS, SHARE = 2**31 - 1, 0.8


@dataclass(frozen=True, eq=False)
class Stability:
    """How well fits agree.

    Parameters
    ----------
    consensus : Consensus
        Topics that recur, with recurrence and similarity; its `to_frame` lists them.
    n_components : ndarray of int of shape (n_fits,)
        Topics in use of each fit.
    agreement : ndarray of shape (n_fits, n_fits)
        Of two fits: the mean cosine of topics that are the same, by weight; topics that
        only one of them has count 0.
    estimators : list of estimators
        The fits.
    """

    consensus: Consensus
    n_components: Ints
    agreement: Array
    estimators: list[Any]

    @property
    def score(self) -> float:
        """Mean agreement of two fits: 1 if all have the same topics, 0 if none."""
        pairs = ~np.eye(len(self.agreement), dtype=bool)
        return float(self.agreement[pairs].mean())


@valid.validated(
    n_fits=[valid.at_least(2)],
    resampling=[valid.StrOptions({"subsample", "bootstrap"}), None],
)
def stability(
    estimator: BaseEstimator,
    X: Any,
    n_fits: int = 10,
    *,
    resampling: str | None = "subsample",
    min_recurrence: float = 0.5,
    min_similarity: float = 0.7,
    merge_similarity: float = 0.9,
    random_state: Any = 0,
) -> Stability:
    """Fit again, from other seeds and to samples of documents, and compare topics.

    Parameters
    ----------
    estimator : topic model or Pipeline that ends in one
        It is cloned, and need not be fitted.
    X : array-like or sparse of shape (n_samples, n_features), or iterable of str
        What it is fitted to; raw documents for a text Pipeline.
    n_fits : int, default=10
        Fits, 2 or more.
    resampling : {"subsample", "bootstrap"} or None, default="subsample"
        Documents of each fit: 80 % of `X`, as many as `X` has, drawn with replacement,
        or `X` itself. Topics that recur in samples do not depend on a few documents.
        None compares seeds alone.
    min_recurrence : float, default=0.5
        Topics that a smaller share of the fits has are left out of `consensus`.
    min_similarity, merge_similarity : float, default=0.7, 0.9
        As in :func:`consensus_components`.
    random_state : int, RandomState instance or None, default=0
        Names seeds and samples; every `random_state` in `estimator` is replaced.

    Returns
    -------
    stability : Stability
        `consensus`, `n_components`, `agreement` of pairs of fits, `score`, their mean,
        and the fits in `estimators`.

    Raises
    ------
    ValueError
        If `n_fits` is below two.

    See Also
    --------
    consensus_components : The consensus of fits that you have.

    Notes
    -----
    Agreement is that of the pairs of :func:`align_components`: the sum over pairs of
    their cosine times the mean of their weights, weights of a fit summing to one. It
    compares fits of one corpus; it does not tell a good model, for one topic is as
    stable as can be.

    Copies of documents, of which a bootstrap sample consists by a third, are evidence
    of topics of their own: HDP finds the 20 topics of 200 documents in subsamples (20
    or 21), and 51 to 92 in bootstrap samples. So these serve models whose number of
    topics is given.

    Examples
    --------
    >>> from skbnp import HDP
    >>> from skbnp.datasets import make_bars
    >>> from skbnp.inspection import stability
    >>> X = make_bars(200, random_state=0).data
    >>> found = stability(HDP(random_state=0), X, n_fits=3)
    >>> found.consensus.n_components_, found.score > 0.9
    (20, True)
    """
    rng = check_random_state(random_state)
    rows = X if hasattr(X, "shape") else list(X)
    texts = valid.texts_in(rows)
    documents, fits = rows if texts is None else texts, []
    for seed in rng.randint(SEEDS, size=n_fits).tolist():
        fit = clone(estimator)
        names = fit.get_params()
        seeds = [name for name in names if name.split("__")[-1] == "random_state"]
        fit.set_params(**dict.fromkeys(seeds, seed))
        fits.append(fit.fit(_sampled(documents, resampling, seed)))
    levels = min_recurrence, min_similarity, merge_similarity
    draws = draws_of(fits, by_sample=False)
    return Stability(
        consensus=consensus_of(draws, fits, None, levels, random_state=rng),
        n_components=np.bincount(draws.draw),
        agreement=_agreement(draws, min_similarity),
        estimators=fits,
    )


def _sampled(X, resampling, seed):
    """Draw a sample of documents."""
    if resampling is None:
        return X
    n, is_bootstrap = read.n_rows_of(X), resampling == "bootstrap"
    n = n if is_bootstrap else max(round(SHARE * n), 1)
    return resample(X, replace=is_bootstrap, n_samples=n, random_state=seed)


def _agreement(draws: Draws, least) -> Array:
    """Agreement of each pair of draws, (n_draws, n_draws)."""
    agreement, distr = np.eye(len(draws.owners)), draws.distr()
    of_draws = [(distr[rows], draws.weights[rows]) for rows in draws.rows()]
    for (i, (a, w_a)), (j, (b, w_b)) in combinations(enumerate(of_draws), 2):
        similarity = cosines(a, b)
        pairs = matched(similarity, least)
        shared = (w_a / w_a.sum())[pairs[0]] + (w_b / w_b.sum())[pairs[1]]
        agreement[i, j] = agreement[j, i] = 0.5 * shared @ similarity[pairs]
    return agreement
