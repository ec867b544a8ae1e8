# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Steps of SMO on a few samples whose kernel matrix is given as a whole, the best step first.

  alpha  the dual variables, 0 <= alpha_i <= upper_i
  e      y_i - f_i, updated with every step: the residual of sample i

With a free bias the sum of alpha_i y_i is constant, so a step changes two variables, along y_i and -y_j: the pair of Fan,
Chen, Lin (2005), the most violating i, and for it the j with which the dual gains most. Without a bias, a step changes the
single variable with which the dual gains most.
"""

import numpy as np

from cython cimport floating
from libc.math cimport INFINITY
from libc.stdint cimport int64_t

from maxmargin.kernels.box cimport after_step, at_least, clip, room

cdef extern from "pairs.hpp" namespace "maxmargin" nogil:
    int64_t update_and_find_largest(
        double step, const float* row_i, const float* row_j, double* e, const double* penalty, int64_t size, double* largest,
    )
    int64_t update_and_find_largest(
        double step, const double* row_i, const double* row_j, double* e, const double* penalty, int64_t size,
        double* largest,
    )
    int64_t best_partner(
        double e_i, double K_ii, const float* row_i, const double* diagonal, const double* e, const double* penalty,
        int64_t size, double* smallest,
    )
    int64_t best_partner(
        double e_i, double K_ii, const double* row_i, const double* diagonal, const double* e, const double* penalty,
        int64_t size, double* smallest,
    )


def ascend_by_pairs(
    const floating[:, :] K, const double[::1] y, const double[::1] upper, double[::1] alpha, double[::1] e,
    double tol, int64_t max_steps,
):
    """Make steps on pairs until no pair violates the optimality conditions by more than `tol`, or `max_steps` are made.

    Updates alpha and e. Returns the number of steps, the violation, and the bias.
    """
    cdef int64_t n = y.shape[0], steps = 0, i, j
    cdef double high, low, step
    cdef const floating* row_i
    cdef const floating* row_j
    # Penalties added to e: infinite ones keep samples from being i if y alpha cannot rise, and from being j if it cannot fall.
    cdef double[::1] rising = np.empty(n), falling = np.empty(n), diagonal = np.array(np.diagonal(K), dtype=np.float64)
    with nogil:
        for i in range(n):
            set_penalties(i, y, upper, alpha, rising, falling)
        i = update_and_find_largest(0.0, &K[0, 0], &K[0, 0], &e[0], &rising[0], n, &high)
        low = high
        while i >= 0:
            row_i = &K[i, 0]
            j = best_partner(high, diagonal[i], row_i, &diagonal[0], &e[0], &falling[0], n, &low)
            if high - low <= tol or j < 0 or steps >= max_steps:
                break
            row_j = &K[j, 0]
            step = (high - e[j]) / at_least(diagonal[i] + diagonal[j] - 2.0 * row_i[j], diagonal[i] + diagonal[j])
            step = min(step, room(y[i], alpha[i], upper[i]), room(-y[j], alpha[j], upper[j]))
            alpha[i] = after_step(y[i], alpha[i], upper[i], step)
            alpha[j] = after_step(-y[j], alpha[j], upper[j], step)
            set_penalties(i, y, upper, alpha, rising, falling)
            set_penalties(j, y, upper, alpha, rising, falling)
            i = update_and_find_largest(step, row_i, row_j, &e[0], &rising[0], n, &high)
            steps += 1
    return steps, high - low, 0.5 * (high + low)


cdef inline void set_penalties(
    int64_t i, const double[::1] y, const double[::1] upper, const double[::1] alpha, double[::1] rising,
    double[::1] falling,
) noexcept nogil:
    """Set the penalties of sample i: 0 where y alpha can still rise, or fall, and infinite where it cannot."""
    cdef bint below_upper = alpha[i] < upper[i], above_zero = alpha[i] > 0
    rising[i] = 0.0 if (below_upper if y[i] > 0 else above_zero) else -INFINITY
    falling[i] = 0.0 if (above_zero if y[i] > 0 else below_upper) else INFINITY


def ascend_by_one(
    const floating[:, :] K, const double[::1] y, const double[::1] upper, double[::1] alpha, double[::1] e,
    double tol, int64_t max_steps,
):
    """The same for a problem without a bias, by steps on single variables. The bias that is returned is 0."""
    cdef int64_t n = y.shape[0], steps = 0, i, t
    cdef double best_gain, gain, slope, step, violation, worst, best_step
    cdef const floating* row
    with nogil:
        while True:
            best_gain, worst, i, best_step = 0.0, 0.0, -1, 0.0
            for t in range(n):
                slope = y[t] * e[t]
                if (slope > 0 and alpha[t] < upper[t]) or (slope < 0 and alpha[t] > 0):
                    violation = slope if slope > 0 else -slope
                    worst = violation if violation > worst else worst
                    step = clip(alpha[t] + slope / at_least(K[t, t], 0.0), upper[t]) - alpha[t]
                    gain = step * (slope - 0.5 * step * K[t, t])
                    if gain > best_gain:
                        best_gain, i, best_step = gain, t, step
            if worst <= tol or i < 0 or steps >= max_steps:
                break
            alpha[i] = clip(alpha[i] + best_step, upper[i])
            row = &K[i, 0]
            for t in range(n):
                e[t] -= best_step * y[i] * row[t]
            steps += 1
    return steps, worst, 0.0
