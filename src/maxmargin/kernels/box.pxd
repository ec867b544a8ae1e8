# cython: language_level=3
"""Weights between bounds, and steps of y alpha: what the ascents of the dual share."""


from libc.math cimport fabs


cdef inline double within(double a, double upper) noexcept nogil:
    return 0.0 if a < 0.0 else upper if a > upper else a


cdef extern from "rows.hpp" namespace "maxmargin" nogil:
    const double least_curvature


cdef inline double flat(double curvature, double size) noexcept nogil:
    """The curvature, or the least that is divided by: that of two equal samples is 0, or less by rounding.

    `size` is the sum that the curvature is what is left of: the least is a share of it.
    """
    cdef double least = least_curvature * fabs(size)
    if curvature > least:
        return curvature
    return least if least > 0.0 else 1e-300


cdef inline double room(double y, double alpha, double upper) noexcept nogil:
    """How far y alpha can rise."""
    return upper - alpha if y > 0 else alpha


cdef inline double moved(double y, double alpha, double upper, double step) noexcept nogil:
    """alpha, where y alpha has risen by a step; one as long as there is room ends at the bound, to the bit."""
    if step >= room(y, alpha, upper):
        return upper if y > 0 else 0.0
    return within(alpha + y * step, upper)
