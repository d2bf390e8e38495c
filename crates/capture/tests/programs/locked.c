// Two processes wait for a lock in turn; a third one tries, and asks who has it.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static int fd;
static int lock(int type, int command) {
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_len = 8};
    return fcntl(fd, command, &l);
}
int main(int argc, char **argv) {
    int turns = atoi(argv[1]);
    for (int p = 0; p < 3; p++) {
        if (fork()) continue;
        fd = open("f", O_RDWR | O_CREAT, 0644);
        for (int i = 0; i < turns; i++) {
            if (p < 2) {
                lock(F_WRLCK, F_SETLKW);
                lock(F_UNLCK, F_SETLK);
            } else if (i % 2) {
                lock(F_WRLCK, F_GETLK);
            } else if (!lock(F_WRLCK, F_SETLK)) {
                lock(F_UNLCK, F_SETLK);
            }
        }
        _exit(0);
    }
    while (wait(0) > 0) {}
    return 0;
}
