# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Decision values of dense rows, a row at a time: a few rows are decided before a matrix product would have begun."""

from cython cimport floating
from libc.stdint cimport int64_t

import numpy as np

from maxmargin.kernels._row_sources cimport DenseSamples

cdef extern from "dense_rows.hpp" namespace "maxmargin" nogil:
    const int64_t block_samples, rows_together
    double weighted_sum(const double* x, const double* z, int64_t size)
    double weighted_sum(const double* x, const float* z, int64_t size)
    void sum_models_of_rows(
        const double* kernels, int64_t kernels_in_row, int64_t rows, const double* coefficients, int64_t n_vectors,
        int64_t n_lanes, double* sums,
    )
    void sum_models_of_rows(
        const float* kernels, int64_t kernels_in_row, int64_t rows, const double* coefficients, int64_t n_vectors,
        int64_t n_lanes, double* sums,
    )


cdef class DenseKernels:
    """Kernels of dense rows with dense support vectors.

    A call takes rows of shape (m, d) and returns their kernels with the n support vectors, of shape (m, n). Those of a
    row do not depend on the rows around it.

    Parameters
    ----------
    vectors : DenseSamples
        The support vectors less the centre, filled up with any others to whole blocks.
    n : int
        The number of support vectors.
    centre : array of shape (d,)
        Subtracted from each row.
    shift : pair of float
        What a row adds to its products: the first, and the second times its squared norm.
    """

    cdef DenseSamples vectors
    cdef int64_t n
    cdef const double[::1] centre
    cdef double constant, slope

    def __init__(self, DenseSamples vectors, int64_t n, centre, shift):
        self.vectors, self.n, self.centre = vectors, n, centre
        self.constant, self.slope = shift

    def __call__(self, X):
        cdef const float[:, :] single
        cdef const double[:, :] rows
        block = np.empty((X.shape[0], self.vectors.shift.shape[0]))
        cdef double[:, ::1] out = block
        if X.dtype == np.float32:
            single = X
            self._fill[float](single, out)
        else:
            rows = X
            self._fill[double](rows, out)
        return block[:, : self.n]

    cdef _fill(self, const floating[:, :] X, double[:, ::1] out):
        cdef int64_t i, j, d = X.shape[1]
        cdef double sq_norm
        cdef double[::1] x = np.empty(d)
        with nogil:
            for i in range(X.shape[0]):
                sq_norm = 0.0
                for j in range(d):
                    x[j] = X[i, j] - self.centre[j]
                    sq_norm += x[j] * x[j]
                self.vectors.kernels(&x[0], self.constant + self.slope * sq_norm, 0, out.shape[1], &out[i, 0])


def sums_by_model(const floating[:, :] block, const double[:, ::1] coefficients):
    """The sums, in float64, over the support vectors of kernel times coefficient, for each row and each row of coefficients.

    Parameters
    ----------
    block : array of shape (m, n)
        The kernel of each row with each support vector; the kernels of a row lie side by side.
    coefficients : array of shape (rows, n)
    """
    found = np.empty((block.shape[0], coefficients.shape[0]))
    cdef double[:, ::1] sums = found
    cdef int64_t i, r
    with nogil:
        for i in range(block.shape[0]):
            for r in range(coefficients.shape[0]):
                sums[i, r] = weighted_sum(&coefficients[r, 0], &block[i, 0], block.shape[1])
    return found


cdef class PairwiseSums:
    """The decision values, without intercepts, of a model for each two classes.

    A call takes a block of kernels of shape (m, n), those of a row side by side, and returns decision values of shape
    (m, n_models).

    Parameters
    ----------
    coefficients : array of shape (n_classes - 1, n)
        The coefficients of the support vectors in the layout of LIBSVM, see `OneVsOne`.
    n_support : array of shape (n_classes,)
        How many support vectors each class has; those of the first class come first.
    """

    cdef const double[:, ::1] of_vector  # the coefficients of a support vector side by side, filled up with zeros
    cdef const int64_t[::1] starts

    def __init__(self, coefficients, n_support):
        rows, n = coefficients.shape
        of_vector = np.zeros((max(n, 1), -(-rows // block_samples) * block_samples))
        of_vector[:n, :rows] = coefficients.T
        self.of_vector = of_vector
        self.starts = np.concatenate([[0], np.cumsum(n_support, dtype=np.int64)])

    def __call__(self, block):
        cdef const float[:, :] single
        cdef const double[:, :] double_block
        if block.dtype == np.float32:
            single = block
            return self._sums[float](single)
        double_block = block
        return self._sums[double](double_block)

    cdef _sums(self, const floating[:, :] block):
        cdef int64_t classes = self.starts.shape[0] - 1, filled = self.of_vector.shape[1], m = block.shape[0]
        found = np.zeros((m, classes * (classes - 1) // 2))
        cdef double[:, ::1] values = found
        cdef double[:, ::1] sums = np.empty((rows_together, filled))
        cdef int64_t i, c, r, row, rows, first, size, k
        if not block.shape[1]:
            return found
        with nogil:
            i = 0
            while i < m:
                rows = min(rows_together, m - i)
                for c in range(classes):
                    first, size = self.starts[c], self.starts[c + 1] - self.starts[c]
                    if size == 0:
                        continue
                    sum_models_of_rows(
                        &block[i, first], block.strides[0] // <int64_t> sizeof(floating), rows, &self.of_vector[first, 0], size,
                        filled // block_samples, &sums[0, 0],
                    )
                    for row in range(rows):
                        k = c - 1  # the model of class 0 and this one
                        for r in range(c):
                            values[i + row, k] += sums[row, r]
                            k += classes - 2 - r
                        k = c * (2 * classes - c - 1) // 2  # the model of this class and the next one
                        for r in range(c, classes - 1):
                            values[i + row, k + r - c] += sums[row, r]
                i += rows
        return found


def count_votes(const double[:, :] values, int64_t classes, bint zero_for_first):
    """How many of the models of two classes vote for each class, from their decision values of shape (m, n_models).

    `zero_for_first` says whether a decision value of exactly 0 is a vote for the first of the two classes.
    """
    found = np.zeros((values.shape[0], classes), dtype=np.int64)
    cdef int64_t[:, ::1] votes = found
    cdef int64_t row, i, j, k
    with nogil:
        for row in range(values.shape[0]):
            k = 0
            for i in range(classes):
                for j in range(i + 1, classes):
                    votes[row, i if values[row, k] > 0 or (zero_for_first and values[row, k] == 0) else j] += 1
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
