# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What Newton's method asks of each example, in one go over the examples. Symbols as in `newton.py`.

The weight of an example at the margin c is a = clip((1 - c + softness * centre) / (q + softness)) to [0, U]; where both q
and the softness are zero it jumps from 0 to U at c = 1.
"""

import numpy as np

from libc.math cimport INFINITY, fmax, fmin
from libc.stdint cimport int64_t

from maxmargin.core._matrix cimport Lines, Matrix, longest


cdef inline double weight(double c, double centre, double upper, double q, double softness) noexcept nogil:
    cdef double pull = 1.0 - c + softness * centre
    if pull <= 0:
        return 0.0
    return fmin(pull / (q + softness), upper) if q + softness > 0 else upper


def weigh(
    const double[::1] c, const double[::1] centre, const double[::1] upper, const double[::1] q, double softness
):
    """The weights a of the examples."""
    cdef int64_t i
    cdef double[::1] a = np.empty(c.shape[0])
    with nogil:
        for i in range(c.shape[0]):
            a[i] = weight(c[i], centre[i], upper[i], q[i], softness)
    return np.asarray(a)


def pull_along(
    const double[::1] c,
    const double[::1] along,
    double t,
    const double[::1] centre,
    const double[::1] upper,
    const double[::1] q,
    double softness,
):
    """sum a_i along_i at the margins c + t along, and minus its derivative in t."""
    cdef int64_t i
    cdef double a, total = 0.0, curvature = 0.0
    with nogil:
        for i in range(c.shape[0]):
            a = weight(c[i] + t * along[i], centre[i], upper[i], q[i], softness)
            total += a * along[i]
            if 0 < a < upper[i]:
                curvature += along[i] * along[i] / (q[i] + softness)
    return total, curvature


def gap_of(const double[::1] c, const double[::1] a, const double[::1] upper, const double[::1] q):
    """What the examples add to the gap: loss - a + q a^2 / 2 + a c, which is never negative."""
    cdef int64_t i
    cdef double best, total = 0.0
    with nogil:
        for i in range(c.shape[0]):
            best = weight(c[i], 0.0, upper[i], q[i], 0.0)
            total += (best - a[i]) * (1.0 - c[i]) - 0.5 * q[i] * (best * best - a[i] * a[i])
    return total


def reach(
    const double[::1] c,
    const double[::1] centre,
    const double[::1] upper,
    const double[::1] q,
    double softness,
    const double[::1] norms,
):
    """How far w may move before an example at a bound can leave it: |c - bound| / |x|; 0 for the others."""
    cdef int64_t i
    cdef double top, room
    cdef double[::1] out = np.zeros(c.shape[0])
    with nogil:
        for i in range(c.shape[0]):
            top = 1.0 + softness * centre[i]  # from here on the weight is 0
            room = c[i] - top
            if room < 0 and upper[i] < INFINITY:
                room = top - upper[i] * (q[i] + softness) - c[i]  # below this it is U
            if room > 0:
                out[i] = room / norms[i] if norms[i] > 0 else INFINITY
    return np.asarray(out)


def add_outer_products(Matrix X, const int64_t[::1] rows, const double[::1] h, double[:, ::1] H):
    """H <- H + sum h_i x_i x_i^T over sparse rows: the lower half only."""
    cdef Lines* lines = X.need_rows()
    cdef int64_t i, j, k, size
    cdef int64_t[::1] where = np.empty(max(longest(lines), 1), dtype=np.int64)
    cdef double[::1] value = np.empty(where.shape[0])
    cdef double scaled
    with nogil:
        for i in range(rows.shape[0]):
            size = lines.read(rows[i], &where[0], &value[0])
            for j in range(size):
                scaled = h[i] * value[j]
                for k in range(size):
                    if where[k] <= where[j]:
                        H[where[j], where[k]] += scaled * value[k]
