// Pages that leave their file while it is mapped, stored to before and afterwards, and what a forked process takes out.
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#define P 4096
int main() {
    char page[P];
    int fd = open("holes", O_RDWR | O_CREAT | O_TRUNC, 0644);
    ftruncate(fd, 16 * P);
    char *at = mmap(0, 16 * P, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    memset(at, 'q', 16 * P);
    if (madvise(at + 4 * P, 8 * P, MADV_REMOVE)) return 1;
    memset(at + 5 * P, 'q', P);
    if (!fork()) _exit(madvise(at + 13 * P, P, MADV_REMOVE) != 0);
    int status = 1;
    wait(&status);
    close(open("cut-here", O_RDWR | O_CREAT, 0644));
    for (int i = 4; i < 14; i++)
        if (pread(fd, page, P, i * P) != P || page[9] != (i == 5 || i == 12 ? 'q' : 0)) return 2;
    at[7 * P] = 'r';
    return status;
}
