/* Puts itself into control groups and becomes another program.
 *
 *     enter [-t TIME] FILE... -- COMMAND...
 *
 * Each FILE is a group's `cgroup.procs`. A program of its own, and a small one, so that a recording that begins with it
 * has next to nothing of it in the trace. With -t the command is a child, and TIME gets the nanoseconds from before its
 * execve to its end, which is what a replay's elapsed time stands for.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int become(char **command)
{
    execvp(command[0], command);
    perror(command[0]);
    return 127;
}

static int timed(char **command, const char *path)
{
    long long begin = now_ns();
    int status, child = fork();
    if (child == 0)
        _exit(become(command));
    if (child < 0 || waitpid(child, &status, 0) < 0)
        return 125;
    long long took = now_ns() - begin;
    FILE *file = fopen(path, "w");
    if (!file || fprintf(file, "%lld\n", took) < 0 || fclose(file))
        return 125;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int count, char **arguments)
{
    int at = 1;
    const char *time = NULL;
    if (count > 2 && !strcmp(arguments[1], "-t"))
        time = arguments[2], at = 3;
    for (; at < count && strcmp(arguments[at], "--"); at++) {
        int file = open(arguments[at], O_WRONLY);
        if (file < 0 || write(file, "0\n", 2) != 2) {
            perror(arguments[at]);
            return 125;
        }
        close(file);
    }
    if (at + 1 >= count) {
        fprintf(stderr, "usage: enter [-t TIME] FILE... -- COMMAND...\n");
        return 125;
    }
    char **command = arguments + at + 1;
    return time ? timed(command, time) : become(command);
}
