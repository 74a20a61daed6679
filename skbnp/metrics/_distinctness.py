"""Whether topics differ: terms of their own, and terms that no other topic has."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata

from skbnp.utils.fitted import (
    distributions,
    in_use,
    is_term_lists,
    leading_columns,
    listed_terms,
)
from skbnp.utils.ordering import largest
from skbnp.utils.typing import Array
from skbnp.utils.validation import POSITIVE, UNIT, validate_params


@validate_params({"n_terms": [POSITIVE]})
def topic_diversity(topics: Any, *, n_terms: int = 25) -> float:
    """Measure how many of the leading terms of topics are different.

    Parameters
    ----------
    topics : fitted topic model, Pipeline, array-like or list of list of str
        A model, an array of shape (n_components, n_features), or lists of terms. Of a
        model, topics in use count.
    n_terms : int, default=25
        Terms of each topic.

    Returns
    -------
    diversity : float
        Share of different terms among the `n_terms` most probable of all topics [1]_:
        1 if no two topics share one, 1 / n_components if all have the same.

    Raises
    ------
    TypeError
        If components have signs.
    ValueError
        If no topic has a term.

    See Also
    --------
    topic_exclusivity : The same question for each topic, by probabilities.

    Notes
    -----
    Diversity falls with the number of topics, and with their number of terms: compare
    models of about as many topics.

    References
    ----------
    .. [1] Adji B. Dieng, Francisco J. R. Ruiz and David M. Blei, "Topic Modeling in
       Embedding Spaces", TACL 8, 2020.

    Examples
    --------
    >>> from skbnp.metrics import topic_diversity
    >>> topic_diversity([["sun", "rain"], ["coal", "rain"]])
    0.75
    """
    columns, _ = leading_columns(listed_terms(topics), n_terms)
    terms = np.concatenate([*columns, np.zeros(0, dtype=np.intp)])
    if len(terms) == 0:
        raise ValueError("topics must have a term, got none.")
    return len(np.unique(terms)) / len(terms)


@validate_params({"n_terms": [POSITIVE], "weight": [UNIT]})
def topic_exclusivity(topics: Any, *, n_terms: int = 10, weight: float = 0.7) -> Array:
    """Measure how much the leading terms of each topic are its own.

    Parameters
    ----------
    topics : fitted topic model, Pipeline, or array-like
        A model, or anybody's topics as an array of shape (n_components, n_features).
    n_terms : int, default=10
        Terms of each topic.
    weight : float, default=0.7
        Weight of exclusivity against frequency, in [0, 1].

    Returns
    -------
    exclusivity : ndarray of float of shape (n_components,)
        Mean FREX of the most probable terms of each topic, in (0, 1]; nan for topics
        that are not in use.

    Raises
    ------
    TypeError
        If components have signs, or topics are lists of terms, without probabilities.

    See Also
    --------
    topic_diversity : One number for all topics.
    skbnp.inspection.top_terms : With `relevance`, terms ranked by what is their own.

    Notes
    -----
    FREX of term w in topic k is the harmonic mean [1]_

        1 / (weight / E_k(phi_kw / sum_l phi_lw) + (1 - weight) / F_k(phi_kw)),

    where E_k and F_k are ranks among all terms of the topic, divided by their number.
    ``exclusivity`` of the R package stm is `n_terms` times this.

    References
    ----------
    .. [1] Jonathan M. Bischof and Edoardo M. Airoldi, "Summarizing Topical Content with
       Word Frequency and Exclusivity", ICML 2012.

    Examples
    --------
    >>> from skbnp.metrics import topic_exclusivity
    >>> phi = [[0.6, 0.3, 0.1, 0.0], [0.6, 0.1, 0.0, 0.3]]
    >>> topic_exclusivity(phi, n_terms=2).round(3).tolist()
    [0.669, 0.86]
    """
    if is_term_lists(listed_terms(topics)):
        raise TypeError(
            "topics must be a model or an array of probabilities, got lists of terms."
        )
    used = in_use(topics)
    distr = distributions(topics)[used]
    total = distr.sum(axis=0)
    exclusive = rankdata(distr / np.where(total > 0.0, total, 1.0), axis=1)
    frequent = rankdata(distr, axis=1)
    frex = 1.0 / (weight / exclusive + (1.0 - weight) / frequent) / distr.shape[1]
    result = np.full(len(used), np.nan)
    result[used] = [
        values[largest(row, n_terms)].mean()
        for values, row in zip(frex, distr, strict=True)
    ]
    return result
