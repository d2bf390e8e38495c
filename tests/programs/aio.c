/* Linux AIO by raw system calls: batches of reads, writes and syncs in flight, in a pattern that its seed determines.
 *
 *     aio FILE BLOCKS BATCHES SEED [direct|again|left]
 *
 * FILE (of BLOCKS of 4 KiB; made, or its content kept where it has that size) gets batches of up to 16 requests: pread,
 * pwrite, preadv and pwritev of one to four blocks, fsync, fdsync. Requests of one batch touch different blocks, since
 * the kernel may serve them in any order; what is read is compared with what was written before, and is written again
 * elsewhere, so that a wrong content goes on. Half of the batches are submitted by two calls, half are reaped by more
 * than one, and some of the requests also count in an eventfd. One request of a batch may be bad (a closed descriptor),
 * which must fail alone. With `direct` the file is open with O_DIRECT. With `again` all requests of a batch, which are writes and
 * reads at the end of the file, are asked for by one and the same iocb, which the kernel copies. With `left` a last
 * batch of writes follows whose events are never fetched.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common.h"

#define BLOCK 4096
#define DEPTH 16
#define MOST_BLOCKS 4 /* of one request */
#define REQUEST_BYTES (MOST_BLOCKS * BLOCK)

static aio_context_t context;
static int file, counter;
static uint8_t *expected, *memory; /* the file as it must be; buffers of one request after the other */
static struct iovec parts[DEPTH][2];
static unsigned long blocks;

static struct iocb requests[DEPTH];
static long outcomes[DEPTH]; /* what each must result in */

static int reads(unsigned opcode) { return opcode == IOCB_CMD_PREAD || opcode == IOCB_CMD_PREADV; }
static int writes(unsigned opcode) { return opcode == IOCB_CMD_PWRITE || opcode == IOCB_CMD_PWRITEV; }

/* Request `i` of a batch, with the blocks from `at`. */
static void prepare(unsigned i, unsigned long at, unsigned long length, uint64_t *state)
{
    static const unsigned kinds[] = { IOCB_CMD_PREAD, IOCB_CMD_PWRITE, IOCB_CMD_PREADV, IOCB_CMD_PWRITEV };
    uint64_t chosen = next(state);
    uint8_t *buffer = memory + i * REQUEST_BYTES;
    struct iocb *request = &requests[i];
    *request = (struct iocb){ .aio_data = i, .aio_lio_opcode = kinds[chosen % 4], .aio_fildes = file };
    outcomes[i] = length * BLOCK;
    if (chosen % 32 >= 30) {
        request->aio_lio_opcode = chosen % 2 ? IOCB_CMD_FSYNC : IOCB_CMD_FDSYNC;
        outcomes[i] = 0;
        return;
    }
    request->aio_offset = at * BLOCK;
    request->aio_buf = (uintptr_t)buffer;
    request->aio_nbytes = length * BLOCK;
    if (writes(request->aio_lio_opcode)) {
        fill(buffer, length * BLOCK, next(state));
        memcpy(buffer, expected + next(state) % blocks * BLOCK, 512); /* as read before, or written */
    } else {
        memset(buffer, 0xee, length * BLOCK);
    }
    if (request->aio_lio_opcode == IOCB_CMD_PREADV || request->aio_lio_opcode == IOCB_CMD_PWRITEV) {
        parts[i][0] = (struct iovec){ buffer, BLOCK };
        parts[i][1] = (struct iovec){ buffer + BLOCK, (length - 1) * BLOCK };
        request->aio_buf = (uintptr_t)parts[i];
        request->aio_nbytes = length > 1 ? 2 : 1;
    }
    if (chosen >> 8 & 1) {
        request->aio_flags = IOCB_FLAG_RESFD;
        request->aio_resfd = counter;
    }
}

static void submit(unsigned from, unsigned to)
{
    struct iocb *list[DEPTH];
    for (unsigned i = from; i < to; i++)
        list[i - from] = &requests[i];
    long count = syscall(SYS_io_submit, context, to - from, list);
    if (count != (long)(to - from))
        die("io_submit took %ld of %u: %m", count, to - from);
}

/* A bad descriptor is refused at once, and what stands after it is not looked at. */
static void submit_bad(void)
{
    struct iocb bad = { .aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = 999, .aio_buf = (uintptr_t)memory, .aio_nbytes = BLOCK };
    struct iocb *list[] = { &bad, &requests[0] };
    if (syscall(SYS_io_submit, context, 2, list) != -1 || errno != EBADF)
        die("a request on a closed descriptor was not refused");
}

static void reap(unsigned count, unsigned at_once)
{
    struct io_event events[DEPTH];
    while (count) {
        long got = syscall(SYS_io_getevents, context, 1, at_once < count ? at_once : count, events, NULL);
        if (got < 1)
            die("io_getevents: %ld: %m", got);
        for (long i = 0; i < got; i++)
            if (events[i].res != outcomes[events[i].data])
                die("request %llu: %lld and not %ld", events[i].data, events[i].res, outcomes[events[i].data]);
        count -= got;
    }
}

/* What the batch did to the file, in memory; reads are compared. */
static void settle(unsigned count, const unsigned long *at)
{
    for (unsigned i = 0; i < count; i++) {
        uint8_t *buffer = memory + i * REQUEST_BYTES, *there = expected + at[i] * BLOCK;
        if (writes(requests[i].aio_lio_opcode))
            memcpy(there, buffer, outcomes[i]);
        else if (reads(requests[i].aio_lio_opcode) && memcmp(there, buffer, outcomes[i]))
            die("block %lu was not read as it was written", at[i]);
    }
}

static void batch(uint64_t *state)
{
    unsigned count = 1 + next(state) % DEPTH, stretch = blocks / DEPTH;
    unsigned long at[DEPTH];
    unsigned order[DEPTH];
    shuffle(order, DEPTH, state);
    for (unsigned i = 0; i < count; i++) {
        unsigned long length = 1 + next(state) % MOST_BLOCKS;
        at[i] = order[i] * stretch + next(state) % (stretch - length + 1);
        prepare(i, at[i], length, state);
    }
    uint64_t chosen = next(state);
    unsigned middle = chosen % 2 ? count / 2 : 0;
    if (middle)
        submit(0, middle);
    if (chosen % 8 == 7)
        submit_bad();
    submit(middle, count);
    reap(count, chosen & 16 ? 3 : DEPTH);
    settle(count, at);
}

/* A batch of writes, and of reads that find nothing, whose events nobody fetches yet; how many. All by the same iocb, if it is so. */
static unsigned plain_batch(int same, uint64_t *state)
{
    unsigned count = 2 + next(state) % (DEPTH - 2), stretch = blocks / DEPTH;
    for (unsigned i = 0; i < count; i++) {
        unsigned long length = (1 + next(state) % MOST_BLOCKS) * BLOCK, at = i * stretch * BLOCK;
        int finds_nothing = next(state) % 4 == 0 && same;
        uint8_t *buffer = memory + i * REQUEST_BYTES;
        struct iocb *request = &requests[same ? 0 : i], *list[] = { request };
        fill(buffer, length, next(state));
        *request = (struct iocb){ .aio_data = i, .aio_lio_opcode = finds_nothing ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE, .aio_fildes = file,
                                  .aio_buf = (uintptr_t)buffer, .aio_nbytes = length, .aio_offset = finds_nothing ? blocks * BLOCK : at };
        outcomes[i] = finds_nothing ? 0 : length;
        memcpy(expected + at, buffer, outcomes[i]);
        if (syscall(SYS_io_submit, context, 1, list) != 1)
            die("io_submit: %m");
    }
    return count;
}

static void begin(const char *path, int flags)
{
    struct stat about;
    file = open(path, O_RDWR | O_CREAT | flags, 0644);
    counter = eventfd(0, EFD_NONBLOCK);
    if (file < 0 || counter < 0 || fstat(file, &about))
        die("%s: %m", path);
    if ((unsigned long)about.st_size != blocks * BLOCK && (ftruncate(file, 0) || ftruncate(file, blocks * BLOCK)))
        die("%s: ftruncate: %m", path);
    if (posix_memalign((void **)&expected, BLOCK, blocks * BLOCK) || posix_memalign((void **)&memory, BLOCK, DEPTH * REQUEST_BYTES))
        die("out of memory");
    if (pread(file, expected, blocks * BLOCK, 0) != (ssize_t)(blocks * BLOCK))
        die("%s: read: %m", path);
    if (syscall(SYS_io_setup, DEPTH, &context))
        die("io_setup: %m");
}

int main(int count, char **arguments)
{
    const char *mode = count == 6 ? arguments[5] : "";
    int direct = !strcmp(mode, "direct"), again = !strcmp(mode, "again"), left = !strcmp(mode, "left");
    if (count == 5 || direct || again || left)
        blocks = atol(arguments[2]);
    if (blocks < DEPTH * MOST_BLOCKS) {
        fprintf(stderr, "usage: aio FILE BLOCKS BATCHES SEED [direct|again|left]   with BLOCKS >= %d\n", DEPTH * MOST_BLOCKS);
        return 2;
    }
    uint64_t state = atol(arguments[4]);
    begin(arguments[1], direct ? O_DIRECT : 0);
    for (long i = 0; i < atol(arguments[3]); i++)
        if (again)
            reap(plain_batch(1, &state), DEPTH);
        else
            batch(&state);
    if (!left && syscall(SYS_io_destroy, context))
        die("io_destroy: %m");
    uint8_t *found;
    if (posix_memalign((void **)&found, BLOCK, blocks * BLOCK) || pread(file, found, blocks * BLOCK, 0) != (ssize_t)(blocks * BLOCK))
        die("%s: read: %m", arguments[1]);
    printf("checksum %016lx\n", (unsigned long)fnv(FNV_BEGIN, found, blocks * BLOCK));
    if (memcmp(expected, found, blocks * BLOCK))
        die("%s does not contain what was written", arguments[1]);
    if (left)
        plain_batch(0, &state);
    return 0;
}
