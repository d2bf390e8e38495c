/* Threads that read files in the working directory: the small workloads of timing experiments.
 *
 *     readers PATTERN THREADS READS
 *
 * Thread i reads blocks of 4 KiB (in order: of 64 KiB) of its own file `fi`, one after the other, READS times:
 *     random      anywhere
 *     warm        anywhere, after thread 0 has read all of its file in order
 *     sequential  in order, from the beginning, without readahead: each read is a request of its own, and a scheduler
 *                 that waits a little for the next one serves this thread longer
 *
 * Nothing is printed; a read that fails ends the program with 1. The blocks depend on the thread's number only.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK 4096
#define BLOCK_IN_ORDER (64 << 10) /* so that the disk takes longer than the kernel's way to it */
#define PIECE (128 << 10)

static enum { RANDOM, WARM, SEQUENTIAL } pattern;
static long reads;

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void *reader(void *argument)
{
    long me = (long)argument;
    static _Thread_local char buffer[PIECE];
    char name[32];
    struct stat about;
    snprintf(name, sizeof name, "f%ld", me);
    int file = open(name, O_RDONLY);
    if (file < 0 || fstat(file, &about) < 0 || about.st_size < PIECE)
        fail(name);
    if (pattern == SEQUENTIAL)
        posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
    if (pattern == WARM && me == 0)
        for (off_t at = 0; at < about.st_size; at += PIECE)
            if (pread(file, buffer, PIECE, at) < 0)
                fail(name);
    size_t bytes = pattern == SEQUENTIAL ? BLOCK_IN_ORDER : BLOCK;
    uint64_t state = 4711 + me, blocks = about.st_size / bytes;
    for (long i = 0; i < reads; i++) {
        uint64_t block = (pattern == SEQUENTIAL ? (uint64_t)i : next(&state)) % blocks;
        if (pread(file, buffer, bytes, block * bytes) != (ssize_t)bytes)
            fail(name);
    }
    close(file);
    return NULL;
}

int main(int count, char **arguments)
{
    static const char *const names[] = { "random", "warm", "sequential" };
    int known = 0;
    for (int i = 0; count == 4 && i < 3; i++)
        if (!strcmp(arguments[1], names[i]))
            pattern = i, known = 1;
    long threads = known ? atol(arguments[2]) : 0;
    reads = known ? atol(arguments[3]) : 0;
    if (threads < 1 || threads > 64 || reads < 1) {
        fprintf(stderr, "usage: readers random|warm|sequential THREADS READS\n");
        return 2;
    }
    pthread_t ids[64];
    for (long i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, reader, (void *)i))
            fail("thread");
    for (long i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    return 0;
}
