// Four threads that share descriptors, and take their time: workers DIR ROUNDS. Each writes a file of its own in small steps, reads
// back what it wrote, makes, renames and removes names, appends to a log that all share, and moves the offset of a
// descriptor that was opened before the threads began.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { THREADS = 4 };
static int rounds, log_fd, shared[THREADS];

static void check(int good, const char *what) {
    if (!good) {
        perror(what);
        exit(1);
    }
}

static void *work(void *which) {
    const int me = (int)(long)which;
    char own[32], name[32], other[32], text[64];
    snprintf(own, sizeof own, "own-%d", me);
    const int fd = open(own, O_RDWR | O_CREAT | O_TRUNC, 0640);
    check(fd >= 0, own);
    for (int i = 0; i < rounds; i++) {
        int length = snprintf(text, sizeof text, "thread %d round %d\n", me, i);
        check(write(fd, text, length) == length, "write");
        check(pread(fd, text, 8, (i / 2) * 10L) >= 0, "pread");
        check(write(shared[me], text, 5) == 5, "write shared");
        if (i % 3 == 0) {
            check(write(log_fd, text, 8) == 8, "append");
        }
        snprintf(name, sizeof name, "d%d/%d", me, i);
        snprintf(other, sizeof other, "d%d/at-%d", me, i / 4);
        int made = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
        check(made >= 0 && write(made, own, 5) == 5 && close(made) == 0, name);
        check(rename(name, other) == 0, other);
        if (i % 16 == 15) {
            check(unlink(other) == 0, "unlink");
        }
        usleep(2000 + 1000 * me);
    }
    check(close(fd) == 0, "close");
    return NULL;
}

int main(int argc, char **argv) {
    check(argc == 3 && chdir(argv[1]) == 0, "usage: workers DIR ROUNDS");
    rounds = atoi(argv[2]);
    log_fd = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) {
        char name[32];
        snprintf(name, sizeof name, "d%ld", i);
        check(mkdir(name, 0750) == 0, name);
        snprintf(name, sizeof name, "shared-%ld", i);
        shared[i] = open(name, O_RDWR | O_CREAT, 0600);
        check(log_fd >= 0 && shared[i] >= 0, name);
    }
    for (long i = 0; i < THREADS; i++) {
        check(pthread_create(&threads[i], NULL, work, (void *)i) == 0, "thread");
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    int end = open("end", O_WRONLY | O_CREAT, 0600);
    check(end >= 0 && write(end, "all\n", 4) == 4, "end");
    return 0;
}
