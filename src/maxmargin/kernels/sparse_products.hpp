// The inner loop of products between two sets of sparse rows.
#pragma once

#include <cstdint>

#include "wide.hpp"

namespace maxmargin {

// The size of a table line: four of the widest vector registers.
constexpr int64_t line_bytes = 256;
template <class T>
constexpr int64_t lanes = line_bytes / sizeof(T);

// sums <- sum_k values[k] * line[line_of[columns[k]]] over the `count` stored entries of a sparse row; where `add` is set,
// that is added to what `sums` holds. The table holds lines of `lanes<T>` numbers, one after another. The sums stay in vector
// registers of `width` bytes.
template <class T, int width>
MAXMARGIN_INLINE void combine_lines_loop(
    const T* values, const int32_t* columns, int64_t count, const int32_t* line_of, const T* table, bool add, T* sums) {
#if defined(__GNUC__)
    typedef T Register __attribute__((vector_size(width), aligned(sizeof(T)), may_alias));
    constexpr int registers = line_bytes / width;
    Register s[registers] = {};
    if (add)
        for (int p = 0; p < registers; ++p) s[p] = reinterpret_cast<Register*>(sums)[p];
    for (int64_t k = 0; k < count; ++k) {
        const Register* line = reinterpret_cast<const Register*>(table + lanes<T> * line_of[columns[k]]);
#pragma GCC unroll 16
        for (int p = 0; p < registers; ++p) s[p] += values[k] * line[p];
    }
    for (int p = 0; p < registers; ++p) reinterpret_cast<Register*>(sums)[p] = s[p];
#else
    for (int64_t l = 0; l < lanes<T> && !add; ++l) sums[l] = 0;
    for (int64_t k = 0; k < count; ++k)
        for (int64_t l = 0; l < lanes<T>; ++l) sums[l] += values[k] * table[lanes<T> * line_of[columns[k]] + l];
#endif
}
#define MAXMARGIN_COMBINE_LINES(T, width)                                                                                   \
    static inline void combine_lines(                                                                                       \
        const T* values, const int32_t* columns, int64_t count, const int32_t* line_of, const T* table, bool add, T* sums) { \
        combine_lines_loop<T, width>(values, columns, count, line_of, table, add, sums);                                    \
    }
MAXMARGIN_FOR_EACH_WIDTH(MAXMARGIN_COMBINE_LINES, float)
MAXMARGIN_FOR_EACH_WIDTH(MAXMARGIN_COMBINE_LINES, double)

}  // namespace maxmargin
