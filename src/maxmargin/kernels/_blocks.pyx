# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What blocks of kernel rows need besides products of dense matrices: exponentials, products of sparse rows, sums of rows."""

import numpy as np

from cython cimport floating
from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.string cimport memcpy
from libcpp cimport bool

cdef extern from "row_sums.hpp" namespace "maxmargin" nogil:
    void add_to_sum "maxmargin::add_rows" (
        const float* rows, int64_t stride, const int64_t* positions, const double* factors, int64_t count, double* f,
        int64_t size,
    )
    void add_to_sum "maxmargin::add_rows" (
        const double* rows, int64_t stride, const int64_t* positions, const double* factors, int64_t count, double* f,
        int64_t size,
    )

cdef extern from "exponential.hpp" namespace "maxmargin" nogil:
    void exp_in_place "maxmargin::exp_of_negative" (float* values, int64_t size)
    void exp_in_place "maxmargin::exp_of_negative" (double* values, int64_t size)

cdef extern from "sparse_products.hpp" namespace "maxmargin" nogil:
    const int64_t line_bytes
    void combine_lines(const float*, const int32_t*, int64_t, const int32_t*, const float*, bool, float*)
    void combine_lines(const double*, const int32_t*, int64_t, const int32_t*, const double*, bool, double*)


def exp_of_negative(floating[:, :] values):
    """values <- exp(values), with arguments clipped to 0 and to where the precision underflows; each row must be contiguous."""
    cdef int64_t i
    with nogil:
        for i in range(values.shape[0]):
            exp_in_place(&values[i, 0], values.shape[1])


def sparse_products(
    const floating[::1] x_data, const int32_t[::1] x_indices, const int64_t[::1] x_indptr, const int64_t[::1] x_rows,
    const floating[::1] z_data, const int32_t[::1] z_indices, const int64_t[::1] z_indptr,
    const int64_t[::1] z_rows, int64_t width, bool add, floating[:, :] out,
):
    """out <- the product of each selected row x of a CSR matrix with each selected row z of another, both of `width` columns.

    Where `add` is set the products are added to `out`. Each row of `out` must be contiguous.

    A batch of rows z is expanded into a table with one line for each column that the batch uses; a line holds one number
    for each row of the batch. Line 0 holds zeros, for all other columns. The products of a row x with the batch then are a
    weighted sum of a few lines.
    """
    cdef int64_t LANES = line_bytes // sizeof(floating), n = z_rows.shape[0], rows = x_rows.shape[0]
    cdef int64_t batch, start, size, i, j, k, row, used, stored = 0, largest = 0
    cdef int32_t[::1] line_of = np.zeros(width, dtype=np.int32)
    cdef floating[::1] sums = np.empty(LANES, dtype=np.asarray(x_data).dtype)
    cdef floating[::1] memory
    cdef floating* table
    if out.shape[0] != rows or out.shape[1] != n:
        raise ValueError(f"expected an output of {rows} rows and {n} columns; got {out.shape[0]} and {out.shape[1]}")
    for j in range(n):
        stored = (stored if j % LANES else 0) + z_indptr[z_rows[j] + 1] - z_indptr[z_rows[j]]
        largest = max(largest, stored)
    memory = np.zeros((2 + min(largest, width)) * LANES, dtype=np.asarray(x_data).dtype)
    # Lines are aligned to their size, so that each fills four lines of the processor's cache, not five.
    table = <floating*>((<uintptr_t>&memory[0] + line_bytes - 1) & ~<uintptr_t>(line_bytes - 1))
    with nogil:
        for batch in range((n + LANES - 1) // LANES):
            start, used = batch * LANES, 0
            size = min(LANES, n - start)
            for j in range(size):
                row = z_rows[start + j]
                for k in range(z_indptr[row], z_indptr[row + 1]):
                    if line_of[z_indices[k]] == 0:
                        used += 1
                        line_of[z_indices[k]] = <int32_t>used
                    table[line_of[z_indices[k]] * LANES + j] += z_data[k]
            for i in range(rows):
                row = x_rows[i]
                if add and x_indptr[row] == x_indptr[row + 1]:
                    continue
                if add and size < LANES:
                    memcpy(&sums[0], &out[i, start], size * sizeof(floating))
                combine_lines(
                    &x_data[0] + x_indptr[row], &x_indices[0] + x_indptr[row], x_indptr[row + 1] - x_indptr[row],
                    &line_of[0], table, add, &out[i, start] if size == LANES else &sums[0],
                )
                if size < LANES:
                    memcpy(&out[i, start], &sums[0], size * sizeof(floating))
            for j in range(size):
                row = z_rows[start + j]
                for k in range(z_indptr[row], z_indptr[row + 1]):
                    table[line_of[z_indices[k]] * LANES + j] = 0
            for j in range(size):
                row = z_rows[start + j]
                for k in range(z_indptr[row], z_indptr[row + 1]):
                    line_of[z_indices[k]] = 0


def add_rows(const floating[:, :] rows, const int64_t[::1] positions, const double[::1] factors, double[::1] f):
    """f <- f + sum_k factors[k] * rows[positions[k]], of each row as many leading entries as f has; rows must be contiguous."""
    if positions.shape[0] == 0 or f.shape[0] == 0:
        return
    with nogil:
        add_to_sum(
            &rows[0, 0], rows.strides[0] // <int64_t>sizeof(floating), &positions[0], &factors[0], positions.shape[0], &f[0],
            f.shape[0],
        )


def gather(
    const floating[:, :] rows, const int64_t[::1] positions, const int64_t[::1] columns, const int64_t[::1] places,
    floating[:, :] out,
):
    """out[k, places[j]] <- rows[positions[k], columns[j]], without a copy in between; all rows must be contiguous.

    Ascending columns are fastest, as the processor then reads ahead; for the same reason four rows are read at a time.
    """
    cdef int64_t k, j, last = positions.shape[0] - 1
    cdef const floating* row[4]
    cdef floating* copy[4]
    with nogil:
        for k in range(0, last + 1, 4):
            for j in range(4):  # the last row is copied again where fewer are left
                row[j], copy[j] = &rows[positions[min(k + j, last)], 0], &out[min(k + j, last), 0]
            for j in range(columns.shape[0]):
                copy[0][places[j]] = row[0][columns[j]]
                copy[1][places[j]] = row[1][columns[j]]
                copy[2][places[j]] = row[2][columns[j]]
                copy[3][places[j]] = row[3][columns[j]]


def within_reach(
    const double[:, ::1] points, const double[::1] low, const double[::1] high, double sq_reach, int64_t[::1] found,
):
    """found <- the indices of the points whose squared distance from the box is at most `sq_reach`; returns their number."""
    cdef int64_t i, j, count = 0
    cdef double distance, below, above, sum_of_squares
    with nogil:
        for i in range(points.shape[0]):
            sum_of_squares = 0.0
            for j in range(points.shape[1]):
                below, above = low[j] - points[i, j], points[i, j] - high[j]
                distance = max(below, above, 0.0)
                sum_of_squares += distance * distance
            found[count] = i
            count += sum_of_squares <= sq_reach
    return count


def mirror(floating[:, :] square, const int64_t[::1] rows, const int64_t[::1] positions):
    """square[i, k] <- square[k, i] for each of these rows i, none of which is among the positions k.

    All rows must be contiguous. 16 positions are copied at a time: what is written of a row is then one line of the
    processor's cache, and lines that are read stay there for the next rows.
    """
    cdef int64_t start, size, k, i
    cdef const floating* source[16]
    cdef floating* row
    with nogil:
        for start in range(0, positions.shape[0], 16):
            size = min(16, positions.shape[0] - start)
            for k in range(size):
                source[k] = &square[positions[start + k], 0]
            for i in range(rows.shape[0]):
                row = &square[rows[i], 0]
                for k in range(size):
                    row[positions[start + k]] = source[k][rows[i]]


def move_columns(floating[:, :] square, const int64_t[::1] sources, const int64_t[::1] targets):
    """square[:, targets[k]] <- square[:, sources[k]]; no column is both a source and a target."""
    cdef int64_t i, k
    with nogil:
        for i in range(square.shape[0]):
            for k in range(sources.shape[0]):
                square[i, targets[k]] = square[i, sources[k]]
