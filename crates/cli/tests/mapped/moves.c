// Stores around calls that map something else where a file is mapped: parts that grow, several areas at once (Linux 6.17), what lay at
// the new place, and calls that fail.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#define P 4096L
#define PAGES 12
#define PLACE (MREMAP_MAYMOVE | MREMAP_FIXED)
static int made;
// Of a file of its own a part, at `at` or wherever there is room.
static char *file(char *at, long pages, long first) {
    char name[] = {'m', 'a' + made++, 0};
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    ftruncate(fd, PAGES * P);
    char *to = mmap(at, pages * P, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), fd, first * P);
    if (to == MAP_FAILED) _exit(1);
    to[0] = '0';
    return to;
}
static char *room(void) { return mmap(0, 64 * P, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
static void grow(char *whole, long page) {
    char *part = mremap(whole + page * P, P, 5 * P, MREMAP_MAYMOVE);
    if (part == MAP_FAILED) _exit(2);
    part[0] = '1';
    part[4 * P] = '2';
    for (int i = 0; i < 3; i++)
        if (i != page) whole[i * P + 5] = '3';
}
static void several(char *from, char *to, long hole) {
    file(from, 3, 4);
    file(from + (3 + hole) * P, 3, 0);
    // Before Linux 6.17 it fails, and all stays where it was.
    if (mremap(from, (6 + hole) * P, (6 + hole) * P, PLACE, to) == MAP_FAILED) to = from;
    to[P] = '1';
    to[(4 + hole) * P] = '2';
}
static void onto(void) {
    char *there = file(0, 5, 0), *here = file(0, 3, 0);
    there[2 * P] = '1';
    if (mremap(here, P, P, PLACE, there + 2 * P) == MAP_FAILED) _exit(3);
    there[2 * P + 1] = '2';
    there[3 * P] = '3';
    here[P] = '4';
}
static void in_vain(void) {
    char *at = file(0, 5, 0);
    if (mmap(at, 5 * P, PROT_READ, MAP_SHARED | MAP_FIXED, 99, 0) != MAP_FAILED) _exit(4);
    at[P] = '1';
    if (mremap(at + P + 1, P, P, PLACE, at + 3 * P) != MAP_FAILED) _exit(5);
    at[3 * P] = '2';
    if (!munmap(at, 1L << 62) || !munmap(at, -1)) _exit(6);
    at[4 * P] = '3';
}
int main(void) {
    for (long page = 0; page < 3; page++) grow(file(0, 3, 4), page);
    char *parted = file(0, 3, 4);
    munmap(parted + P, P);
    char *last = mremap(parted + 2 * P, P, 4 * P, MREMAP_MAYMOVE);
    last[3 * P] = '1';
    several(room(), room(), 0);
    several(room(), room(), 2);
    onto();
    in_vain();
    return 0;
}
