# cython: language_level=3
from libc.stdint cimport int64_t


cdef class FreeStep:
    cdef double[::1] space
    cdef int64_t[::1] constraint
    cdef int64_t n, size, most_constraints
    cdef double *Q
    cdef double *G
    cdef double *M
    cdef double *z
    cdef double *direction
    cdef double *multiplier
    cdef double *gradient
    cdef double *lower
    cdef double *upper
    cdef double *change
    cdef void begin(self, int64_t n) noexcept nogil
    cdef int64_t maximise(self, bint balanced) noexcept nogil
    cdef bint add_constraint(self, int64_t count, int64_t variable) noexcept nogil
    cdef double product(self, int64_t constraint, const double* v) noexcept nogil
    cdef void find_direction(self, int64_t count) noexcept nogil
    cdef int64_t move(self) noexcept nogil
