cimport cython
from libc.stdint cimport int64_t

cdef enum:
    FAN = 8  # children of a node: eight doubles are one cache line


# For loops without the GIL: take `&weights.tree` once, then call the functions below.
cdef struct Tree:
    double* level[22]  # level[0] holds the weights, level[k + 1] the sums of FAN siblings of level[k]
    int64_t depth


@cython.final
cdef class WeightTree:
    cdef Tree tree
    cdef readonly int64_t size
    cdef object memory
    cdef check_index(self, int64_t i)


cdef void sum_up(const Tree* tree) noexcept nogil
cdef int64_t draw_index(const Tree* tree, double u) noexcept nogil


cdef inline double family_sum(const double* first) noexcept nogil:
    return ((first[0] + first[1]) + (first[2] + first[3])) + ((first[4] + first[5]) + (first[6] + first[7]))


cdef inline void set_weight(const Tree* tree, int64_t i, double weight) noexcept nogil:
    cdef int64_t k
    tree.level[0][i] = weight
    for k in range(1, tree.depth):
        i = i // FAN
        tree.level[k][i] = family_sum(tree.level[k - 1] + i * FAN)


cdef inline double get_weight(const Tree* tree, int64_t i) noexcept nogil:
    return tree.level[0][i]


cdef inline double total_weight(const Tree* tree) noexcept nogil:
    return family_sum(tree.level[tree.depth - 1])
