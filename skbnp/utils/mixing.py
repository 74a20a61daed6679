"""Chains of a sampler: the sample that is shown, R-hat and sample size."""

from numbers import Integral

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

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

    Of draws of shape (n_chains, n_sweeps), as defined by Vehtari et al. One chain is
    compared with itself: its first half with its second. Infinite if all halves are
    constant at different values; (nan, nan) if all draws are equal.
    """
    from arviz_stats.base import array_stats  # 0.1 s

    traces = np.asarray(traces, dtype=float)
    if not np.isfinite(traces).all() or np.ptp(traces) == 0.0:
        return np.nan, np.nan
    n = traces.shape[1] // 2
    halves = np.vstack([traces[:, :n], traces[:, -n:]])
    folded = np.abs(halves - np.median(halves))
    r_hats = []
    for values in (halves, folded):
        if np.ptp(values, axis=1).any():
            r_hats.append(array_stats.rhat(_normal_scores(values), method="identity"))
        elif np.ptp(values) > 0.0:
            r_hats.append(np.inf)
    size = array_stats.ess(traces, method="bulk")
    return float(max(r_hats, default=np.nan)), float(size)


def _normal_scores(values: NDArray) -> NDArray:
    """Replace values by normal quantiles of their ranks, with Blom's offset."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    ranks = rankdata(values).reshape(values.shape)
    return ndtri((ranks - 0.375) / (values.size + 0.25))
