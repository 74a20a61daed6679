/* Special functions of all entries of an array. */

#ifndef SKBNP_ARRAYS_H
#define SKBNP_ARRAYS_H

#include <stddef.h>

/* out_i = exp(psi(x_i)), log(x_i). */
void skbnp_exp_digamma(ptrdiff_t n, const double *x, double *out);
void skbnp_log(ptrdiff_t n, const double *x, double *out);

/* lnG(x_i) and psi(x_i). */
void skbnp_log_gamma(ptrdiff_t n, const double *x, double *log_gammas, double *digammas);

/* Returns sum factor_i ((a + b) log(a + b) - a log a - b log b)_i, a and b > 0. */
double skbnp_joint_entropy(ptrdiff_t n, const double *a, const double *b,
                           const double *factor);

#endif
