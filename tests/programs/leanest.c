/* The least that replaying reads can cost on this machine: a loop in C that does nothing but what each way of a replay cannot do without.
 *
 * `leanest WAY FILE THREADS READS`: threads read 1 KiB at random offsets of cached files, FILE0, FILE1, …; each prints nothing, the
 * program how long its slowest thread took, as JSON. WAY is
 *   call      a `pread` for each read, and nothing else: the program that is replayed
 *   filtered  the same under a list of permitted calls (seccomp), as any confined replay is
 *   sync      the same, each read taken from a record of 16 bytes, its result checked, its begin and end kept in 24 bytes
 *   compared  as sync, and what was read is compared with what was expected
 *   apart     as sync, each read into another place of 16 MiB: what it takes that another thread could compare it meanwhile
 *   uring     such records and results; reads by io_uring in batches of 128, each batch timed, of a file and into memory that are
 *             registered with the ring
 *   noatime   the same, of files opened so that reads change no access times
 *   linked    as uring, in strict order
 *   touch     such records and results; one byte of a mapping loaded instead of a read, each load timed
 *   load      one byte of a mapping loaded for each record, and nothing else
 *   clock     the clock read, and nothing else
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#define RING_ENTRIES 128
#include "clock.h"
#include "ring.h"

#define LENGTH 1024
#define SIZE (1 << 20)
#define LOG_BYTES (64 << 10)
#define APART_BYTES (16 << 20)

struct record {
    uint32_t origin, result;
    uint64_t offset;
};

struct entry {
    uint64_t origin, begin;
    uint32_t taken, result;
};

static const char *way, *path;
static unsigned long reads;
static pthread_barrier_t gate;

static int is(const char *name)
{
    return !strcmp(way, name);
}

/* One call after the other is compared with those that are permitted, as many as a replay permits. */
static void permit_calls(void)
{
    enum { CALLS = 300 };
    static struct sock_filter program[2 * CALLS + 2];
    unsigned short length = 0;
    program[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned call = 0; call < CALLS; call++) {
        program[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
        program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = { .len = length, .filter = program };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        die("no list of permitted calls: %m");
}

struct log {
    struct entry *entries;
    unsigned count;
};

static void keep(struct log *log, const struct record *record, uint64_t begin, uint64_t end)
{
    log->entries[log->count] = (struct entry){ record->origin, begin, end - begin, record->result };
    if (++log->count == LOG_BYTES / sizeof(struct entry))
        log->count = 0;
}

static void check(long result, const struct record *record)
{
    if (result != (long)record->result)
        die("a read returned %ld: %m", result);
}

static void by_ring(int file, char *room, const struct record *records, struct log *log)
{
    struct ring ring;
    if (ring_begin(&ring, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN) && ring_begin(&ring, 0))
        die("no io_uring: %m");
    struct iovec buffer = { room, LENGTH };
    if (ring_register(&ring, IORING_REGISTER_BUFFERS, &buffer, 1) || ring_register(&ring, IORING_REGISTER_FILES, &file, 1))
        die("the ring takes neither buffers nor files: %m");
    int linked = is("linked");
    unsigned count;
    for (unsigned long done = 0; done < reads; done += count) {
        count = reads - done < RING_ENTRIES ? reads - done : RING_ENTRIES;
        for (unsigned i = 0; i < count; i++) {
            const struct record *record = &records[done + i];
            unsigned slot = ring.submitted++ & ring.sq_mask;
            ring.requests[slot] = (struct io_uring_sqe){ .opcode = IORING_OP_READ_FIXED, .fd = 0, .addr = (uint64_t)room, .len = LENGTH,
                .off = record->offset, .user_data = i, .flags = IOSQE_FIXED_FILE | (linked && i + 1 < count ? IOSQE_IO_LINK : 0) };
            ring.sq_array[slot] = slot;
        }
        atomic_store_explicit(ring.sq_tail, ring.submitted, memory_order_release);
        uint64_t begin = ticks();
        long taken = syscall(SYS_io_uring_enter, ring.file, count, count, IORING_ENTER_GETEVENTS, NULL, 0);
        uint64_t end = ticks();
        unsigned head = atomic_load_explicit(ring.cq_head, memory_order_relaxed);
        if (taken != (long)count || atomic_load_explicit(ring.cq_tail, memory_order_acquire) - head != count)
            die("io_uring_enter took %ld of %u: %m", taken, count);
        for (unsigned i = 0; i < count; i++) {
            const struct io_uring_cqe *result = &ring.results[(head + i) & ring.cq_mask];
            check(result->res, &records[done + result->user_data]);
            keep(log, &records[done + result->user_data], begin, end);
        }
        atomic_store_explicit(ring.cq_head, head + count, memory_order_release);
    }
}

static void by_call(int file, char *room, const char *expected, const struct record *records, struct log *log)
{
    unsigned long step = is("apart") ? LENGTH : 0, at = 0;
    int compares = is("compared");
    for (unsigned long i = 0; i < reads; i++, at = (at + step) % APART_BYTES) {
        const struct record *record = &records[i];
        uint64_t begin = ticks();
        long result = pread(file, room + at, LENGTH, record->offset);
        uint64_t end = ticks();
        check(result, record);
        if (compares && memcmp(room, expected + record->offset, LENGTH))
            die("a read returned something else");
        keep(log, record, begin, end);
    }
}

static void by_touch(const char *mapped, const struct record *records, struct log *log)
{
    for (unsigned long i = 0; i < reads; i++) {
        const struct record *record = &records[i];
        uint64_t begin = ticks();
        (void)*(const volatile char *)(mapped + record->offset);
        uint64_t end = ticks_after_loads();
        keep(log, record, begin, end);
    }
}

static void by_load(const char *mapped, const struct record *records)
{
    for (unsigned long i = 0; i < reads; i++)
        (void)*(const volatile char *)(mapped + records[i].offset);
}

static void bare(int file, char *room, const struct record *records)
{
    for (unsigned long i = 0; i < reads; i++)
        check(pread(file, room, LENGTH, records[i].offset), &records[i]);
}

static void clock_alone(void)
{
    uint64_t sum = 0;
    for (unsigned long i = 0; i < reads; i++)
        sum += ticks();
    if (!sum)
        die("no clock");
}

static void *one(void *which)
{
    char name[4096], *room = malloc(APART_BYTES), *expected = malloc(SIZE);
    uint64_t state = (uint64_t)which;
    snprintf(name, sizeof name, "%s%lu", path, (unsigned long)which);
    int file = open(name, O_RDONLY | (is("noatime") ? O_NOATIME : 0));
    const char *mapped = mmap(NULL, SIZE, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
    struct record *records = malloc(reads * sizeof *records);
    struct log log = { malloc(LOG_BYTES), 0 };
    if (file < 0 || mapped == MAP_FAILED || !records || !log.entries || !room || !expected)
        die("%s: %m", name);
    for (unsigned long i = 0; i < reads; i++)
        records[i] = (struct record){ .origin = i, .result = LENGTH, .offset = next(&state) % (SIZE / LENGTH) * LENGTH };
    memset(log.entries, 0, LOG_BYTES);
    memset(room, 0, APART_BYTES);
    memcpy(expected, mapped, SIZE);
    pthread_barrier_wait(&gate);
    uint64_t begin = nanoseconds();
    if (is("touch"))
        by_touch(mapped, records, &log);
    else if (is("load"))
        by_load(mapped, records);
    else if (is("clock"))
        clock_alone();
    else if (is("uring") || is("noatime") || is("linked"))
        by_ring(file, room, records, &log);
    else if (is("sync") || is("compared") || is("apart"))
        by_call(file, room, expected, records, &log);
    else
        bare(file, room, records);
    return (void *)(nanoseconds() - begin);
}

int main(int argc, char **argv)
{
    if (argc != 5 || atoi(argv[3]) < 1)
        die("leanest call|filtered|sync|compared|apart|uring|noatime|linked|touch|clock FILE THREADS READS");
    way = argv[1], path = argv[2], reads = strtoul(argv[4], NULL, 10);
    unsigned count = atoi(argv[3]);
    pthread_t threads[count];
    pthread_barrier_init(&gate, NULL, count);
    if (!is("call"))
        permit_calls();
    for (unsigned long i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, one, (void *)i))
            die("no thread: %m");
    unsigned long longest = 0;
    for (unsigned i = 0; i < count; i++) {
        void *taken;
        pthread_join(threads[i], &taken);
        longest = (unsigned long)taken > longest ? (unsigned long)taken : longest;
    }
    printf("{\"way\": \"%s\", \"elapsed_ns\": %lu}\n", way, longest);
}
