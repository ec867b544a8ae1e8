# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The loops of Newton's method over the samples of a part. Symbols as in `newton.py`.

The dual variable of a sample with margin c is a = (1 - c + soft * centre) / (q + soft), clipped to [0, U], with `soft` the
softness times m, and m the curvature q of a smooth loss, else 1. If both q and the softness are zero, it jumps from 0 to U
at c = 1. Functions take `some` samples by their numbers, or None for all of them.
"""

import numpy as np

from libc.stdint cimport int64_t, uint8_t
from scipy.linalg.cython_blas cimport dsyrk

from maxmargin.core._matrix cimport Lines, Matrix


cdef inline double weight(double c, double centre, double upper, double q, double soft) noexcept nogil:
    # There are no branches, which would be mispredicted: a positive number divided by zero is infinite, hence above U.
    cdef double pull = 1.0 - c + soft * centre
    cdef double a = pull / (q + soft)
    a = a if a < upper else upper
    return a if pull > 0 else 0.0


cdef inline double soft_of(double softness, double q, bint smooth) noexcept nogil:
    return softness * q if smooth else softness


cdef inline int64_t count_of(const int64_t[::1] some, const double[::1] every) noexcept nogil:
    return every.shape[0] if some is None else some.shape[0]


def weigh(
    const int64_t[::1] some,
    const double[::1] c,
    const double[::1] centre,
    const double[::1] upper,
    const double[::1] q,
    double softness,
    bint smooth,
    double[::1] a,
):
    """Set the dual variables of some samples by their margins; the change of each is returned."""
    cdef int64_t i, k, count = count_of(some, c)
    cdef double after
    cdef double[::1] change = np.empty(count)
    with nogil:
        for k in range(count):
            i = k if some is None else some[k]
            after = weight(c[i], centre[i], upper[i], q[i], soft_of(softness, q[i], smooth))
            change[k] = after - a[i]
            a[i] = after
    return np.asarray(change)


def look_along(
    const int64_t[::1] some,
    double[::1] along,
    double s_b,
    const double[::1] y,
    const double[::1] c,
    const double[::1] a,
    const double[::1] centre,
    const double[::1] upper,
    const double[::1] q,
    double softness,
    bint smooth,
):
    """Turn the products of rows with a step s into the changes of the margins `along` the step (s, s_b).

    Returned: the sum of a_i times the change, before the step and after the whole of it.
    """
    cdef int64_t i, k
    cdef double before = 0, after = 0, change
    with nogil:
        for k in range(along.shape[0]):
            i = k if some is None else some[k]
            change = y[i] * (along[k] + s_b)
            along[k] = change
            before += a[i] * change
            after += weight(c[i] + change, centre[i], upper[i], q[i], soft_of(softness, q[i], smooth)) * change
    return before, after


def slope_along(
    const int64_t[::1] some,
    const double[::1] along,
    double t,
    const double[::1] c,
    const double[::1] centre,
    const double[::1] upper,
    const double[::1] q,
    double softness,
    bint smooth,
):
    """The sum of a_i times the change of the margin, after the share t of the step."""
    cdef int64_t i, k
    cdef double total = 0
    with nogil:
        for k in range(along.shape[0]):
            i = k if some is None else some[k]
            total += weight(c[i] + t * along[k], centre[i], upper[i], q[i], soft_of(softness, q[i], smooth)) * along[k]
    return total


def move_along(
    const int64_t[::1] some,
    double[::1] along,
    double t,
    const double[::1] y,
    double[::1] c,
    double[::1] a,
    const double[::1] centre,
    const double[::1] upper,
    const double[::1] q,
    double softness,
    bint smooth,
):
    """Make the share t of the step: margins and dual variables change, and `along` becomes the changes of a_i y_i.

    Returned: how many samples came between their bounds, or left.
    """
    cdef int64_t i, k, crossed = 0
    cdef double before, after
    with nogil:
        for k in range(along.shape[0]):
            i = k if some is None else some[k]
            c[i] += t * along[k]
            before = a[i]
            after = weight(c[i], centre[i], upper[i], q[i], soft_of(softness, q[i], smooth))
            a[i] = after
            along[k] = (after - before) * y[i]
            crossed += (0 < before < upper[i]) != (0 < after < upper[i])
    return crossed


cdef inline double gap_term(double c, double a, double upper, double q) noexcept nogil:
    """The term of a sample in the gap, loss - a + q a^2 / 2 + a c >= 0."""
    cdef double best = weight(c, 0.0, upper, q, 0.0)
    return (best - a) * (1.0 - c - 0.5 * q * (best + a))


def dual_sums(
    const double[::1] c,
    const double[::1] a,
    const double[::1] y,
    const double[::1] centre,
    const double[::1] upper,
    const double[::1] q,
    double softness,
    bint smooth,
    const uint8_t[::1] known,
    const uint8_t[::1] inside,
):
    """Sums over samples, in the order of `newton.DualSums`: from `imbalance` to `changed`.

    The gap has terms of the samples whose margins are known: the dual variables of all others are optimal.
    """
    cdef double imbalance = 0, total = 0, curvature = 0, gap = 0, moved = 0, kink = 0, m
    cdef int64_t i, support = 0, count = 0, changed = 0
    cdef bint between
    with nogil:
        for i in range(a.shape[0]):
            imbalance += a[i] * y[i]
            total += a[i]
            curvature += q[i] * a[i] * a[i]
            if known[i]:
                gap += gap_term(c[i], a[i], upper[i], q[i])
            m = q[i] if smooth else 1.0
            moved += m * (a[i] - centre[i]) * (a[i] - centre[i])
            kink += m * a[i]
            between = a[i] > 0 and a[i] < upper[i]
            support += a[i] > 0
            count += between
            changed += between != inside[i]
    return imbalance, total, curvature, gap, softness * moved, kink, support, count, changed


def change_inside(
    const double[::1] a, const double[::1] upper, const double[::1] q, bint smooth, bint anew, uint8_t[::1] inside
):
    """Mark the samples strictly between their bounds as `inside`.

    Returned: those that were not marked before, and those that are no more; and 1 / m_i with the sign of the change. With
    `anew`, all samples that are inside are returned, as if none had been marked.
    """
    cdef int64_t i, count = 0
    cdef uint8_t between
    cdef int64_t[::1] changed = np.empty(a.shape[0], dtype=np.int64)
    cdef double[::1] weights = np.empty(a.shape[0])
    with nogil:
        for i in range(a.shape[0]):
            between = a[i] > 0 and a[i] < upper[i]
            if between != (0 if anew else inside[i]):
                changed[count] = i
                weights[count] = (1.0 if between else -1.0) / (q[i] if smooth else 1.0)
                count += 1
            inside[i] = between
    return np.asarray(changed)[:count], np.asarray(weights)[:count]


def add_dense_products(const double[:, ::1] Z, double sign, double[:, ::1] H):
    """H <- H + sign Z^T Z, in the lower triangle only."""
    cdef int n = <int>Z.shape[0], d = <int>Z.shape[1]
    cdef double one = 1.0
    if n == 0 or d == 0:
        return
    with nogil:  # what is the lower triangle here is the upper one in Fortran's order
        dsyrk("U", "N", &d, &n, &sign, <double*>&Z[0, 0], &d, &one, &H[0, 0], &d)


def reach(
    const double[::1] c,
    const double[::1] centre,
    const double[::1] upper,
    const double[::1] q,
    double softness,
    bint smooth,
    const double[::1] norms,
):
    """How far (w, b) may move before a sample at a bound can leave it, by |c - bound| / |x|; 0 for the others."""
    cdef int64_t i
    cdef double soft, top, room, below
    cdef double[::1] out = np.empty(c.shape[0])
    with nogil:
        for i in range(c.shape[0]):
            soft = soft_of(softness, q[i], smooth)
            top = 1.0 + soft * centre[i]  # for margins above this one, a = 0
            below = top - upper[i] * (q[i] + soft) - c[i]  # if this is positive, a = U
            room = c[i] - top
            room = room if room > below else below
            below = room / norms[i]
            out[i] = below if room > 0 else 0.0
    return np.asarray(out)


def add_outer_products(Matrix X, const int64_t[::1] rows, const double[::1] h, double[:, ::1] H):
    """H <- H + sum h_i x_i x_i^T over sparse rows, in the lower triangle only."""
    cdef Lines* lines = X.need_rows()
    cdef int64_t i, j, k, size = 1
    for i in range(rows.shape[0]):
        size = max(size, lines.size(rows[i]))
    cdef int64_t[::1] where = np.empty(size, dtype=np.int64)
    cdef double[::1] value = np.empty(size)
    cdef double scaled
    cdef double* row
    with nogil:
        for i in range(rows.shape[0]):
            size = lines.read(rows[i], &where[0], &value[0])
            sort_entries(&where[0], &value[0], size)
            for j in range(size):
                scaled, row = h[i] * value[j], &H[where[j], 0]
                for k in range(j + 1):
                    row[where[k]] += scaled * value[k]


cdef inline void sort_entries(int64_t* where, double* value, int64_t size) noexcept nogil:
    """Sort entries by insertion: most rows are sorted, and the outer product of the others takes as long."""
    cdef int64_t j, k, place
    cdef double moved
    for j in range(1, size):
        if where[j - 1] <= where[j]:
            continue
        place, moved, k = where[j], value[j], j
        while k > 0 and where[k - 1] > place:
            where[k], value[k] = where[k - 1], value[k - 1]
            k -= 1
        where[k], value[k] = place, moved
