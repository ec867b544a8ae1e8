# cython: language_level=3
from libc.stdint cimport int64_t


cdef class RowSource:
    cdef const double* pointer(self, int64_t sample) noexcept nogil
    cdef void fill(self, int64_t sample, int64_t first, int64_t size, double* out) noexcept nogil


cdef class DenseSamples(RowSource):
    cdef const double[:, ::1] samples
    cdef const double[:, :, ::1] blocks
    cdef const double[::1] shift
    cdef double factor
    cdef int64_t degree
    cdef bint exponential, hyperbolic
    cdef void kernels(self, const double* x, double shift_x, int64_t first, int64_t size, double* out) noexcept nogil
