# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What blocks of kernels need beside products of dense matrices: exponentials, and products of sparse rows."""

import numpy as np

from cython cimport floating
from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.string cimport memcpy
from libcpp cimport bool

cdef extern from "rows.hpp" namespace "maxmargin" nogil:
    void wide_exp(float* values, int64_t size)
    void wide_combine(const float*, const int32_t*, int64_t, const int32_t*, const float*, bool, float*)
    void wide_combine(const double*, const int32_t*, int64_t, const int32_t*, const double*, bool, double*)


def exp_of_negative(float[:, :] values):
    """exp in place, with numbers above 0 taken for 0 and numbers below -87 for -87; each row contiguous."""
    cdef int64_t i
    with nogil:
        for i in range(values.shape[0]):
            wide_exp(&values[i, 0], values.shape[1])


def sparse_products(
    const floating[::1] x, const int32_t[::1] x_where, const int64_t[::1] x_ends,
    const floating[::1] z, const int32_t[::1] z_where, const int64_t[::1] z_ends,
    const int64_t[::1] numbers, int64_t width, bool add, floating[:, :] out,
):
    """<x, z>, or added to `out`, for every row x of the one CSR matrix, and those of the other one with these numbers.

    A few rows z at a time are laid down as a dense table with a line for each column that they use, which holds a number
    for each of them; line 0 holds zeros, for all other columns. A row x then is a sum of a few lines. Each row of `out` is
    contiguous.
    """
    cdef int64_t LANES = 256 // sizeof(floating), n = numbers.shape[0], rows = x_ends.shape[0] - 1
    cdef int64_t tile, start, few, i, j, k, row, used, stored = 0, most = 0
    cdef int32_t[::1] place = np.zeros(width, dtype=np.int32)
    cdef floating[::1] sums = np.empty(LANES, dtype=np.asarray(x).dtype)
    cdef floating[::1] room
    cdef floating* lines
    if out.shape[0] != rows or out.shape[1] != n:
        raise ValueError(f"expected room for {rows} rows and {n} columns; got {out.shape[0]} and {out.shape[1]}")
    for j in range(n):
        stored = (stored if j % LANES else 0) + z_ends[numbers[j] + 1] - z_ends[numbers[j]]
        most = max(most, stored)
    room = np.zeros((2 + min(most, width)) * LANES, dtype=np.asarray(x).dtype)
    lines = <floating*>((<uintptr_t>&room[0] + 255) & ~<uintptr_t>255)  # a line is four lines of the cache, not five
    with nogil:
        for tile in range((n + LANES - 1) // LANES):
            start, used = tile * LANES, 0
            few = min(LANES, n - start)
            for j in range(few):
                row = numbers[start + j]
                for k in range(z_ends[row], z_ends[row + 1]):
                    if place[z_where[k]] == 0:
                        used += 1
                        place[z_where[k]] = <int32_t>used
                    lines[place[z_where[k]] * LANES + j] += z[k]
            for i in range(rows):
                if add and x_ends[i] == x_ends[i + 1]:
                    continue
                if add and few < LANES:
                    memcpy(&sums[0], &out[i, start], few * sizeof(floating))
                wide_combine(
                    &x[0] + x_ends[i], &x_where[0] + x_ends[i], x_ends[i + 1] - x_ends[i],
                    &place[0], lines, add, &out[i, start] if few == LANES else &sums[0],
                )
                if few < LANES:
                    memcpy(&out[i, start], &sums[0], few * sizeof(floating))
            for j in range(few):
                row = numbers[start + j]
                for k in range(z_ends[row], z_ends[row + 1]):
                    lines[place[z_where[k]] * LANES + j] = 0
            for j in range(few):
                row = numbers[start + j]
                for k in range(z_ends[row], z_ends[row + 1]):
                    place[z_where[k]] = 0
