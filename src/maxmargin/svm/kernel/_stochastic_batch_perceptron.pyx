# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The wet points of the Stochastic Batch Perceptron as it is written: section 3.2 of Cotter, Shalev-Shwartz, Srebro (2012).

Problem: the level g of the water with sum_i s_i (g - c_i)_+ = V over the responses c_i = y_i f_i. Given: a height below
which g is believed to be. Returned: the points with c_i <= g, and g.
"""

from libc.stdint cimport int64_t


def pour_below(
    const double[::1] y, const double[::1] f, const double[::1] s, double volume, double highest, int64_t[::1] points,
):
    """Write the wet points to `points`; return how many, and the level. No points if the level is above `highest`.

    Heights are counted from `highest` downwards, as the level is near it. The level is a root of a convex function, so
    each Newton step from above ends at or above it: what is dry then stays dry.
    """
    cdef int64_t n = f.shape[0], wet = 0, before = -1, i, k
    cdef double mass, moment, least, c, level = 1.0
    with nogil:
        for i in range(n):
            points[wet] = i  # without a branch, which would be mispredicted for every other point
            wet += (y[i] * f[i] <= highest) & (s[i] > 0)
        while wet > 0 and wet != before:
            mass, moment, least, before = 0.0, volume, 0.0, wet
            for k in range(wet):
                i = points[k]
                c = y[i] * f[i] - highest
                mass += s[i]
                moment += s[i] * c
                least = min(least, c)
            level = max(moment / mass, least)  # rounding must not leave the lowest point dry
            if level > 0:
                wet = 0
                break
            wet = 0
            for k in range(before):
                i = points[k]
                points[wet] = i
                wet += y[i] * f[i] - highest <= level
    return wet, highest + level
