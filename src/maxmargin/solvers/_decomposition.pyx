# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The dual on a few examples whose kernel matrix is there as a whole: steps on one weight or on two, the best first.

  alpha  the weights, 0 <= alpha_i <= upper_i
  e      y_i - f_i, kept up with every change: what an example is short of, in the sign of its label

With a free bias the sum of alpha_i y_i stays what it is, so two weights move at a time, along y_i and -y_j: the pair of Fan,
Chen, Lin (2005), the most violating i, and for it the j with which the dual gains most. Without one, the single weight
that brings most.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int64_t

cdef extern from "rows.hpp" namespace "maxmargin" nogil:
    void wide_axpy(double a, const float* x, double* v, int64_t size)

cdef double FLAT = 1e-12  # the least curvature: two examples may be the same
cdef int64_t TILE = 4096  # numbers of f that stay in the cache while rows are added to them


def ascend_by_pairs(
    const float[:, :] K, const double[::1] y, const double[::1] upper, double[::1] alpha, double[::1] e,
    double tol, int64_t most,
):
    """Steps on two weights until no pair violates the optimum by more than tol, or `most` were made.

    Returns the number of steps, the violation, and the bias.
    """
    cdef int64_t n = y.shape[0], steps = 0, i, j, t
    cdef double high, low, best, gain, short, curvature, step, room, K_ii
    cdef const float* row_i
    cdef const float* row_j
    with nogil:
        while True:
            high, low, i, j, best = -INFINITY, INFINITY, -1, -1, -INFINITY
            for t in range(n):
                if e[t] > high and (alpha[t] < upper[t] if y[t] > 0 else alpha[t] > 0):
                    high, i = e[t], t
            if i < 0:
                break
            row_i, K_ii = &K[i, 0], K[i, i]
            for t in range(n):
                if alpha[t] > 0 if y[t] > 0 else alpha[t] < upper[t]:
                    low = e[t] if e[t] < low else low
                    short = high - e[t]
                    if short > 0:
                        curvature = K_ii + K[t, t] - 2.0 * row_i[t]
                        gain = short * short / (curvature if curvature > FLAT else FLAT)
                        if gain > best:
                            best, j = gain, t
            if high - low <= tol or j < 0 or steps >= most:
                break
            row_j = &K[j, 0]
            curvature = K_ii + K[j, j] - 2.0 * row_i[j]
            step = (high - e[j]) / (curvature if curvature > FLAT else FLAT)
            room = upper[i] - alpha[i] if y[i] > 0 else alpha[i]
            step = step if step < room else room
            room = alpha[j] if y[j] > 0 else upper[j] - alpha[j]
            step = step if step < room else room
            alpha[i] = within(alpha[i] + y[i] * step, upper[i])
            alpha[j] = within(alpha[j] - y[j] * step, upper[j])
            for t in range(n):
                e[t] -= step * (row_i[t] - row_j[t])
            steps += 1
    return steps, high - low, 0.5 * (high + low)


def ascend_by_one(
    const float[:, :] K, const double[::1] y, const double[::1] upper, double[::1] alpha, double[::1] e,
    double tol, int64_t most,
):
    """The same with steps on one weight, for a problem without a bias."""
    cdef int64_t n = y.shape[0], steps = 0, i, t
    cdef double best, gain, slope, step, violation, worst, chosen
    cdef const float* row
    with nogil:
        while True:
            best, worst, i, chosen = 0.0, 0.0, -1, 0.0
            for t in range(n):
                slope = y[t] * e[t]
                if (slope > 0 and alpha[t] < upper[t]) or (slope < 0 and alpha[t] > 0):
                    violation = slope if slope > 0 else -slope
                    worst = violation if violation > worst else worst
                    step = within(alpha[t] + slope / (K[t, t] if K[t, t] > FLAT else FLAT), upper[t]) - alpha[t]
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


cdef inline double within(double a, double upper) noexcept nogil:
    return 0.0 if a < 0.0 else upper if a > upper else a


def add_rows(const float[:, :] rows, const int64_t[::1] places, const double[::1] factors, double[::1] f):
    """f <- f + sum of factor times row, over the rows at these places: their first entries, as many as f has."""
    cdef int64_t start = 0, k, size
    with nogil:
        while start < f.shape[0]:
            size = min(TILE, f.shape[0] - start)
            for k in range(places.shape[0]):
                wide_axpy(factors[k], &rows[places[k], start], &f[start], size)
            start += size
