# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The dual on a few examples whose kernel matrix is there as a whole: steps on one weight or on two, the best first.

  alpha  the weights, 0 <= alpha_i <= upper_i
  e      y_i - f_i, kept up with every change: what an example is short of, in the sign of its label

With a free bias the sum of alpha_i y_i stays what it is, so two weights move at a time, along y_i and -y_j: the pair of Fan,
Chen, Lin (2005), the most violating i, and for it the j with which the dual gains most. Without one, the single weight
that brings most.
"""

import numpy as np

from cython cimport floating
from libc.math cimport INFINITY
from libc.stdint cimport int64_t

from maxmargin.kernels.box cimport flat, moved, room, within

cdef extern from "rows.hpp" namespace "maxmargin" nogil:
    void wide_axpy(double a, const float* x, double* v, int64_t size)
    void wide_axpy(double a, const double* x, double* v, int64_t size)
    int64_t wide_step(double a, const float* x, const float* z, double* e, const double* bar, int64_t size, double* high)
    int64_t wide_step(double a, const double* x, const double* z, double* e, const double* bar, int64_t size, double* high)
    int64_t wide_partner(
        double high, double K_ii, const float* x, const double* diagonal, const double* e, const double* bar, int64_t size,
        double* low,
    )
    int64_t wide_partner(
        double high, double K_ii, const double* x, const double* diagonal, const double* e, const double* bar, int64_t size,
        double* low,
    )

def ascend_by_pairs(
    const floating[:, :] K, const double[::1] y, const double[::1] upper, double[::1] alpha, double[::1] e,
    double tol, int64_t most,
):
    """Steps on two weights until no pair violates the optimum by more than tol, or `most` were made.

    Returns the number of steps, the violation, and the bias.
    """
    cdef int64_t n = y.shape[0], steps = 0, i, j
    cdef double high, low, step
    cdef const floating* row_i
    cdef const floating* row_j
    # Added to e, they bar those whose y alpha cannot rise from being i, and those where it cannot fall from being j.
    cdef double[::1] rising = np.empty(n), falling = np.empty(n), diagonal = np.array(np.diagonal(K), dtype=np.float64)
    with nogil:
        for i in range(n):
            bar(i, y, upper, alpha, rising, falling)
        i = wide_step(0.0, &K[0, 0], &K[0, 0], &e[0], &rising[0], n, &high)
        low = high
        while i >= 0:
            row_i = &K[i, 0]
            j = wide_partner(high, diagonal[i], row_i, &diagonal[0], &e[0], &falling[0], n, &low)
            if high - low <= tol or j < 0 or steps >= most:
                break
            row_j = &K[j, 0]
            step = (high - e[j]) / flat(diagonal[i] + diagonal[j] - 2.0 * row_i[j], diagonal[i] + diagonal[j])
            step = min(step, room(y[i], alpha[i], upper[i]), room(-y[j], alpha[j], upper[j]))
            alpha[i] = moved(y[i], alpha[i], upper[i], step)
            alpha[j] = moved(-y[j], alpha[j], upper[j], step)
            bar(i, y, upper, alpha, rising, falling)
            bar(j, y, upper, alpha, rising, falling)
            i = wide_step(step, row_i, row_j, &e[0], &rising[0], n, &high)
            steps += 1
    return steps, high - low, 0.5 * (high + low)


cdef inline void bar(
    int64_t i, const double[::1] y, const double[::1] upper, const double[::1] alpha, double[::1] rising,
    double[::1] falling,
) noexcept nogil:
    """Say whether y alpha of an example can still rise, and fall."""
    cdef bint more = alpha[i] < upper[i], less = alpha[i] > 0
    rising[i] = 0.0 if (more if y[i] > 0 else less) else -INFINITY
    falling[i] = 0.0 if (less if y[i] > 0 else more) else INFINITY


def ascend_by_one(
    const floating[:, :] K, const double[::1] y, const double[::1] upper, double[::1] alpha, double[::1] e,
    double tol, int64_t most,
):
    """The same with steps on one weight, for a problem without a bias."""
    cdef int64_t n = y.shape[0], steps = 0, i, t
    cdef double best, gain, slope, step, violation, worst, chosen
    cdef const floating* row
    with nogil:
        while True:
            best, worst, i, chosen = 0.0, 0.0, -1, 0.0
            for t in range(n):
                slope = y[t] * e[t]
                if (slope > 0 and alpha[t] < upper[t]) or (slope < 0 and alpha[t] > 0):
                    violation = slope if slope > 0 else -slope
                    worst = violation if violation > worst else worst
                    step = within(alpha[t] + slope / flat(K[t, t], 0.0), upper[t]) - alpha[t]
                    gain = step * (slope - 0.5 * step * K[t, t])
                    if gain > best:
                        best, i, chosen = gain, t, step
            if worst <= tol or i < 0 or steps >= most:
                break
            alpha[i] = within(alpha[i] + chosen, upper[i])
            row = &K[i, 0]
            for t in range(n):
                e[t] -= chosen * y[i] * row[t]
            steps += 1
    return steps, worst, 0.0


def add_rows(const floating[:, :] rows, const int64_t[::1] places, const double[::1] factors, double[::1] f):
    """f <- f + sum of factor times row, over the rows at these places: their first entries, as many as f has."""
    cdef int64_t k
    with nogil:
        for k in range(places.shape[0]):
            wide_axpy(factors[k], &rows[places[k], 0], &f[0], f.shape[0])


def gather(const floating[:, :] rows, const int64_t[::1] places, const int64_t[::1] columns, floating[:, :] out):
    """out <- rows[places][:, columns]"""
    cdef int64_t k, j
    cdef const floating* row
    with nogil:
        for k in range(places.shape[0]):
            row = &rows[places[k], 0]
            for j in range(columns.shape[0]):
                out[k, j] = row[columns[j]]
