// Stores to what mremap moves and what it leaves where it was, and to what it maps a second time.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#define P 4096
#define LEAVE (MREMAP_MAYMOVE | MREMAP_DONTUNMAP)
static char *moved(char *from, long old, long new, int how) {
    char *to = mremap(from, old, new, how, 0);
    if (to == MAP_FAILED) _exit(1);
    return to;
}
int main() {
    int fd = open("left", O_RDWR | O_CREAT | O_TRUNC, 0644);
    ftruncate(fd, 16 * P);
    char *one = mmap(0, 16 * P, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char *two = moved(one, 16 * P, 16 * P, LEAVE);
    one[P] = 'a';
    two[2 * P] = 'b';
    char *three = moved(two + 4 * P, 0, 4 * P, MREMAP_MAYMOVE);
    three[0] = 'c';
    munmap(two, 16 * P);
    three[P] = 'd';
    one[3 * P] = 'e';
    char *part = moved(one + 8 * P, 2 * P, 2 * P, LEAVE);
    part[0] = 'f';
    one[9 * P] = 'g';
    munmap(one, 16 * P);
    part[P + 1] = 'h';
    if (!fork()) {
        char *own = moved(part, 2 * P, 2 * P, LEAVE), *again = moved(three, 0, 2 * P, MREMAP_MAYMOVE);
        own[2] = 'i';
        part[3] = 'j';
        again[P + 5] = 'k';
        _exit(0);
    }
    int status = 1;
    wait(&status);
    part[P + 7] = 'l';
    return status;
}
