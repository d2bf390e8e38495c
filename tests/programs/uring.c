/* io_uring by raw system calls: all that it does to files, in a pattern that its seed determines.
 *
 *     uring DIRECTORY ROUNDS SEED [sqpoll|defer]
 *
 * In DIRECTORY, which is made, it keeps a file `data` of 64 blocks of 4 KiB and some others `f0` to `f7`. Each round is a
 * batch of one kind (see `kinds`): reads and writes of different blocks in flight together, of plain and fixed files and
 * buffers; chains of linked requests that open, write and close without a descriptor in between; chains that break, and
 * hard links that do not; names made, moved and removed; splices through a pipe; requests at the file's position; requests
 * that wait for those before them; buffers that the kernel chooses. What it reads it compares and writes again elsewhere.
 * With `sqpoll` a thread of the kernel submits, with `defer` completions run when they are asked for.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/stat.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "ring.h"

#define BLOCK 4096
#define BLOCKS 64
#define DATA_BYTES (BLOCKS * BLOCK)
#define DEPTH 16
#define MOST_BLOCKS 4 /* of one request */
#define REQUEST_BYTES (MOST_BLOCKS * BLOCK)
#define FILES 8
#define HERE ((__u64)-1) /* at the file's position */
/* Fixed files. */
enum { SLOT_DATA, SLOT_CHAIN, SLOTS };

static struct ring ring;
static struct batch batch;
static uint64_t state;
static int directory, data, through[2];
static uint8_t *buffers; /* fixed buffer i: REQUEST_BYTES of request i */
static struct iovec parts[DEPTH][2];

/* What must be there: the content of `data`, and of the other files (length -1: none). */
static uint8_t expected[DATA_BYTES], others[FILES][REQUEST_BYTES];
static long lengths[FILES];

static struct io_uring_sqe *add(unsigned opcode, int file, long wanted) { return ring_add(&batch, opcode, file, wanted); }

static struct io_uring_sqe *transfer(unsigned opcode, int file, const void *bytes, unsigned length, uint64_t at)
{
    struct io_uring_sqe *request = add(opcode, file, length);
    request->addr = (uintptr_t)bytes, request->len = length, request->off = at;
    return request;
}

static void link_all(unsigned flag)
{
    for (unsigned i = 0; i + 1 < batch.count; i++)
        batch.requests[i].flags |= flag;
}

static void go(void)
{
    ring_go(&ring, &batch, 0);
    batch.count = 0;
}

static const char *name_of(unsigned i)
{
    static const char names[FILES][3] = { "f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7" };
    return names[i];
}

/* One of `data`'s requests, of the blocks from `at`. */
static void one(unsigned i, unsigned at, unsigned length)
{
    static const unsigned kinds[] = { IORING_OP_READ,  IORING_OP_READV,  IORING_OP_READ_FIXED,
                                      IORING_OP_WRITE, IORING_OP_WRITEV, IORING_OP_WRITE_FIXED };
    unsigned kind = next(&state) % 6, bytes = length * BLOCK;
    uint64_t chosen = next(&state);
    uint8_t *buffer = buffers + i * REQUEST_BYTES;
    if (kind < 3) {
        memset(buffer, 0xee, bytes);
    } else {
        fill(buffer, bytes, next(&state));
        memcpy(buffer, expected + chosen % BLOCKS * BLOCK, 512);
    }
    struct io_uring_sqe *request = transfer(kinds[kind], data, buffer, bytes, at * BLOCK);
    if (kind % 3 == 1) {
        parts[i][0] = (struct iovec){ buffer, 100 };
        parts[i][1] = (struct iovec){ buffer + 100, bytes - 100 };
        request->addr = (uintptr_t)parts[i], request->len = 2;
    }
    if (kind % 3 == 2)
        request->buf_index = i;
    if (chosen >> 20 & 1)
        request->fd = SLOT_DATA, request->flags |= IOSQE_FIXED_FILE;
    if (!(chosen >> 24 & 7))
        request->flags |= IOSQE_ASYNC;
}

static void in_flight(void)
{
    unsigned order[DEPTH], at[DEPTH], count = 1 + next(&state) % DEPTH;
    shuffle(order, DEPTH, &state);
    for (unsigned i = 0; i < count; i++) {
        unsigned length = 1 + next(&state) % MOST_BLOCKS;
        at[i] = order[i] * MOST_BLOCKS + next(&state) % (MOST_BLOCKS - length + 1);
        one(i, at[i], length);
    }
    if (next(&state) % 4 == 0)
        add(IORING_OP_FSYNC, data, 0)->fsync_flags = next(&state) % 2 ? IORING_FSYNC_DATASYNC : 0;
    if (next(&state) % 4 == 0)
        add(IORING_OP_SYNC_FILE_RANGE, data, 0)->sync_range_flags = SYNC_FILE_RANGE_WRITE;
    ring_go(&ring, &batch, next(&state) % 2 ? count / 2 : 0);
    for (unsigned i = 0; i < count; i++) {
        unsigned opcode = batch.requests[i].opcode;
        uint8_t *buffer = buffers + i * REQUEST_BYTES, *there = expected + at[i] * BLOCK;
        if (opcode == IORING_OP_WRITE || opcode == IORING_OP_WRITEV || opcode == IORING_OP_WRITE_FIXED)
            memcpy(there, buffer, batch.wanted[i]);
        else if (memcmp(there, buffer, batch.wanted[i]))
            die("block %u was not read as it was written", at[i]);
    }
    batch.count = 0;
}

/* Opens a fixed file, writes, closes: no descriptor is seen, and all is submitted before anything is done. */
static void chain(void)
{
    unsigned file = next(&state) % FILES;
    long length = 1 + next(&state) % (REQUEST_BYTES - BLOCK), more = 1 + next(&state) % BLOCK;
    uint8_t *content = others[file];
    struct statx about;
    fill(content, length, next(&state));
    memset(content + length, 0, more);
    struct io_uring_sqe *open = add(IORING_OP_OPENAT, directory, 0);
    open->addr = (uintptr_t)name_of(file), open->len = 0640, open->open_flags = O_RDWR | O_CREAT | O_TRUNC;
    open->file_index = SLOT_CHAIN + 1;
    transfer(IORING_OP_WRITE, SLOT_CHAIN, content, length, 0)->flags = IOSQE_FIXED_FILE;
    struct io_uring_sqe *allocate = add(IORING_OP_FALLOCATE, SLOT_CHAIN, 0);
    allocate->off = length, allocate->addr = more, allocate->flags = IOSQE_FIXED_FILE;
    add(IORING_OP_FSYNC, SLOT_CHAIN, 0)->flags = IOSQE_FIXED_FILE;
    add(IORING_OP_CLOSE, 0, 0)->file_index = SLOT_CHAIN + 1;
    struct io_uring_sqe *look = add(IORING_OP_STATX, directory, 0);
    look->addr = (uintptr_t)name_of(file), look->len = STATX_SIZE, look->addr2 = (uintptr_t)&about;
    link_all(IOSQE_IO_LINK);
    go();
    lengths[file] = length + more;
    if ((long)about.stx_size != lengths[file])
        die("%s has %llu bytes", name_of(file), about.stx_size);
}

/* A chain whose first request fails: what is linked is cancelled, what is linked hard is done. */
static void broken(void)
{
    unsigned file = next(&state) % FILES, hard = next(&state) % 2;
    int is_there = lengths[file] >= 0;
    struct io_uring_sqe *open = add(IORING_OP_OPENAT, directory, -ENOENT);
    open->addr = (uintptr_t)"missing/file", open->open_flags = O_RDONLY;
    transfer(IORING_OP_WRITE, data, buffers, BLOCK, 0)->addr = 0;
    batch.wanted[1] = hard ? -EFAULT : -ECANCELED;
    add(IORING_OP_UNLINKAT, directory, !hard ? -ECANCELED : is_there ? 0 : -ENOENT)->addr = (uintptr_t)name_of(file);
    link_all(hard ? IOSQE_IO_HARDLINK : IOSQE_IO_LINK);
    go();
    if (hard)
        lengths[file] = -1;
}

static void two_names(unsigned opcode, const char *from, const char *to)
{
    struct io_uring_sqe *request = add(opcode, directory, 0);
    request->addr = (uintptr_t)from, request->addr2 = (uintptr_t)to;
    request->len = opcode == IORING_OP_SYMLINKAT ? 0 : directory;
}

static void names(void)
{
    unsigned from = next(&state) % FILES, to = next(&state) % FILES;
    struct io_uring_sqe *request = add(IORING_OP_MKDIRAT, directory, 0);
    request->addr = (uintptr_t)"dir", request->len = 0750;
    two_names(IORING_OP_SYMLINKAT, "../data", "dir/link");
    two_names(IORING_OP_LINKAT, "data", "dir/data");
    if (lengths[from] >= 0 && from != to) {
        two_names(IORING_OP_RENAMEAT, name_of(from), name_of(to));
        memcpy(others[to], others[from], REQUEST_BYTES);
        lengths[to] = lengths[from], lengths[from] = -1;
    }
    add(IORING_OP_UNLINKAT, directory, 0)->addr = (uintptr_t)"dir/data";
    add(IORING_OP_UNLINKAT, directory, 0)->addr = (uintptr_t)"dir/link";
    request = add(IORING_OP_UNLINKAT, directory, 0);
    request->addr = (uintptr_t)"dir", request->unlink_flags = AT_REMOVEDIR;
    link_all(IOSQE_IO_LINK);
    go();
}

static void splice_one(int from, uint64_t from_at, int to, uint64_t to_at, unsigned length)
{
    struct io_uring_sqe *request = add(IORING_OP_SPLICE, to, length);
    request->splice_fd_in = from, request->splice_off_in = from_at, request->off = to_at, request->len = length;
}

/* From one place of the file to another, by a pipe. */
static void splices(void)
{
    unsigned from = next(&state) % (BLOCKS - MOST_BLOCKS), to = next(&state) % (BLOCKS - MOST_BLOCKS);
    unsigned length = (1 + next(&state) % MOST_BLOCKS) * BLOCK;
    uint8_t content[REQUEST_BYTES];
    splice_one(data, from * BLOCK, through[1], HERE, length);
    splice_one(through[0], HERE, data, to * BLOCK, length);
    link_all(IOSQE_IO_LINK);
    /* Pages in a pipe are the file's own: what is spliced is what they hold when they come out. */
    if (from + MOST_BLOCKS > to && to + MOST_BLOCKS > from) {
        batch.count = 0;
        return;
    }
    go();
    memcpy(content, expected + from * BLOCK, length);
    memcpy(expected + to * BLOCK, content, length);
}

/* Writes and reads at the position of the descriptor, which a call has set. */
static void at_position(void)
{
    unsigned at = next(&state) % (BLOCKS - 3) * BLOCK;
    uint8_t *written = buffers, *found = buffers + REQUEST_BYTES;
    fill(written, BLOCK, next(&state));
    if (lseek(data, at, SEEK_SET) != (off_t)at)
        die("lseek: %m");
    transfer(IORING_OP_WRITE, data, written, BLOCK, HERE);
    transfer(IORING_OP_READ, data, found, BLOCK, HERE);
    transfer(IORING_OP_WRITE, data, found, BLOCK, HERE);
    link_all(IOSQE_IO_LINK);
    go();
    memcpy(expected + at, written, BLOCK);
    memcpy(expected + at + 2 * BLOCK, expected + at + BLOCK, BLOCK);
}

/* The same block again and again; each request waits for those before it. */
static void drained(void)
{
    unsigned at = next(&state) % BLOCKS * BLOCK, count = 2 + next(&state) % 4;
    for (unsigned i = 0; i < count; i++) {
        fill(buffers + i * REQUEST_BYTES, BLOCK, next(&state));
        transfer(IORING_OP_WRITE, data, buffers + i * REQUEST_BYTES, BLOCK, at)->flags = IOSQE_IO_DRAIN;
    }
    go();
    memcpy(expected + at, buffers + (count - 1) * REQUEST_BYTES, BLOCK);
}

/* Reads into buffers of which the kernel chooses one. */
static void chosen_buffers(void)
{
    enum { GROUP = 7, COUNT = 4 };
    unsigned at = next(&state) % (BLOCKS - COUNT) * BLOCK;
    memset(buffers, 0xee, COUNT * BLOCK);
    struct io_uring_sqe *request = add(IORING_OP_PROVIDE_BUFFERS, COUNT, 0);
    request->addr = (uintptr_t)buffers, request->len = BLOCK, request->buf_group = GROUP;
    for (unsigned i = 0; i < COUNT; i++) {
        request = transfer(IORING_OP_READ, data, NULL, BLOCK, at + i * BLOCK);
        request->flags = IOSQE_BUFFER_SELECT, request->buf_group = GROUP;
    }
    link_all(IOSQE_IO_LINK);
    ring_go(&ring, &batch, 0);
    for (unsigned i = 0; i < COUNT; i++) {
        unsigned buffer = batch.flags[i + 1] >> IORING_CQE_BUFFER_SHIFT;
        if (memcmp(buffers + buffer * BLOCK, expected + at + i * BLOCK, BLOCK))
            die("buffer %u does not hold what was to be read", buffer);
    }
    batch.count = 0;
}

/* Advice, a hole, and a file that is opened by one batch and closed by another. */
static void hole(void)
{
    unsigned at = next(&state) % BLOCKS * BLOCK;
    struct io_uring_sqe *request = add(IORING_OP_FALLOCATE, data, 0);
    request->off = at, request->addr = BLOCK, request->len = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    request = add(IORING_OP_FADVISE, data, 0);
    request->off = at, request->len = BLOCK, request->fadvise_advice = POSIX_FADV_WILLNEED;
    add(IORING_OP_NOP, -1, 0);
    link_all(IOSQE_IO_LINK);
    go();
    memset(expected + at, 0, BLOCK);
    int lowest = dup(data);
    close(lowest); /* what the next open must give */
    struct io_uring_sqe *open = add(IORING_OP_OPENAT, directory, lowest);
    open->addr = (uintptr_t)"data", open->open_flags = O_RDONLY;
    go();
    transfer(IORING_OP_READ, lowest, buffers, BLOCK, at);
    add(IORING_OP_CLOSE, lowest, 0);
    link_all(IOSQE_IO_LINK);
    go();
    if (memcmp(buffers, expected + at, BLOCK))
        die("the hole is none");
}

static void (*const kinds[])(void) = { in_flight, in_flight, chain, broken, names, splices, at_position, drained, chosen_buffers, hole };

static void begin(const char *path, unsigned flags)
{
    if (mkdir(path, 0755) || (directory = open(path, O_RDONLY | O_DIRECTORY)) < 0)
        die("%s: %m", path);
    if (ring_begin(&ring, flags))
        die("io_uring_setup: %m");
    if (pipe(through) || posix_memalign((void **)&buffers, BLOCK, DEPTH * REQUEST_BYTES))
        die("no pipe or memory: %m");
    data = openat(directory, "data", O_RDWR | O_CREAT, 0644);
    fill(expected, DATA_BYTES, next(&state));
    if (data < 0 || pwrite(data, expected, DATA_BYTES, 0) != DATA_BYTES)
        die("data: %m");
    struct iovec fixed[DEPTH];
    for (unsigned i = 0; i < DEPTH; i++)
        fixed[i] = (struct iovec){ buffers + i * REQUEST_BYTES, REQUEST_BYTES };
    int files[SLOTS] = { [SLOT_DATA] = data, [SLOT_CHAIN] = -1 };
    if (ring_register(&ring, IORING_REGISTER_BUFFERS, fixed, DEPTH) || ring_register(&ring, IORING_REGISTER_FILES, files, SLOTS))
        die("io_uring_register: %m");
    for (unsigned i = 0; i < FILES; i++)
        lengths[i] = -1;
}

/* Compares a file with what it must contain, and goes on with the checksum. */
static uint64_t check(const char *name, const uint8_t *content, long length, uint64_t sum)
{
    static uint8_t found[DATA_BYTES + 1];
    int file = openat(directory, name, O_RDONLY);
    if ((file < 0) != (length < 0))
        die("%s is there, or is not, and should not, or should", name);
    if (length < 0)
        return sum;
    if (read(file, found, sizeof found) != length || memcmp(found, content, length))
        die("%s does not contain what was written", name);
    close(file);
    return fnv(fnv(sum, name, strlen(name)), found, length);
}

int main(int count, char **arguments)
{
    const char *mode = count == 5 ? arguments[4] : "";
    int sqpoll = !strcmp(mode, "sqpoll"), defer = !strcmp(mode, "defer");
    if (count != 4 && !sqpoll && !defer) {
        fprintf(stderr, "usage: uring DIRECTORY ROUNDS SEED [sqpoll|defer]\n");
        return 2;
    }
    state = atol(arguments[3]);
    begin(arguments[1], sqpoll ? IORING_SETUP_SQPOLL : defer ? IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN : 0);
    for (long i = 0; i < atol(arguments[2]); i++)
        kinds[next(&state) % (sizeof kinds / sizeof *kinds)]();
    uint64_t sum = check("data", expected, DATA_BYTES, FNV_BEGIN);
    for (unsigned i = 0; i < FILES; i++)
        sum = check(name_of(i), others[i], lengths[i], sum);
    printf("checksum %016lx\n", (unsigned long)sum);
    return 0;
}
