#include "arrays.h"

#include "special.h"

SKBNP_CLONES
void skbnp_exp_digamma(ptrdiff_t n, const double *x, double *out)
{
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = exp_digamma(x[i]);
}

SKBNP_CLONES
void skbnp_log(ptrdiff_t n, const double *x, double *out)
{
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = fast_log(x[i]);
}

SKBNP_CLONES
void skbnp_log_gamma(ptrdiff_t n, const double *x, double *log_gammas, double *digammas)
{
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t i = 0; i < n; i++)
        log_gammas[i] = log_gamma(x[i], &digammas[i]);
}

SKBNP_CLONES
double skbnp_joint_entropy(ptrdiff_t n, const double *a, const double *b,
                           const double *factor)
{
    double total = 0.0;
    SKBNP_PRAGMA(omp simd reduction(+ : total))
    for (ptrdiff_t i = 0; i < n; i++) {
        double both = a[i] + b[i];
        double part = a[i] * fast_log(both / a[i]) + b[i] * fast_log(both / b[i]);
        total += factor[i] * part;
    }
    return total;
}
