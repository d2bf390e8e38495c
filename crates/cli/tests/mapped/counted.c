// counted PAGES: stores to that many pages of a file of twice as many, of which calls write the others.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int pages = atoi(argv[1]);
    int fd = open("counted", O_RDWR | O_CREAT | O_TRUNC, 0644);
    char page[4096] = {1, 2, 3};
    ftruncate(fd, 2L * pages * 4096);
    char *at = mmap(0, 2L * pages * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (int i = 0; i < pages; i++) {
        at[(2L * i + argc % 2) * 4096 + i] = 'x';
        if (pwrite(fd, page, 4096, (2L * i + 1) * 4096) != 4096) return 1;
        if (i % 7 == 0) msync(at, 2L * pages * 4096, MS_ASYNC);
    }
    write(fd, page, 4096);
    return at[4096] != 1;
}
