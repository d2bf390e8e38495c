/* What it costs where in its page a buffer begins.
 *
 * `place FILE [BYTES [ROUNDS]]`: reads and writes so many bytes (128 KiB) at the begin of a cached file, with memory that begins at each of
 * some places in its page in turn; prints medians in nanoseconds.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clock.h"

#define PAGE 4096
#define PLACES (sizeof places / sizeof *places)

static const int places[] = {0, 8, 16, 24, 32, 48, 64, 512, 1040, 2048, 4032, 4080};

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    size_t bytes = argc > 2 ? strtoul(argv[2], NULL, 0) : 128 << 10, rounds = argc > 3 ? strtoul(argv[3], NULL, 0) : 801;
    int fd = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0600) : -1;
    if (fd < 0 || !bytes || !rounds || bytes > 1 << 30 || rounds > 1 << 20)
        return fprintf(stderr, "usage: place FILE [BYTES [ROUNDS]]\n"), 2;
    char *memory = mmap(NULL, bytes + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t *taken = calloc(2 * PLACES * rounds, sizeof *taken);
    if (memory == MAP_FAILED || !taken)
        return perror("place"), 1;
    memset(memory, 7, bytes + PAGE);
    for (size_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < 2 * PLACES; i++) {
            char *at = memory + places[i % PLACES];
            int writes = i < PLACES;
            uint64_t begin = nanoseconds();
            ssize_t moved = writes ? pwrite(fd, at, bytes, 0) : pread(fd, at, bytes, 0);
            taken[i * rounds + round] = nanoseconds() - begin;
            if (moved != (ssize_t)bytes)
                return perror("place"), 1;
        }
    printf("bytes behind a page   pwrite ns   pread ns\n");
    for (size_t i = 0; i < PLACES; i++) {
        uint64_t *writes = taken + i * rounds, *reads = taken + (i + PLACES) * rounds;
        qsort(writes, rounds, sizeof *writes, by_value);
        qsort(reads, rounds, sizeof *reads, by_value);
        printf("%19d %11llu %10llu\n", places[i], (unsigned long long)writes[rounds / 2], (unsigned long long)reads[rounds / 2]);
    }
    return 0;
}
