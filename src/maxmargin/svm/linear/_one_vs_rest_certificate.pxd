# cython: language_level=3
from libc.stdint cimport int64_t


cdef extern from "newton_loops.hpp" namespace "maxmargin" nogil:
    cdef struct ValueSums:
        double losses, worse, hinges, least, largest

    cdef struct DualSums:
        double total, balance, curved, norms


cdef class LinearCertificate:
    # The problem: sizes, what the loss and the bias are, and one number for each sample, as in `_one_vs_rest.pyx`.
    cdef int64_t n, m, d
    cdef bint smooth, free_bias
    cdef double B, stiffness, largest_sq_norm
    cdef const double *by_feature
    cdef const double *norms
    cdef const double *y
    cdef const double *u
    cdef const double *q
    # The point: w, margins c, weights a, and their sum v.
    cdef const double *w
    cdef const double *c
    cdef const double *a
    cdef const double *v
    # What proves the bound: the dual point p, p_i y_i, and the sum of p_i y_i x_i.
    cdef double *p
    cdef double *r
    cdef double *dual_v
    cdef ValueSums losses
    cdef DualSums sums
    cdef double value, bound, value_rounding, bound_rounding, sq_norm
    cdef void evaluate(self, double b) noexcept nogil
    cdef double stretch_factor(self, double b) noexcept nogil
    cdef int64_t prove(self, double total, double balance) noexcept nogil
    cdef double relative_gap(self) noexcept nogil
    cdef void record(self, double b, double slack, double* row) noexcept nogil
    cdef void scale_weights(self, const double* weights, double up, double down) noexcept nogil
    cdef double largest_share(self) noexcept nogil
    cdef void record_slack_form(self, double b, double slack, double* row) noexcept nogil
