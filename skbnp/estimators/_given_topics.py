"""Topics of a fitted model of any class, as the start of another fit.

That is topics and their weights: `topic_word_distr_` and `topic_weights_` of this
package, nodes of trees included, or `components_` of any model of counts. `HDP`,
`StickBreakingHDP` and `GibbsHDP` start from them; for starts of trees see `_trees`.
"""

from typing import Any, NamedTuple

import numpy as np

from skbnp.utils.fitted import are_directions, fitted_model, topics
from skbnp.utils.typing import Array, Ints, MatrixLike
from skbnp.utils.validation import check_is_fitted, feature_names_of


class GivenTopics(NamedTuple):
    """Topics of a fitted model, and their shares."""

    distr: Array  # (K, V)
    weights: Array  # (K,) which lack of one what topics not represented have
    doc_concentration: float | None  # alpha, where the model has one

    def tokens(self, words: Ints, n_tokens: float) -> Array:
        """Distribute tokens of a corpus over topics and some words, (n_words, K)."""
        held = np.ascontiguousarray(self.distr[:, words].T)
        total = np.maximum(held.sum(axis=0), 1e-300)
        shares = self.weights / max(self.weights.sum(), 1e-300)
        held *= n_tokens * shares / total
        return held


def given_topics(init: Any, n_features: int) -> GivenTopics:
    """Return the topics of a fitted model, with `n_features` columns.

    Raises
    ------
    ValueError
        If the model has directions, or no topics, or those of other columns.
    """
    check_is_fitted(init)
    model = fitted_model(init)
    name = type(model).__name__
    if not hasattr(model, "components_") or are_directions(model):
        raise ValueError(f"init must be a fitted topic model; {name} has no topics.")
    weights, distr = topics(model)
    if distr.shape[1] != n_features:
        raise ValueError(f"X has {n_features} features, but init has {distr.shape[1]}.")
    concentration = getattr(model, "doc_concentration_", None)
    return GivenTopics(distr, weights, concentration)


def n_given(init: Any) -> int:
    """Return the number of topics of a fitted model."""
    check_is_fitted(init)
    return len(getattr(fitted_model(init), "components_", ()))


def check_names(init: Any, X: MatrixLike) -> None:
    """Raise if columns of a frame have other names than those of a fitted model."""
    known = getattr(fitted_model(init), "feature_names_in_", None)
    names = feature_names_of(X, fitted_model(init))
    if known is None or names is None or len(names) != len(known):
        return
    other = np.flatnonzero(names != known)
    if len(other):
        column = int(other[0])
        raise ValueError(
            "X must have the columns that init was fitted on, in their order, got "
            f"{names[column]!r} for column {column}, expected {known[column]!r}. Use "
            "X[init.feature_names_in_]."
        )
