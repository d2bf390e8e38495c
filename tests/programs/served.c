/* Memory whose page faults a thread of the program serves (userfaultfd), given to calls.
 *
 *     served FILE ROUNDS SEED
 *
 * FILE, which is made, is written from such memory (pwrite, pwritev), of which nothing is there before the call looks at it; and what is
 * there is read into such memory and compared with what was written. Each round takes all pages away again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common.h"

#define PAGE 4096
#define PAGES 16
#define AREA_BYTES (PAGES * PAGE)

static int faults;
static uint8_t *area, contents[AREA_BYTES], expected[AREA_BYTES]; /* what the pages hold; the file as it must be */

static void *serve(void *unused)
{
    struct uffd_msg message;
    while (read(faults, &message, sizeof message) == sizeof message) {
        uint64_t at = message.arg.pagefault.address & ~(uint64_t)(PAGE - 1);
        struct uffdio_copy copy = { .dst = at, .src = (uintptr_t)(contents + (at - (uintptr_t)area)), .len = PAGE };
        if (ioctl(faults, UFFDIO_COPY, &copy) && errno != EEXIST)
            die("UFFDIO_COPY: %m");
    }
    return unused;
}

static void begin(void)
{
    struct uffdio_api api = { .api = UFFD_API };
    faults = syscall(SYS_userfaultfd, O_CLOEXEC);
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api))
        die("userfaultfd: %m");
    area = mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = { .range = { (uintptr_t)area, AREA_BYTES }, .mode = UFFDIO_REGISTER_MODE_MISSING };
    if (area == MAP_FAILED || ioctl(faults, UFFDIO_REGISTER, &range))
        die("UFFDIO_REGISTER: %m");
    pthread_t thread;
    if (pthread_create(&thread, NULL, serve, NULL))
        die("no thread");
}

static void forget(void)
{
    if (madvise(area, AREA_BYTES, MADV_DONTNEED))
        die("madvise: %m");
}

int main(int count, char **arguments)
{
    if (count != 4) {
        fprintf(stderr, "usage: served FILE ROUNDS SEED\n");
        return 2;
    }
    uint64_t state = atol(arguments[3]);
    int file = open(arguments[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (file < 0 || ftruncate(file, AREA_BYTES))
        die("%s: %m", arguments[1]);
    begin();
    for (long i = 0; i < atol(arguments[2]); i++) {
        fill(contents, AREA_BYTES, next(&state));
        unsigned at = next(&state) % (AREA_BYTES / 2), length = 1 + next(&state) % (AREA_BYTES / 4), there = next(&state) % (AREA_BYTES / 2);
        struct iovec parts[2] = { { area + at, length }, { area + at + length, length } };
        if (pwrite(file, area + at, length, there) != length || pwritev(file, parts, 2, there) != 2 * (ssize_t)length)
            die("%s was not written: %m", arguments[1]);
        memcpy(expected + there, contents + at, 2 * length);
        forget();
        if (pread(file, area + at, 2 * length, there) != 2 * (ssize_t)length || memcmp(area + at, expected + there, 2 * length))
            die("%s was not read as it was written", arguments[1]);
        forget();
    }
    uint8_t found[AREA_BYTES];
    if (pread(file, found, AREA_BYTES, 0) != AREA_BYTES || memcmp(found, expected, AREA_BYTES))
        die("%s does not contain what was written", arguments[1]);
    printf("checksum %016lx\n", (unsigned long)fnv(FNV_BEGIN, found, AREA_BYTES));
    return 0;
}
