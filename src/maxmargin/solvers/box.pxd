# cython: language_level=3
"""Weights between bounds, and steps of y alpha: what the ascents of the dual share."""


cdef inline double within(double a, double upper) noexcept nogil:
    return 0.0 if a < 0.0 else upper if a > upper else a


cdef inline double flat(double curvature) noexcept nogil:
    """The curvature, or the least that is divided by: two examples may be the same."""
    return curvature if curvature > 1e-12 else 1e-12


cdef inline double room(double y, double alpha, double upper) noexcept nogil:
    """How far y alpha can rise."""
    return upper - alpha if y > 0 else alpha


cdef inline double moved(double y, double alpha, double upper, double step) noexcept nogil:
    """alpha, where y alpha has risen by a step; one as long as there is room ends at the bound, to the bit."""
    if step >= room(y, alpha, upper):
        return upper if y > 0 else 0.0
    return within(alpha + y * step, upper)
