# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Decision values of dense rows, a row at a time: a few rows are decided before a matrix product would have begun."""

from cython cimport floating
from libc.stdint cimport int64_t

import numpy as np

from maxmargin.kernels._row_sources cimport DenseSamples

cdef extern from "dense_rows.hpp" namespace "maxmargin" nogil:
    double weighted_sum(const double* x, const double* z, int64_t size)


cdef class DenseDecisions:
    """Decision values of rows from their kernels with dense support vectors.

    A call takes rows of shape (m, d) and returns the decision values of all binary models, of shape (m, n_models). Each
    row is decided by itself, so that its decision values do not depend on the rows around it.

    Parameters
    ----------
    vectors : DenseSamples
        The support vectors less the centre, those of the first class first; filled up with any others to whole blocks.
    centre : array of shape (d,)
        Subtracted from each row.
    shift : pair of float
        What a row adds to its products: the first, and the second times its squared norm.
    coefficients : array of shape (rows, n)
        The coefficients of the support vectors in the layout of LIBSVM; 0 for those that were filled up.
    starts : array of shape (n_classes + 1,)
        Where the support vectors of each class begin, and where the last of them end.
    intercept : array of shape (n_models,)
    pairwise : bool
        Whether there is a model for each two classes, or one for each row of coefficients.
    """

    cdef DenseSamples vectors
    cdef const double[::1] centre
    cdef const double[:, ::1] coefficients
    cdef const int64_t[::1] starts
    cdef const double[::1] intercept
    cdef double constant, slope
    cdef bint pairwise

    def __init__(self, DenseSamples vectors, centre, shift, coefficients, starts, intercept, bint pairwise):
        self.vectors, self.centre, self.coefficients = vectors, centre, coefficients
        self.starts, self.intercept, self.pairwise = starts, intercept, pairwise
        self.constant, self.slope = shift

    def __call__(self, X):
        cdef const float[:, :] single
        cdef const double[:, :] rows
        values = np.empty((X.shape[0], self.intercept.shape[0]))
        cdef double[:, ::1] out = values
        if X.dtype == np.float32:
            single = X
            self._decide[float](single, out)
        else:
            rows = X
            self._decide[double](rows, out)
        return values

    cdef _decide(self, const floating[:, :] X, double[:, ::1] out):
        cdef int64_t i, j, c, r, d = X.shape[1], n = self.vectors.shift.shape[0], classes = self.starts.shape[0] - 1
        cdef int64_t rows = self.coefficients.shape[0], first, size
        cdef double sq_norm
        # The row, its kernels, and for each class the sums over its support vectors.
        cdef double[::1] work = np.empty(d + n + classes * rows)
        cdef double* x = &work[0]
        cdef double* kernels = x + d
        cdef double* sums = kernels + n
        with nogil:
            for i in range(X.shape[0]):
                sq_norm = 0.0
                for j in range(d):
                    x[j] = X[i, j] - self.centre[j]
                    sq_norm += x[j] * x[j]
                self.vectors.kernels(x, self.constant + self.slope * sq_norm, 0, n, kernels)
                if not self.pairwise:
                    for r in range(rows):
                        out[i, r] = weighted_sum(&self.coefficients[r, 0], kernels, n) + self.intercept[r]
                    continue
                for c in range(classes):
                    first, size = self.starts[c], self.starts[c + 1] - self.starts[c]
                    for r in range(rows):
                        sums[c * rows + r] = weighted_sum(&self.coefficients[r, 0] + first, kernels + first, size)
                add_pairs(sums, classes, &self.intercept[0], &out[i, 0])


cdef void add_pairs(const double* sums, int64_t classes, const double* intercept, double* out) noexcept nogil:
    """out <- the decision value of each two classes, from the sums over the support vectors of each class."""
    cdef int64_t i, j, k = 0
    for i in range(classes):
        for j in range(i + 1, classes):
            out[k] = sums[i * (classes - 1) + j - 1] + sums[j * (classes - 1) + i] + intercept[k]
            k += 1


def count_votes(const double[:, :] values, int64_t classes):
    """How many of the models of two classes vote for each class, from their decision values of shape (m, n_models)."""
    found = np.zeros((values.shape[0], classes), dtype=np.int64)
    cdef int64_t[:, ::1] votes = found
    cdef int64_t row, i, j, k
    with nogil:
        for row in range(values.shape[0]):
            k = 0
            for i in range(classes):
                for j in range(i + 1, classes):
                    votes[row, i if values[row, k] > 0 else j] += 1
                    k += 1
    return found


def sum_decisions(const double[:, :] values, int64_t classes):
    """For each class the sum of the decision values of its models, each with the sign that is positive for the class."""
    found = np.zeros((values.shape[0], classes))
    cdef double[:, ::1] sums = found
    cdef int64_t row, i, j, k
    with nogil:
        for row in range(values.shape[0]):
            k = 0
            for i in range(classes):
                for j in range(i + 1, classes):
                    sums[row, i] += values[row, k]
                    sums[row, j] -= values[row, k]
                    k += 1
    return found
