"""Topics of fitted models of any kind, and their names.

A model is an estimator, a Pipeline that ends in one, a fitted search, or topics given
as an array.
"""

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array

from skbnp.utils.arrays import largest
from skbnp.utils.typing import Array, Flags, Ints
from skbnp.utils.validation import check_is_fitted, placed

#: What serves where a model lacks an attribute.
INSTEAD = {
    "tree_": ": TopicTermsDisplay draws topics without a tree",
    "n_components_posterior_": ": HistoryDisplay draws the number of topics in a fit",
    "samples_": ": it has one estimate, which TopicTermsDisplay draws, and no samples",
    "lineage_": ": its topics stay as they began, and TopicTermsDisplay draws them",
    "history_": ": it does not record its fit",
    "epochs_": ": pass rows X, and epochs with the label of time of each, to "
    "topics_over_time, emerging_topics or TopicSharesDisplay",
}


def normalised_rows(rows: Array, instead: ArrayLike = 1.0) -> Array:
    """Rows that sum to one; `instead` of those without mass."""
    total = rows.sum(axis=1, keepdims=True)
    if not total.all():
        rows = np.where(total > 0.0, rows, instead)
        total = rows.sum(axis=1, keepdims=True)
    return rows / np.where(total > 0.0, total, 1.0)


def concentration_of(model: Any) -> float:
    """Concentration of documents by which a fitted model predicts."""
    learned = model.doc_concentration_
    return float(getattr(model, "prediction_concentration_", learned))


class GivenTopics:
    """Topics given as an array, with the attributes of a fitted model.

    Parameters
    ----------
    values : array-like or sparse of shape (n_components, n_features)
        Probabilities or counts, not negative; names of columns are kept.
    """

    def __init__(self, values: Any):
        """Check an array of topics."""
        names = getattr(values, "columns", None)
        self.components_ = check_array(
            in_memory(values), dtype=np.float64, input_name="topics"
        )
        if self.components_.min() < 0.0:
            raise ValueError(
                "topics must not be negative: each row holds probabilities or counts "
                f"of terms, got {self.components_.min():g}."
            )
        if names is not None and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.asarray(names, dtype=object)


def is_array(value: object) -> bool:
    """Whether a value is an array, a frame or nested lists of numbers."""
    return isinstance(value, (list, tuple)) or hasattr(value, "shape")


def in_memory(values):
    """Return an ndarray of a lazy, sparse or tabular matrix.

    That of a frame is a copy: pandas may give memory that cannot be written to, and
    sums over rows of other orders are rounded otherwise.
    """
    values = values.compute() if hasattr(values, "compute") else values
    if sp.issparse(values):
        return values.toarray()
    if isinstance(values, np.ndarray):
        return np.asarray(values)
    return np.array(values, order="C")


def unwrap(estimator):
    """Replace a fitted search by its best estimator, and an array by topics."""
    if is_array(estimator):
        return GivenTopics(estimator)
    return getattr(estimator, "best_estimator_", estimator)


def model_rows(estimator, X):
    """Transform rows by the steps of a Pipeline before the model.

    Without such, columns of a frame go by their names; those that are absent are zeros.
    """
    pipeline = unwrap(estimator)
    if hasattr(pipeline, "steps") and len(pipeline.steps) > 1:
        return pipeline[:-1].transform(X)
    return placed(X, fitted_model(pipeline))


def fitted_model(estimator):
    """Return the fitted model in a Pipeline or a search."""
    model = unwrap(estimator)
    model = model[-1] if hasattr(model, "steps") else model
    if not isinstance(model, GivenTopics):
        check_is_fitted(model)
    return model


def fitted(estimator, attribute):
    """Read `attribute` of the fitted model."""
    model = fitted_model(estimator)
    value = getattr(model, attribute, None)
    if value is None:
        name = type(model).__name__
        raise TypeError(
            f"estimator must have `{attribute}`, {name} has not"
            f"{INSTEAD.get(attribute, '') or _earlier(unwrap(estimator), attribute)}."
        )
    return value


def _earlier(estimator, attribute):
    """Name the steps of a Pipeline up to the one that has an attribute."""
    steps = getattr(estimator, "steps", [])
    for stop in range(len(steps) - 1, 0, -1):
        if getattr(steps[stop - 1][1], attribute, None) is not None:
            name = type(steps[stop - 1][1]).__name__
            cut = stop - len(steps)
            return f": pass the steps up to {name}, pipeline[:{cut}]"
    return ""


def are_directions(model):
    """Whether components are directions of rows, not words of documents."""
    if hasattr(model, "vmf_concentration_"):
        return True
    return np.min(getattr(model, "components_", 0.0)) < 0.0


def model_of_words(estimator, instead):
    """Return the fitted model; raise if its components are directions."""
    model = fitted_model(estimator)
    if are_directions(model):
        raise TypeError(
            f"estimator must have topics of words, {type(model).__name__} has "
            f"directions: {instead}."
        )
    return model


def noun_of(model):
    """Return the name of components in texts: topics, nodes, ..."""
    return "node" if hasattr(model, "tree_") else "topic"


def is_stream(model):
    """Whether the last update of a model was of a chunk, which is in no pass."""
    history = getattr(model, "history_", {})
    last = [history.get(name, [])[-1:] for name in ("elbo", "log_predictive")]
    return any(value != value for values in last for value in values)


def unit_of(model):
    """Return the unit of bounds and scores: token or row."""
    return "row" if are_directions(model) else "token"


def column_names(estimator, n_features, feature_names=None):
    """Return one name per column of the model, as an array of str objects."""
    model = fitted_model(estimator)
    if feature_names is None:
        feature_names = _pipeline_names(unwrap(estimator))
    if feature_names is None:
        feature_names = getattr(model, "feature_names_in_", None)
    if feature_names is None:
        feature_names = [f"column {j}" for j in range(n_features)]
    # A vocabulary dict, a set or one string is a scalar here: none is in column order.
    names = np.asarray(feature_names, dtype=object)
    if names.ndim != 1 or len(names) != n_features:
        got = len(names) if names.ndim == 1 else f"a {type(feature_names).__name__}"
        raise ValueError(
            f"feature_names must be a sequence of {n_features} names, one for each "
            f"column {type(model).__name__} was fitted on, got {got}."
        )
    return np.array([str(name) for name in names], dtype=object)


def _pipeline_names(estimator):
    """Names of columns after the last step that has some.

    Later steps keep the columns.
    """
    if not hasattr(estimator, "steps"):
        return None
    named = [
        step in (None, "passthrough") or hasattr(step, "get_feature_names_out")
        for _, step in estimator.steps[:-1]
    ]
    if not any(named):
        return None
    stop = len(named) - named[::-1].index(True)
    # A step without names in front, say a text cleaner, does not hide those behind it.
    start = stop - [*named[:stop][::-1], False].index(False)
    return estimator[start:stop].get_feature_names_out()


def topics(estimator):
    """Return the topics' weights, (n_components,), and their terms' probabilities.

    Directions are not normalised. If all rows that pass a node have a coordinate on it,
    the share of these rows is its weight.
    """
    components, model = fitted(estimator, "components_"), fitted_model(estimator)
    if hasattr(model, "tree_") and hasattr(model, "inverse_transform"):
        return model.tree_.weight, components
    weights = weights_of(estimator, components)
    if are_directions(model):
        return weights, components
    return weights, normalised_rows(components, 0.0)


def topic_numbers(estimator, n_components):
    """Return the numbers of rows in texts: ids; row numbers in trees or without ids.

    Trees over epochs have different rows in each epoch: nodes are numbered by ids.
    """
    model = fitted_model(estimator)
    if hasattr(model, "tree_") and not hasattr(type(model), "epochs_"):
        return np.arange(n_components)
    return np.asarray(getattr(model, "component_ids_", np.arange(n_components)))


def topic_names(estimator, n_components) -> list[str | None]:
    """Return the names that users gave to topics; None if they have none."""
    model = fitted_model(estimator)
    given = getattr(model, "topic_names_", {})
    ids = np.asarray(getattr(model, "component_ids_", np.arange(n_components)))
    return [given.get(name) for name in ids.tolist()]


def weights_of(estimator, components):
    """Return the topics' weights; else the mass of `components` above the prior."""
    model = fitted_model(estimator)
    weights = getattr(model, "topic_weights_", None)
    if weights is None and components.min() < 0.0:
        name = type(model).__name__
        raise TypeError(
            "estimator must have `topic_weights_` or non-negative `components_`, "
            f"{name} has neither: use top_terms."
        )
    if weights is None:
        prior = getattr(model, "topic_word_prior_", 0.0)
        tokens = np.maximum(components - prior, 0.0).sum(axis=1)
        weights = tokens / tokens.sum()
    return weights


def token_shares(estimator) -> Array:
    """Return the share of tokens of topics; of other models, the topics' weights.

    Weights of HDPs are of tables: a topic with few tokens in each of many documents has
    a larger weight than share.
    """
    components, model = fitted(estimator, "components_"), fitted_model(estimator)
    if hasattr(model, "tree_") and hasattr(model, "inverse_transform"):
        return model.tree_.weight
    tokens = getattr(model, "_topic_tokens", None)
    if tokens is None or not tokens.sum() > 0.0:
        return weights_of(estimator, components)
    return tokens / tokens.sum()


def in_use(estimator) -> Flags:
    """Whether topics are in use: the heaviest `n_active_components_`, or all."""
    components, model = fitted(estimator, "components_"), fitted_model(estimator)
    n_active = getattr(model, "n_active_components_", None)
    if n_active is None or n_active >= len(components):
        return np.abs(components).sum(axis=1) > 0.0
    used = np.zeros(len(components), dtype=bool)
    used[largest(token_shares(estimator), int(n_active))] = True
    return used


def are_named(estimator) -> bool:
    """Whether the columns of a model have names, or only numbers."""
    has_names = hasattr(fitted_model(estimator), "feature_names_in_")
    return has_names or _pipeline_names(unwrap(estimator)) is not None


def documents_of(X: Any) -> Any:
    """Return documents that can be read once as a list; others as they are."""
    return list(X) if isinstance(X, Iterator) else X


def n_rows_of(X: Any) -> int:
    """Return the number of rows of a matrix or a list; 0 of None."""
    return 0 if X is None else X.shape[0] if hasattr(X, "shape") else len(X)


def distributions(estimator) -> Array:
    """Return probabilities of terms, or non-negative directions, rows normalised."""
    components = np.asarray(fitted(estimator, "components_"), dtype=np.float64)
    if components.min() < 0.0:
        raise TypeError(
            "topics must not be negative, but `components_` of "
            f"{type(fitted_model(estimator)).__name__} have signs: they hold no "
            "probabilities of terms."
        )
    return normalised_rows(components, 0.0)


def leading_columns(estimator, n_terms: int) -> list[Ints]:
    """Return the columns of the most probable terms of topics, none if not in use."""
    result = []
    for row, is_used in zip(distributions(estimator), in_use(estimator), strict=True):
        best = largest(row, n_terms * bool(is_used))
        result.append(best[row[best] > 0.0])
    return result


# Chains of a sampler: the sample that is shown, R-hat and sample size.


#: Sweeps below which mixing is not reported: halves of chains need four each.
FEWEST = 8


def best_sample(model):
    """Return the kept sample that a sampler's attributes are of, or None."""
    samples = getattr(model, "samples_", None)
    return max(samples, key=lambda sample: sample.log_joint) if samples else None


def is_sampler(model):
    """Whether a history is that of Markov chains."""
    return "log_joint" in getattr(model, "history_", {})


def has_mixed(model: BaseEstimator, name: str) -> NDArray | None:
    """Return a column of the history after burn-in, (n_chains, n_sweeps), or None.

    Of the last `fit` alone, after its first sweeps: earlier ones may have been over
    other documents.
    """
    history = model.history_
    steps, chains = np.array(history["step"]), np.array(history["chain"])
    n_sweeps = getattr(model, "max_iter", len(steps))
    burn_in = getattr(model, "burn_in", None)
    if not isinstance(burn_in, Integral):
        burn_in = n_sweeps // 2
    # After `partial_fit`, `n_iter_` counts calls; no more than the last one's sweeps.
    n_sweeps = min(getattr(model, "n_iter_", n_sweeps), n_sweeps)
    inside = steps > steps.max(initial=0) - n_sweeps + burn_in
    values = np.array(history[name], dtype=float)
    traces = [values[inside & (chains == k)] for k in np.unique(chains[inside])]
    lengths = {len(trace) for trace in traces}
    if len(lengths) != 1 or min(lengths) < FEWEST:
        return None
    return np.array(traces)


def mixing(traces: NDArray) -> tuple[float, float]:
    """Compute rank-normalised split R-hat and the bulk effective sample size.

    Of draws of shape (n_chains, n_sweeps), as defined by Vehtari et al. (2021). One
    chain is compared with itself: its first half with its second. R-hat is infinite if
    all halves are constant at different values; (nan, nan) if all draws are equal, or
    fewer than `FEWEST` of a chain.
    """
    traces = np.asarray(traces, dtype=float)
    n = traces.shape[1] // 2
    halves = np.vstack([traces[:, :n], traces[:, -n:]])
    if 2 * n < FEWEST or not np.isfinite(traces).all() or np.ptp(halves) == 0.0:
        return np.nan, np.nan
    folded = np.abs(halves - np.median(halves))
    r_hats = [_r_hat(_normal_scores(values)) for values in (halves, folded)]
    return max(r_hats), _sample_size(_normal_scores(halves))


def _normal_scores(values: NDArray) -> NDArray:
    """Replace values by normal quantiles of their ranks, with Blom's offset."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    ranks = rankdata(values).reshape(values.shape)
    return ndtri((ranks - 0.375) / (values.size + 0.25))


def _r_hat(scores: NDArray) -> float:
    """Compare the variance between chains, (n_chains, n), with that within (eq. 3)."""
    n = scores.shape[1]
    between, within = scores.mean(axis=1).var(ddof=1), scores.var(axis=1, ddof=1).mean()
    if not np.ptp(scores, axis=1).any():  # not by the variance, which is rounded
        return np.inf if np.ptp(scores) > 0.0 else 0.0
    return float(np.sqrt((n - 1) / n + between / within))


def _sample_size(scores: NDArray) -> float:
    """Compute how many independent draws chains, (n_chains, n), are worth (eq. 10-13).

    The sum of autocorrelations is cut by Geyer's initial monotone sequence of pairs of
    lags, and of the pair at the cut the even lag counts once, if it is positive.
    """
    n = scores.shape[1]
    centred = scores - scores.mean(axis=1, keepdims=True)
    power = np.abs(np.fft.rfft(centred, 2 * n, axis=1)) ** 2
    covariance = np.fft.irfft(power.mean(axis=0), 2 * n)[:n] / n
    within = covariance[0] * n / (n - 1)
    total = covariance[0] + scores.mean(axis=1).var(ddof=1)
    correlation = 1.0 - (within - covariance) / total
    correlation[0] = 1.0
    n_pairs = (n - 1) // 2  # the longest lag, of one product, is left out
    pairs = correlation[: 2 * n_pairs].reshape(n_pairs, 2).sum(axis=1)
    cut = int(np.argmax(np.append(pairs[:-1] <= 0.0, True)))
    last = correlation[2 * cut]
    last = last if pairs[cut] > 0.0 else max(last, 0.0)
    time = 2.0 * np.minimum.accumulate(pairs[:cut]).sum() + last - 1.0
    return float(scores.size / max(time, 1.0 / np.log10(scores.size)))
