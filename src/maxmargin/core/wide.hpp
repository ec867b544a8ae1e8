// MAXMARGIN_WIDE marks a function whose loop gains from wide vector registers. Where the loader can choose, the function is
// compiled for several instruction sets, and the best one that the processor has is called. Templates cannot be marked; those that
// such a function consists of are marked MAXMARGIN_INLINE, so that they are compiled for the same instruction sets.
#pragma once

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define MAXMARGIN_WIDE __attribute__((target_clones("avx512f", "arch=haswell", "default"), noinline))
#else
#define MAXMARGIN_WIDE
#endif

#if defined(__GNUC__)
#define MAXMARGIN_INLINE inline __attribute__((always_inline))
#else
#define MAXMARGIN_INLINE inline
#endif
