// A forked process opens to stores what was closed, and stores to what its parent has closed since.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#define P 4096
int main() {
    int ends[2], status = 1;
    char byte;
    int fd = open("opened", O_RDWR | O_CREAT | O_TRUNC, 0644);
    int other = open("other", O_RDWR | O_CREAT | O_TRUNC, 0644);
    ftruncate(fd, 8 * P);
    ftruncate(other, 8 * P);
    pipe(ends);
    char *closed = mmap(0, 8 * P, PROT_READ, MAP_SHARED, fd, 0);
    char *opened = mmap(0, 8 * P, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
    if (!fork()) {
        mprotect(closed, 4 * P, PROT_READ | PROT_WRITE);
        closed[P] = 'a';
        read(ends[0], &byte, 1);
        opened[P] = 'b';
        _exit(0);
    }
    mprotect(opened, 8 * P, PROT_NONE);
    write(ends[1], "x", 1);
    wait(&status);
    mprotect(opened, 8 * P, PROT_READ | PROT_WRITE);
    opened[2 * P] = 'c';
    return status || closed[P] != 'a';
}
