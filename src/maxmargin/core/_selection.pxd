cimport cython
from libc.stdint cimport int64_t

from maxmargin.core._sampling cimport Tree


cdef struct Item:
    double prior
    int64_t group
    int64_t place  # its index in the heap of its group
    double tally  # the sum of its fractions at all counts, minus the number of counts if it is top


cdef struct Entry:
    int64_t rank
    int64_t tie


cdef enum:
    GROUPS = 4  # 0: rest, label 0; 1: rest, label 1; 2: top, label 0; 3: top, label 1


# Methods that start with an underscore do not check their arguments; they are for loops without the GIL.
@cython.final
cdef class TopWeights:
    cdef readonly int64_t size
    cdef readonly double mass
    cdef readonly double top_mass
    cdef double counts
    cdef Item* items
    cdef Entry* heap[GROUPS]
    cdef int64_t count[GROUPS]
    cdef int64_t offset[GROUPS]
    cdef int64_t reference[GROUPS]
    cdef const Tree* tree[GROUPS]
    cdef list owners

    cdef void _add(self, int64_t i, double delta) noexcept nogil
    cdef void _shift(self, bint top, int64_t label, double delta) noexcept nogil
    cdef void _restore(self, double tolerance=*) noexcept nogil
    cdef double _key(self, int64_t i) noexcept nogil
    cdef bint _is_top(self, int64_t i) noexcept nogil
    cdef double _fraction(self, int64_t i) noexcept nogil
    cdef int64_t _boundary(self) noexcept nogil
    cdef int64_t _draw(self, double u) noexcept nogil
    cdef double _log_total(self) noexcept nogil
    cdef double _probability(self, int64_t label) noexcept nogil
    cdef void _tally(self) noexcept nogil

    cdef int64_t next_group(self, bint top) noexcept nogil
    cdef int64_t root(self, int64_t group) noexcept nogil
    cdef int64_t whole_key(self, int64_t i) noexcept nogil
    cdef bint precedes(self, int64_t i, int64_t j, int64_t lead) noexcept nogil
    cdef void cross(self, int64_t i) noexcept nogil
    cdef void enter(self, int64_t i, int64_t group, int64_t key) noexcept nogil
    cdef void sift(self, int64_t group, int64_t place, Entry entry) noexcept nogil
    cdef void weigh(self, int64_t i) noexcept nogil
    cdef void recentre(self, int64_t group) noexcept nogil
    cdef double group_weights(self, double* weight) noexcept nogil
    cdef check_index(self, int64_t i)
    cdef enter_all(self, const int64_t[:] order, const int64_t[:] group, const int64_t[:] key, const double[:] prior)
    cdef grow_tree(self, int64_t group)
    cdef void* allocate(self, int64_t size)
