/* Several processes work on the same few files without any agreement: whatever happened, happens again. */
#include "case.h"

#define PROCESSES 4

static unsigned random_state;

static unsigned any(unsigned below) {
    random_state = random_state * 1103515245 + 12345;
    return (random_state >> 16) % below;
}

static void work(int me) {
    random_state = 77 * me + 1;
    char a[16], b[16], text[64];
    for (int i = 0; i < 60; i++) {
        snprintf(a, sizeof a, "d%u/f%u", any(2), any(3));
        snprintf(b, sizeof b, "d%u/f%u", any(2), any(3));
        int fd;
        switch (any(8)) {
        case 0:
            rename(a, b);
            break;
        case 1:
            link(a, b);
            break;
        case 2:
            unlink(a);
            break;
        case 3:
            rename("d0", "d1");
            mkdir("d0", 0755);
            break;
        case 4:
            rename("d1", "d2");
            rename("d0", "d1");
            rename("d2", "d0");
            break;
        default:
            fd = open(a, O_RDWR | (any(2) ? O_CREAT : 0) | (any(3) ? O_APPEND : O_TRUNC), 0644);
            if (fd >= 0) {
                read(fd, text, sizeof text);
                snprintf(text, sizeof text, "%d:%d ", me, i);
                write(fd, text, strlen(text));
                close(fd);
            }
        }
    }
    _exit(0);
}

int main(void) {
    must(mkdir("d0", 0755));
    must(mkdir("d1", 0755));
    for (int i = 1; i < PROCESSES; i++)
        if (must(fork()) == 0)
            work(i);
    pid_t last = must(fork());
    if (last == 0)
        work(PROCESSES);
    while (wait(NULL) > 0)
        ;
    return 0;
}
