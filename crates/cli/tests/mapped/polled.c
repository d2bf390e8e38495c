// polled: processes with a ring that a thread of the kernel's polls store to a mapped file and end at once, some before that thread.
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define PROCESSES 8
static int stores(const char *name) {
    struct io_uring_params how = {.flags = IORING_SETUP_SQPOLL, .sq_thread_idle = 50};
    if (syscall(SYS_io_uring_setup, 4, &how) < 0) return 1;
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    ftruncate(fd, 64 * 4096);
    char *at = mmap(0, 64 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    at[0] = 1;
    at[20 * 4096] = 7;
    return 0;
}
int main(void) {
    int failed = 0, status;
    for (int i = 0; i < PROCESSES; i++) {
        char name[16];
        sprintf(name, "polled-%d", i);
        if (!fork()) _exit(stores(name));
    }
    while (wait(&status) > 0) failed |= status;
    return failed != 0;
}
