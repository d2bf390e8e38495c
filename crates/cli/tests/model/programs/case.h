/* What the cases share: calls that must succeed or fail in one way, threads that take turns unseen by the recorder
 * (a futex is no call on storage), processes. Every case proves on the real kernel that it does what it says. */
#pragma once
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void wrong(const char *what, int line) {
    dprintf(2, "line %d: %s: %s\n", line, what, strerror(errno));
    _exit(99);
}

/* A call that succeeds. */
#define must(call)                         \
    ({                                     \
        long result_ = (long)(call);       \
        if (result_ < 0)                   \
            wrong(#call, __LINE__);        \
        result_;                           \
    })

/* A call that fails with this error. */
#define fails(error, call)                             \
    do {                                               \
        errno = 0;                                     \
        if ((long)(call) >= 0 || errno != (error))     \
            wrong(#call " fails with " #error, __LINE__); \
    } while (0)

#define holds(condition)                    \
    do {                                    \
        if (!(condition))                   \
            wrong(#condition, __LINE__);    \
    } while (0)

/* Makes a file with this text. */
static inline void put(const char *path, const char *text) {
    int fd = must(open(path, O_WRONLY | O_CREAT | O_EXCL, 0644));
    must(write(fd, text, strlen(text)));
    must(close(fd));
}

/* Adds text to a file that exists. */
static inline void add(const char *path, const char *text) {
    int fd = must(open(path, O_WRONLY | O_APPEND));
    must(write(fd, text, strlen(text)));
    must(close(fd));
}

/* Reads from a descriptor: it must give exactly this text. */
static inline void gives(int fd, const char *text) {
    char found[256] = {0};
    long length = must(read(fd, found, strlen(text)));
    if (length != (long)strlen(text) || memcmp(found, text, length) != 0)
        wrong(text, -1);
}

/* A file that holds this text. */
static inline void has(const char *path, const char *text) {
    int fd = must(open(path, O_RDONLY));
    gives(fd, text);
    must(close(fd));
}

static inline struct stat about(int fd) {
    struct stat found;
    must(fstat(fd, &found));
    return found;
}

/* The turn, in memory that processes share. */
static volatile uint32_t *turn;

static inline void share_turns(void) {
    turn = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    holds(turn != MAP_FAILED);
}

/* Waits for a turn; nothing of it is recorded. */
static inline void await_turn(uint32_t wanted) {
    uint32_t now;
    while ((now = *turn) < wanted)
        syscall(SYS_futex, turn, FUTEX_WAIT, now, NULL, NULL, 0);
}

static inline void give_turn(uint32_t next) {
    *turn = next;
    syscall(SYS_futex, turn, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static inline pthread_t start(void *(*body)(void *), void *argument) {
    pthread_t thread;
    holds(pthread_create(&thread, NULL, body, argument) == 0);
    return thread;
}

static inline void join(pthread_t thread) {
    holds(pthread_join(thread, NULL) == 0);
}

/* Waits for a child, which must end well. */
static inline void wait_for(pid_t child) {
    int status;
    must(waitpid(child, &status, 0));
    holds(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
