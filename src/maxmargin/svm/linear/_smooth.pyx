# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Loops of the smooth SVM over rows: many rows at one point, or a gradient step after each. A visit reads a row once."""

import numpy as np

from libc.math cimport fabs
from libc.stdint cimport int64_t

from maxmargin.core._matrix cimport Lines, Matrix, longest

cdef double SMALLEST_FACTOR = 1e-9  # a smaller factor is multiplied into v, in O(d), before w = factor v loses digits


cdef class Reader:
    """Reads rows of a matrix, with room for one of them."""

    cdef public Matrix X
    cdef Lines* lines
    cdef int64_t[::1] where
    cdef double[::1] value

    def __init__(self, Matrix X):
        self.X = X
        self.attach()

    def attach(self):
        """Find the rows of X and make room for one of them."""
        self.lines = self.X.need_rows()
        self.where = np.empty(max(longest(self.lines), 1), dtype=np.int64)
        self.value = np.empty(self.where.shape[0])

    def visit(
        self,
        const int64_t[::1] rows,
        const double[::1] y,
        const double[::1] s,
        const double[::1] w,
        double b,
        double budget,
    ):
        """Responses r_i = y_i <w, x_i>, pulls a_i = s_i 2 [1 - r_i - y_i b]_+, squared norms, and sum a_i y_i x_i.

        Returns None if the rows cost more than `budget`: then no row is read.
        """
        cdef int64_t k, j, i, size
        cdef double response, pull, sq_norm, total = 0.0
        cdef double[::1] responses, pulls, sq_norms, v
        with nogil:
            for k in range(rows.shape[0]):
                total += self.lines.price(rows[k])
        if total > budget:
            return None
        responses, pulls, sq_norms = np.empty((3, rows.shape[0]))
        v = np.zeros(w.shape[0])
        with nogil:
            for k in range(rows.shape[0]):
                i = rows[k]
                size = self.lines.read(i, &self.where[0], &self.value[0])
                response = sq_norm = 0.0
                for j in range(size):
                    response += self.value[j] * w[self.where[j]]
                    sq_norm += self.value[j] * self.value[j]
                response *= y[i]
                pull = s[i] * 2.0 * max(0.0, 1.0 - (response + y[i] * b))
                if pull > 0.0:
                    for j in range(size):
                        v[self.where[j]] += pull * y[i] * self.value[j]
                responses[k], pulls[k], sq_norms[k] = response, pull, sq_norm
        return np.asarray(responses), np.asarray(pulls), np.asarray(sq_norms), np.asarray(v)

    def descend(
        self,
        const int64_t[::1] rows,
        const double[::1] y,
        double[::1] v,
        double factor,
        double b,
        double step,
        double shrink,
        double bias_step,
        double bias_shrink,
        double budget,
    ):
        """Make a gradient step of w = factor v and b on [1 - c_i]_+^2 for each row in turn, while they fit the budget.

        Updates v. Returns the number of rows visited, the new factor and the new b.
        """
        cdef int64_t k, j, i, size, visited = 0
        cdef double c, pull
        with nogil:
            for k in range(rows.shape[0]):
                i = rows[k]
                budget -= self.lines.price(i)
                if budget < 0:
                    break
                size = self.lines.read(i, &self.where[0], &self.value[0])
                c = 0.0
                for j in range(size):
                    c += self.value[j] * v[self.where[j]]
                pull = 2.0 * max(0.0, 1.0 - y[i] * (factor * c + b)) * y[i]
                factor *= shrink
                if fabs(factor) < SMALLEST_FACTOR:
                    for j in range(v.shape[0]):
                        v[j] *= factor
                    factor = 1.0
                if pull != 0.0:
                    for j in range(size):
                        v[self.where[j]] += step * pull / factor * self.value[j]
                b = bias_shrink * b + bias_step * pull
                visited += 1
        return visited, factor, b
