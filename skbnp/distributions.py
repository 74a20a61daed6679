"""Dirichlet distributions: normalisers, expectations, the inverse of digamma."""

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from threading import local

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln, gammaln, psi, zeta

from skbnp.kernels._directions import place_draws
from skbnp.kernels._special import log_gamma
from skbnp.utils.typing import Array, Flags, Ints


def inverse_digamma(value: Array) -> Array:
    """Return x > 0 with psi(x) = value, to full precision, element by element.

    Newton's method in x from the start of Minka (2000), appendix C; it converges from
    there for every value below 700, beyond which x overflows.
    """
    value = np.asarray(value, dtype=np.float64)
    with np.errstate(over="ignore", divide="ignore"):
        x = np.where(
            value >= -2.22, np.exp(value) + 0.5, -1.0 / (value + np.euler_gamma)
        )
    # Further down psi(x) = -1/x - euler_gamma + O(x): the start is the answer.
    newton = value > -1e8
    at, value = x[newton], value[newton]
    for _ in range(6):
        step = (psi(at) - value) / zeta(2.0, at)
        at = at - step
        if (np.abs(step) <= 1e-9 * at).all():  # the next would be lost in rounding
            break
    x[newton] = at
    return x


def log_growth(prior: float | Array, count: Array) -> Array:
    """Log of the rising factorial, lnG(prior + count) - lnG(prior)."""
    return gammaln(prior + count) - gammaln(prior)


def digamma(x: Array) -> Array:
    """Digamma function of an array, as kernels compute it."""
    values = np.empty_like(x)
    log_gamma(np.ascontiguousarray(x), np.empty_like(x), values)
    return values


def expected_tables(mass: Array, counts: Array) -> Array:
    """P x [psi(x + n / P) - psi(x)], P = 1 - exp(-n), for masses x and counts n > 0.

    Tables of restaurants whose customers are Poisson counts of means n, Sato, Kurihara
    and Nakagawa (2012).
    """
    some = -np.expm1(-counts)
    # psi(x) is about -1/x where x is small: psi(x) = psi(x + 1) - 1 / x.
    high = digamma(mass + counts / np.maximum(some, 1e-300))
    return some * (1.0 + mass * (high - digamma(mass + 1.0)))


# Expected weights of a broken stick.
#
# Piece t is a share v_t ~ Beta(a_t, b_t) of what is left, the last one all of it.


def mean_weights(a: Array, b: Array) -> Array:
    """E[v_t prod_{s<t} (1 - v_s)], products of means; (..., T - 1) to (..., T)."""
    one = np.ones((*a.shape[:-1], 1))
    taken = np.concatenate([a / (a + b), one], axis=-1)
    left = np.concatenate([one, np.cumprod(b / (a + b), axis=-1)], axis=-1)
    return taken * left


def log_weights(a: Array, b: Array) -> Array:
    """Expected logarithms of the weights; (..., T - 1) to (..., T)."""
    nothing, whole = np.zeros((*a.shape[:-1], 1)), psi(a + b)
    taken = np.concatenate([psi(a) - whole, nothing], axis=-1)
    left = np.concatenate([nothing, np.cumsum(psi(b) - whole, axis=-1)], axis=-1)
    return taken + left


# Von Mises-Fisher distributions: normaliser, mean length, its inverse, draws.
#
# On the unit sphere of R^V, V >= 2, with mean direction m and concentration k >= 0,
#
#     p(x) = C_V(k) exp(k m'x),   C_V(k) = k^v / ((2 pi)^(V/2) I_v(k)),   v = V/2 - 1,
#     E x = A_V(k) m,             A_V(k) = I_(v+1)(k) / I_v(k) = -d log C_V(k) / dk.
#
# Bessel functions themselves leave the range of floats, and a difference of their
# logarithms loses digits. What is computed here leaves no range: the uniform expansion
# of Olver in powers of 1/v where v >= 24, DLMF 10.41.3, and for smaller orders the
# recurrence of A_V(k) / k down from there, which is stable.


_THREAD = local()

#: Smallest order of the expansion, and how many terms of it there are.
LEAST_ORDER, N_TERMS = 24.0, 12
#: Elements at a time, all terms of which fit into a cache.
BLOCK = 8192
#: Normal variables at a time, which stay in a cache.
NORMALS = 1 << 16


def log_normaliser(concentration: ArrayLike, dimension: int) -> Array:
    """Log C_V(k), element by element; at k = 0 that of the uniform density, in nats.

    The error is some units in the last place of the largest of log C_V(k), log C_V(0)
    and k. In a dimension of 100,000 this is 1e-10: differences of log densities of
    different concentrations are no better.
    """
    k = np.asarray(concentration, dtype=np.float64)
    v, n_steps = _expanded_order(dimension)
    expansion = _Expansion(k, v)
    value, ratio = expansion.log_normaliser(), expansion.ratio()
    for _ in range(n_steps):
        # C_V = C_(V+2) 2 pi I_(v+1) / (k I_v).
        ratio, v = 1.0 / (k * k * ratio + 2.0 * v), v - 1.0
        value = value + np.log(2.0 * np.pi * ratio)
    return value


def bessel_ratio(concentration: ArrayLike, dimension: int) -> Array:
    """Mean length A_V(k) = |E x|, element by element; relative error 1e-14."""
    k = np.asarray(concentration, dtype=np.float64)
    v, n_steps = _expanded_order(dimension)
    ratio = _Expansion(k, v).ratio()
    for _ in range(n_steps):
        ratio, v = 1.0 / (k * k * ratio + 2.0 * v), v - 1.0
    return k * ratio


def inverse_bessel_ratio(length: ArrayLike, dimension: int) -> Array:
    """Return the concentration k >= 0 with A_V(k) = length, element by element.

    Lengths are in [0, 1]; that of 1 is infinite. Newton's method, from the start of
    Banerjee et al. (2005), which is off by up to 4 %. Near one it solves for 1 -
    length, which has more digits.
    """
    r = np.asarray(length, dtype=np.float64)
    inside = np.minimum(r, np.nextafter(1.0, 0.0))
    k = inside * (dimension - inside**2) / ((1.0 - inside) * (1.0 + inside))
    for _ in range(8):
        ratio, shortfall = bessel_ratio(k, dimension), _shortfall(k, dimension)
        error = np.where(inside < 0.5, inside - ratio, shortfall - (1.0 - inside))
        step = error / _slope(k, ratio, shortfall, dimension)
        k = k + step
        if (np.abs(step) <= 1e-8 * k).all():  # the next would be lost in rounding
            break
    return np.where(r < 1.0, k, np.inf)


def draw(
    mean: Array, concentration: float, size: int, rng: np.random.Generator
) -> Array:
    """Draw `size` unit vectors around a unit vector, (size, V).

    The share of the mean direction by rejection, Wood (1994); the rest is uniform.
    """
    mean = np.asarray(mean, dtype=np.float64)
    along = _draw_cosines(len(mean), concentration, size, rng)
    across = rng.standard_normal((size, len(mean)))
    across -= np.outer(across @ mean, mean)
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    rest = np.sqrt((1.0 - along) * (1.0 + along))
    return along[:, None] * mean + rest[:, None] * across


def draw_natural(natural: Array, rng: np.random.Generator) -> Array:
    """Draw a unit vector given the mean direction times the concentration, (width,)."""
    drawn, row = natural[None].copy(), np.zeros(1, dtype=np.intp)
    draw_in_place(drawn, row, np.linalg.norm(drawn, axis=1), rng)
    return drawn[0]


def draw_in_place(
    table: Array, rows: Ints, lengths: Array, rng: np.random.Generator
) -> None:
    """Draw unit vectors given natural parameters, in place, rows of a table.

    Parameters
    ----------
    table : ndarray of shape (n, width)
    rows : ndarray of int
    lengths : ndarray
        Those of the parameters, for each of `rows`.
    rng : Generator
    """
    width = table.shape[1]
    cosines = _draw_cosine_of_each(width, lengths, rng)
    size = max(NORMALS // width, 1)
    for begin in range(0, len(rows), size):
        some = slice(begin, begin + size)
        normals = _work(len(rows[some]) * width)
        rng.standard_normal(out=normals)
        place_draws(rows[some], cosines[some], normals.reshape(-1, width), table)


def _work(size: int) -> Array:
    """Return working memory of this thread: new pages would take longer than draws."""
    memory = getattr(_THREAD, "memory", None)
    if memory is None or len(memory) < size:
        memory = _THREAD.memory = np.empty(size)
    return np.asarray(memory[:size])


def _draw_cosines(
    dimension: int, concentration: float, size: int, rng: np.random.Generator
) -> Array:
    """Draw m'x of several vectors with one mean."""
    k, cosines = np.full(size, concentration), np.empty(0)
    while len(cosines) < size:
        cosine, is_taken = _propose_cosines(dimension, k, rng)
        cosines = np.append(cosines, cosine[is_taken])
    return cosines[:size]


def _draw_cosine_of_each(
    dimension: int, concentrations: Array, rng: np.random.Generator
) -> Array:
    """Draw m'x of one vector for each concentration."""
    cosines, left = np.empty(len(concentrations)), np.arange(len(concentrations))
    while len(left):
        cosine, is_taken = _propose_cosines(dimension, concentrations[left], rng)
        cosines[left[is_taken]] = cosine[is_taken]
        left = left[~is_taken]
    return cosines


def _propose_cosines(
    dimension: int, k: Array, rng: np.random.Generator
) -> tuple[Array, Flags]:
    """Propose m'x, ratios of Beta variables, and whether each is accepted."""
    half = 0.5 * (dimension - 1)
    b = half / (k + np.hypot(k, half))
    best = (1.0 - b) / (1.0 + b)
    top = k * best + 2.0 * half * np.log((1.0 - best) * (1.0 + best))
    z = rng.beta(half, half, size=len(k))
    cosine = (1.0 - (1.0 + b) * z) / (1.0 - (1.0 - b) * z)
    height = k * cosine + 2.0 * half * np.log(1.0 - best * cosine) - top
    return cosine, height >= -rng.standard_exponential(len(k))


# The expansion ------------------------------------------------------------------------


def _expanded_order(dimension: int) -> tuple[float, int]:
    """Order of the expansion, and the number of orders above that of the dimension."""
    if dimension < 2:
        raise ValueError(f"dimension must be >= 2, got {dimension}.")
    v = 0.5 * dimension - 1.0
    n_steps = max(int(np.ceil(LEAST_ORDER - v)), 0)
    return v + n_steps, n_steps


@cache
def _polynomials() -> Array:
    """Coefficients of u_j(p) / p^j in powers of p^2, and of p^(1-j) u_j'(p).

    (2, N_TERMS, N_TERMS + 1, 1), from j = 1. By their recurrence, DLMF 10.41.9, in
    whole numbers:
    u_(j+1)(p) = p^2 (1 - p^2) u_j'(p) / 2 + (1/8) integral_0^p (1 - 5 t^2) u_j(t) dt.
    """
    u, result = {0: Fraction(1)}, np.zeros((2, N_TERMS, N_TERMS + 1, 1))
    for j in range(1, N_TERMS + 1):
        new: dict[int, Fraction] = {}
        for power, c in u.items():
            for at, value in (
                (power + 1, c * power / 2 + c / (8 * (power + 1))),
                (power + 3, -c * power / 2 - 5 * c / (8 * (power + 3))),
            ):
                new[at] = new.get(at, Fraction(0)) + value
        u = new
        for power, c in u.items():  # j, j + 2, .., 3j
            result[:, j - 1, (power - j) // 2, 0] = float(c), float(power * c)
    return result


def _series(scaled: Array, p2: Array) -> tuple[Array, Array]:
    """Sum over j of u_j(p) / v^j, and of p u_j'(p) / v^j, element by element."""
    coefficients = _polynomials()
    sums = np.zeros((2, scaled.size))
    for begin in range(0, scaled.size, BLOCK):
        some = slice(begin, begin + BLOCK)
        at, powers = p2.ravel()[some], scaled.ravel()[some]
        terms = coefficients[:, :, -1] + np.zeros_like(at)
        for i in range(N_TERMS - 1, -1, -1):
            terms *= at
            terms += coefficients[:, :, i]
        power = powers
        for j in range(N_TERMS):
            sums[:, some] += power * terms[:, j]
            power = power * powers
    return sums[0].reshape(p2.shape), sums[1].reshape(p2.shape)


@cache
def expansion(dimension: int) -> tuple[float, int, Array]:
    """Return the constants of the expansion that compiled code reads.

    Its order, the number of orders down to that of the dimension, and the coefficients
    of terms 1 to 12 in powers of p^2, padded, (2, 12, 13): values and slopes.
    """
    order, n_steps = _expanded_order(dimension)
    return order, n_steps, np.ascontiguousarray(_polynomials()[..., 0])


class _Expansion:
    """I_v(k) of one order v >= 24; s = sqrt(1 + (k/v)^2), p = 1/s."""

    def __init__(self, k: Array, v: float):
        """Compute the series at concentrations k."""
        self.k, self.v, self.z = k, v, k / v
        self.s = np.hypot(1.0, self.z)
        p2 = self.s**-2.0
        tail, slope = _series(1.0 / (v * self.s), p2)
        self.log_tail = np.log1p(tail)
        # -(d log of the sum / dk) / k = p^2 (p du/dp / u) / v^2.
        self.bend = p2 / v**2 * slope / (1.0 + tail)

    def log_normaliser(self) -> Array:
        """Log normaliser C of the density in 2v + 2 dimensions; k^v cancels."""
        v, s = self.v, self.s
        log_order = np.log(v) + np.log1p(s) - s
        spread = np.log(2.0 * np.pi * v) + np.log(s)
        return (
            v * log_order
            + 0.5 * spread
            - self.log_tail
            - (v + 1.0) * np.log(2.0 * np.pi)
        )

    def ratio(self) -> Array:
        """I_(v+1)(k) / (k I_v(k)), at most 1 / (2v + 2)."""
        v, s = self.v, self.s
        return (1.0 / (1.0 + s) - 0.5 / (v * s * s)) / v - self.bend

    def shortfall(self) -> Array:
        """Return 1 - I_(v+1)(k) / I_v(k), without cancellation."""
        z, s = self.z, self.s
        closing = (1.0 + 1.0 / (s + z)) / (1.0 + s)
        return closing + 0.5 * z / (self.v * s * s) + self.k * self.bend


def _shortfall(k: Array, dimension: int) -> Array:
    """Return 1 - A_V(k); relative error 1e-13 where A_V(k) > 1/2."""
    v, n_steps = _expanded_order(dimension)
    rest = _Expansion(k, v).shortfall()
    for _ in range(n_steps):
        rest = (2.0 * v - k * rest) / (k * (1.0 - rest) + 2.0 * v)
        v -= 1.0
    return rest


def _slope(k: Array, ratio: Array, shortfall: Array, dimension: int) -> Array:
    """dA_V/dk = 1 - A^2 - (V - 1) A / k; 1/V at k = 0.

    If k is large this difference cancels, and A is 1 - (V - 1) / (2k).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = shortfall * (1.0 + ratio) - (dimension - 1.0) * ratio / k
        slope = np.where(k > 1e6 * dimension, shortfall / k, slope)
    return np.where(k > 0.0, slope, 1.0 / dimension)


# Draws of concentrations and priors by Gibbs and slice steps, for all samplers.


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


def log_rising(x: float | Array, n: NDArray) -> Array:
    """Log of x (x + 1) ... (x + n - 1) for n > 0, exact for large x too."""
    return gammaln(n) - betaln(x, n)
