// Products of one dense sample with many others, for rows of a kernel matrix that are computed one at a time.
#pragma once

#include <cstdint>

#include "wide.hpp"

namespace maxmargin {

constexpr int64_t block_samples = 4;  // samples whose features are stored side by side, as many as a vector register holds

typedef double Lane __attribute__((vector_size(8 * block_samples), aligned(8)));  // the same feature of the samples of a block

// sums[k] <- the products of x with the samples of block k. As many blocks at a time as there are independent sums to keep the
// multipliers busy.
template <int together>
MAXMARGIN_INLINE void multiply_blocks(const double* x, const double* blocks, int64_t d, Lane* sums) {
    const Lane* z = reinterpret_cast<const Lane*>(blocks);
    Lane own[together] = {};
    for (int64_t f = 0; f < d; ++f)
#pragma GCC unroll 8
        for (int k = 0; k < together; ++k) own[k] += x[f] * z[k * d + f];
#pragma GCC unroll 8
    for (int k = 0; k < together; ++k) sums[k] = own[k];
}

// out[j] <- factor * <x, z_j> + shift_x + shift[j] for the samples z_j of `n_blocks` consecutive blocks. A block holds the first
// feature of each of its samples, then the second of each, and so on.
MAXMARGIN_WIDE static void products_with_blocks(
    const double* x, const double* blocks, int64_t d, int64_t n_blocks, double factor, double shift_x, const double* shift,
    double* out
) {
    constexpr int together = 8;
    Lane* products = reinterpret_cast<Lane*>(out);
    int64_t block = 0;
    for (; block + together <= n_blocks; block += together)
        multiply_blocks<together>(x, blocks + block * block_samples * d, d, products + block);
    for (; block < n_blocks; ++block) multiply_blocks<1>(x, blocks + block * block_samples * d, d, products + block);
    for (int64_t j = 0; j < n_blocks * block_samples; ++j) out[j] = factor * out[j] + (shift_x + shift[j]);
}

// A lane of numbers that are stored in either precision.
MAXMARGIN_INLINE Lane load(const double* z) { return *reinterpret_cast<const Lane*>(z); }
MAXMARGIN_INLINE Lane load(const float* z) {
    typedef float SingleLane __attribute__((vector_size(4 * block_samples), aligned(4)));
    return __builtin_convertvector(*reinterpret_cast<const SingleLane*>(z), Lane);
}

// <x, z>, in several independent sums.
template <class T>
MAXMARGIN_INLINE double weighted_sum_loop(const double* x, const T* z, int64_t size) {
    constexpr int together = 4;
    Lane sums[together] = {};
    int64_t j = 0;
    for (; j + together * block_samples <= size; j += together * block_samples)
#pragma GCC unroll 4
        for (int k = 0; k < together; ++k) {
            const int64_t at = j + k * block_samples;
            sums[k] += load(x + at) * load(z + at);
        }
    const Lane all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    double sum = 0.0;
    for (int k = 0; k < block_samples; ++k) sum += all[k];
    for (; j < size; ++j) sum += x[j] * static_cast<double>(z[j]);
    return sum;
}
MAXMARGIN_WIDE static double weighted_sum(const double* x, const double* z, int64_t size) { return weighted_sum_loop(x, z, size); }
MAXMARGIN_WIDE static double weighted_sum(const double* x, const float* z, int64_t size) { return weighted_sum_loop(x, z, size); }

// sums[row][model] <- the sums over some support vectors of kernel times coefficient, for a few rows. The coefficients of a
// support vector lie side by side, as many as fill whole registers.
template <int rows, class T>
MAXMARGIN_INLINE void sum_models(
    const T* kernels, int64_t kernels_in_row, const double* coefficients, int64_t n_vectors, int64_t n_lanes, double* sums
) {
    const Lane* coefficient = reinterpret_cast<const Lane*>(coefficients);
    Lane* sum = reinterpret_cast<Lane*>(sums);
    for (int64_t lane = 0; lane < n_lanes; ++lane) {
        Lane own[rows] = {};
        for (int64_t j = 0; j < n_vectors; ++j)
#pragma GCC unroll 4
            for (int row = 0; row < rows; ++row)
                own[row] += static_cast<double>(kernels[row * kernels_in_row + j]) * coefficient[j * n_lanes + lane];
#pragma GCC unroll 4
        for (int row = 0; row < rows; ++row) sum[row * n_lanes + lane] = own[row];
    }
}

constexpr int64_t rows_together = 4;  // rows that share each coefficient that is read

template <class T>
MAXMARGIN_INLINE void sum_models_of_rows_loop(
    const T* kernels, int64_t kernels_in_row, int64_t rows, const double* coefficients, int64_t n_vectors, int64_t n_lanes,
    double* sums
) {
    if (rows == rows_together) {
        sum_models<rows_together>(kernels, kernels_in_row, coefficients, n_vectors, n_lanes, sums);
        return;
    }
    for (int64_t row = 0; row < rows; ++row)
        sum_models<1>(
            kernels + row * kernels_in_row, 0, coefficients, n_vectors, n_lanes, sums + row * n_lanes * block_samples
        );
}
MAXMARGIN_WIDE static void sum_models_of_rows(
    const double* kernels, int64_t kernels_in_row, int64_t rows, const double* coefficients, int64_t n_vectors, int64_t n_lanes,
    double* sums
) {
    sum_models_of_rows_loop(kernels, kernels_in_row, rows, coefficients, n_vectors, n_lanes, sums);
}
MAXMARGIN_WIDE static void sum_models_of_rows(
    const float* kernels, int64_t kernels_in_row, int64_t rows, const double* coefficients, int64_t n_vectors, int64_t n_lanes,
    double* sums
) {
    sum_models_of_rows_loop(kernels, kernels_in_row, rows, coefficients, n_vectors, n_lanes, sums);
}

}  // namespace maxmargin
