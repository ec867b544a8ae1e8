// Selection of the pair of dual variables for a step of SMO, by second-order information (Fan, Chen, Lin 2005).
//
// The loops look for the best of many candidates in chunks: vector registers give the largest number of a chunk, but not
// its index, which is looked for afterwards in the best chunk only.
#pragma once

#include <cmath>
#include <cstdint>

#include "wide.hpp"

namespace maxmargin {

constexpr int64_t chunk_size = 64;

// The least curvature along a pair that a step is divided by, as a share of K_ii + K_jj: two samples may be equal, and the
// curvature K_ii + K_jj - 2 K_ij is then 0, or negative by rounding. LIBSVM divides by 1e-12, the same where K_ii is about 1.
constexpr double least_curvature = 1e-12;
// What a step is divided by where all kernels involved are 0, so that there is nothing to take a share of.
constexpr double smallest_divisor = 1e-300;

// e <- e - step * (row_i - row_j). Returns the index of the largest e + penalty, which becomes `largest`; -1 if none is
// finite. A penalty of -infinity excludes a sample.
template <class T>
MAXMARGIN_INLINE int64_t update_and_find_largest_loop(
    double step, const T* row_i, const T* row_j, double* e, const double* penalty, int64_t size, double* largest
) {
    double best = -HUGE_VAL;
    int64_t best_chunk = size;
    for (int64_t start = 0; start < size; start += chunk_size) {
        const int64_t stop = start + chunk_size < size ? start + chunk_size : size;
        double most = -HUGE_VAL;
#pragma omp simd reduction(max : most)
        for (int64_t t = start; t < stop; ++t) {
            e[t] -= step * (static_cast<double>(row_i[t]) - static_cast<double>(row_j[t]));
            const double v = e[t] + penalty[t];
            most = v > most ? v : most;
        }
        if (most > best) best = most, best_chunk = start;
    }
    *largest = best;
    for (int64_t t = best_chunk; t < size; ++t)
        if (e[t] + penalty[t] == best) return t;
    return -1;
}
MAXMARGIN_WIDE static int64_t update_and_find_largest(
    double step, const float* row_i, const float* row_j, double* e, const double* penalty, int64_t size, double* largest
) {
    return update_and_find_largest_loop(step, row_i, row_j, e, penalty, size, largest);
}
MAXMARGIN_WIDE static int64_t update_and_find_largest(
    double step, const double* row_i, const double* row_j, double* e, const double* penalty, int64_t size, double* largest
) {
    return update_and_find_largest_loop(step, row_i, row_j, e, penalty, size, largest);
}

// Twice the gain in the dual of an unbounded step on i and t: (e_i - e_t)^2 / curvature, and 0 where e_t >= e_i.
template <class T>
MAXMARGIN_INLINE T gain_of_pair(double e_i, double e_t, double K_ii, double K_tt, T K_it) {
    const T violation = static_cast<T>(e_i - e_t), size = static_cast<T>(K_ii + K_tt), curvature = size - 2 * K_it;
    const T positive = violation > 0 ? violation : 0, least = static_cast<T>(least_curvature) * (size > 0 ? size : -size);
    return positive * positive / (curvature > least ? curvature : least);
}
// The gains of a chunk of samples with sample i, by the rule above, written to `gains`; returns the largest of them, and the least
// e + penalty becomes `lowest`. A penalty of +infinity excludes a sample.
template <class T>
MAXMARGIN_INLINE T gains_of_chunk(
    double e_i, double K_ii, const T* row_i, const double* diagonal, const double* e, const double* penalty, int64_t size,
    T* gains, double* lowest
) {
    T most = 0;
    double least = HUGE_VAL;
#pragma omp simd reduction(max : most) reduction(min : least)
    for (int64_t t = 0; t < size; ++t) {
        const double v = e[t] + penalty[t];
        const T gain = gain_of_pair(e_i, v, K_ii, diagonal[t], row_i[t]);
        gains[t] = gain;
        least = v < least ? v : least;
        most = gain > most ? gain : most;
    }
    *lowest = least;
    return most;
}
// The partner j of sample i with which a step gains most, -1 if no partner gains anything; the least e + penalty becomes
// `smallest`.
template <class T>
MAXMARGIN_INLINE int64_t best_partner_loop(
    double e_i, double K_ii, const T* row_i, const double* diagonal, const double* e, const double* penalty, int64_t size,
    double* smallest
) {
    T best = 0, gains[2][chunk_size];
    double least = HUGE_VAL, lowest;
    int64_t best_chunk = -1;
    int kept = 0;  // which of the two buffers holds the gains of the best chunk
    for (int64_t start = 0; start < size; start += chunk_size) {
        const int64_t length = start + chunk_size < size ? chunk_size : size - start;
        const T most = gains_of_chunk(
            e_i, K_ii, row_i + start, diagonal + start, e + start, penalty + start, length, gains[1 - kept], &lowest
        );
        if (most > best) best = most, best_chunk = start, kept = 1 - kept;
        least = lowest < least ? lowest : least;
    }
    *smallest = least;
    if (best_chunk < 0) return -1;
    int64_t t = 0;
    while (gains[kept][t] != best) ++t;
    return best_chunk + t;
}
MAXMARGIN_WIDE static int64_t best_partner(
    double e_i, double K_ii, const float* row_i, const double* diagonal, const double* e, const double* penalty,
    int64_t size, double* smallest
) {
    return best_partner_loop(e_i, K_ii, row_i, diagonal, e, penalty, size, smallest);
}
MAXMARGIN_WIDE static int64_t best_partner(
    double e_i, double K_ii, const double* row_i, const double* diagonal, const double* e, const double* penalty,
    int64_t size, double* smallest
) {
    return best_partner_loop(e_i, K_ii, row_i, diagonal, e, penalty, size, smallest);
}

}  // namespace maxmargin
