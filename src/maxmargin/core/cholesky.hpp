// Systems of up to about a thousand equations whose matrix is symmetric and positive definite. Compiled solvers call this where
// LAPACK would be as fast but may start threads of its own, whose number changes the last bits.
#pragma once

#include <cmath>
#include <cstdint>

#include "wide.hpp"

namespace maxmargin {

constexpr int64_t cholesky_block = 4;  // columns that are computed together; the number of equations is a multiple of it

typedef double Quad __attribute__((vector_size(8 * cholesky_block), aligned(8)));

// A <- L with A = L L^T, for a matrix of shape (n, n), row by row, of which the lower triangle counts. Returns false, with A in an
// undefined state, where A is not positive definite up to rounding.
MAXMARGIN_WIDE static bool cholesky(double* A, int64_t n) {
    constexpr int rows = 2, columns = cholesky_block;  // as many independent sums as keep the multipliers busy
    for (int64_t j = 0; j < n; j += columns) {
        for (int64_t i = j; i < n; i += rows) {
            Quad sums[rows][columns] = {};
            for (int64_t k = 0; k < j; k += cholesky_block)
#pragma GCC unroll 2
                for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
                    for (int c = 0; c < columns; ++c)
                        sums[r][c] += *reinterpret_cast<const Quad*>(A + (i + r) * n + k) *
                                      *reinterpret_cast<const Quad*>(A + (j + c) * n + k);
#pragma GCC unroll 2
            for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
                for (int c = 0; c < columns; ++c) {
                    const Quad sum = sums[r][c];
                    A[(i + r) * n + j + c] -= (sum[0] + sum[1]) + (sum[2] + sum[3]);
                }
        }
        for (int64_t i = j; i < n; ++i) {
            double* row = A + i * n + j;
            for (int64_t c = 0; c < columns && j + c <= i; ++c) {
                const double* other = A + (j + c) * n + j;
                for (int64_t k = 0; k < c; ++k) row[c] -= row[k] * other[k];
                if (i > j + c)
                    row[c] /= other[c];
                else if (row[c] > 0)
                    row[c] = std::sqrt(row[c]);
                else
                    return false;
            }
        }
    }
    return true;
}

// The same for one row: the first `i` rows of A hold those of L already, row i holds those of the matrix and becomes that of L.
// Rows are `line` apart.
MAXMARGIN_WIDE static bool cholesky_row(double* A, int64_t i, int64_t line) {
    double* row = A + i * line;
    for (int64_t c = 0; c <= i; ++c) {
        const double* other = A + c * line;
        double sum = 0.0;
#pragma omp simd reduction(+ : sum)
        for (int64_t k = 0; k < c; ++k) sum += row[k] * other[k];
        row[c] -= sum;
        if (c < i) row[c] /= other[c];
    }
    if (!(row[i] > 0)) return false;
    row[i] = std::sqrt(row[i]);
    return true;
}

// b <- the solution x of L L^T x = b, for n equations.
MAXMARGIN_WIDE static void solve_by_cholesky(const double* L, int64_t n, int64_t line, double* b) {
    for (int64_t i = 0; i < n; ++i) {
        double sum = 0.0;
#pragma omp simd reduction(+ : sum)
        for (int64_t k = 0; k < i; ++k) sum += L[i * line + k] * b[k];
        b[i] = (b[i] - sum) / L[i * line + i];
    }
    for (int64_t i = n - 1; i >= 0; --i) {
        b[i] /= L[i * line + i];
        for (int64_t k = 0; k < i; ++k) b[k] -= L[i * line + k] * b[i];
    }
}

}  // namespace maxmargin
