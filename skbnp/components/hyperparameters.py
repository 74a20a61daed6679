"""Draws of concentrations and priors by Gibbs and slice steps, for all samplers."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln

from skbnp.utils.typing import Array

#: Shape and rate.
GammaPrior = tuple[float, float]

#: Range of hyperparameters, and its logarithms.
SMALLEST, LARGEST = 1e-100, 1e10
LOG_RANGE = float(np.log(SMALLEST)), float(np.log(LARGEST))


def draw_concentration(
    value: float,
    customers: NDArray,
    n_tables: int,
    prior: GammaPrior,
    rng: np.random.Generator,
) -> float:
    """Draw the concentration that several Chinese restaurants share.

    By the auxiliary variables of Escobar and West (1995), of several restaurants by Teh
    et al. (2006), appendix A. `customers` are those of each restaurant, all > 0;
    `n_tables` are all tables; `value` is the concentration that they were drawn from.
    """
    shape, rate = prior
    customers = np.asarray(customers, dtype=np.float64)
    rate -= np.log(rng.beta(value + 1.0, customers)).sum()
    shape += n_tables
    shape -= (rng.random(len(customers)) * (customers + value) < customers).sum()
    return _inside(rng.gamma(shape, 1.0 / rate))


def draw_by_slice(
    value: float,
    log_density: Callable[[float], float],
    prior: GammaPrior,
    rng: np.random.Generator,
) -> float:
    """Draw a positive number under a Gamma prior by slice sampling of its logarithm.

    Neal (2003), stepping out by one. `log_density` is that of the data.
    """
    shape, rate = prior

    def height_of(x: float) -> float:
        number = float(np.exp(x))
        return shape * x - rate * number + log_density(number)

    drawn = draw_in_range(float(np.log(value)), height_of, LOG_RANGE, 1.0, rng)
    return _inside(float(np.exp(drawn)))


def draw_in_range(
    x: float,
    log_density: Callable[[float], float],
    limits: tuple[float, float],
    width: float,
    rng: np.random.Generator,
) -> float:
    """Draw a number within limits by slice sampling of its density.

    Neal (2003), stepping out by `width`. A number beyond a limit starts there: between
    the limits no interval would ever contain it.
    """
    least, most = limits
    x = min(max(x, least), most)
    height = log_density(x) + np.log1p(-rng.random())
    low = x - width * rng.random()
    high = low + width
    while low > least and log_density(low) > height:
        low -= width
    while high < most and log_density(high) > height:
        high += width
    low, high = max(low, least), min(high, most)
    drawn = low + rng.random() * (high - low)
    while log_density(drawn) <= height:
        if not low < drawn < high:  # rounding has hidden the slice
            return x
        low, high = (drawn, high) if drawn < x else (low, drawn)
        drawn = low + rng.random() * (high - low)
    return drawn


def _inside(value: float) -> float:
    return float(np.clip(value, SMALLEST, LARGEST))


def log_gamma_density(x: float, prior: GammaPrior) -> float:
    """Log density of a Gamma(shape, rate) distribution."""
    shape, rate = prior
    density = shape * np.log(rate) - gammaln(shape) + (shape - 1.0) * np.log(x)
    return float(density - rate * x)


def log_rising(x: float, n: NDArray) -> Array:
    """Log of x (x + 1) ... (x + n - 1) for n > 0, exact for large x too."""
    return gammaln(n) - betaln(x, n)
