# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Draw an index with probability in proportion to weights that keep changing."""

# Each sum is recomputed from its eight children and not changed by differences: it depends on the current weights only,
# and rounding errors do not accumulate. Measured, in ns per update, with a draw after 450 random updates (n = 10^4;
# 1.4 * 10^6):
#   binary tree 11; 41   fan-out 4: 9; 31   fan-out 8: 8; 25   fan-out 16: 10; 31   fan-out 64: 23; 79
#   fan-out 16, sums computed at the draw: 6; 28   fan-out 128, sums changed by differences: 2; 7, but errors accumulate
# A draw alone takes 66; 143 ns with fan-out 8, 83; 180 ns in a binary tree.

import numpy as np

from libc.math cimport isfinite
from libc.stdint cimport int64_t, uintptr_t


cdef class WeightTree:
    """Weights w_0, ..., w_{n-1} >= 0 under updates, all zero at first.

    An update and a draw both take O(log n).

    Parameters
    ----------
    size : int
        The number of weights n.

    Examples
    --------
    >>> tree = WeightTree(3)
    >>> tree.fill([1.0, 0.0, 3.0])
    >>> tree.set(0, 2.0)
    >>> tree.total
    5.0
    >>> tree.draw(0.3), tree.draw(0.5)
    (0, 2)
    """

    def __cinit__(self, int64_t size):
        cdef int64_t k, families, width = size, end = 0, skip = 0
        cdef int64_t begin[22]
        cdef double[::1] memory
        if size < 1:
            raise ValueError(f"WeightTree needs at least one weight, got size={size}.")
        # Levels are stored one after the other, each family of eight siblings in one cache line.
        while True:
            families = (width + FAN - 1) // FAN
            begin[self.tree.depth] = end
            self.tree.depth += 1
            end += families * FAN
            if families == 1:
                break
            width = families
        memory = np.zeros(end + FAN)
        while <uintptr_t>&memory[skip] % (FAN * sizeof(double)):
            skip += 1
        for k in range(self.tree.depth):
            self.tree.level[k] = &memory[skip + begin[k]]
        self.size = size
        self.memory = memory

    @property
    def total(self):
        """The sum of all weights."""
        return total_weight(&self.tree)

    def get(self, int64_t i):
        """Return w_i."""
        self.check_index(i)
        return get_weight(&self.tree, i)

    def set(self, int64_t i, double weight):
        """Set w_i."""
        self.check_index(i)
        if not isfinite(weight) or weight < 0.0:
            raise ValueError(f"A weight must be finite and not negative, got {weight} for index {i}.")
        set_weight(&self.tree, i, weight)

    def fill(self, weights):
        """Set all weights at once, in O(n)."""
        cdef const double[::1] given = np.ascontiguousarray(weights, dtype=np.float64)
        cdef int64_t i
        if given.shape[0] != self.size:
            raise ValueError(f"Expected {self.size} weights, got {given.shape[0]}.")
        if not (np.isfinite(given).all() and np.min(given) >= 0.0):
            raise ValueError("Weights must be finite and not negative.")
        with nogil:
            for i in range(self.size):
                self.tree.level[0][i] = given[i]
            sum_up(&self.tree)

    def kept(self):
        """The weights, of which all else is made: see `maxmargin.engine.snapshot`."""
        return {"weights": np.array(<double[:self.size]>self.tree.level[0])}

    @classmethod
    def of_kept(cls, kept):
        """The weights again."""
        made = cls(kept["weights"].size)
        made.fill(kept["weights"])
        return made

    def draw(self, double u):
        """Return index i with probability w_i / total if u is uniform on [0, 1)."""
        if not 0.0 <= u < 1.0:
            raise ValueError(f"u must lie in [0, 1), got {u}.")
        if not self.total > 0.0:
            raise ValueError("No index can be drawn while all weights are zero.")
        return draw_index(&self.tree, u)

    cdef check_index(self, int64_t i):
        if not 0 <= i < self.size:
            raise IndexError(f"Index {i} is outside of 0, ..., {self.size - 1}.")


cdef void sum_up(const Tree* tree) noexcept nogil:
    """Recompute all sums after weights were written directly into level[0]."""
    cdef int64_t k, i, families
    for k in range(1, tree.depth):
        families = (tree.level[k] - tree.level[k - 1]) // FAN
        for i in range(families):
            tree.level[k][i] = family_sum(tree.level[k - 1] + i * FAN)


cdef int64_t draw_index(const Tree* tree, double u) noexcept nogil:
    cdef double rest = u * total_weight(tree), within = 0.0
    cdef const double* family
    cdef int64_t k, child, chosen, i = 0
    for k in range(tree.depth - 1, -1, -1):
        family = tree.level[k] + i * FAN
        chosen = 0
        for child in range(FAN):
            # By rounding, `rest` may exceed the sum of all children: then the last child with a positive weight is
            # chosen, and so on below it.
            if family[child] > 0.0:
                chosen, within = child, rest
                if rest < family[child]:
                    break
                rest -= family[child]
        i, rest = i * FAN + chosen, within
    return i
