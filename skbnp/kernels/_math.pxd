"""Special functions without branches, see src/special.h."""

cdef extern from "src/special.h" nogil:
    double fast_exp(double x)
    float fast_expf(float x)
    double fast_log(double x)
    double digamma_factor(double x)
    double digamma_exponent(double x)
    double log_gamma(double x, double* digamma)
    double log_rising(double x, double n)
