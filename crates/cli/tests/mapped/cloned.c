// What was stored through a mapping is in what is cloned from its file, and what is stored afterwards is not.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#define P 4096L
int main(void) {
    int from = open("from", O_RDWR | O_CREAT | O_TRUNC, 0644), to = open("to", O_RDWR | O_CREAT | O_TRUNC, 0644);
    struct file_clone_range part = {from, 0, 8 * P, 16 * P};
    ftruncate(from, 16 * P);
    char *at = mmap(0, 16 * P, PROT_READ | PROT_WRITE, MAP_SHARED, from, 0);
    if (at == MAP_FAILED) return 1;
    at[3 * P] = '1';
    if (ioctl(to, FICLONE, from)) return 2;
    at[3 * P + 1] = '2';
    at[4 * P] = '3';
    if (ioctl(to, FICLONERANGE, &part)) return 3;
    at[5 * P] = '4';
    return 0;
}
