// Stores through the second of two mappings of a file, by the last process that has them.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#define P 4096
int main() {
    int fd = open("twice", O_RDWR | O_CREAT | O_TRUNC, 0644);
    ftruncate(fd, 16 * P);
    char *one = mmap(0, 8 * P, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char *two = mmap(0, 8 * P, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 8 * P);
    two[2 * P] = 'b';
    return 0;
}
