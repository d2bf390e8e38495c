// Two processes, each on a processor of its own, that take turns: `fills DIRECTORY TURNS PAUSE`.
// In each turn the first appends 32 KiB to `much`, which begin with the number of the turn, and the other that number to `little`; after
// it the first rests for so many microseconds. What there is of the one tells how much there must be of the other.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

enum { BYTES = 32768 };

static void on(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static int append_to(const char *name) {
    return open(name, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
}

static void give(int fd, const void *bytes, size_t length) {
    if (write(fd, bytes, length) != (ssize_t)length) _exit(1);
}

int main(int argc, char **argv) {
    int there[2], back[2];
    if (argc < 4 || chdir(argv[1]) || pipe(there) || pipe(back)) return 2;
    uint64_t turn = 0, turns = strtoull(argv[2], NULL, 10);
    if (!fork()) {
        close(there[1]);
        on((int)sysconf(_SC_NPROCESSORS_ONLN) - 1);
        int little = append_to("little");
        while (read(there[0], &turn, sizeof turn) == sizeof turn) {
            give(little, &turn, sizeof turn);
            give(back[1], &turn, sizeof turn);
        }
        return 0;
    }
    on(0);
    static uint64_t block[BYTES / 8];
    uint64_t noise = 88172645463325252;
    for (int much = append_to("much"); turn < turns; turn++) {
        block[0] = turn;
        for (int i = 1; i < BYTES / 8; i++) {
            noise ^= noise << 13, noise ^= noise >> 7, noise ^= noise << 17;
            block[i] = noise;
        }
        give(much, block, sizeof block);
        give(there[1], &turn, sizeof turn);
        if (read(back[0], &turn, sizeof turn) != sizeof turn) return 1;
        usleep(atoi(argv[3]));
    }
    return 9;
}
