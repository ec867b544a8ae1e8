# cython: language_level=3
from libc.stdint cimport int64_t


cdef class RowSource:
    cdef const double* pointer(self, int64_t sample) noexcept nogil
    cdef void fill(self, int64_t sample, int64_t first, int64_t size, double* out) noexcept nogil
