// Weighted sums of rows that are too many for the processor's cache.
#pragma once

#include <cstdint>

#include "wide.hpp"

namespace maxmargin {

// Rows added up at once. The sum is then read and written once for all of them, and memory is asked for several rows at a time:
// twice as fast as row by row.
constexpr int64_t rows_at_once = 8;

template <class T, int64_t count>
MAXMARGIN_INLINE void add_some_rows(
    const T* rows, int64_t stride, const int64_t* positions, const double* factors, double* f, int64_t size
) {
    const T* row[count];
    double factor[count];
    for (int64_t k = 0; k < count; ++k) row[k] = rows + stride * positions[k], factor[k] = factors[k];
#pragma omp simd
    for (int64_t j = 0; j < size; ++j) {
        double sum = f[j];
        for (int64_t k = 0; k < count; ++k) sum += factor[k] * static_cast<double>(row[k][j]);
        f[j] = sum;
    }
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
