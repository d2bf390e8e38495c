/* Very many short processes, as many at a time as there are.
 *
 *     many DIRECTORY PROCESSES [exec]
 *
 * A tree of processes: number i begins 2i+1 and 2i+2, writes its number into DIRECTORY/i, reads it again, waits for the
 * two and ends with 2 + i % 250 (the first one with 0), or with 1 and a word if one of them did not end so. With `exec`
 * each becomes this program anew before it writes.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

#define CODES 251

static long processes;
static const char *self, *directory;

static int code(long number) { return number ? 2 + number % 250 : 0; }

static void leave_a_file(long number)
{
    char path[4096], text[32], again[32];
    int length = snprintf(text, sizeof text, "%ld\n", number);
    snprintf(path, sizeof path, "%s/%ld", directory, number);
    int file = open(path, O_RDWR | O_CREAT | O_EXCL, 0644);
    if (file < 0 || write(file, text, length) != length || pread(file, again, length, 0) != length || memcmp(text, again, length))
        die("%s: %m", path);
    close(file);
}

static void run(long number, int execs);

static pid_t begin(long number, int execs)
{
    if (number >= processes)
        return 0;
    pid_t child = fork();
    if (child < 0)
        die("fork: %m");
    if (child == 0) {
        if (execs) {
            char me[32], all[32];
            snprintf(me, sizeof me, "%ld", number);
            snprintf(all, sizeof all, "%ld", processes);
            execl(self, self, directory, all, "exec", me, NULL);
            die("%s: %m", self);
        }
        run(number, execs);
    }
    return child;
}

static void wait_for(pid_t child, long number)
{
    int status;
    if (child && (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != code(number)))
        die("process %ld did not end well", number);
}

/* Does not return. */
static void run(long number, int execs)
{
    pid_t left = begin(2 * number + 1, execs), right = begin(2 * number + 2, execs);
    leave_a_file(number);
    wait_for(left, 2 * number + 1);
    wait_for(right, 2 * number + 2);
    _exit(code(number));
}

int main(int count, char **arguments)
{
    int execs = count >= 4 && !strcmp(arguments[3], "exec");
    if (count == 3 || execs)
        self = arguments[0], directory = arguments[1], processes = atol(arguments[2]);
    if (processes < 1) {
        fprintf(stderr, "usage: many DIRECTORY PROCESSES [exec]\n");
        return 2;
    }
    run(count == 5 ? atol(arguments[4]) : 0, execs);
}
