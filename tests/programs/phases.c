/* Runs commands one after the other and says how long each took: the phases of a workload, timed where they run.
 *
 *     phases REPORT NAME COMMAND… ';;' NAME COMMAND… ';;' …
 *
 * REPORT gets a line for each, `NAME nanoseconds user system`, in nanoseconds: from before its execve to its end, and the
 * processor time of the process and the children it waited for. What a command prints goes to REPORT.NAME, and with the
 * first that fails it ends as that one did. A program of its own, and a small one: a recorder that follows it has next to
 * nothing of it in the trace, and what the recorder does before and after is not in the times.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000LL
#define OWN_FAILURE 125

static long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * NS + t.tv_nsec;
}

static long long ns(struct timeval t) { return t.tv_sec * NS + t.tv_usec * 1000LL; }

static void become(const char *report, const char *name, char **command)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.%s", report, name);
    int said = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (said >= 0 && dup2(said, 1) == 1 && dup2(said, 2) == 2 && close(said) == 0)
        execvp(command[0], command);
    perror(command[0]);
    _exit(127);
}

static int phase(FILE *file, const char *report, const char *name, char **command)
{
    struct rusage used;
    int status;
    long long begin = now_ns();
    pid_t child = fork();
    if (child == 0)
        become(report, name, command);
    if (child < 0 || wait4(child, &status, 0, &used) < 0)
        return OWN_FAILURE;
    fprintf(file, "%s %lld %lld %lld\n", name, now_ns() - begin, ns(used.ru_utime), ns(used.ru_stime));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int count, char **arguments)
{
    FILE *file = count > 3 ? fopen(arguments[1], "we") : NULL;
    if (!file) {
        fprintf(stderr, "usage: phases REPORT NAME COMMAND… ';;' NAME COMMAND… ';;' …\n");
        return OWN_FAILURE;
    }
    int code = 0;
    for (int at = 2; !code && at + 1 < count;) {
        char **first = arguments + at;
        while (at < count && strcmp(arguments[at], ";;"))
            at++;
        if (at < count)
            arguments[at++] = NULL;
        code = first[1] ? phase(file, arguments[1], first[0], first + 1) : OWN_FAILURE;
    }
    return fclose(file) ? OWN_FAILURE : code;
}
