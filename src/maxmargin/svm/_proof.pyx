# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The loops of a proof over the samples of a part. Symbols as in `regularized.py`.

With the bounds U and the curvatures q of the dual variables, the weighted loss at a margin c is the largest
a (1 - c) - q a^2 / 2 for 0 <= a <= U: so a loss is known by its U and q.
"""

import numpy as np

from libc.math cimport fabs
from libc.stdint cimport int64_t

from maxmargin.svm cimport many_problems


cdef double UNIT = 2.0**-53  # the unit roundoff of float64


cdef inline double pull(double short, double upper, double q) noexcept nogil:
    """The a at which the loss is attained for a margin that is `short` of 1: minus its derivative in the margin."""
    cdef double a = short / q  # infinite if q is zero
    a = a if a < upper else upper
    return a if short > 0 else 0.0


cdef inline double loss(double short, double upper, double q) noexcept nogil:
    cdef double a = pull(short, upper, q)
    return a * (short - 0.5 * q * a)


def suggested_dual(const double[::1] c, const double[::1] y, double b, const double[::1] upper, const double[::1] q):
    """The dual variables that margins suggest: minus the derivatives of the weighted losses."""
    cdef int64_t i
    cdef double[::1] out = np.empty(c.shape[0])
    with nogil:
        for i in range(c.shape[0]):
            out[i] = pull(1.0 - (c[i] + y[i] * b), upper[i], q[i])
    return np.asarray(out)


def loss_sums(
    const double[::1] c,
    const double[::1] y,
    double b,
    const double[::1] s,
    const double[::1] upper,
    const double[::1] q,
    const double[::1] norms,
    double per_norm,
):
    """Sums and extremes over samples with the responses c and the bias b.

    Returned: the sum of the weighted losses; how much it can rise if response i is wrong by up to `per_norm` times norm i
    and by the rounding of what follows; the sum of s_i [1 - c_i - y_i b]_+; and, of samples with a weight, the least and
    the largest decision value.
    """
    cdef int64_t i
    cdef double value = 0, rise = 0, shortfall = 0, least = np.inf, largest = -np.inf
    cdef double margin, off, here, decision
    with nogil:
        for i in range(c.shape[0]):
            margin = c[i] + y[i] * b
            off = per_norm * norms[i] + 4 * UNIT * (fabs(c[i]) + fabs(b))
            here = loss(1.0 - margin, upper[i], q[i])
            value += here
            rise += loss(1.0 - (margin - off), upper[i], q[i]) - here
            shortfall += s[i] * (1.0 - margin) if margin < 1.0 else 0.0
            decision = y[i] * margin
            if s[i] > 0:
                least = decision if decision < least else least
                largest = decision if decision > largest else largest
    return value, rise, shortfall, least, largest


def bias_sums(
    const double[::1] c,
    const double[::1] y,
    double b,
    const double[::1] s,
    const double[::1] upper,
    const double[::1] q,
):
    """The slope of the losses in b, the sum of the absolute values of its terms, and its own slope where q > 0.

    Then, of samples with a weight, extremes of the bias at which a sample has margin 1, y_i (1 - c_i): the largest of
    positive samples, the least of negative ones, and the least and the largest of all.
    """
    cdef int64_t i
    cdef double slope = 0, size = 0, curvature = 0, a, kink
    cdef double enough = -np.inf, too_much = np.inf, least = np.inf, largest = -np.inf
    with nogil:
        for i in range(c.shape[0]):
            if not s[i] > 0:
                continue
            a = pull(1.0 - c[i] - y[i] * b, upper[i], q[i])
            slope -= a * y[i]
            size += a
            curvature += 1.0 / q[i] if a > 0 else 0.0
            kink = y[i] * (1.0 - c[i])
            if y[i] > 0:
                enough = kink if kink > enough else enough
            else:
                too_much = kink if kink < too_much else too_much
            least = kink if kink < least else least
            largest = kink if kink > largest else largest
    return slope, size, curvature, enough, too_much, least, largest


def count_kinks(
    const double[::1] c, const double[::1] y, const double[::1] s, const double[::1] edges, double[::1] weight, int64_t[::1] count
):
    """Add the weight and the number of the kinks y_i (1 - c_i) up to each edge, above the one before; then of the rest."""
    cdef int64_t i, low, high, middle
    cdef double kink
    with nogil:
        for i in range(c.shape[0]):
            if not s[i] > 0:
                continue
            kink = y[i] * (1.0 - c[i])
            low, high = 0, edges.shape[0]  # search for the first edge that is not below the kink
            while low < high:
                middle = (low + high) // 2
                if edges[middle] < kink:
                    low = middle + 1
                else:
                    high = middle
            weight[low] += s[i]
            count[low] += 1


def class_sums(
    const double[::1] p,
    const double[::1] y,
    double sign,
    const double[::1] upper,
    const double[::1] q,
    const double[::1] norms,
    double[::1] out,
):
    """Clip p to the box, for the samples of one class; of the others, `out` is zero.

    Returned: the sums of the clipped p_i, whose rounding errors are summed too and added last, of q_i p_i^2 and of
    p_i |x_i|, and how many were clipped.
    """
    cdef int64_t i, changed = 0
    cdef double total = 0, lost = 0, curvature = 0, length = 0, a, after
    with nogil:
        for i in range(p.shape[0]):
            if y[i] != sign:
                out[i] = 0.0
                continue
            a = p[i] if p[i] < upper[i] else upper[i]
            a = a if a > 0 else 0.0
            changed += a != p[i]
            out[i] = a
            after = total + a
            lost += (total - after) + a if total >= a else (a - after) + total
            total = after
            curvature += q[i] * a * a
            length += a * norms[i]
    return total + lost, curvature, length, changed


def bound_on_responses(double value, double gap, double norm, double imbalance, double largest_sq_norm):
    """A bound on the responses of the best w: see `many_problems.pxd`."""
    return many_problems.bound_on_responses(value, gap, norm, imbalance, largest_sq_norm)
