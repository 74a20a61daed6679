"""Directions of nodes given those of their parents: the structured family.

Where there are thousands of features, directions of a node and of its parent are bound
to each other, and a family in which they are independent loses more than a thousand
nats of the bound for each node. So here

    q(theta_e | theta_parent) = vMF of natural parameter K theta_parent + a_e,

K = kappa0 k1, as it is under the posterior if e is a leaf. With E = E theta,

    u_e = E |K theta_parent + a_e|^2 = |y_e|^2 + v_e,
    y_e = K E_parent + a_e,    v_e = K^2 (1 - |E_parent|^2),

v_e is how far the natural parameter of e spreads with the direction of its parent. The
squared length stands for its expectation in log C_V and A_V, so that

    E_e = g(u_e) y_e,    g(u) = A_V(sqrt u) / sqrt u,

and what directions add to the bound is

    sum_e n_e'E_e - h*(|E_e|; v_e) + log C_V(rho_e),
    h(y; v) = -log C_V(sqrt(y^2 + v)),    h*(e; v) = max_y y e - h(y; v),

n_e being what priors and rows say in E_e. With v = 0 this is mean field, whose entropy
-log C_V(eta) - eta A_V(eta) is -h*(e; 0). -h* rises with v, and is concave in v and in
e, hence concave in E_parent.

log C_V(sqrt u) is convex in u: to put E u for u gives a little too much, by at most
half of its second derivative times the variance of u. That is of the order of
K^2 |a_e|^2 / (V (V + K)^3): a tenth of a nat where the three are alike, some nats where
K and |a_e| are ten times V, and not a bound.
"""

import numpy as np
from numpy.typing import NDArray

from skbnp.distributions.von_mises_fisher import expansion, log_normaliser
from skbnp.kernels._tree_rows import bessel_slopes, log_constants

__all__ = [
    "bessel_slope",
    "conjugate",
    "log_normaliser_gain",
    "natural_lengths",
    "optimal_lengths",
    "pull_on_lengths",
    "row_gains",
]

Array = NDArray[np.float64]

#: Steps of Newton's method at the most, and the relative change that ends it.
MAX_STEPS, TOL = 60, 1e-10
#: Turns between the length of a node and the pull on it of its children's; the bound
#: is flat there: of an error in a length it loses the square.
MAX_TURNS, TURN_TOL = 50, 1e-8
#: Lengths of means are below one by so much at the least.
LEAST_SHORTFALL = 1e-12
#: Ratio of natural parameter and dimension from which A_V has its expansion.
FAR = 1e4


def log_normaliser_gain(squares: Array | float, dimension: int) -> Array:
    """Log C_V(k) - log C_V(0) for squares of k, as kernels compute it."""
    flat = np.ascontiguousarray(squares, dtype=np.float64).ravel()
    found = np.empty_like(flat)
    log_constants(flat, found, *expansion(dimension))
    return found.reshape(np.shape(squares))


def bessel_slope(squares: Array | float, dimension: int) -> Array:
    """Return g, A_V(k) / k, for squares of k."""
    flat = np.ascontiguousarray(squares, dtype=np.float64).ravel()
    found = np.empty_like(flat)
    bessel_slopes(flat, found, *expansion(dimension))
    return found.reshape(np.shape(squares))


def _slope_of_slope(squares: Array, slopes: Array, dimension: int) -> Array:
    """Dg / du, by the differential equation of A_V: A' = 1 - A^2 - (V - 1) A / k."""
    rest = 1.0 - slopes * (slopes * squares + dimension)
    return rest / (2.0 * np.maximum(squares, 1e-300))


def natural_lengths(
    lengths: Array | float, spreads: Array | float, dimension: int
) -> Array:
    """Return |y| with g(y^2 + v) y = e for lengths e < 1 of means and spreads v.

    Newton's method from below: the left side is concave in y.
    """
    e = np.minimum(np.asarray(lengths, dtype=np.float64), 1.0 - LEAST_SHORTFALL)
    v = np.broadcast_to(np.asarray(spreads, dtype=np.float64), e.shape)
    # The start of Banerjee et al. (2005) for v = 0, which is off by up to 4 %.
    y = 0.95 * e * (dimension - e * e) / ((1.0 - e) * (1.0 + e))
    for _ in range(MAX_STEPS):
        u = y * y + v
        g = bessel_slope(u, dimension)
        slope = g + 2.0 * y * y * _slope_of_slope(u, g, dimension)
        # Far out the difference of ones in it has no digits: A' is (V - 1) / (2 k^2).
        k2 = np.maximum(u, 1e-300)
        far = (0.5 * (dimension - 1) * y * y / k2 + g * v) / k2
        slope = np.where(u > (FAR * dimension) ** 2, far, slope)
        step = (e - g * y) / slope
        y = y + step
        if (np.abs(step) <= TOL * y).all():
            break
    return np.asarray(y)


def conjugate(lengths: Array | float, spreads: Array | float, dimension: int) -> Array:
    """h*(e; v) = y e - h(y; v) at its maximum over y."""
    e = np.minimum(np.asarray(lengths, dtype=np.float64), 1.0 - LEAST_SHORTFALL)
    y = natural_lengths(e, spreads, dimension)
    constants = log_normaliser_gain(y * y + spreads, dimension)
    return np.asarray(y * e + constants + float(log_normaliser(0.0, dimension)))


def pull_on_lengths(
    lengths: Array | float, spreads: Array | float, dimension: int
) -> Array:
    """Return g(u) at the optimum of `conjugate`: -2 dh* / dv."""
    y = natural_lengths(lengths, spreads, dimension)
    return bessel_slope(y * y + spreads, dimension)


def optimal_lengths(
    naturals: Array,
    spreads: Array,
    lengths_below: Array,
    above: NDArray[np.intp],
    pull: float,
    dimension: int,
) -> Array:
    """Return |E| of nodes that maximise the bound, those of their children held fixed.

    Of each node n e - h*(e; v) - sum_c h*(e_c; K^2 (1 - e^2)), n = |n_e| being
    `naturals`; `above` are the numbers of the parents of the children.
    """
    e = bessel_slope(naturals**2 + spreads, dimension) * naturals
    if len(above) == 0:
        return np.asarray(e)
    least = bessel_slope(spreads, dimension)
    for _ in range(MAX_TURNS):
        below = pull**2 * (1.0 - e[above]) * (1.0 + e[above])
        slopes = pull_on_lengths(lengths_below, below, dimension)
        weights = np.bincount(above, pull**2 * slopes, len(naturals))
        y = _resisted(naturals, spreads, np.asarray(weights), least, dimension)
        last, e = e, bessel_slope(y * y + spreads, dimension) * y
        if (np.abs(e - last) <= TURN_TOL * e).all():
            break
    return np.asarray(e)


def row_gains(
    squares: Array | float,
    along: Array,
    own: Array | float,
    concentration: float,
    share: Array | float,
    spreads: Array | float,
    dimension: int,
) -> Array:
    """H of natural parameters with a row less h without it, the row integrated out.

    Of natural parameters n and rows x of length one: `squares` are n'n, `along` n'x,
    `own` the part that n has of the row already. Where nodes have children, a row moves
    their mean less: it is a `share` of n that counts.
    """
    share = np.asarray(share, dtype=np.float64)
    part = np.asarray(own, dtype=np.float64) * concentration
    left = squares - 2.0 * part * along + part**2
    both = left + 2.0 * concentration * (along - part) + concentration**2
    values = np.maximum(np.stack([left, both]), 0.0) * share**2 + spreads
    without, with_row = log_normaliser_gain(values, dimension)
    return np.asarray((without - with_row) / share)


def _resisted(
    naturals: Array, spreads: Array, weights: Array, least: Array, dimension: int
) -> Array:
    """Return y with y (1 + w g(y^2 + v)) = n, by Newton's method from below.

    `least` is g(v), the largest that there is.
    """
    y = naturals / (1.0 + weights * least)
    for _ in range(MAX_STEPS):
        u = y * y + spreads
        g = bessel_slope(u, dimension)
        error = naturals - y * (1.0 + weights * g)
        bend = 2.0 * y * y * _slope_of_slope(u, g, dimension)
        step = error / (1.0 + weights * (g + bend))
        y = y + step
        if (np.abs(step) <= TOL * np.maximum(y, 1e-300)).all():
            break
    return y
