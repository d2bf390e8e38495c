// async: stores to one page of a megabyte after the other, and says each time that all of it may be written some time.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#define PAGES 256
int main(void) {
    int fd = open("async", O_RDWR | O_CREAT | O_TRUNC, 0644);
    ftruncate(fd, PAGES * 4096);
    char *at = mmap(0, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (int i = 0; i < 2000; i++) {
        at[i % PAGES * 4096 + i / PAGES]++;
        if (msync(at, PAGES * 4096, MS_ASYNC)) return 1;
    }
    return 0;
}
