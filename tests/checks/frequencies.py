"""Frequencies of the states of a chain against their probabilities."""

import numpy as np

#: States that are expected fewer times are one kind together.
LEAST_EXPECTED = 10.0
#: Counts of so many stretches of the chain tell its error.
N_BATCHES = 40
#: Standard deviations that a distance may be beyond its mean.
FARTHEST = 4.0


def check_frequencies(draws, p, kinds=None):
    """Raise unless a chain visits states as often as their probabilities say.

    The total variation between both is compared with that of chains which have the
    probabilities: residuals of stretches of the chain, its own mean taken off, with
    random normal weights. So the limit has the autocorrelation of the chain in it, and
    what it is for independent draws where there is none. It is right where stretches
    are long against the autocorrelation time.

    Parameters
    ----------
    draws : array-like of int of shape (n_draws,)
        Numbers of states; negative of those without one, which are left out.
    p : array-like of shape (n_states,)
        Probabilities among the states that have a number.
    kinds : array-like of int of shape (n_states,), optional
        Count states of a kind together.
    """
    draws, p = np.asarray(draws), np.asarray(p, dtype=np.float64)
    kinds = np.arange(len(p)) if kinds is None else np.asarray(kinds)
    p = np.bincount(kinds, p)
    is_rare = len(draws) * p < LEAST_EXPECTED
    onto = np.where(is_rare, 0, np.cumsum(~is_rare))
    p, kinds = np.bincount(onto, p), onto[kinds]
    counts = np.array(
        [
            np.bincount(kinds[some[some >= 0]], minlength=len(p))
            for some in np.array_split(draws, N_BATCHES)
        ]
    )
    residuals = counts - counts.sum(axis=1, keepdims=True) * p
    distance = np.abs(residuals.sum(axis=0)).sum() / (2 * counts.sum())
    own = residuals - residuals.mean(axis=0)
    own *= np.sqrt(N_BATCHES / (N_BATCHES - 1))
    weights = np.random.default_rng(0).standard_normal((1000, N_BATCHES))
    others = np.abs(weights @ own).sum(axis=1) / (2 * counts.sum())
    limit = others.mean() + FARTHEST * others.std()
    assert distance < limit, (distance, limit)
