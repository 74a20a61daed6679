"""Special functions of arrays, several entries at a time."""

cdef extern from "src/arrays.h" nogil:
    void all_log(Py_ssize_t n, const double* x, double* out)
    void all_log_gamma(
        Py_ssize_t n, const double* x, double* log_gammas, double* digammas
    )


def log(const double[::1] x, double[::1] out):
    """Write the natural logarithm of each entry, a normal number > 0, to `out`."""
    if out.shape[0] != x.shape[0]:
        raise ValueError("x and out disagree on their length")
    if x.shape[0]:
        with nogil:
            all_log(x.shape[0], &x[0], &out[0])


def log_gamma(const double[::1] x, double[::1] log_gammas, double[::1] digammas):
    """Write lnG(x) and psi(x) of each entry, a normal number > 0, to the outputs.

    Errors are below 1e-14 times the larger of the value and 1.
    """
    if not log_gammas.shape[0] == digammas.shape[0] == x.shape[0]:
        raise ValueError("x, log_gammas and digammas disagree on their length")
    if x.shape[0]:
        with nogil:
            all_log_gamma(x.shape[0], &x[0], &log_gammas[0], &digammas[0])
