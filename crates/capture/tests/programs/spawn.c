// vfork, posix_spawn, a thread that ends the process, a first thread that ends before the process.
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static void *last(void *arg) { usleep(20000); exit(4); }
int main(void) {
    int status;
    pid_t p = vfork();
    if (p == 0) _exit(3);
    waitpid(p, &status, 0);
    if (WEXITSTATUS(status) != 3) return 90;
    char *argv[] = {"sh", "-c", "exit 6", 0};
    posix_spawnp(&p, "sh", 0, 0, argv, environ);
    waitpid(p, &status, 0);
    if (WEXITSTATUS(status) != 6) return 91;
    pthread_t t;
    pthread_create(&t, 0, last, 0);
    pthread_exit(0);
}
