// The exponential of the Gaussian kernel.
#pragma once

#include <cstdint>
#include <cstring>

#include "wide.hpp"

namespace maxmargin {

// Numbers whose exponentials are computed at once. A loop over any number of them would be compiled to one loop over vectors and
// others over the rest, whose last bits may differ: not all have fused multiply-adds.
constexpr int64_t exponentials_at_once = 16;

// values <- exp(values), `some` computing so many of them.
template <class T>
MAXMARGIN_INLINE void exp_of_all(T* values, int64_t size, void (*some)(T*)) {
    int64_t j = 0;
    for (; j + exponentials_at_once <= size; j += exponentials_at_once) some(values + j);
    if (j == size) return;
    T rest[exponentials_at_once] = {};
    std::memcpy(rest, values + j, (size - j) * sizeof(T));
    some(rest);
    std::memcpy(values + j, rest, (size - j) * sizeof(T));
}

// values <- exp(values), within one unit in the last place. Arguments above 0, which only rounding can produce, count as 0;
// arguments below -87, where float32 underflows, count as -87.
//
// x = k log 2 + r, where k is rounded to an integer by adding a number so large that no fraction is left. exp(r) is a
// polynomial, the best one of its degree in relative error (3e-9), and k is added to the exponent of the result.
MAXMARGIN_INLINE void exp_of_some(float* values) {
    constexpr float no_fraction = 12582912.0f;  // 1.5 * 2^23: the spacing of float32 numbers of this size is 1
    constexpr float smallest_argument = -87.0f, log2_e = 1.44269504f;
    constexpr float log_2_high = 0.693359375f, log_2_low = -2.12194440e-4f;  // their sum is log 2; the first has few bits
#pragma omp simd
    for (int64_t j = 0; j < exponentials_at_once; ++j) {
        float x = values[j] < 0.0f ? values[j] : 0.0f;
        x = x > smallest_argument ? x : smallest_argument;
        const float shifted = x * log2_e + no_fraction, k = shifted - no_fraction;
        const float r = (x - k * log_2_high) - k * log_2_low;
        float p = 1.38145981e-3f * r + 8.36871693e-3f;
        p = (p * r + 4.16683881e-2f) * r + 1.66665206e-1f;
        p = (p * r + 4.99999934e-1f) * (r * r) + r + 1.0f;
        uint32_t exponent, result;
        std::memcpy(&exponent, &shifted, sizeof exponent);
        std::memcpy(&result, &p, sizeof result);
        result += exponent << 23;
        std::memcpy(values + j, &result, sizeof result);
    }
}

// The same in float64, within two units in the last place, for arguments down to -708. exp(r) is its Taylor polynomial, whose
// relative error is below 1e-17 for |r| <= log(2) / 2.
MAXMARGIN_INLINE void exp_of_some(double* values) {
    constexpr double no_fraction = 6755399441055744.0;  // 1.5 * 2^52: the spacing of float64 numbers of this size is 1
    constexpr double smallest_argument = -708.0, log2_e = 1.4426950408889634;
    constexpr double log_2_high = 6.93147180369123816490e-01, log_2_low = 1.90821492927058770002e-10;
#pragma omp simd
    for (int64_t j = 0; j < exponentials_at_once; ++j) {
        double x = values[j] < 0.0 ? values[j] : 0.0;
        x = x > smallest_argument ? x : smallest_argument;
        const double shifted = x * log2_e + no_fraction, k = shifted - no_fraction;
        const double r = (x - k * log_2_high) - k * log_2_low;
        double p = r * (1.0 / 6227020800) + 1.0 / 479001600;
        p = (p * r + 1.0 / 39916800) * r + 1.0 / 3628800;
        p = (p * r + 1.0 / 362880) * r + 1.0 / 40320;
        p = (p * r + 1.0 / 5040) * r + 1.0 / 720;
        p = (p * r + 1.0 / 120) * r + 1.0 / 24;
        p = (p * r + 1.0 / 6) * r + 0.5;
        p = p * (r * r) + r + 1.0;
        uint64_t exponent, result;
        std::memcpy(&exponent, &shifted, sizeof exponent);
        std::memcpy(&result, &p, sizeof result);
        result += exponent << 52;
        std::memcpy(values + j, &result, sizeof result);
    }
}

MAXMARGIN_WIDE static void exp_of_negative(float* values, int64_t size) { exp_of_all<float>(values, size, exp_of_some); }
MAXMARGIN_WIDE static void exp_of_negative(double* values, int64_t size) { exp_of_all<double>(values, size, exp_of_some); }

}  // namespace maxmargin
