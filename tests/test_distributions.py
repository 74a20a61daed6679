"""Dirichlet helpers, sticks and directions: against definitions, SciPy and draws."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq
from scipy.special import ive, polygamma, psi
from scipy.stats import kstest, vonmises_fisher

from skbnp.distributions import (
    _draw_cosine_of_each,
    _draw_cosines,
    bessel_ratio,
    draw,
    draw_in_place,
    inverse_bessel_ratio,
    inverse_digamma,
    log_growth,
    log_normaliser,
    log_weights,
    mean_weights,
)

EPSILON = np.finfo(float).eps


# Inverse of digamma -------------------------------------------------------------------


RANGES = {
    "tiny": np.logspace(-300, -6, 5001),
    "small": np.logspace(-6, 0, 5001),
    "around one": np.linspace(0.3, 3.0, 5001),
    "large": np.logspace(0, 12, 5001),
    "huge": np.logspace(12, 300, 5001),
}
ranges = pytest.mark.parametrize("x", RANGES.values(), ids=RANGES)


@ranges
def test_inverse_digamma_is_accurate_to_full_precision(x):
    """Relative error of x within what one rounding of psi(x) costs, times four.

    A relative error e of psi(x) moves x by |psi(x)| e / psi'(x).
    """
    value = psi(x)
    cost = np.maximum(np.abs(value) / (x * polygamma(1, x)), 1.0)
    with np.errstate(all="raise", under="ignore"):
        result = inverse_digamma(value)
    assert (np.abs(result / x - 1) <= 4 * EPSILON * cost).all()


@pytest.mark.parametrize("value", [-1e6, -300.0, -2.221, -2.219, 0.0, 1.0, 5.0, 30.0])
def test_inverse_digamma_is_the_root_that_bisection_finds(value):
    root = brentq(
        lambda log_x: psi(np.exp(log_x)) - value, -40, 40, xtol=1e-14, rtol=1e-15
    )
    np.testing.assert_allclose(inverse_digamma(np.array([value])), np.exp(root), 1e-12)


# Rising factorials --------------------------------------------------------------------


@pytest.mark.parametrize("prior", [1e-4, 0.05, 1.0, 30.0])
@pytest.mark.parametrize("count", [0, 1, 2, 17, 200])
def test_log_growth_is_the_log_of_a_rising_factorial(prior, count):
    expected = np.log(prior + np.arange(count)).sum()
    result = log_growth(np.float64(prior), np.float64(count))
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


def drawn(a, b, n_draws=400_000):
    shares = np.random.default_rng(0).beta(a, b, size=(n_draws, len(a)))
    taken = np.column_stack([shares, np.ones(n_draws)])
    left = np.column_stack([np.ones(n_draws), np.cumprod(1.0 - shares, axis=1)])
    return taken * left


@pytest.mark.parametrize(
    ("expected", "of"), [(mean_weights, np.asarray), (log_weights, np.log)]
)
def test_expectations_are_those_of_draws(expected, of):
    a, b = np.array([3.0, 2.0, 6.0]), np.array([4.0, 9.0, 2.5])
    values = of(drawn(a, b))
    error = values.std(axis=0) / np.sqrt(len(values))
    assert (np.abs(expected(a, b) - values.mean(axis=0)) < 5.0 * error).all()
    assert (np.abs(expected(b, a) - values.mean(axis=0)) > 5.0 * error).any()


def test_rows_are_sticks_of_their_own(seed):
    a, b = np.random.default_rng(seed).gamma(2.0, size=(2, 5, 3))
    for function in (mean_weights, log_weights):
        together = function(a, b)
        for row in range(5):
            assert_allclose(together[row], function(a[row], b[row]))
    assert_allclose(mean_weights(a, b).sum(axis=1), 1.0)


# Dimension V, concentration k, log C_V(k), A_V(k), and the concentration whose A_V is
# the float r next to the latter; by mpmath at 50 digits: v = V / 2 - 1,
#     log C = v log(k) - log(besseli(v, k)) - V / 2 log(2 pi),
#     A = besseli(v + 1, k) / besseli(v, k), by its continued fraction, from the end:
#         a = 1 / (a + 2 (v + j) / k), j = n, .., 1,
#     the last by two steps k -= (A - r) / (1 - A^2 - (V - 1) A / k).
# In the largest two dimensions log C_V(1e6) is log C_(V-2) - log(2 pi A_(V-2) / k), and
# so on down to dimensions 2 and 3.
# Concentrations take turns between dimensions.
TABLE = """
2 1e-06 -1.8378770664095954836 4.9999999999993747737e-7 1.0000000000000000174e-6
2 0.5 -1.8994267855948267875 0.24249961258080194535 0.49999999999999998301
2 60 -58.87386725606448809 0.99163135012420877242 60.00000000000003199
2 20000 -19995.967201007092867 0.99997499968748437378 20000.000000003587367
3 0.001 -2.5310244136359519041 0.00033333331111111323445 0.00099999999999999997339
3 7 -6.8919660858249673547 0.85714452020167823116 6.9999999999999982284
3 1000 -994.93012178742720843 0.999 999.99999999999911182
3 1e+06 -999988.02236650844507 0.999999 999999.99997124433548
5 1e-06 -3.2702890247106265851 1.9999999999999427666e-7 9.9999999999999993881e-7
5 0.5 -3.2952003944709574011 0.099293556607689764453 0.50000000000000000105
5 60 -55.470257890058108363 0.96694915254237288136 60.000000000000039285
5 20000 -19983.868729026496393 0.99990000250012500625 20000.000000000136406
10 0.001 -3.2387428294590003522 0.000099999999166666680653 0.0010000000000000000525
10 7 -5.3376439030310983995 0.52712763631696386228 7.0000000000000010767
10 1000 -977.17766911234600308 0.99550788285570415094 999.99999999999516847
10 1e+06 -999946.10064141299888 0.99999550000787500787 999999.99998937639643
31 1e-06 8.1004540798899494863 3.2258064516128999266e-8 1.0000000000000000389e-6
31 0.5 8.096422314374299402 0.016125092472233370768 0.50000000000000000889
31 60 -24.396945701032612706 0.77922358785956652222 59.999999999999983322
31 20000 -19879.010592577071421 0.99925026251309152447 20000.000000001200115
50 0.001 25.473335061317369529 0.00001999999999230769273 0.00099999999999999999705
50 7 24.987844209019501984 0.13745327668998789489 6.9999999999999995046
50 60 0.057935054539491106758 0.66984059669543794976 59.999999999999997671
50 1000 -875.49997856146670954 0.97578812171736426269 1000.000000000001032
50 1e+06 -999706.54769158176032 0.99997550028787528783 1000000.000000345615
51 1e-06 26.50540837400028719 1.9607843137254893819e-8 1.0000000000000000236e-6
51 0.5 26.502957506940048021 0.0098030149672246117517 0.49999999999999999667
51 60 1.3845871555455704135 0.66467214884084346302 60.000000000000001291
51 1000 -872.95290957786378254 0.97530025528387347178 999.99999999999827076
51 20000 -19798.344737473686965 0.99875075003722150673 19999.999999999389186
200 0.001 243.96806960157543605 4.9999999998762377279e-6 0.001000000000000000052
200 7 243.84564377374837463 0.034957651166607027748 6.9999999999999996681
200 60 235.32838515769857416 0.27715233271356576755 59.999999999999998921
200 1000 -490.64829273272384045 0.90539328665562610079 1000.0000000000003066
200 1e+06 -998808.22056721283841 0.99990050490037988838 999999.99999960963254
3000 1e-06 7749.3049885760061989 3.3333333333333331821e-10 9.99999999999999959e-7
3000 0.5 7749.3049469093401107 0.00016666666204012165724 0.50000000000000002144
3000 60 7748.7051084322350702 0.019992011710631824264 60.000000000000001376
3000 20000 -7849.4669095208734814 0.92782995710051506734 20000.000000000003421
36901 0.001 141660.40956292693872 2.709953659792415616e-8 0.0010000000000000000208
36901 7 141660.40889898831757 0.00018969674935962859156 7.0000000000000001964
36901 1000 141646.86476486655599 0.027079665358887043618 1000.000000000000028
36901 1e+06 -778842.47479779128586 0.98172017771493599179 1000000.0000000019136
100000 1e-06 433747.23583192125308 9.9999999999999995475e-12 9.999999999999999395e-7
100000 0.5 433747.23583067125308 4.9999999998750025e-6 0.500000000000000041
100000 60 433747.21783192449301 0.00059999978400447542413 59.999999999999999719
100000 20000 431785.24876920458644 0.19258253145496523637 19999.999999999999668
"""
ROWS = [line.split() for line in TABLE.split("\n") if line]
DIMENSIONS = sorted({int(row[0]) for row in ROWS})


def relative_error(value, exact):
    """Of a float, to a number given by its digits."""
    digits = np.longdouble(exact)
    return float(abs(np.longdouble(value) - digits) / abs(digits))


def check_digits(function, column, given):
    for row in ROWS:
        result = float(function(np.float64(row[given]), int(row[0])))
        assert relative_error(result, row[column]) < 1e-12, row


def test_log_normaliser_has_its_digits():
    check_digits(log_normaliser, 2, given=1)


def test_ratio_has_its_digits():
    check_digits(bessel_ratio, 3, given=1)


def test_inverse_has_its_digits():
    check_digits(inverse_bessel_ratio, 4, given=3)


def by_scipy(k, dimension):
    """Log C_V as it is written, where nothing leaves the range."""
    v = 0.5 * dimension - 1.0
    bessel = np.log(ive(v, k)) + k
    return v * np.log(k) - bessel - 0.5 * dimension * np.log(2.0 * np.pi)


@pytest.mark.parametrize("dimension", [2, 3, 8, 49, 50, 51, 52, 53, 120])
def test_log_normaliser_is_that_of_scipy(dimension):
    k = np.geomspace(0.1, 500.0, 40)
    assert_allclose(log_normaliser(k, dimension), by_scipy(k, dimension), rtol=1e-11)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_ratio_is_the_slope_of_the_normaliser(dimension):
    k = np.geomspace(0.1 * dimension, 20.0 * dimension, 30)
    h = 1e-4 * k
    up, down = log_normaliser(k + h, dimension), log_normaliser(k - h, dimension)
    assert_allclose(-(up - down) / (2.0 * h), bessel_ratio(k, dimension), rtol=1e-6)


# Draws: 20,000 of them; false alarms below one in a million.


def test_draws_are_those_of_scipy(seed):
    rng = np.random.default_rng(seed)
    mean = np.array([0.6, 0.0, -0.8, 0.0])
    mine = draw(mean, 6.0, 20_000, rng)
    assert_allclose(np.linalg.norm(mine, axis=1), 1.0)
    theirs = vonmises_fisher(mean, 6.0).rvs(20_000, random_state=rng)
    for direction in np.vstack([mean, np.eye(4)]):
        assert kstest(mine @ direction, theirs @ direction).pvalue > 1e-6
    assert kstest(mine @ -mean, theirs @ mean).pvalue < 1e-6


@pytest.mark.parametrize("dimension", [2, 3, 40])
def test_draws_in_place_are_around_the_means_of_their_rows(dimension, seed):
    rng = np.random.default_rng(seed)
    naturals = rng.standard_normal((5, dimension)) * np.arange(5.0)[:, None]
    kept, rows = naturals.copy(), np.array([3, 0, 4])
    lengths = np.linalg.norm(naturals[rows], axis=1)
    draw_in_place(naturals, rows, lengths, np.random.default_rng(seed))
    assert_allclose(np.linalg.norm(naturals[rows], axis=1), 1.0)
    assert (naturals[[1, 2]] == kept[[1, 2]]).all()
    # The twin: the part of the same normal variables across the mean.
    rng = np.random.default_rng(seed)
    cosines = _draw_cosine_of_each(dimension, lengths, rng)
    normals = rng.standard_normal((3, dimension))
    for row, length, c, normal in zip(rows, lengths, cosines, normals, strict=True):
        mean = kept[row] / length if length else np.eye(dimension)[0]
        across = normal - (normal @ mean) * mean
        across /= np.linalg.norm(across)
        assert_allclose(naturals[row], c * mean + np.sqrt(1 - c**2) * across)
        assert not np.allclose(naturals[row], c * mean - np.sqrt(1 - c**2) * across)


def test_cosines_of_each_are_those_of_one(seed):
    rng = np.random.default_rng(seed)
    k = np.tile([0.0, 3.0, 200.0], 7000)
    result = _draw_cosine_of_each(30, k, rng)
    for one in (0.0, 3.0, 200.0):
        others = _draw_cosines(30, one, 7000, rng)
        assert kstest(result[k == one], others).pvalue > 1e-6
    assert kstest(result[k == 3.0], result[k == 200.0]).pvalue < 1e-6
