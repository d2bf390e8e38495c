// A thread with a descriptor table of its own ends; what its process has mapped stays.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#define P 4096
static char stack[16 * P] __attribute__((aligned(16)));
static volatile int lives = 1;
static int thread(void *unused) {
    write(open("thread", O_RDWR | O_CREAT, 0644), "t", 1);
    return syscall(SYS_exit, 0);
}
int main() {
    int fd = open("kept", O_RDWR | O_CREAT | O_TRUNC, 0644);
    ftruncate(fd, 2 * P);
    char *kept = mmap(0, 2 * P, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    kept[0] = 'a';
    int flags = CLONE_VM | CLONE_THREAD | CLONE_SIGHAND | CLONE_SYSVSEM | CLONE_FS | CLONE_CHILD_CLEARTID;
    clone(thread, stack + sizeof stack, flags, 0, 0, 0, &lives);
    while (lives)
        usleep(1000);
    strcpy(kept + P, "when the thread has ended");
    msync(kept, 2 * P, MS_SYNC);
    kept[1] = 'b';
    return 0;
}
