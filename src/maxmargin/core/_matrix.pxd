from libc.stdint cimport int64_t


cdef extern from "rows.hpp" namespace "maxmargin" nogil:
    cdef cppclass Reads:
        int64_t entries_read
        int64_t dense_count
        double paid
        bint priced
        double spent()

    cdef cppclass Lines:
        int64_t count
        int64_t width
        int64_t size(int64_t i)
        double price(int64_t i)
        double dot(int64_t i, const double* v)
        void axpy(int64_t i, double a, double* v)
        double sq_norm(int64_t i)
        double sq_distance(int64_t i, const double* v, double sq_v)
        int64_t read(int64_t i, int64_t* where, double* value)
        double entry(int64_t i, int64_t j)
        void prefetch(int64_t i)


    ctypedef const Lines* (*Fetch)(void* reader, int64_t block) noexcept

    cdef cppclass Blocked(Lines):
        Blocked(
            const int64_t* starts, int64_t blocks, int64_t width, const int64_t* sizes, const double* prices, Fetch fetch,
            void* reader, Reads* reads
        )
        void forget()


cdef class Ledger:
    cdef Reads reads
    cdef readonly dict purposes
    cdef readonly int64_t chunks_fetched, bytes_fetched
    cdef public object failure


cdef class BlockReader:
    cdef object blocks, cache, hold, thread, ahead, before
    cdef object __weakref__
    cdef Ledger ledger
    cdef Lines* lines  # of the block at hand
    cdef Blocked* all_lines
    cdef int64_t width, last
    cdef bint of_rows
    cdef const int64_t[::1] starts, sizes
    cdef const double[::1] prices

    cdef const Lines* fetch(self, int64_t block) except NULL
    cdef int refuse_not_finite(self, int64_t block) except -1
    cdef double price(self, int64_t block)
    cpdef object release(self)
    cdef object upcoming(self, int64_t block)
    cdef int group(self, int64_t[::1] order, int64_t count, next_lines=*) except -1
    cpdef object blocks_of(self, lines)


cdef class Matrix:
    cdef Lines* rows
    cdef Lines* columns
    cdef bint by_rows, elsewhere
    cdef object source, shared
    cdef BlockReader row_reader, column_reader
    cdef readonly Ledger ledger
    cdef readonly tuple shape
    cdef readonly int64_t n_stored, threads

    cdef int group(self, int64_t[::1] order, int64_t count, next_rows=*) except -1
    cdef object turn_over(self)
    cdef object read(self, answer)
    cdef int64_t entries_of(self, int64_t rows)
    cdef Lines* need_rows(self) except NULL
    cdef Lines* need_columns(self) except NULL


cdef inline int64_t longest(Lines* lines) noexcept nogil:
    """The largest number of stored entries in a line; its width may be far more."""
    cdef int64_t i, size = 0
    for i in range(lines.count):
        size = max(size, lines.size(i))
    return size
