/* Two processes store to one file through memory in turns, and read by calls what the other has stored.
 *
 *     share FILE ROUNDS SEED [killed | evicted | msync]
 *
 * Each has a mapping of its own; a byte goes to and fro through pipes, so that the turns are in order. In each turn a
 * process compares what it reads by `pread` with what the other's store must have left, stores to pages that both use,
 * overwrites a part by `pwrite` at times, and passes the turn on. With `killed` the second process is killed by SIGKILL
 * behind its last store, with `evicted` the file is written back and put out of the page cache at times, with `msync`
 * pages are written back through the mapping.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

#define PAGE 4096
#define PAGES 24

static const char *path, *mode = "";
static unsigned long rounds, seed;

struct player {
    int file, from, to;
    uint8_t *memory;
    uint8_t *expected; /* shared, without a file */
};

static void compare(struct player *p, size_t at, size_t length)
{
    uint8_t found[3 * PAGE];
    if (pread(p->file, found, length, at) != (ssize_t)length)
        die("%s: pread: %m", path);
    if (memcmp(found, p->expected + at, length))
        die("%s: a store is not there at %zu", path, at);
}

static void turn(struct player *p, uint64_t *state)
{
    uint64_t chosen = next(state);
    size_t at = chosen % (PAGES * PAGE - 2 * PAGE), length = 1 + (chosen >> 32) % (2 * PAGE - 1);
    compare(p, at, length);
    uint64_t filling = next(state);
    fill(p->memory + at, length, filling);
    fill(p->expected + at, length, filling);
    if (chosen >> 60 == 1) {
        uint8_t bytes[64];
        fill(bytes, sizeof bytes, chosen);
        if (pwrite(p->file, bytes, sizeof bytes, at + length / 2) != sizeof bytes)
            die("%s: pwrite: %m", path);
        memcpy(p->expected + at + length / 2, bytes, sizeof bytes);
    }
    if (chosen >> 60 == 2 && !strcmp(mode, "evicted")) {
        if (fsync(p->file) || posix_fadvise(p->file, 0, 0, POSIX_FADV_DONTNEED))
            die("%s: fsync: %m", path);
    }
    if (chosen >> 60 == 3 && !strcmp(mode, "msync") && msync(p->memory, PAGES * PAGE, MS_SYNC))
        die("%s: msync: %m", path);
}

static void play(struct player *p, unsigned long me)
{
    uint64_t state = seed * 2 + me;
    char ball = 0;
    p->file = open(path, O_RDWR);
    p->memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, p->file, 0);
    if (p->file < 0 || p->memory == MAP_FAILED)
        die("%s: %m", path);
    for (unsigned long i = 0; i < rounds; i++) {
        if ((i || me) && read(p->from, &ball, 1) != 1)
            die("%s: the other is gone", path);
        turn(p, &state);
        if (i + 1 == rounds && me && !strcmp(mode, "killed"))
            raise(SIGKILL);
        if (write(p->to, &ball, 1) != 1)
            die("%s: the other is gone", path);
    }
}

int main(int count, char **arguments)
{
    if (count < 4) {
        fprintf(stderr, "usage: share FILE ROUNDS SEED [killed | evicted | msync]\n");
        return 2;
    }
    path = arguments[1], rounds = atol(arguments[2]), seed = atol(arguments[3]);
    if (count > 4)
        mode = arguments[4];
    int file = open(path, O_RDWR | O_CREAT, 0644), one[2], two[2], status;
    uint8_t *expected = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (file < 0 || expected == MAP_FAILED || ftruncate(file, PAGES * PAGE) || pipe(one) || pipe(two))
        die("%s: %m", path);
    if (pread(file, expected, PAGES * PAGE, 0) != PAGES * PAGE)
        die("%s: pread: %m", path);
    struct player first = { .from = one[0], .to = two[1], .expected = expected };
    struct player second = { .from = two[0], .to = one[1], .expected = expected };
    pid_t child = fork();
    if (child < 0)
        die("fork: %m");
    if (child == 0) {
        play(&second, 1);
        _exit(0);
    }
    play(&first, 0);
    if (waitpid(child, &status, 0) != child || (status && strcmp(mode, "killed")))
        die("the second process ended with %#x", status);
    for (size_t at = 0; at < PAGES * PAGE; at += 2 * PAGE)
        compare(&first, at, 2 * PAGE);
    printf("checksum %016lx\n", (unsigned long)fnv(FNV_BEGIN, expected, PAGES * PAGE));
    return 0;
}
