# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""One pass over the samples of decomposition, between two iterations."""


def measure(
    const double[::1] y, const double[::1] f, double b, const double[::1] alpha, const double[::1] upper,
    double[::1] short, double[::1] pull,
):
    """Compute 1 minus the margin of each sample, `short`, and its violation with the sign of the step that closes it, `pull`.

    Returns sum alpha_i, sum alpha_i y_i f_i, and sum upper_i [short_i]_+.
    """
    cdef Py_ssize_t i
    cdef double total = 0.0, square = 0.0, loss = 0.0, lack
    with nogil:
        for i in range(y.shape[0]):
            lack = 1.0 - y[i] * (f[i] + b)
            short[i] = lack
            pull[i] = 0.0
            if lack > 0:
                loss += upper[i] * lack
            if (alpha[i] < upper[i]) if lack > 0 else (alpha[i] > 0):
                pull[i] = y[i] * lack
            total += alpha[i]
            square += alpha[i] * y[i] * f[i]
    return total, square, loss
