/* A thread that waits awake: the time, and a pause of its core. */
#ifndef SKBNP_PAUSE_H
#define SKBNP_PAUSE_H

#include <time.h>
#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

static inline double seconds(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline void pause_core(void)
{
#if defined(__x86_64__) || defined(_M_X64)
    _mm_pause();
#elif defined(__aarch64__) && defined(__GNUC__)
    __asm__ __volatile__("yield");
#endif
}

#endif
