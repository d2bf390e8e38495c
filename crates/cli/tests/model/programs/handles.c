/* Descriptors of children (CLONE_PIDFD) whose number is not the lowest that is free by what calls tell: another thread's
 * open waits, and has its number already. */
#include <linux/sched.h>

#include "case.h"

static void *opener(void *unused) {
    (void)unused;
    return (void *)must(open("fifo", O_RDONLY));
}

/* Opens a file `count` times, or until a number is passed over: that number, which another thread has taken and not yet got;
 * -1 if there is none. */
static int passed_over(int first, int count) {
    int last = first - 1, number = -1;
    for (int i = 0; i < count && number < 0; i++) {
        int fd = must(open("file", O_RDONLY));
        number = fd == last + 1 ? -1 : last + 1;
        last = fd;
    }
    for (int fd = first; fd <= last; fd++)
        if (fd != number)
            must(close(fd));
    return number;
}

/* A child that ends at once; where its descriptor is put. */
static pid_t by_clone(int *handle) {
    pid_t child = must(syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, handle, 0, 0));
    if (child == 0)
        _exit(0);
    return child;
}

static pid_t by_clone3(int *handle) {
    struct clone_args args = {.flags = CLONE_PIDFD, .pidfd = (uintptr_t)handle, .exit_signal = SIGCHLD};
    pid_t child = must(syscall(SYS_clone3, &args, sizeof(args)));
    if (child == 0)
        _exit(0);
    return child;
}

int main(void) {
    int handles[2] = {-1, -1}, number;
    void *waited;

    put("file", "first second third");
    must(mkfifo("fifo", 0600));
    int first = must(open("file", O_RDONLY));
    must(close(first));
    pthread_t thread = start(opener, NULL);
    /* It may take its number while some are open here: more are opened each time. */
    for (int count = 1; (number = passed_over(first, count)) < 0; count++)
        usleep(1000);
    for (int fd = first; fd < number; fd++)
        must(open("file", O_RDONLY));
    wait_for(by_clone(&handles[0]));
    wait_for(by_clone3(&handles[1]));
    holds(handles[0] == number + 1 && handles[1] == number + 2);
    int other = must(open("fifo", O_WRONLY));
    holds(pthread_join(thread, &waited) == 0);
    holds((long)waited == number && other == number + 3);
    must(close(handles[0]));
    int fd = must(open("file", O_RDWR));
    holds(fd == handles[0]);
    gives(fd, "first ");
    must(write(fd, "SECOND", 6));
    must(close(handles[1]));
    must(close(other));
    return 0;
}
