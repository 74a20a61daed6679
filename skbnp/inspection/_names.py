"""Names of topics that users give, their ranks for readers, and a table of topics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, rel_entr
from sklearn.base import BaseEstimator

from skbnp.inspection._terms import (
    doc_shares,
    relevant_terms,
    scaled_counts,
    top_documents,
    without_negligible,
)
from skbnp.utils import fitted as read
from skbnp.utils.lazy import import_pandas
from skbnp.utils.ordering import largest
from skbnp.utils.typing import Array, Flags, Ints
from skbnp.utils.validation import POSITIVE, validate_params

if TYPE_CHECKING:
    from pandas import DataFrame


#: Share of documents from which a topic is one of all of them.
COMMON = 0.5


@dataclass(frozen=True, eq=False)
class Ranking:
    """Share, presence and value of each topic for a reader, (n_components,) each."""

    shares: Array  # of the tokens
    order: Ints  # most informative first; topics of most documents last
    is_common: Flags  # whether in more than half of the documents
    examples: Ints  # row of the most typical document; -1 if there is none

    def heaviest(self, n: int) -> Ints:
        """Return the `n` topics of the largest shares, the most informative first."""
        return self.order[np.isin(self.order, largest(self.shares, n))]


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


def set_topic_names(
    estimator: BaseEstimator, names: Mapping[int, str] | Sequence[str] | None
) -> None:
    """Give names to the topics of a fitted model.

    Columns of `transform` (`get_feature_names_out`), :func:`summary`,
    :func:`topics_to_frame` and figures call topics by their names from then on.
    Names belong to ids: they stay with their topics in `partial_fit`, edits, copies and
    files, and end with a new fit.

    Parameters
    ----------
    estimator : fitted topic model or Pipeline that ends in one
        The model that is changed: it gets the attribute `topic_names_`, a dict of ids
        to names.
    names : dict of int to str, sequence of str of length n_components, or None
        Name of each topic: by the numbers that `summary` shows, for any of them, or
        one for each row of `components_`. An empty name takes a name away, None all.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError
        If a number is unknown, there is not one name for each topic, or two topics
        would have one name.

    See Also
    --------
    topics_to_frame : Topics with their names.

    Examples
    --------
    >>> from skbnp import HDP
    >>> from skbnp.inspection import set_topic_names
    >>> X = [[0, 0, 9], [5, 3, 0], [1, 0, 7], [9, 6, 0]] * 9
    >>> hdp = HDP(2, split_merge=False, random_state=0).fit(X)
    >>> hdp.component_ids_.tolist()
    [0, 1]
    >>> set_topic_names(hdp, {1: "weather"})
    >>> hdp.get_feature_names_out().tolist()
    ['hdp0', 'weather']
    """
    components, model = (
        read.fitted(estimator, "components_"),
        read.fitted_model(estimator),
    )
    numbers = read.topic_numbers(estimator, len(components)).tolist()
    ids = np.asarray(getattr(model, "component_ids_", numbers)).tolist()
    given = _by_number(names, numbers)
    unknown = [number for number in given if number not in numbers]
    if unknown:
        raise ValueError(
            f"names must be of topics in {numbers[:10]}"
            f"{', ...' * (len(numbers) > 10)}, got {unknown}."
        )
    for name in given.values():
        if not isinstance(name, str):
            raise ValueError(f"names must be of type str, got {name!r}.")
    # Names of ids that ended go: they could not be taken away any more.
    known = getattr(model, "topic_names_", {}) if given else {}
    known = {name: text for name, text in known.items() if name in ids}
    known |= {ids[numbers.index(number)]: name for number, name in given.items()}
    known = {name: text for name, text in known.items() if text}
    _check_unique(model, known, ids, numbers)
    if known:
        model.topic_names_ = known
    else:
        vars(model).pop("topic_names_", None)


def _by_number(names, numbers) -> dict[int, str]:
    """Return names by topic number, from a mapping or a sequence."""
    if names is None:
        return {}
    if isinstance(names, Mapping):
        for number in names:
            if not isinstance(number, Integral):
                raise ValueError(f"names must have integers as keys, got {number!r}.")
        return {int(number): name for number, name in names.items()}
    if isinstance(names, str) or len(names) != len(numbers):
        got = repr(names) if isinstance(names, str) else f"{len(names)}"
        raise ValueError(
            f"names must be a dict or {len(numbers)} names, one for each row of "
            f"components_, got {got}."
        )
    return {number: str(name) for number, name in zip(numbers, names, strict=True)}


def _check_unique(model, known, ids, numbers) -> None:
    """Raise if two columns would have one name, now or after births."""
    prefix = type(model).__name__.lower()
    taken: dict[str, Any] = {}
    for name, text in known.items():
        number = numbers[ids.index(name)]
        rest = text.removeprefix(prefix)
        if rest != text and rest.isdigit() and int(rest) != number:
            raise ValueError(f"names must not be those of other columns, got {text!r}.")
        if text in taken:
            raise ValueError(
                f"names must differ, got {text!r} for topics {taken[text]} and "
                f"{number}."
            )
        taken[text] = number


@validate_params({"n_terms": [POSITIVE], "n_documents": [POSITIVE]})
def topics_to_frame(
    estimator: BaseEstimator,
    feature_names: ArrayLike | None = None,
    *,
    X: Any = None,
    n_terms: int = 10,
    n_documents: int = 5,
) -> "DataFrame":
    """List topics with weight, terms and documents.

    Parameters
    ----------
    estimator : fitted topic model or Pipeline that ends in one
        Anything with `topic_weights_`, or with non-negative `components_`.
    feature_names : array-like of str of shape (n_features,), default=None
        As in :func:`top_terms`.
    X : array-like or sparse of shape (n_samples, n_features), or iterable of str, \
            default=None
        Documents to choose from; raw documents for a text Pipeline.
    n_terms : int, default=10
        Terms of each topic.
    n_documents : int, default=5
        Documents of each topic.

    Returns
    -------
    frame : pandas DataFrame
        A row for each row of `components_`, in their order, that is, in the order of
        columns of `transform`:

        - "topic": its number in `component_ids_`; of a node its row, over epochs
          its id;
        - "name": from :func:`set_topic_names`, empty without one;
        - "weight": its share of tokens, of `X` if there is one;
        - "rank": its place in the order of :func:`summary`, from 0;
        - "terms": those that tell it apart, most relevant first, a list;
        - "documents": with `X`, rows of `X` in which it has the largest share, as by
          :func:`top_documents`, a list.

    Raises
    ------
    ImportError
        If pandas is not installed.
    NotFittedError
        If the model is not fitted.
    TypeError
        If `X` is given and `transform` returns coordinates, not shares.
    ValueError
        If `feature_names` does not name every column.

    See Also
    --------
    skbnp.trees.TreeView.to_frame : Nodes of a tree, with their parents.
    summary : The same as text.

    Examples
    --------
    >>> from skbnp import HDP
    >>> from skbnp.inspection import topics_to_frame
    >>> X = [[0, 0, 9], [5, 3, 0], [1, 0, 7], [9, 6, 0]] * 9
    >>> hdp = HDP(2, split_merge=False, random_state=0).fit(X)
    >>> frame = topics_to_frame(hdp, ["rain", "snow", "sun"], n_terms=2)
    >>> frame.drop(columns="weight")
       topic name  rank         terms
    0      0          1  [rain, snow]
    1      1          0   [sun, rain]
    """
    pd = import_pandas()
    _, distr = read.topics(estimator)
    names, n = read.column_names(estimator, distr.shape[1], feature_names), len(distr)
    X = read.documents_of(X)
    ranking = rank_topics(estimator, X)
    frame = pd.DataFrame(
        {
            "topic": read.topic_numbers(estimator, n),
            "name": [name or "" for name in read.topic_names(estimator, n)],
            "weight": ranking.shares,
            "rank": np.argsort(ranking.order),
            "terms": relevant_terms(estimator, names, n_terms),
        }
    )
    if X is None:
        return frame
    documents = top_documents(estimator, X, n_documents)
    return frame.assign(documents=[rows[rows >= 0].tolist() for rows in documents])
