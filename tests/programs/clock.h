/* Instants: nanoseconds of the kernel's clock, and the processor's own counter where there is one, which costs less to read. */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static inline uint64_t ticks(void)
{
#ifdef __x86_64__
    return __builtin_ia32_rdtsc();
#else
    return nanoseconds();
#endif
}

/* The same, when all loads before it are done. */
static inline uint64_t ticks_after_loads(void)
{
#ifdef __x86_64__
    unsigned processor;
    return __builtin_ia32_rdtscp(&processor);
#else
    return nanoseconds();
#endif
}

#endif
