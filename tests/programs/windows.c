/* What a call takes where nothing disturbs it, to a few nanoseconds, also on a machine that others use.
 *
 *     windows pread|read|write FILE
 *
 * Calls in windows of 250: reads of 4 KiB anywhere in the file, reads of 128 bytes one after the other, or writes of 100 bytes
 * to a file `out` here. Prints the 1st, 10th, 25th and 50th percentile of 4,000 windows in ns a call: whoever takes the
 * processor spoils some of them, and the least are the same from run to run.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define WINDOWS 4000
#define CALLS 250
#define PAGE 4096

static char buffer[PAGE] __attribute__((aligned(PAGE)));
static double window_ns[WINDOWS];
static int in, out;
static off_t pages;

static void call(char kind)
{
    static uint64_t state;

    if (kind == 'p' && pread(in, buffer, PAGE, next(&state) % pages * PAGE) != PAGE)
        die("pread of %d bytes", PAGE);
    if (kind == 'r' && read(in, buffer, 128) < 128)
        lseek(in, 0, SEEK_SET);
    if (kind == 'w' && write(out, buffer, 100) != 100)
        die("write");
}

static int compare(const void *left, const void *right)
{
    double l = *(const double *)left, r = *(const double *)right;

    return l < r ? -1 : l > r;
}

int main(int argc, char **argv)
{
    struct timespec begin, end;
    char kind = argc == 3 ? argv[1][0] : 0;

    if (kind != 'p' && strcmp(argv[1], "read") && kind != 'w')
        die("windows pread|read|write FILE");
    in = open(argv[2], O_RDONLY);
    out = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    pages = lseek(in, 0, SEEK_END) / PAGE;
    if (pages <= 0 || out < 0)
        die("%s: nothing to read, or no room for out", argv[2]);
    for (int window = 0; window < WINDOWS; window++) {
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (int i = 0; i < CALLS; i++)
            call(kind);
        clock_gettime(CLOCK_MONOTONIC, &end);
        window_ns[window] = ((end.tv_sec - begin.tv_sec) * 1e9 + end.tv_nsec - begin.tv_nsec) / CALLS;
        if (window % 100 == 0 && ftruncate(out, 0) == 0)
            lseek(out, 0, SEEK_SET);
    }
    qsort(window_ns, WINDOWS, sizeof *window_ns, compare);
    printf("%.0f %.0f %.0f %.0f\n", window_ns[WINDOWS / 100], window_ns[WINDOWS / 10], window_ns[WINDOWS / 4], window_ns[WINDOWS / 2]);
    return 0;
}
