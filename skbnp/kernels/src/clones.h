/* Versions of a function for several instruction sets, chosen when it is loaded.

   Only where compiler and C library can do it (x86-64, GNU C library, gcc 12 or newer);
   elsewhere, with SKBNP_PORTABLE or SKBNP_NO_CLONES, and under a sanitizer (which is not
   there yet when the choice is made), there is the one that the compiler makes by default.
   All of them compute the same, up to rounding.

   A Cython function gets its versions from a declaration, with SKBNP_CLONES, that comes
   before its own. What it calls is compiled inside of each version. */

#ifndef SKBNP_CLONES_H
#define SKBNP_CLONES_H

#include <stdint.h>

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && \
    !defined(__clang__) && !defined(SKBNP_PORTABLE) && !defined(SKBNP_NO_CLONES) && \
    !defined(__SANITIZE_ADDRESS__)
#include <features.h>
#if defined(__GLIBC__) && __GNUC__ >= 12
#define SKBNP_HAS_CLONES
#define SKBNP_CLONES \
    __attribute__((                                                                    \
        flatten, target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#endif
#endif
#ifndef SKBNP_CLONES
#define SKBNP_CLONES
#endif

/* What must compute the same bits whichever version calls it. */
#if defined(__GNUC__)
#define SKBNP_ONE_VERSION __attribute__((noinline))
#else
#define SKBNP_ONE_VERSION
#endif

/* Helpers must be compiled inside of each version. */
#if defined(__GNUC__)
#define SKBNP_INLINE static inline __attribute__((always_inline))
#else
#define SKBNP_INLINE static __inline
#endif

#if defined(__GNUC__)
#define SKBNP_PREFETCH(address) __builtin_prefetch(address)
#else
#define SKBNP_PREFETCH(address) ((void)(address))
#endif

#if defined(_OPENMP) || defined(__GNUC__)
#define SKBNP_PRAGMA(text) _Pragma(#text)
#else
#define SKBNP_PRAGMA(text)
#endif

/* Position of the lowest bit that is set, if any is. */
SKBNP_INLINE int lowest_bit(uint64_t bits)
{
#if defined(__GNUC__)
    return __builtin_ctzll(bits);
#else
    int at = 0;
    for (; !(bits & 1u); bits >>= 1)
        at++;
    return at;
#endif
}

#endif
