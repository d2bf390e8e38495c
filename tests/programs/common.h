/* What the programs that make work for recordings share: seeded numbers, checksums, and ending with a word.
 *
 * A program knows from its seed what its files must contain at the end; it compares, prints `checksum` with the sum of
 * what the files do contain, and ends with 1 if that is anything else. So whoever runs, records or replays it has an
 * oracle that needs no other program.
 */
#ifndef COMMON_H
#define COMMON_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FNV_BEGIN 0xcbf29ce484222325u
#define FNV_PRIME 0x100000001b3u

/* FNV-1a, 64 bits. */
static inline uint64_t fnv(uint64_t sum, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    while (length--)
        sum = (sum ^ *at++) * FNV_PRIME;
    return sum;
}

/* splitmix64: any seed will do, also 0. */
static inline uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Bytes that depend on the seed only. */
static inline void fill(void *bytes, size_t length, uint64_t seed)
{
    uint8_t *at = bytes;
    for (size_t done = 0; done < length; done += 8) {
        uint64_t word = next(&seed);
        memcpy(at + done, &word, length - done < 8 ? length - done : 8);
    }
}

/* Numbers 0 to count - 1 in an order that depends on the state. */
static inline void shuffle(unsigned *numbers, unsigned count, uint64_t *state)
{
    for (unsigned i = 0; i < count; i++)
        numbers[i] = i;
    for (unsigned i = count; i > 1; i--) {
        unsigned other = next(state) % i, kept = numbers[i - 1];
        numbers[i - 1] = numbers[other];
        numbers[other] = kept;
    }
}

__attribute__((noreturn, format(printf, 1, 2))) static inline void die(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputc('\n', stderr);
    exit(1);
}

#endif
