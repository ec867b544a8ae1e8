# cython: language_level=3
from libc.math cimport INFINITY, fabs, sqrt
from libc.stdint cimport int64_t

# Why a problem ended; the same numbers as in `many_problems.py`.
cdef enum:
    TOL = 0
    MAX_ITER = 1
    EXHAUSTED = 2
    UNFINISHED = 3


cdef inline double level_over(
    const double* margins, const double* masses, int64_t size, double volume
) noexcept nogil:
    """The water level g over margins: sum of masses times (g - margin)_+ is the volume.

    Newton's method: the volume is a convex function of the level, so that each step ends at or above the solution.
    """
    cdef int64_t i
    cdef double mass = 0.0, sum = 0.0, level, before
    for i in range(size):
        mass += masses[i]
        sum += masses[i] * margins[i]
    level = (volume + sum) / mass
    while True:
        before, mass, sum = level, 0.0, 0.0
        for i in range(size):
            if margins[i] <= before:
                mass += masses[i]
                sum += masses[i] * margins[i]
        if not mass > 0.0:  # by rounding, with no volume: the level was the least margin already
            return before
        level = (volume + sum) / mass
        if not level < before:
            return before


cdef inline double bound_on_responses(
    double value, double gap, double norm, double imbalance, double largest_sq_norm
) noexcept nogil:
    """A bound on the responses of the best w, from a value and a dual point with |v| = `norm`.

    With R the largest norm of a row, the best w has 1/2 |w|^2 <= value, and 1/2 |w - v|^2 <= gap + imbalance |b| with
    |b| <= 1 + R |w|, where the gap is that of an exactly balanced dual point.
    """
    # A squared norm below 0 comes from a function that is not a kernel, for which there is no certificate.
    cdef double R = sqrt(max(0.0, largest_sq_norm)), off = imbalance * R, distance
    distance = off + sqrt(max(0.0, off * off + 2.0 * (gap + imbalance * (1.0 + R * norm))))
    return R * min(sqrt(max(0.0, 2.0 * value)), norm + distance)


cdef struct Direction:
    # A point w of the form with C and a dual point alpha with the sum v, and how far rounding may have moved them. The unit of
    # margins is that of the form with C, in which they are to be 1.
    double norm, norm_off  # |w|, and by how much the exact one may be larger
    double b
    double margin_off  # by how much an exact margin may be less
    double dual_norm, dual_norm_off  # |v|, and by how much the exact one may be larger
    double total, imbalance  # the sum of alpha, and by how much those of the two classes may differ
    double largest_norm  # of a sample
    double sum_rounding  # relative error of a sum over all samples


cdef inline void record_margin(
    double* row, double slack, const double* margins, const double* u, int64_t size, const Direction* at
) noexcept nogil:
    """Write value and bound of the slack form into a row of the table: of w at the length 1 with its bias, and of alpha over its sum.

    The margin is the water level at the slack, and no margin exceeds |v| + slack sum_i u_i max_i (alpha_i / u_i), over the sum of
    alpha; all in the units of the data. Allowances for rounding as in `SlackSVM.rounding`. Column 12 has been written.
    """
    cdef int64_t i
    cdef double volume = 0.0, level
    if not (at.norm > 0.0 and at.total > 0.0):  # no direction, and no margin
        row[1], row[2], row[3], row[4] = 0.0, INFINITY, 0.0, 0.0
        return
    for i in range(size):
        volume += slack * u[i]
    level = level_over(margins, u, size, volume * at.norm)
    row[1] = level / at.norm
    row[2] = (at.dual_norm + volume * row[12]) / at.total
    row[3] = at.margin_off + fabs(level) * at.norm_off / at.norm + at.sum_rounding * (fabs(level) + fabs(at.b) + 1.0)
    row[3] /= at.norm
    # The best bias is at most the largest response plus the margin, each at most the largest norm.
    row[4] = at.dual_norm_off / at.total + at.sum_rounding * row[2] + 2.0 * at.largest_norm * at.imbalance / at.total
