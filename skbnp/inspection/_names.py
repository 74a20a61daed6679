"""Names of topics that users give, and a table of topics."""

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from skbnp.inspection._over_time import _pandas
from skbnp.inspection._ranking import rank_topics
from skbnp.inspection._terms import relevant_terms, top_documents
from skbnp.utils import fitted as read
from skbnp.utils.validation import POSITIVE, validate_params

if TYPE_CHECKING:
    from pandas import DataFrame


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
    pd = _pandas()
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
