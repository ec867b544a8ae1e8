# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Ascent of the dual by steps on two variables or on one, as long as the rows of K that it needs are in the cache.

  alpha   the dual variables, 0 <= alpha_i <= upper_i
  e       y_i - f_i, updated with every step for the active samples
  active  the indices of the active samples

With a free bias, SMO changes the pair of Fan, Chen, Lin (2005): the most violating i, and for it the j with which the dual
gains most. Without one, it changes the single variable with which the dual gains most; a penalised bias adds rho to every
entry of K. SDCA visits the samples in a given order.
"""

from cython cimport floating
from libc.math cimport INFINITY, fabs
from libc.stdint cimport int64_t

from maxmargin.kernels.box cimport after_step, at_least, clip, room

cdef extern from "rows.hpp" namespace "maxmargin" nogil:
    void wide_axpy(double a, const float* x, double* v, int64_t size)
    void wide_axpy(double a, const double* x, double* v, int64_t size)

cdef double LEAST_VIOLATION = 1e-10  # smaller violations of the optimality conditions are not worth a step


cdef class RowFinder:
    """Finds rows in the cache of a KernelMatrix and marks them as used, through its `lookup`."""

    cdef const int64_t[::1] slots, widths
    cdef int64_t[::1] last_used, clock

    def __init__(self, lookup):
        self.slots, self.widths = lookup.slots, lookup.widths
        self.last_used, self.clock = lookup.last_used, lookup.clock

    cdef int64_t find(self, int64_t i) noexcept nogil:
        """The slot of row i, or -1 if the cache does not hold it as a whole."""
        cdef int64_t slot = self.slots[i]
        if slot < 0 or self.widths[slot] < self.slots.shape[0]:
            return -1
        self.clock[0] += 1
        self.last_used[slot] = self.clock[0]
        return slot


def ascend_by_pairs(
    const floating[:, ::1] rows, RowFinder cache, const int64_t[::1] active, const double[::1] y, const double[::1] upper,
    const double[::1] diagonal, double[::1] alpha, double[::1] e, int64_t max_steps,
):
    """Make steps on pairs until a row is missing, no pair violates the optimality conditions, or `max_steps` are made.

    Updates alpha and e. Returns the number of steps, the missing row (or -1), and the gain in the dual.
    """
    cdef int64_t made = 0, missing = -1, slot, i, j, k, t
    cdef double high, best, gain, violation, curvature, step, gained = 0.0
    cdef const floating* row_i
    cdef const floating* row_j
    with nogil:
        while made < max_steps:
            i, high = -1, -INFINITY
            for k in range(active.shape[0]):
                t = active[k]
                if e[t] > high and room(y[t], alpha[t], upper[t]) > 0:
                    i, high = t, e[t]
            if i < 0:
                break
            slot = cache.find(i)
            if slot < 0:
                missing = i
                break
            row_i = &rows[slot, 0]
            j, best = -1, 0.0
            for k in range(active.shape[0]):
                t = active[k]
                violation = high - e[t]
                if violation > LEAST_VIOLATION and room(-y[t], alpha[t], upper[t]) > 0:
                    curvature = at_least(diagonal[i] + diagonal[t] - 2.0 * row_i[t], diagonal[i] + diagonal[t])
                    gain = violation * violation / curvature
                    if gain > best:
                        j, best = t, gain
            if j < 0:
                break
            slot = cache.find(j)
            if slot < 0:
                missing = j
                break
            row_j = &rows[slot, 0]
            violation = high - e[j]
            curvature = at_least(diagonal[i] + diagonal[j] - 2.0 * row_i[j], diagonal[i] + diagonal[j])
            step = min(violation / curvature, room(y[i], alpha[i], upper[i]), room(-y[j], alpha[j], upper[j]))
            alpha[i] = after_step(y[i], alpha[i], upper[i], step)
            alpha[j] = after_step(-y[j], alpha[j], upper[j], step)
            for k in range(active.shape[0]):
                t = active[k]
                e[t] -= step * (<double>row_i[t] - row_j[t])
            gained += step * (violation - 0.5 * step * curvature)
            made += 1
    return made, missing, gained


def ascend_by_one(
    const floating[:, ::1] rows, RowFinder cache, const int64_t[::1] active, const double[::1] y, const double[::1] upper,
    const double[::1] diagonal, double[::1] alpha, double[::1] e, int64_t max_steps, double rho,
):
    """The same with steps on single variables."""
    cdef int64_t made = 0, missing = -1, slot, i, k, t
    cdef double best, gain, slope, curvature, step, gained = 0.0
    cdef const floating* row
    with nogil:
        while made < max_steps:
            i, best = -1, 0.0
            for k in range(active.shape[0]):
                t = active[k]
                slope, curvature = y[t] * e[t], at_least(diagonal[t] + rho, rho)
                if fabs(slope) > LEAST_VIOLATION:
                    step = clip(alpha[t] + slope / curvature, upper[t]) - alpha[t]
                    gain = step * (slope - 0.5 * step * curvature)
                    if gain > best:
                        i, best = t, gain
            if i < 0:
                break
            slot = cache.find(i)
            if slot < 0:
                missing = i
                break
            row = &rows[slot, 0]
            step = alpha[i]
            alpha[i] = clip(alpha[i] + y[i] * e[i] / at_least(diagonal[i] + rho, rho), upper[i])
            step = y[i] * (alpha[i] - step)
            for k in range(active.shape[0]):
                t = active[k]
                e[t] -= step * (row[t] + rho)
            gained += best
            made += 1
    return made, missing, gained


def visit(
    const floating[:, ::1] rows, RowFinder cache, const int64_t[::1] order, const double[::1] y, const double[::1] upper,
    const double[::1] q, const double[::1] diagonal, double[::1] alpha, double[::1] f, double b, double rho,
):
    """Visit these samples in order, and maximise the dual over the variable of each, until a row is missing.

    Updates alpha and f. Returns the number of visits, how many of them changed a variable, the missing row (or -1), and
    the bias.
    """
    cdef int64_t made = 0, changed = 0, missing = -1, slot, i
    cdef double slope, best, change
    cdef const floating* row
    with nogil:
        while made < order.shape[0]:
            i = order[made]
            slope = 1.0 - y[i] * (f[i] + b) - q[i] * alpha[i]
            best = clip(alpha[i] + slope / at_least(diagonal[i] + rho + q[i], rho), upper[i])
            if fabs(slope) > LEAST_VIOLATION and best != alpha[i]:
                slot = cache.find(i)
                if slot < 0:
                    missing = i
                    break
                row = &rows[slot, 0]
                change = y[i] * (best - alpha[i])
                alpha[i] = best
                wide_axpy(change, row, &f[0], f.shape[0])
                b += rho * change
                changed += 1
            made += 1
    return made, changed, missing, b
