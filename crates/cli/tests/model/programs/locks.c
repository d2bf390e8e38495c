/* Locks of the three kinds, between processes: refused, asked for, waited for, released by close and by exit. */
#include "case.h"

static struct flock range(short type, long start, long length) {
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
}

static int lock(int fd, int command, short type, long start, long length) {
    struct flock wanted = range(type, start, length);
    return fcntl(fd, command, &wanted);
}

static void child(void) {
    int fd = must(open("file", O_RDWR));
    await_turn(1);
    /* Record locks of the parent. */
    fails(EAGAIN, lock(fd, F_SETLK, F_WRLCK, 5, 1));
    must(lock(fd, F_SETLK, F_WRLCK, 20, 5));
    struct flock found = range(F_WRLCK, 0, 0);
    must(fcntl(fd, F_GETLK, &found));
    holds(found.l_type == F_WRLCK && found.l_start == 0 && found.l_len == 10);
    fails(EAGAIN, flock(fd, LOCK_EX | LOCK_NB));
    fails(EAGAIN, lock(fd, F_OFD_SETLK, F_RDLCK, 100, 1));
    give_turn(2);
    await_turn(3);
    /* Closing any descriptor of the file released the parent's record locks; the others live by the description. */
    must(lock(fd, F_SETLK, F_WRLCK, 0, 10));
    fails(EAGAIN, flock(fd, LOCK_SH | LOCK_NB));
    give_turn(4);
    /* These wait until the parent lets go. */
    must(flock(fd, LOCK_EX));
    must(pwrite(fd, "child", 5, 0));
    must(lock(fd, F_SETLKW, F_WRLCK, 200, 1));
    must(pwrite(fd, "late", 4, 10));
    /* Its exit releases all. */
    _exit(0);
}

int main(void) {
    share_turns();
    put("file", "....................");
    pid_t pid = must(fork());
    if (pid == 0)
        child();
    int fd = must(open("file", O_RDWR)), twin = must(open("file", O_RDWR));
    must(lock(fd, F_SETLK, F_WRLCK, 0, 10));
    must(flock(fd, LOCK_EX));
    must(lock(fd, F_OFD_SETLK, F_WRLCK, 100, 1));
    give_turn(1);
    await_turn(2);
    fails(EAGAIN, lock(fd, F_SETLK, F_RDLCK, 22, 1));
    must(close(twin));
    give_turn(3);
    await_turn(4);
    must(lock(fd, F_SETLK, F_WRLCK, 200, 1));
    usleep(20000);
    must(pwrite(fd, "parent", 6, 0));
    must(flock(fd, LOCK_UN));
    usleep(20000);
    must(pwrite(fd, "before", 6, 10));
    must(lock(fd, F_SETLK, F_UNLCK, 0, 0));
    must(lock(fd, F_SETLKW, F_WRLCK, 0, 25));
    has("file", "childt....latere");
    wait_for(pid);
    must(flock(fd, LOCK_EX | LOCK_NB));
    return 0;
}
