# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A step on all free dual variables together, by Newton's method.

Problem: the maximum of <g, d> - 1/2 <d, Q d> over lower <= d <= upper, with sum(d) = 0 if it is balanced. Given: Q, symmetric and
positive definite, the gradient g, and bounds with lower < 0 < upper. Returned: d of a larger value than 0; the maximum, if no
variable that has come to a bound would have to leave it again.

A path of straight lines leads from 0 towards the maximum. Where a variable comes to a bound, it stays there, and the path turns
towards the maximum over the others. Each variable that stays is a constraint <a, d> = 0 on the direction d, where a is a unit
vector; so is a balanced sum, where a is all ones. With z = Q^-1 g, which falls by t d with a step of t d,

  d = z - G M^-1 A^T z,    A the constraints as columns,    G = Q^-1 A,    M = A^T G:

another constraint takes another column of G and another row of the factor of M, while the factor of Q stays.
"""

import numpy as np

from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

cdef extern from "cholesky.hpp" namespace "maxmargin" nogil:
    const int64_t cholesky_block
    bint cholesky(double* A, int64_t n)
    bint cholesky_row(double* A, int64_t i, int64_t line)
    void solve_by_cholesky(const double* L, int64_t n, int64_t line, double* b)

cdef extern from "rows.hpp" namespace "maxmargin" nogil:
    void wide_axpy(double a, const double* x, double* v, int64_t size)

cdef enum:
    ALL = -1  # the constraint that the sum stays 0; others have the number of their variable
    FREE_PER_CONSTRAINT = 4  # the path ends when one in so many variables has come to a bound: a new factor of Q pays then


cdef class FreeStep:
    """Memory for the step, and the step.

    Parameters
    ----------
    most : int
        The largest number of variables, a multiple of 4.
    """

    def __init__(self, int64_t most):
        cdef int64_t constraints = 1 + most // FREE_PER_CONSTRAINT
        self.constraint = np.empty(constraints, dtype=np.int64)
        self.space = np.empty(most * (most + constraints + 6) + constraints * (constraints + 1))
        self.gradient = &self.space[0]
        self.lower, self.upper, self.change = self.gradient + most, self.gradient + 2 * most, self.gradient + 3 * most
        self.z, self.direction, self.multiplier = self.change + most, self.change + 2 * most, self.change + 3 * most
        self.Q = self.multiplier + constraints

    cdef void begin(self, int64_t n) noexcept nogil:
        """Room for n variables: Q, in rows of `size`, of which the lower triangle counts, the gradient, and the bounds."""
        cdef int64_t k
        self.n, self.size = n, (n + cholesky_block - 1) // cholesky_block * cholesky_block
        self.most_constraints = 1 + n // FREE_PER_CONSTRAINT
        self.G = self.Q + self.size * self.size
        self.M = self.G + self.most_constraints * self.size
        memset(self.Q + n * self.size, 0, (self.size - n) * self.size * sizeof(double))
        for k in range(n, self.size):  # fillers
            self.Q[k * self.size + k], self.gradient[k] = 1.0, 0.0

    cdef int64_t maximise(self, bint balanced) noexcept nogil:
        """Find the change; returns the number of constraints at its end, -1 where rounding leaves Q not positive definite."""
        cdef int64_t count = 0, blocking
        if not cholesky(self.Q, self.size):
            return -1
        memset(self.change, 0, self.n * sizeof(double))
        memcpy(self.z, self.gradient, self.size * sizeof(double))
        solve_by_cholesky(self.Q, self.size, self.size, self.z)
        if balanced:
            if not self.add_constraint(0, ALL):
                return -1
            count = 1
        while True:
            self.find_direction(count)
            blocking = self.move()
            if blocking < 0 or count == self.most_constraints or not self.add_constraint(count, blocking):
                return count
            count += 1

    cdef bint add_constraint(self, int64_t count, int64_t variable) noexcept nogil:
        """Add a constraint to `count` others; False where it follows from them up to rounding."""
        cdef int64_t c, k
        cdef double* column = self.G + count * self.size
        for k in range(self.size):
            column[k] = 1.0 if k == variable or (variable == ALL and k < self.n) else 0.0
        solve_by_cholesky(self.Q, self.size, self.size, column)
        self.constraint[count] = variable
        for c in range(count + 1):
            self.M[count * self.most_constraints + c] = self.product(self.constraint[c], column)
        return cholesky_row(self.M, count, self.most_constraints)

    cdef double product(self, int64_t constraint, const double* v) noexcept nogil:
        cdef double total = 0.0
        cdef int64_t k
        if constraint != ALL:
            return v[constraint]
        for k in range(self.n):
            total += v[k]
        return total

    cdef void find_direction(self, int64_t count) noexcept nogil:
        cdef int64_t c
        memcpy(self.direction, self.z, self.n * sizeof(double))
        for c in range(count):
            self.multiplier[c] = self.product(self.constraint[c], self.z)
        solve_by_cholesky(self.M, count, self.most_constraints, self.multiplier)
        for c in range(count):
            wide_axpy(-self.multiplier[c], self.G + c * self.size, self.direction, self.n)
        for c in range(count):
            if self.constraint[c] != ALL:
                self.direction[self.constraint[c]] = 0.0  # exactly

    cdef int64_t move(self) noexcept nogil:
        """Move along the direction to its end, or to the first bound; returns the variable that came to it, -1 if none did."""
        cdef int64_t k, blocking = -1
        cdef double step = 1.0, bound
        for k in range(self.n):
            if self.direction[k] != 0.0:
                bound = self.upper[k] if self.direction[k] > 0 else self.lower[k]
                if (bound - self.change[k]) / self.direction[k] < step:
                    step, blocking = max(0.0, (bound - self.change[k]) / self.direction[k]), k
        wide_axpy(step, self.direction, self.change, self.n)
        wide_axpy(-step, self.direction, self.z, self.n)
        if blocking >= 0:
            self.change[blocking] = self.upper[blocking] if self.direction[blocking] > 0 else self.lower[blocking]
        return blocking


def maximise_from_zero(
    const double[:, ::1] Q, const double[::1] gradient, const double[::1] lower, const double[::1] upper, bint balanced
):
    """The change of the variables that `FreeStep` finds."""
    cdef int64_t n = gradient.shape[0], k, t
    cdef FreeStep step = FreeStep(n + cholesky_block)
    step.begin(n)
    for k in range(n):
        step.gradient[k], step.lower[k], step.upper[k] = gradient[k], lower[k], upper[k]
        for t in range(k + 1):
            step.Q[k * step.size + t] = Q[k, t]
    if step.maximise(balanced) < 0:
        raise np.linalg.LinAlgError("Q is not positive definite")
    return np.array([step.change[k] for k in range(n)])
