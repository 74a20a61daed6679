/* exp, log, exp(digamma) and log gamma without branches, so that loops over them become
   vectors. */

#ifndef SKBNP_SPECIAL_H
#define SKBNP_SPECIAL_H

#include <math.h>
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

/* The same in single precision, for x in [-87, 88]; relative error below 2e-7. */
SKBNP_INLINE float fast_expf(float x)
{
    const float round = 12582912.0f; /* 1.5 * 2^23 */
    float shifted, n, r, p, scale;
    int32_t bits;

    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    shifted = x * 1.44269504f + round;
    memcpy(&bits, &shifted, sizeof bits);
    n = shifted - round;
    r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    bits = (int32_t)(((uint32_t)bits + 127u) << 23);
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

/* log(x) in single precision, for normal x > 0; absolute error below 2e-7 (1 + |log x|). */
SKBNP_INLINE float fast_logf(float x)
{
    uint32_t bits;
    int32_t exponent;
    float m, s, z, p;

    memcpy(&bits, &x, sizeof bits);
    bits -= 0x3f3504f3u; /* m in [sqrt(1/2), sqrt(2)), as below */
    exponent = (int32_t)bits >> 23;
    bits = (bits & 0x007fffffu) + 0x3f3504f3u;
    memcpy(&m, &bits, sizeof m);
    s = (m - 1.0f) / (m + 1.0f);
    z = s * s;
    p = 2.0f / 9.0f;
    p = p * z + 2.0f / 7.0f;
    p = p * z + 2.0f / 5.0f;
    p = p * z + 2.0f / 3.0f;
    p = s * (2.0f + z * p);
    return (float)exponent * 6.93147181e-01f + p;
}

/* log(x), 1 ulp or so, for normal x > 0. */
SKBNP_INLINE double fast_log(double x)
{
    uint64_t bits;
    int64_t exponent;
    double m, s, z, p;

    memcpy(&bits, &x, sizeof bits);
    /* x = m 2^exponent, m in [sqrt(1/2), sqrt(2)). */
    bits -= 0x3fe6a09e667f3bcdull;
    exponent = (int64_t)bits >> 52;
    bits = (bits & 0x000fffffffffffffull) + 0x3fe6a09e667f3bcdull;
    memcpy(&m, &bits, sizeof m);
    /* log(m) = 2 atanh(s), |s| <= 0.1716: terms to s^21, relative error below 1e-17. */
    s = (m - 1.0) / (m + 1.0);
    z = s * s;
    p = 2.0 / 21.0;
    p = p * z + 2.0 / 19.0;
    p = p * z + 2.0 / 17.0;
    p = p * z + 2.0 / 15.0;
    p = p * z + 2.0 / 13.0;
    p = p * z + 2.0 / 11.0;
    p = p * z + 2.0 / 9.0;
    p = p * z + 2.0 / 7.0;
    p = p * z + 2.0 / 5.0;
    p = p * z + 2.0 / 3.0;
    p = s * (2.0 + z * p);
    return (double)exponent * 6.93147180559945286e-01 + p;
}

/* log(1 + x), 1 ulp or so, for x > -1/2. */
SKBNP_INLINE double fast_log1p(double x)
{
    double u = 1.0 + x;
    return fast_log(u) + (x - (u - 1.0)) / u;
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

/* In single precision four shifts and three terms do: relative error of the factor times
   exp(exponent) below 2e-7 (1 + |psi(x)|). */
SKBNP_INLINE float digamma_factorf(float x)
{
    return x + 4.0f;
}

SKBNP_INLINE float digamma_exponentf(float x)
{
    float a = x * (x + 3.0f), v = 1.0f / (x + 4.0f), u = v * v;
    float shifts = (2.0f * x + 3.0f) * (2.0f * a + 2.0f) / (a * (a + 2.0f));
    float series = u * (1.0f / 12.0f - u * (1.0f / 120.0f - u * (1.0f / 252.0f)));
    return -(shifts + 0.5f * v + series);
}

/* The same exponent without its -1/x, which may be large; for any x up to 1e30. */
SKBNP_INLINE float digamma_restf(float x)
{
    float y = x < 1e9f ? x : 1e9f; /* behind, it is zero */
    float v = 1.0f / (y + 4.0f), u = v * v;
    float shifts = ((3.0f * y + 12.0f) * y + 11.0f) /
                   ((y + 1.0f) * (y + 2.0f) * (y + 3.0f));
    float series = u * (1.0f / 12.0f - u * (1.0f / 120.0f - u * (1.0f / 252.0f)));
    return -(shifts + 0.5f * v + series);
}

/* psi(x) and lnG(x) for normal x > 0, which share what is dear. Errors are a few 1e-16
   of the larger of the value and 8.

   lnG(x) = lnG(y) - log x(x+1)...(x+7), y = x + 8, by Stirling's series up to y^-13. */
SKBNP_INLINE double log_gamma(double x, double *digamma)
{
    double y = x + 8.0, log_y = fast_log(y);
    double low = x < 1e30 ? x : 1e30; /* behind, shifts are lost in rounding */
    double z = low + 4.0, a = low * (low + 3.0), b = z * (z + 3.0);
    double v = 1.0 / y, u = v * v;
    double series = 691.0 / 360360.0 - u * (1.0 / 156.0);
    series = 1.0 / 1188.0 - u * series;
    series = 1.0 / 1680.0 - u * series;
    series = 1.0 / 1260.0 - u * series;
    series = 1.0 / 360.0 - u * series;
    series = v * (1.0 / 12.0 - u * series);
    *digamma = log_y + digamma_exponent(low);
    return ((y - 0.5) * log_y - y) + (9.18938533204672742e-01 + series) -
           fast_log(a * (a + 2.0) * b * (b + 2.0));
}

/* psi'(x) for x in [1e-150, 1e150]; relative error below 1e-13.

   Of x + 8 by the asymptotic series up to its -13th power, and the shifts one by one. */
SKBNP_INLINE double trigamma(double x)
{
    double v = 1.0 / (x + 8.0), u = v * v, shifts = 0.0;
    double series = 5.0 / 66.0 - u * (691.0 / 2730.0);
    series = 1.0 / 30.0 - u * series;
    series = 1.0 / 42.0 - u * series;
    series = 1.0 / 30.0 - u * series;
    series = 1.0 / 6.0 - u * series;
    for (int i = 0; i < 8; i++)
        shifts += 1.0 / ((x + i) * (x + i));
    return shifts + v + u * (0.5 + v * series);
}

/* lnG(x + n) - lnG(x), exact to rounding where x is large, too. */
SKBNP_INLINE double log_rising(double x, double n)
{
    double digamma;
    if (x < 1e3)
        return log_gamma(x + n, &digamma) - log_gamma(x, &digamma);
    return (x - 0.5) * log1p(n / x) - n + n * log(x + n) -
           n / (12.0 * x * (x + n)); /* Stirling; the next term is below 1e-11 */
}

#endif
