// Two threads in turn. `turns COUNT FILE`: each reads 16 bytes of the file, to be recorded. `turns COUNT`: nothing but the turn; prints
// how long it takes from one thread's store to the other's next step, the least that a hand-off can cost on this machine.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "clock.h"

static alignas(128) atomic_ulong turn;
static alignas(128) uint64_t *given, *taken;
static unsigned long count;
static int file = -1;

static void *one(void *which) {
    char room[16];
    for (unsigned long i = (unsigned long)which; i < count; i += 2) {
        while (atomic_load_explicit(&turn, memory_order_acquire) != i) {}
        taken[i] = ticks();
        if (file >= 0 && pread(file, room, sizeof room, i % 1000) < 0) exit(1);
        given[i] = ticks();
        atomic_store_explicit(&turn, i + 1, memory_order_release);
    }
    return NULL;
}

static int ascending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "turns COUNT [FILE]\n");
        return 2;
    }
    count = strtoul(argv[1], NULL, 10);
    given = calloc(count, sizeof *given), taken = calloc(count, sizeof *taken);
    if (argc > 2) file = open(argv[2], O_RDONLY);
    pthread_t other;
    uint64_t first_ns = nanoseconds(), first = ticks();
    pthread_create(&other, NULL, one, (void *)1);
    one((void *)0);
    pthread_join(other, NULL);
    double per_ns = (double)(ticks() - first) / (nanoseconds() - first_ns);
    if (file < 0) {
        for (unsigned long i = 1; i < count; i++) taken[i - 1] = taken[i] > given[i - 1] ? taken[i] - given[i - 1] : 0;
        qsort(taken, count - 1, sizeof *taken, ascending);
        printf("{\"p50_ns\": %.0f, \"p99_ns\": %.0f}\n", taken[count / 2] / per_ns, taken[count * 99 / 100] / per_ns);
    }
    return 0;
}
