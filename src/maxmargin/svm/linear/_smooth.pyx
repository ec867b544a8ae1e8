# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Rows of the smooth SVM: many at one point, or one after another with a step after each. A row is read once a visit."""

import numpy as np

from libc.math cimport fabs
from libc.stdint cimport int64_t

from maxmargin.core._matrix cimport Lines, Matrix, longest

cdef double SMALL = 1e-9  # a factor below which it is multiplied into its vector


cdef class Reader:
    """One row at a time, kept while it is worked on."""

    cdef Matrix X
    cdef Lines* lines
    cdef int64_t[::1] where
    cdef double[::1] value

    def __init__(self, Matrix X):
        self.X = X
        self.lines = X.need_rows()
        self.where = np.empty(max(longest(self.lines), 1), dtype=np.int64)
        self.value = np.empty(self.where.shape[0])

    def visit(
        self,
        const int64_t[::1] rows,
        const double[::1] y,
        const double[::1] s,
        const double[::1] w,
        double b,
        int64_t budget,
    ):
        """Responses r_i = y_i <w, x_i>, pulls a_i = s_i 2 [1 - r_i - y_i b]_+, squared norms, and sum a_i y_i x_i.

        None where the rows hold more than `budget` entries: then none is read.
        """
        cdef int64_t k, j, i, size, total = 0
        cdef double response, pull, sq_norm
        cdef double[::1] responses, pulls, sq_norms, v
        with nogil:
            for k in range(rows.shape[0]):
                total += self.lines.size(rows[k])
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
        int64_t budget,
    ):
        """w = factor v and b take a step down 2 [1 - c_i]_+^2 for one row after another, while they fit the budget.

        Returned: how many rows were visited, the new factor and the new b; v is changed in place.
        """
        cdef int64_t k, j, i, size, visited = 0
        cdef double c, pull
        with nogil:
            for k in range(rows.shape[0]):
                i = rows[k]
                budget -= self.lines.size(i)
                if budget < 0:
                    break
                size = self.lines.read(i, &self.where[0], &self.value[0])
                c = 0.0
                for j in range(size):
                    c += self.value[j] * v[self.where[j]]
                pull = 2.0 * max(0.0, 1.0 - y[i] * (factor * c + b)) * y[i]
                factor *= shrink
                if fabs(factor) < SMALL:
                    for j in range(v.shape[0]):
                        v[j] *= factor
                    factor = 1.0
                if pull != 0.0:
                    for j in range(size):
                        v[self.where[j]] += step * pull / factor * self.value[j]
                b = bias_shrink * b + bias_step * pull
                visited += 1
        return visited, factor, b
