// Weighted sums of rows that are too many for the processor's cache.
#pragma once

#include <cstdint>

#include "wide.hpp"

namespace maxmargin {

// Rows added up at once. The sum is then read and written once for all of them, and memory is asked for several rows at a time:
// twice as fast as row by row.
constexpr int64_t rows_at_once = 8;

// Columns added up at once. Their number is constant, and so a compiler treats all of them alike: a loop over any number of
// columns would be compiled to one loop over vectors and another one over the rest, whose last bits may differ.
constexpr int64_t columns_at_once = 16;

template <class T, int64_t count>
MAXMARGIN_INLINE void add_some_columns(const T* const* row, const double* factor, int64_t start, double* f) {
#pragma omp simd
    for (int64_t j = 0; j < columns_at_once; ++j) {
        double sum = f[j];
        for (int64_t k = 0; k < count; ++k) sum += factor[k] * static_cast<double>(row[k][start + j]);
        f[j] = sum;
    }
}
template <class T, int64_t count>
MAXMARGIN_INLINE void add_some_rows(
    const T* rows, int64_t stride, const int64_t* positions, const double* factors, double* f, int64_t size
) {
    const T* row[count];
    double factor[count];
    for (int64_t k = 0; k < count; ++k) row[k] = rows + stride * positions[k], factor[k] = factors[k];
    int64_t j = 0;
    for (; j + columns_at_once <= size; j += columns_at_once) add_some_columns<T, count>(row, factor, j, f + j);
    if (j == size) return;
    T rest[count][columns_at_once] = {};
    double sums[columns_at_once] = {};
    for (int64_t i = 0; i < size - j; ++i) sums[i] = f[j + i];
    for (int64_t k = 0; k < count; ++k) {
        for (int64_t i = 0; i < size - j; ++i) rest[k][i] = row[k][j + i];
        row[k] = rest[k];
    }
    add_some_columns<T, count>(row, factor, 0, sums);
    for (int64_t i = 0; i < size - j; ++i) f[j + i] = sums[i];
}
// f <- f + sum_k factors[k] * (row positions[k]); the rows begin `stride` entries after each other.
template <class T>
MAXMARGIN_INLINE void add_rows_loop(
    const T* rows, int64_t stride, const int64_t* positions, const double* factors, int64_t count, double* f, int64_t size
) {
    int64_t k = 0;
    for (; k + rows_at_once <= count; k += rows_at_once)
        add_some_rows<T, rows_at_once>(rows, stride, positions + k, factors + k, f, size);
    for (; k < count; ++k) add_some_rows<T, 1>(rows, stride, positions + k, factors + k, f, size);
}
MAXMARGIN_WIDE static void add_rows(
    const float* rows, int64_t stride, const int64_t* positions, const double* factors, int64_t count, double* f, int64_t size
) {
    add_rows_loop(rows, stride, positions, factors, count, f, size);
}
MAXMARGIN_WIDE static void add_rows(
    const double* rows, int64_t stride, const int64_t* positions, const double* factors, int64_t count, double* f,
    int64_t size
) {
    add_rows_loop(rows, stride, positions, factors, count, f, size);
}

}  // namespace maxmargin
