/* A program that runs for a long time with files open, to be recorded from its middle.
 *
 *     server DIRECTORY
 *
 * It opens all that it uses, says `ready PID`, and works until it is told by signals: USR1 pauses it (it then makes the
 * file DIRECTORY/inner/paused-N), USR2 lets it go on, TERM ends it. At the end it compares what its files hold with what
 * it did, and prints `good` or ends with 1.
 *
 * Threads 0 and 1 append numbered lines by their own descriptors; 2 copies from a file that is long open, by two
 * descriptors in turn that share one offset, of which one is close-on-exec; 3 writes into a file without a name and
 * copies from it; 4 waits in a pipe until the first pause. The working directory is DIRECTORY/inner.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

#define WORKERS 4
#define HEAD 1000
#define INPUT 65536
#define NAMELESS 8192
#define STEP 32

static atomic_int paused, stopping, resting;
static int lines[2], input[2], copied, nameless, saved, pipes[2];
static unsigned long written[2], steps, rounds;

static int make(const char *name, int flags)
{
    int file = open(name, flags | O_CREAT | O_EXCL, 0640);
    if (file < 0)
        die("%s: %m", name);
    return file;
}

static void put(int file, const void *bytes, size_t length)
{
    if (write(file, bytes, length) != (ssize_t)length)
        die("write: %m");
}

static uint8_t content_of(unsigned long at) { return at * 31 + at / 256; }

static void line(int which)
{
    char text[32];
    int length = snprintf(text, sizeof text, "%d %08lu\n", which, written[which]++);
    put(lines[which], text, length);
}

static void copy(void)
{
    char bytes[STEP];
    if ((steps + 1) * STEP > INPUT - HEAD) {
        if (lseek(input[0], HEAD, SEEK_SET) != HEAD)
            die("lseek: %m");
        steps = 0;
    }
    if (read(input[steps++ % 2], bytes, STEP) != STEP)
        die("read: %m");
    if (fcntl(input[steps % 2], F_GETFD) != (steps % 2 ? FD_CLOEXEC : 0))
        die("whether a descriptor is closed when another program is run");
    put(copied, bytes, STEP);
}

static void nameless_round(void)
{
    char bytes[STEP], again[STEP];
    unsigned long at = rounds++ * 48 % (NAMELESS - STEP);
    if (pread(nameless, bytes, STEP, at) != STEP)
        die("pread: %m");
    put(saved, bytes, STEP);
    memset(bytes, 'A' + rounds % 26, STEP);
    if (pwrite(nameless, bytes, STEP, at) != STEP || pread(nameless, again, STEP, at) != STEP || memcmp(bytes, again, STEP))
        die("the file without a name is not what was written to it");
}

static void *work(void *which)
{
    long me = (long)which;
    while (!stopping) {
        if (paused) {
            resting++;
            while (paused && !stopping)
                usleep(500);
            resting--;
            continue;
        }
        if (me < 2)
            line(me);
        else if (me == 2)
            copy();
        else
            nameless_round();
        usleep(300);
    }
    return NULL;
}

static void *wait_in_pipe(void *nothing)
{
    char word[5];
    (void)nothing;
    if (read(pipes[0], word, 5) != 5 || memcmp(word, "hello", 5))
        die("pipe: %m");
    int told = make("told", O_WRONLY);
    put(told, word, 5);
    close(told);
    return NULL;
}

static void pause_all(int number)
{
    char name[32];
    paused = 1;
    while (resting < WORKERS)
        usleep(500);
    if (number == 0) {
        pid_t child = fork();
        if (child == 0) {
            put(lines[0], "child\n", 6);
            _exit(7);
        }
        int status;
        if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7)
            die("the child: %m");
        put(pipes[1], "hello", 5);
        while (access("told", F_OK))
            usleep(500);
        usleep(20000);
    }
    snprintf(name, sizeof name, "paused-%d", number);
    close(make(name, O_WRONLY));
}

static void check(int pauses)
{
    for (int which = 0; which < 2; which++) {
        struct stat stat;
        off_t expected = HEAD + written[which] * 11 + (which == 0 && pauses ? 6 : 0);
        if (fstat(lines[which], &stat) || stat.st_size != expected)
            die("lines-%d has %ld bytes, not %ld", which, (long)stat.st_size, (long)expected);
    }
}

int main(int count, char **arguments)
{
    pthread_t threads[WORKERS], waiting;
    char head[HEAD], *bytes = malloc(INPUT);
    sigset_t signals;
    int pauses = 0, signal;

    if (count != 2 || chdir(arguments[1]) || mkdir("inner", 0750) || chdir("inner") || !bytes)
        die("usage: server DIRECTORY");
    memset(head, '=', HEAD);
    head[HEAD - 1] = '\n';
    lines[0] = make("lines-0", O_WRONLY);
    lines[1] = make("../lines-1", O_WRONLY | O_APPEND);
    put(lines[0], head, HEAD);
    put(lines[1], head, HEAD);
    for (long at = 0; at < INPUT; at++)
        bytes[at] = content_of(at);
    input[0] = make("input", O_RDWR);
    put(input[0], bytes, INPUT);
    if (lseek(input[0], HEAD, SEEK_SET) != HEAD || (input[1] = fcntl(input[0], F_DUPFD_CLOEXEC, 0)) < 0 || pipe(pipes))
        die("%m");
    copied = make("copied", O_WRONLY);
    saved = make("saved", O_WRONLY);
    nameless = make("nameless", O_RDWR);
    put(nameless, bytes, NAMELESS);
    if (unlink("nameless"))
        die("unlink: %m");
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGUSR2);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    for (long which = 0; which < WORKERS; which++)
        if (pthread_create(&threads[which], NULL, work, (void *)which))
            die("pthread_create");
    if (pthread_create(&waiting, NULL, wait_in_pipe, NULL))
        die("pthread_create");
    printf("ready %d\n", getpid());
    fflush(stdout);
    while (!sigwait(&signals, &signal) && signal != SIGTERM) {
        if (signal == SIGUSR1)
            pause_all(pauses++);
        else
            paused = 0;
    }
    stopping = 1;
    for (int which = 0; which < WORKERS; which++)
        pthread_join(threads[which], NULL);
    if (pauses)
        pthread_join(waiting, NULL);
    check(pauses);
    puts("good");
    return 0;
}
