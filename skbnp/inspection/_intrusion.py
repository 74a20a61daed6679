"""Word-intrusion tests: sets of terms by which people judge topics."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from skbnp.utils import fitted as read
from skbnp.utils.ordering import largest
from skbnp.utils.validation import POSITIVE, validate_params

#: Share of the vocabulary in which an intruder may not be for its topic.
LEADING_HALF = 0.5


class IntrusionSet(NamedTuple):
    """Terms of a topic, one of which does not belong to it."""

    topic: int  # its number
    terms: list[str]  # what people are shown
    intruder: int  # place of the term that does not belong


@validate_params({"n_terms": [POSITIVE], "random_state": ["random_state"]})
def word_intrusion(
    estimator: BaseEstimator | ArrayLike,
    feature_names: ArrayLike | None = None,
    *,
    n_terms: int = 5,
    random_state: Any = None,
) -> list[IntrusionSet]:
    """Make sets of terms among which people are to find the one that does not belong.

    Parameters
    ----------
    estimator : fitted topic model, Pipeline that ends in one, or array-like
        A model, or anybody's topics as an array of shape (n_components, n_features).
    feature_names : array-like of str of shape (n_features,), default=None
        As in :func:`top_terms`.
    n_terms : int, default=5
        Terms of the topic in each set.
    random_state : int, RandomState instance or None, default=None
        Chooses intruders, and the order of terms and of sets.

    Returns
    -------
    sets : list of named tuples (topic, terms, intruder)
        One for each topic in use, in random order: the number of the topic, its
        `n_terms` most probable terms and one more, shuffled, and the place of that one.
        Topics of fewer terms, and those that no other topic has an intruder for, have
        no set.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If components have signs.
    ValueError
        If `feature_names` does not name every column, or fewer than two topics are in
        use.

    See Also
    --------
    skbnp.metrics.topic_coherence : What needs no people.

    Notes
    -----
    The intruder is improbable in the topic, and one of the `n_terms` most probable
    terms of another [1]_: that it is rare does not give it away. Improbable is a term
    that the topic does not have in the first half of its vocabulary. The share of
    people who find the intruder is the model precision of the topic.

    References
    ----------
    .. [1] Jonathan Chang, Jordan Boyd-Graber, Sean Gerrish, Chong Wang and David M.
       Blei, "Reading Tea Leaves: How Humans Interpret Topic Models", NIPS 2009.

    Examples
    --------
    >>> from skbnp.inspection import word_intrusion
    >>> phi = [[5, 4, 3, 0, 0, 0], [0, 0, 0, 3, 4, 5]]
    >>> first, _ = word_intrusion(phi, list("abcxyz"), n_terms=3, random_state=0)
    >>> first.terms, first.terms[first.intruder]
    (['b', 'x', 'y', 'z'], 'b')
    """
    rng = check_random_state(random_state)
    distr, used = read.distributions(estimator), np.flatnonzero(read.in_use(estimator))
    names = read.column_names(estimator, distr.shape[1], feature_names)
    if len(used) < 2:
        noun = type(read.fitted_model(estimator)).__name__
        raise ValueError(
            f"estimator must have two topics in use or more, {noun} has {len(used)}: "
            "an intruder is a term of another topic."
        )
    numbers = read.topic_numbers(estimator, len(distr))
    leading = {int(k): largest(distr[k], n_terms) for k in used}
    sets = []
    for k in rng.permutation(used).tolist():
        own = leading[k]
        order = np.argsort(-distr[k], kind="stable")
        improbable = np.zeros(distr.shape[1], dtype=bool)
        improbable[order[int(LEADING_HALF * len(order)) :]] = True
        improbable[own] = False
        others = np.unique(np.concatenate([leading[j] for j in leading if j != k]))
        intruders = [j for j in others.tolist() if improbable[j]]
        if len(own) < n_terms or distr[k, own].min() <= 0.0 or not intruders:
            continue
        intruder = intruders[rng.randint(len(intruders))]
        shown = rng.permutation(np.append(own, intruder))
        place = int(np.flatnonzero(shown == intruder)[0])
        sets.append(IntrusionSet(int(numbers[k]), names[shown].tolist(), place))
    return sets
