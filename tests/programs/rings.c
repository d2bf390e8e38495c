/* io_uring where completions are not simply there: more than their queue has room for, and successes that are not told.
 *
 *     rings FILE ROUNDS SEED [broken|first|failing]
 *
 * FILE, which is made, has 256 blocks of 4 KiB. Each round either submits twice as many reads and writes of different blocks
 * as the queue of completions has room for, and only then looks at it; or a chain of linked writes of which only the last
 * is told. What is read is compared with what was written before. With `broken` one of a chain of which nothing is told
 * fails, so that what is linked behind it is cancelled, and only the failure is told (`first`: the first of the chain fails);
 * with `failing` workers fail in what is not told when it succeeds, while a later request is complete at once.
 */
#define _GNU_SOURCE
#include <fcntl.h>

#include "ring.h"

#define BLOCK 4096
#define BLOCKS 256
#define DATA_BYTES (BLOCKS * BLOCK)
#define MANY BLOCKS /* a multiple of RING_ENTRIES; the queue of completions has twice as many */

static struct ring ring;
static struct batch batch;
static uint64_t state;
static int file, to_read;
static const char *name;
static uint8_t expected[DATA_BYTES], buffers[MANY][BLOCK];
static struct io_uring_sqe many[MANY];

/* The result of the next completion. */
static int take(void)
{
    for (;;) {
        unsigned head = atomic_load(ring.cq_head);
        if (head == atomic_load_explicit(ring.cq_tail, memory_order_acquire)) {
            if (syscall(SYS_io_uring_enter, ring.file, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
                die("io_uring_enter: %m");
            continue;
        }
        int result = ring.results[head & ring.cq_mask].res;
        atomic_store(ring.cq_head, head + 1);
        return result;
    }
}

/* Takes so many completions, each of which must have this result. */
static void reap(unsigned left, int wanted)
{
    while (left--) {
        int result = take();
        if (result != wanted)
            die("a request came to %d and not %d", result, wanted);
    }
}

static void overflow(void)
{
    for (unsigned i = 0; i < MANY; i++) {
        unsigned block = (i * 37 + 11) % BLOCKS, writes = next(&state) % 2;
        if (writes)
            fill(buffers[i], BLOCK, next(&state));
        else
            memset(buffers[i], 0xee, BLOCK);
        many[i] = (struct io_uring_sqe){ .opcode = writes ? IORING_OP_WRITE : IORING_OP_READ, .fd = file, .user_data = 1000 + i,
                                         .addr = (uintptr_t)buffers[i], .len = BLOCK, .off = (__u64)block * BLOCK };
    }
    for (unsigned i = 0; i < MANY; i += RING_ENTRIES)
        ring_submit(&ring, many + i, RING_ENTRIES);
    reap(MANY, BLOCK);
    for (unsigned i = 0; i < MANY; i++) {
        uint8_t *there = expected + many[i].off;
        if (many[i].opcode == IORING_OP_WRITE)
            memcpy(there, buffers[i], BLOCK);
        else if (memcmp(there, buffers[i], BLOCK))
            die("block %llu was not read as it was written", many[i].off / BLOCK);
    }
}

static void silent(void)
{
    unsigned count = 2 + next(&state) % 6, at = next(&state) % (BLOCKS - 8);
    for (unsigned i = 0; i < count; i++) {
        struct io_uring_sqe *request = ring_add(&batch, IORING_OP_WRITE, file, BLOCK);
        fill(buffers[i], BLOCK, next(&state));
        request->addr = (uintptr_t)buffers[i], request->len = BLOCK, request->off = (at + i) * BLOCK;
        memcpy(expected + (at + i) * BLOCK, buffers[i], BLOCK);
        request->flags = i + 1 < count ? IOSQE_CQE_SKIP_SUCCESS | IOSQE_IO_LINK : 0;
    }
    ring_submit(&ring, batch.requests, batch.count);
    reap(1, BLOCK);
    batch.count = 0;
}

/* Writes, one of which is to no file; the last would remove the file. */
static void broken(int first)
{
    unsigned count = 2 + next(&state) % 6, bad = first ? 0 : next(&state) % count, at = next(&state) % (BLOCKS - 8);
    for (unsigned i = 0; i < count; i++) {
        struct io_uring_sqe *request = ring_add(&batch, IORING_OP_WRITE, i == bad ? 999 : file, BLOCK);
        fill(buffers[i], BLOCK, next(&state));
        request->addr = (uintptr_t)buffers[i], request->len = BLOCK, request->off = (at + i) * BLOCK;
        if (i < bad)
            memcpy(expected + (at + i) * BLOCK, buffers[i], BLOCK);
        request->flags = IOSQE_CQE_SKIP_SUCCESS | IOSQE_IO_LINK;
    }
    ring_add(&batch, IORING_OP_UNLINKAT, AT_FDCWD, 0)->addr = (uintptr_t)name;
    ring_submit(&ring, batch.requests, batch.count);
    reap(1, -EBADF);
    batch.count = 0;
}

/* Writes by workers to a file that is open for reading; then what is complete at once. */
static void failing(void)
{
    unsigned count = 1 + next(&state) % 8, done = 0, failed = 0;
    for (unsigned i = 0; i < count; i++) {
        struct io_uring_sqe *request = ring_add(&batch, IORING_OP_WRITE, to_read, BLOCK);
        fill(buffers[i], BLOCK, next(&state));
        request->addr = (uintptr_t)buffers[i], request->len = BLOCK, request->off = i * BLOCK;
        request->flags = IOSQE_CQE_SKIP_SUCCESS | IOSQE_ASYNC;
    }
    ring_add(&batch, IORING_OP_NOP, -1, 0);
    ring_submit(&ring, batch.requests, batch.count);
    while (done + failed < batch.count) {
        int result = take();
        done += result == 0, failed += result == -EBADF;
        if (result != 0 && result != -EBADF)
            die("a request came to %d", result);
    }
    if (done != 1)
        die("%u requests were successful", done);
    batch.count = 0;
}

int main(int count, char **arguments)
{
    const char *mode = count == 5 ? arguments[4] : "";
    int first = !strcmp(mode, "first"), breaks = first || !strcmp(mode, "broken"), fails = !strcmp(mode, "failing");
    if (count != 4 && !breaks && !fails) {
        fprintf(stderr, "usage: rings FILE ROUNDS SEED [broken|first|failing]\n");
        return 2;
    }
    name = arguments[1];
    state = atol(arguments[3]);
    file = open(arguments[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
    fill(expected, DATA_BYTES, next(&state));
    to_read = open(arguments[1], O_RDONLY);
    if (file < 0 || to_read < 0 || pwrite(file, expected, DATA_BYTES, 0) != DATA_BYTES)
        die("%s: %m", arguments[1]);
    if (ring_begin(&ring, 0))
        die("io_uring_setup: %m");
    for (long i = 0; i < atol(arguments[2]); i++) {
        if (breaks)
            broken(first);
        else if (fails)
            failing();
        else if (next(&state) % 2)
            overflow();
        else
            silent();
    }
    uint8_t found[DATA_BYTES];
    if (pread(file, found, DATA_BYTES, 0) != DATA_BYTES || memcmp(found, expected, DATA_BYTES))
        die("%s does not contain what was written", arguments[1]);
    printf("checksum %016lx\n", (unsigned long)fnv(FNV_BEGIN, found, DATA_BYTES));
    return 0;
}
