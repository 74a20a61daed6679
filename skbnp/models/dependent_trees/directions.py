"""Directions of nodes of dependent trees given their parents: the structured family.

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

n_e being the part of priors and rows in E_e. With v = 0 this is mean field, of entropy
-log C_V(eta) - eta A_V(eta) is -h*(e; 0). -h* rises with v, and is concave in v and in
e, hence concave in E_parent.

log C_V(sqrt u) is convex in u: to put E u for u gives a little too much, by at most
half of its second derivative times the variance of u. That is of the order of
K^2 |a_e|^2 / (V (V + K)^3): a tenth of a nat where the three are alike, some nats where
K and |a_e| are ten times V, and not a bound.
"""

import numpy as np

from skbnp.distributions.von_mises_fisher import expansion
from skbnp.kernels import _directions as kernels
from skbnp.utils.typing import Array


def log_normaliser_gain(squares: Array | float, dimension: int) -> Array:
    """Log C_V(k) - log C_V(0) for squares of k, as kernels compute it."""
    flat, shape = _flat(squares)
    result = np.empty_like(flat)
    kernels.log_constants(flat, result, expansion(dimension))
    return result.reshape(shape)


def bessel_slope(squares: Array | float, dimension: int) -> Array:
    """Return g, A_V(k) / k, for squares of k."""
    flat, shape = _flat(squares)
    result = np.empty_like(flat)
    kernels.bessel_slopes(flat, result, expansion(dimension))
    return result.reshape(shape)


def natural_lengths(
    lengths: Array | float, spreads: Array | float, dimension: int
) -> Array:
    """Return |y| with g(y^2 + v) y = e for lengths e < 1 of means and spreads v."""
    e, v, shape = _alike(lengths, spreads)
    result = np.empty_like(e)
    kernels.natural_lengths(e, v, result, expansion(dimension))
    return result.reshape(shape)


def conjugate(lengths: Array | float, spreads: Array | float, dimension: int) -> Array:
    """h*(e; v) = y e - h(y; v) at its maximum over y, less its value at zero."""
    e, v, shape = _alike(lengths, spreads)
    result = np.empty_like(e)
    kernels.conjugates(e, v, result, expansion(dimension))
    return result.reshape(shape)


def _flat(values: Array | float) -> tuple[Array, tuple[int, ...]]:
    """Return values as a flat array, and their shape."""
    array = np.asarray(values, dtype=np.float64)
    return np.ascontiguousarray(array).reshape(-1), array.shape


def _alike(
    one: Array | float, other: Array | float
) -> tuple[Array, Array, tuple[int, ...]]:
    """Broadcast to the shape of the first; return both flat, and the shape."""
    flat, shape = _flat(one)
    if np.shape(other) != shape:
        other = np.broadcast_to(np.asarray(other, dtype=np.float64), shape)
    return flat, _flat(other)[0], shape


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

    With natural parameters n and rows x of length one: `squares` are n'n, `along` n'x,
    `own` the part of the row that n contains already. A row moves the mean of a node
    with children less: only a `share` of n counts.
    """
    arrays = np.broadcast_arrays(squares, along, own, share, spreads)
    n, d, part, f, v = (_flat(one)[0] for one in arrays)
    result, series = np.empty(arrays[0].shape), expansion(dimension)
    kernels.row_gains(n, d, part, f, v, concentration, result.reshape(-1), series)
    return result
