/* threads DIR THREADS ROUNDS
 *
 * A program with storage calls in an order that matters and that no storage
 * call shows. In each round one thread, drawn by a generator, does one step on
 * the files all threads share; mutex and condition variable hand the turn on,
 * so that of the handing-over the system sees futex calls at most, and with
 * threads that do not have to sleep not even those. A replay that lets every
 * thread run as fast as it can must see other results: names that are not
 * there yet, names that are there still, other bytes, other lengths, a
 * descriptor closed by then.
 *
 * Every result is checked here, too: exit status 1 when one is not as the
 * order commands.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAMES = 7, RECORD = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static int threads, rounds, round_now;
static const char *directory;

/* Shared by the threads, and only touched by the one whose turn it is. */
static unsigned generator = 1;
static int whose;             /* the thread this round belongs to */
static int exists[NAMES];     /* 0 no such name, else the length of the file */
static int first[NAMES];      /* the number in its first record */
static int shared_fd = -1;    /* opened by one, used by others, closed by yet another */
static off_t shared_length;   /* of the file behind it */
static int log_fd;            /* O_APPEND: the order is what the file says in the end */

static void fail(const char *what, int name) {
    fprintf(stderr, "round %d: %s %d: %s\n", round_now, what, name, strerror(errno));
    exit(1);
}

static unsigned draw(unsigned below) {
    generator = generator * 1103515245u + 12345u;
    return generator / 65536u % below;
}

static const char *path(char *room, int name) {
    snprintf(room, 256, "%s/n%d", directory, name);
    return room;
}

static void record(char *room, int number) {
    memset(room, '.', RECORD);
    int length = snprintf(room, RECORD, "round %d thread %d", number, whose);
    room[length] = ' ';
    room[RECORD - 1] = '\n';
}

static void create(int name) {
    char room[256], text[RECORD];
    record(text, round_now);
    int fd = open(path(room, name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (exists[name]) {
        if (fd != -1 || errno != EEXIST)
            fail("creating what is there", name);
        return;
    }
    if (fd == -1 || write(fd, text, RECORD) != RECORD || close(fd) != 0)
        fail("creating", name);
    exists[name] = RECORD;
    first[name] = round_now;
}

static void append(int name) {
    char room[256], text[RECORD];
    record(text, round_now);
    int fd = open(path(room, name), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (!exists[name]) {
        if (fd != -1 || errno != ENOENT)
            fail("appending to nothing", name);
        return;
    }
    if (fd == -1 || write(fd, text, RECORD) != RECORD || close(fd) != 0)
        fail("appending", name);
    exists[name] += RECORD;
}

static void rename_to(int from, int to) {
    char old[256], new[256];
    int got = rename(path(old, from), path(new, to));
    if (!exists[from]) {
        if (got != -1 || errno != ENOENT)
            fail("renaming nothing", from);
        return;
    }
    if (got != 0)
        fail("renaming", from);
    if (from != to) {
        exists[to] = exists[from];
        first[to] = first[from];
        exists[from] = 0;
    }
}

static void remove_name(int name) {
    char room[256];
    int got = unlink(path(room, name));
    if (exists[name] ? got != 0 : got != -1 || errno != ENOENT)
        fail("removing", name);
    exists[name] = 0;
}

static void read_back(int name) {
    char room[256], text[RECORD + 1] = "", wanted[32];
    struct stat info;
    int fd = open(path(room, name), O_RDONLY | O_CLOEXEC);
    if (!exists[name]) {
        if (fd != -1 || errno != ENOENT)
            fail("reading nothing", name);
        return;
    }
    if (fd == -1 || fstat(fd, &info) != 0 || read(fd, text, RECORD) != RECORD || close(fd) != 0)
        fail("reading", name);
    snprintf(wanted, sizeof wanted, "round %d ", first[name]);
    if (info.st_size != exists[name] || strncmp(text, wanted, strlen(wanted)) != 0)
        fail("reading other than was written", name);
}

static void share(void) {
    char room[256], text[RECORD];
    if (shared_fd == -1) {
        snprintf(room, sizeof room, "%s/shared", directory);
        shared_fd = open(room, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (shared_fd == -1)
            fail("opening the shared file", 0);
        shared_length = 0;
    } else if (shared_length < 5 * RECORD) {
        /* The offset belongs to the open file: each thread writes on where
         * the one before it stopped. */
        record(text, round_now);
        if (write(shared_fd, text, RECORD) != RECORD)
            fail("writing to the shared file", 0);
        shared_length += RECORD;
    } else {
        if (lseek(shared_fd, 0, SEEK_CUR) != shared_length ||
            pread(shared_fd, text, RECORD, shared_length - RECORD) != RECORD ||
            strncmp(text, "round ", 6) != 0 || close(shared_fd) != 0)
            fail("closing the shared file", 0);
        shared_fd = -1;
    }
}

static void step(void) {
    char text[RECORD];
    int name = (int)draw(NAMES);
    switch (draw(8)) {
    case 0: case 1: create(name); break;
    case 2: append(name); break;
    case 3: rename_to(name, (int)draw(NAMES)); break;
    case 4: remove_name(name); break;
    case 5: read_back(name); break;
    default: share(); break;
    }
    if (round_now % 3 == 0) {
        record(text, round_now);
        if (write(log_fd, text, RECORD) != RECORD)
            fail("writing the log", 0);
    }
}

static void *thread(void *number) {
    int self = (int)(long)number;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (round_now < rounds && whose != self)
            pthread_cond_wait(&turn, &lock);
        if (round_now >= rounds)
            break;
        step();
        round_now++;
        whose = (int)draw((unsigned)threads);
        pthread_cond_broadcast(&turn);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t all[64];
    char room[256];
    if (argc != 4 || (threads = atoi(argv[2])) < 2 || threads > 64 || (rounds = atoi(argv[3])) < 1) {
        fprintf(stderr, "usage: threads DIR THREADS ROUNDS\n");
        return 2;
    }
    directory = argv[1];
    snprintf(room, sizeof room, "%s/log", directory);
    log_fd = open(room, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (log_fd == -1)
        fail("opening the log", 0);
    for (long i = 0; i < threads; i++)
        if (pthread_create(&all[i], NULL, thread, (void *)i) != 0)
            fail("starting thread", (int)i);
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    for (int i = 0; i < NAMES; i++)
        read_back(i);
    return 0;
}
