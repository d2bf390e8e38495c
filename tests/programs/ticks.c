// Events at even distances: `ticks GAP_US COUNT FILE` reads 1 KiB of the file at each, spinning between them, to be recorded and
// replayed by its time stamps. `ticks GAP_US COUNT` sleeps until each by clock_nanosleep instead, and prints how late it woke up.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "ticks GAP_US COUNT [FILE]\n");
        return 2;
    }
    uint64_t gap = strtoull(argv[1], NULL, 10) * 1000, count = strtoull(argv[2], NULL, 10);
    uint64_t *late = calloc(count, sizeof *late);
    int file = argc > 3 ? open(argv[3], O_RDONLY) : -1;
    char room[1024];
    prctl(PR_SET_TIMERSLACK, 1);
    uint64_t due = now() + gap;
    for (uint64_t i = 0; i < count; i++, due += gap) {
        if (file >= 0) {
            while (now() < due) {}
            if (pread(file, room, sizeof room, i % 1000 * sizeof room) < 0) return 1;
        } else {
            struct timespec t = {due / 1000000000, due % 1000000000};
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
            uint64_t woken = now();
            late[i] = woken - due;
            // What is missed is not made up for: the next distance is whole again.
            if (woken > due + gap) due = woken;
        }
    }
    if (file < 0) {
        qsort(late, count, sizeof *late, ascending);
        printf("{\"p50_ns\": %lu, \"p99_ns\": %lu}\n", late[count / 2], late[count * 99 / 100]);
    }
    return 0;
}
