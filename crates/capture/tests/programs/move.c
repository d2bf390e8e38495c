// Content by every way it can be moved: 3 MiB and some.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>
#define N (3 * 1024 * 1024 + 777)
static unsigned char a[N], b[N];
int main(void) {
    unsigned x = 12345;
    for (int i = 0; i < N; i++) { x = x * 1664525 + 1013904223; a[i] = x >> 24; }
    int f = open("written", O_RDWR | O_CREAT, 0644);
    if (write(f, a, N) != N) return 1;
    struct iovec v[3] = {{a, 1000}, {a + 1000, 0}, {a + 1000, N - 1000}};
    int g = open("vector", O_RDWR | O_CREAT, 0644);
    if (pwritev(g, v, 3, 4096) != N) return 2;
    int h = open("sent", O_RDWR | O_CREAT, 0644);
    off_t from = 0;
    for (size_t left = N; left;) { ssize_t n = sendfile(h, f, &from, left); if (n <= 0) return 3; left -= n; }
    int k = open("copied", O_RDWR | O_CREAT, 0644);
    lseek(f, 0, SEEK_SET);
    for (size_t left = N; left;) { ssize_t n = copy_file_range(f, 0, k, 0, left, 0); if (n <= 0) return 4; left -= n; }
    int p[2];
    pipe(p);
    loff_t at = 5;
    if (splice(f, &at, p[1], 0, 10000, 0) != 10000) return 5;
    int s = open("spliced", O_RDWR | O_CREAT, 0644);
    if (splice(p[0], 0, s, 0, 10000, 0) != 10000) return 6;
    struct iovec r[2] = {{b, 100}, {b + 100, N - 100}};
    if (preadv(f, r, 2, 0) != N) return 7;
    // A buffer whose end is not mapped: the readable part moves.
    unsigned char *m = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(m + 4096, 4096);
    for (int i = 0; i < 4096; i++) m[i] = i;
    int q = open("partial", O_RDWR | O_CREAT, 0644);
    write(q, m, 8192);
    return 0;
}
