/* A lock for writing becomes one for reading while another process waits to read: who takes less wakes who waits. */
#include "case.h"

static int lock(int fd, int command, short kind) {
    struct flock range = {.l_type = kind, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    return fcntl(fd, command, &range);
}

static void round_of(const char *name) {
    *turn = 0;
    put(name, "before");
    pid_t child = must(fork());
    if (child == 0) {
        int fd = must(open(name, O_RDONLY));
        await_turn(1);
        must(lock(fd, F_SETLKW, F_RDLCK));
        gives(fd, "behind");
        _exit(0);
    }
    int fd = must(open(name, O_RDWR));
    must(lock(fd, F_SETLK, F_WRLCK));
    give_turn(1);
    usleep(20000);
    must(pwrite(fd, "behind", 6, 0));
    must(lock(fd, F_SETLK, F_RDLCK));
    wait_for(child);
    must(close(fd));
}

int main(void) {
    share_turns();
    round_of("first");
    round_of("second");
    round_of("third");
    return 0;
}
