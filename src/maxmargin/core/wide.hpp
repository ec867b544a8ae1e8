// MAXMARGIN_WIDE marks a function whose loop gains from wide vector registers. Where the loader can choose, the function is
// compiled for several instruction sets, and the best one that the processor has is called. Templates cannot be marked; those that
// such a function consists of are marked MAXMARGIN_INLINE, so that they are compiled for the same instruction sets.
#pragma once

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
// Chosen by what a processor can do, not by its name: "arch=haswell" would be called on a Haswell alone. Before version 12, GCC
// has no name for the level with both AVX2 and fused multiply-adds; the latter imply AVX, which is most of it.
#if __GNUC__ >= 12
#define MAXMARGIN_256_BITS "arch=x86-64-v3"
#else
#define MAXMARGIN_256_BITS "fma"
#endif
#define MAXMARGIN_WIDE __attribute__((target_clones("avx512f", MAXMARGIN_256_BITS, "default"), noinline))
#define MAXMARGIN_SEVERAL_WIDTHS
#else
#define MAXMARGIN_WIDE
#endif

// For a function whose loop is written in terms of vector registers. `define(T, width)` defines it for numbers T and registers of
// so many bytes. It is expanded for each width, and the loader chooses the widest that the processor has: a register that it does
// not have would be kept in memory.
#if defined(MAXMARGIN_SEVERAL_WIDTHS)
#define MAXMARGIN_FOR_EACH_WIDTH(define, T)                              \
    __attribute__((target("avx512f"), noinline)) define(T, 64)           \
    __attribute__((target(MAXMARGIN_256_BITS), noinline)) define(T, 32)  \
    __attribute__((target("default"), noinline)) define(T, 16)
#else
#define MAXMARGIN_FOR_EACH_WIDTH(define, T) define(T, 16)
#endif

#if defined(__GNUC__)
#define MAXMARGIN_INLINE inline __attribute__((always_inline))
#else
#define MAXMARGIN_INLINE inline
#endif
