# cython: language_level=3
"""Steps of dual variables between their bounds 0 and upper, shared by the compiled ascents of the dual."""

from libc.math cimport fabs

cdef extern from "pairs.hpp" namespace "maxmargin" nogil:
    const double least_curvature, smallest_divisor


cdef inline double clip(double alpha, double upper) noexcept nogil:
    """The nearest number between 0 and upper."""
    return 0.0 if alpha < 0.0 else upper if alpha > upper else alpha


cdef inline double at_least(double curvature, double size) noexcept nogil:
    """The curvature, but at least a small share of `size`, the sum of the positive terms of the curvature.

    The curvature along a pair of equal samples is 0, or negative by rounding; a step cannot be divided by that.
    """
    cdef double least = least_curvature * fabs(size)
    if curvature > least:
        return curvature
    return least if least > 0.0 else smallest_divisor


cdef inline double room(double y, double alpha, double upper) noexcept nogil:
    """How far y alpha can rise before alpha reaches a bound."""
    return upper - alpha if y > 0 else alpha


cdef inline double after_step(double y, double alpha, double upper, double step) noexcept nogil:
    """The value of alpha after y alpha has risen by `step`; a step of all the room ends exactly at the bound."""
    if step >= room(y, alpha, upper):
        return upper if y > 0 else 0.0
    return clip(alpha + y * step, upper)
