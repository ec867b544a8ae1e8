from libc.stdint cimport int64_t


cdef extern from "rows.hpp" namespace "maxmargin" nogil:
    cdef struct Reads:
        int64_t entries_read
        int64_t dense_count

    cdef cppclass Lines:
        int64_t count
        int64_t width
        int64_t size(int64_t i)
        double dot(int64_t i, const double* v)
        void axpy(int64_t i, double a, double* v)
        double sq_norm(int64_t i)
        double sq_distance(int64_t i, const double* v, double sq_v)
        int64_t read(int64_t i, int64_t* where, double* value)
        double entry(int64_t i, int64_t j)
        void prefetch(int64_t i)


cdef class Ledger:
    cdef Reads reads
    cdef readonly dict purposes


cdef class Matrix:
    cdef Lines* rows
    cdef Lines* columns
    cdef bint by_rows
    cdef object source
    cdef object other_axis
    cdef readonly Ledger ledger
    cdef readonly tuple shape
    cdef readonly int64_t n_stored, threads

    cdef object turn_over(self)
    cdef int64_t entries_of(self, int64_t rows)
    cdef Lines* need_rows(self) except NULL
    cdef Lines* need_columns(self) except NULL


cdef inline int64_t longest(Lines* lines) noexcept nogil:
    """The largest number of stored entries in a line; its width may be far more."""
    cdef int64_t i, size = 0
    for i in range(lines.count):
        size = max(size, lines.size(i))
    return size
