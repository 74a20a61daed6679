/* exp and exp(digamma) without branches, so that loops over them become vectors. */

#ifndef SKBNP_SPECIAL_H
#define SKBNP_SPECIAL_H

#include <stdint.h>
#include <string.h>

#include "clones.h"

/* exp(x), 1 ulp or so, for x in [-708, 709]; clamped outside. */
SKBNP_INLINE double fast_exp(double x)
{
    const double round = 6755399441055744.0; /* 1.5 * 2^52 */
    double shifted, n, r, p, scale;
    int64_t bits;

    x = x < -708.0 ? -708.0 : x;
    x = x > 709.0 ? 709.0 : x;
    shifted = x * 1.4426950408889634 + round;
    memcpy(&bits, &shifted, sizeof bits);
    n = shifted - round;
    r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    /* Taylor series to r^13, |r| <= ln(2) / 2: relative error below 1e-17. */
    p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    /* The low bits of `shifted` hold n: 2^n by its exponent. */
    bits = (int64_t)(((uint64_t)bits + 1023u) << 52);
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

/* exp(psi(x)) = digamma_factor(x) exp(digamma_exponent(x)) for x > 0, no logarithm.

   With y = x + 8 and psi(x) = psi(y) - sum_{i<8} 1/(x+i), the asymptotic series of
   psi(y) - log(y) up to y^-14 leaves a relative error below 1e-13. The shifts are summed
   as two rationals: with a = z(z+3), sum_{i<4} 1/(z+i) = (2z+3)(2a+2) / (a(a+2)). */
SKBNP_INLINE double digamma_factor(double x)
{
    return x + 8.0;
}

SKBNP_INLINE double digamma_exponent(double x)
{
    double z = x + 4.0, y = x + 8.0;
    double a = x * (x + 3.0), b = z * (z + 3.0);
    double shifts = (2.0 * x + 3.0) * (2.0 * a + 2.0) / (a * (a + 2.0)) +
                    (2.0 * z + 3.0) * (2.0 * b + 2.0) / (b * (b + 2.0));
    double v = 1.0 / y, u = v * v;
    double series = 691.0 / 32760.0 - u * (1.0 / 12.0);
    series = 1.0 / 132.0 - u * series;
    series = 1.0 / 240.0 - u * series;
    series = 1.0 / 252.0 - u * series;
    series = 1.0 / 120.0 - u * series;
    series = u * (1.0 / 12.0 - u * series);
    return -(shifts + 0.5 * v + series);
}

/* Below x = 1.42e-3, where exp(psi(x)) leaves the normal range, it is exp(-708) y. */
SKBNP_INLINE double exp_digamma(double x)
{
    return digamma_factor(x) * fast_exp(digamma_exponent(x));
}

#endif
