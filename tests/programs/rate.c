/* Calls as fast as the kernel takes them, for the greatest rate that a recorder keeps up with.
 *
 *     rate read|write DIRECTORY BYTES CALLS THREADS
 *
 * Each thread makes CALLS of `pread` or `pwrite` of BYTES, on its own file of DIRECTORY, made before the clock starts: in
 * order, and over and over again within 16 MiB. What a thread writes is never the same twice: its buffer, random at the
 * start, gets a new number at the beginning of every 4 KiB (of every call, if that is less and at least 8), so
 * that nobody can store it once. Prints one line of JSON: calls, bytes, and the seconds from the first call to the last.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define MOST_THREADS 64
#define FILE_BYTES (16L << 20)
#define STAMPED 4096

static const char *directory;
static int writing;
static long bytes, calls, threads;
static pthread_barrier_t start;
static struct timespec begins[MOST_THREADS], ends[MOST_THREADS];

static void stamp(uint8_t *buffer, uint64_t *number)
{
    for (long at = 0; at + 8 <= bytes; at += STAMPED) {
        memcpy(buffer + at, number, sizeof *number);
        ++*number;
    }
}

static void *caller(void *argument)
{
    long me = (long)argument, size = FILE_BYTES < bytes ? bytes : FILE_BYTES / bytes * bytes;
    char path[4096];
    snprintf(path, sizeof path, "%s/rate.%ld", directory, me);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    uint8_t *buffer = malloc(size);
    if (file < 0 || !buffer)
        die("%s: %m", path);
    fill(buffer, size, me);
    for (long done = 0, count; done < size; done += count)
        if ((count = write(file, buffer + done, size - done)) <= 0)
            die("%s: %m", path);
    uint64_t number = (uint64_t)me << 48;
    pthread_barrier_wait(&start);
    clock_gettime(CLOCK_MONOTONIC, &begins[me]);
    for (long i = 0, at = 0; i < calls; i++) {
        if (writing)
            stamp(buffer, &number);
        if ((writing ? pwrite(file, buffer, bytes, at) : pread(file, buffer, bytes, at)) != bytes)
            die("%s: %m", path);
        at += bytes;
        if (at + bytes > size)
            at = 0;
    }
    clock_gettime(CLOCK_MONOTONIC, &ends[me]);
    return NULL;
}

static double seconds(struct timespec t) { return t.tv_sec + t.tv_nsec / 1e9; }

int main(int count, char **arguments)
{
    writing = count == 6 && !strcmp(arguments[1], "write");
    if (writing || (count == 6 && !strcmp(arguments[1], "read")))
        directory = arguments[2], bytes = atol(arguments[3]), calls = atol(arguments[4]), threads = atol(arguments[5]);
    if (bytes < 1 || calls < 1 || threads < 1 || threads > MOST_THREADS) {
        fprintf(stderr, "usage: rate read|write DIRECTORY BYTES CALLS THREADS\n");
        return 2;
    }
    pthread_barrier_init(&start, NULL, threads);
    pthread_t ids[MOST_THREADS];
    for (long i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, caller, (void *)i))
            die("thread: %m");
    double first = 1e300, last = 0;
    for (long i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        first = seconds(begins[i]) < first ? seconds(begins[i]) : first;
        last = seconds(ends[i]) > last ? seconds(ends[i]) : last;
    }
    printf("{\"calls\": %ld, \"bytes\": %ld, \"seconds\": %.6f}\n", calls * threads, calls * threads * bytes, last - first);
    return 0;
}
