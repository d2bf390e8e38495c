/* A descriptor that is taken out of another process (pidfd_getfd). */
#include "case.h"

int main(void) {
    share_turns();
    put("file", "first second third");
    pid_t child = must(fork());
    if (child == 0) {
        int fd = must(open("file", O_RDWR));
        must(dup2(fd, 77));
        gives(fd, "first ");
        give_turn(1);
        await_turn(2);
        /* The taker moved the offset. */
        gives(fd, "third");
        _exit(0);
    }
    await_turn(1);
    int handle = must(syscall(SYS_pidfd_open, child, 0));
    fails(EBADF, syscall(SYS_pidfd_getfd, handle, 999, 0));
    int taken = must(syscall(SYS_pidfd_getfd, handle, 77, 0));
    holds(fcntl(taken, F_GETFD) == FD_CLOEXEC);
    gives(taken, "second ");
    give_turn(2);
    wait_for(child);
    must(pwrite(taken, "FIRST", 5, 0));
    must(close(taken));
    return 0;
}
