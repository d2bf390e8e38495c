/* A simulated disk: a file system in user space with one file, `image`, for a loop device.
 *
 *     disk DIRECTORY BYTES
 *
 * What is written is kept in memory; how long a request takes is that of the model whose name was last written to the
 * second file, `model`: `off` (no delay), `hdd` (one arm), `raid` (two such disks, striped in chunks of 512 KiB),
 * `flash` (four channels) or `steady` (each request takes the same, as so many channels are seldom asked for two at once).
 * Arms choose the nearest of their requests by seek and rotation, as disks with a command
 * queue do; so deeper queues are served faster, and the order of requests matters. The disk is about twice as
 * fast as a real one, so that experiments are short.
 *
 * A request begins when the one before it ended by the model, not when this program got to run, so that late wake-ups on
 * a busy machine do not add up. Ends when it is unmounted.
 *
 * Non-goals: faults, a volatile cache (what was written is safe; a flush costs nothing), any other file operation.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define REQUEST_BYTES (1 << 20)
#define CHUNK (512 << 10)
#define MOST_UNITS 64
#define MS 1000000.0

enum { ROOT = FUSE_ROOT_ID, IMAGE = 2, MODEL = 3 };

struct model {
    const char *name;
    int units;
    uint64_t stripe; /* bytes on one unit before the next one */
    int arm;         /* has seeks and rotation, or else a fixed time */
    double read_ns, write_ns, byte_ns;
};

static const struct model models[] = {
    { "off", 0, CHUNK, 0, 0, 0, 0 },
    { "hdd", 1, CHUNK, 1, 0, 0, 5 },
    { "raid", 2, CHUNK, 1, 0, 0, 5 },
    { "flash", 4, 4096, 0, 1.5 * MS, 3.0 * MS, 10 },
    { "steady", 64, 4096, 0, 1.0 * MS, 1.0 * MS, 0.5 },
};
static const double seek_least_ns = 0.4 * MS, seek_most_ns = 4.0 * MS, turn_ns = 25.0 / 6 * MS;
/* Read in advance by the disk itself: a request not further on than this needs no seek. */
#define AHEAD (256 << 10)

struct request {
    uint64_t unique, offset;
    uint32_t bytes;
    int write;
    int parts; /* guarded by `parts_lock` */
};

struct part {
    struct request *request;
    uint64_t at; /* on its unit */
    uint32_t bytes;
    double arrived_ns;
    struct part *next;
};

struct unit {
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    struct part *queue;
    uint64_t position;
    double free_ns; /* when the last request ended, by the model */
};

static struct unit units[MOST_UNITS];
static pthread_mutex_t parts_lock = PTHREAD_MUTEX_INITIALIZER;
static const struct model *_Atomic model = &models[0];
static uint8_t *memory;
static uint64_t size;
static int device;

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void sleep_until(double ns)
{
    struct timespec t = { ns / 1e9, 0 };
    t.tv_nsec = ns - t.tv_sec * 1e9;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {}
}

static void reply(uint64_t unique, int error, const void *data, size_t bytes)
{
    struct fuse_out_header head = { sizeof head + bytes, -error, unique };
    struct iovec parts[] = { { &head, sizeof head }, { (void *)data, bytes } };
    if (writev(device, parts, bytes ? 2 : 1) < 0 && errno != ENOENT)
        perror("disk: reply");
}

static void done(struct request *request)
{
    struct fuse_write_out written = { .size = request->bytes };
    if (request->write)
        reply(request->unique, 0, &written, sizeof written);
    else
        reply(request->unique, 0, memory + request->offset, request->bytes);
    free(request);
}

/* From `begin` until the medium has moved by, if the arm does nothing else. */
static double service_ns(const struct unit *unit, const struct part *part, double begin)
{
    double transfer = part->bytes * model->byte_ns;
    if (!model->arm)
        return transfer + (part->request->write ? model->write_ns : model->read_ns);
    if (part->at >= unit->position && part->at - unit->position <= AHEAD && !part->request->write)
        return (part->at - unit->position) * model->byte_ns + transfer;
    double way = part->at > unit->position ? part->at - unit->position : unit->position - part->at;
    double seek = way == 0 ? 0 : seek_least_ns + (seek_most_ns - seek_least_ns) * sqrt(way / size);
    /* A track passes in one turn: where the sector is on it, and where the medium is when the arm is there. */
    double there = part->at * model->byte_ns, waited = fmod(there - (begin + seek), turn_ns);
    return seek + (waited < 0 ? waited + turn_ns : waited) + transfer;
}

/* When a part would be over if it were the next: not begun before it was there, nor before the unit was free. */
static double end_ns(const struct unit *unit, const struct part *part)
{
    double begin = part->arrived_ns > unit->free_ns ? part->arrived_ns : unit->free_ns;
    return begin + service_ns(unit, part, begin);
}

/* Takes the part that is over soonest if there is an arm, else the oldest. */
static struct part *take_next(struct unit *unit, double *until)
{
    struct part **best = &unit->queue;
    *until = end_ns(unit, *best);
    for (struct part **p = &(*best)->next; model->arm && *p; p = &(*p)->next) {
        double end = end_ns(unit, *p);
        if (end < *until)
            *until = end, best = p;
    }
    struct part *part = *best;
    *best = part->next;
    return part;
}

static void *serve_unit(void *argument)
{
    struct unit *unit = argument;
    pthread_mutex_lock(&unit->lock);
    for (;;) {
        while (!unit->queue)
            pthread_cond_wait(&unit->arrived, &unit->lock);
        double until;
        struct part *part = take_next(unit, &until);
        unit->free_ns = until;
        unit->position = part->at + part->bytes;
        pthread_mutex_unlock(&unit->lock);
        sleep_until(until);
        pthread_mutex_lock(&parts_lock);
        int left = --part->request->parts;
        pthread_mutex_unlock(&parts_lock);
        if (!left)
            done(part->request);
        free(part);
        pthread_mutex_lock(&unit->lock);
    }
    return NULL;
}

static void enqueue(struct unit *unit, struct part *part)
{
    pthread_mutex_lock(&unit->lock);
    struct part **end = &unit->queue;
    while (*end)
        end = &(*end)->next;
    *end = part;
    pthread_cond_signal(&unit->arrived);
    pthread_mutex_unlock(&unit->lock);
}

static void submit(struct request *request)
{
    const struct model *m = model;
    if (!m->units || !request->bytes) {
        done(request);
        return;
    }
    /* Held until all parts are queued: the first may be over before the last is there. */
    pthread_mutex_lock(&parts_lock);
    uint64_t at = request->offset, end = at + request->bytes;
    double now = now_ns();
    int alone = m->units == 1 || !m->arm;
    while (at < end) {
        uint64_t stripe = at / m->stripe, within = at % m->stripe;
        uint64_t length = alone || end - at < m->stripe - within ? end - at : m->stripe - within;
        struct part *part = malloc(sizeof *part);
        if (!part)
            abort();
        *part = (struct part){ request, m->units == 1 ? at : stripe / m->units * m->stripe + within, length, now, NULL };
        request->parts++;
        at += length;
        enqueue(&units[stripe % m->units], part);
    }
    pthread_mutex_unlock(&parts_lock);
}

static struct fuse_attr attributes(uint64_t node)
{
    struct fuse_attr a = { .ino = node, .nlink = 1, .blksize = 4096 };
    a.mode = node == ROOT ? S_IFDIR | 0755 : S_IFREG | 0600;
    a.size = node == IMAGE ? size : node == MODEL ? 16 : 0;
    a.blocks = a.size / 512;
    return a;
}

static void look_up(uint64_t unique, const char *name)
{
    struct fuse_entry_out entry = { .attr_valid = 3600, .entry_valid = 3600 };
    entry.nodeid = !strcmp(name, "image") ? IMAGE : !strcmp(name, "model") ? MODEL : 0;
    if (!entry.nodeid) {
        reply(unique, ENOENT, NULL, 0);
        return;
    }
    entry.attr = attributes(entry.nodeid);
    reply(unique, 0, &entry, sizeof entry);
}

static int choose(const char *name, size_t bytes)
{
    while (bytes && (name[bytes - 1] == '\n' || name[bytes - 1] == 0))
        bytes--;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strlen(models[i].name) == bytes && !memcmp(models[i].name, name, bytes)) {
            model = &models[i];
            return 0;
        }
    return EINVAL;
}

static void transfer(const struct fuse_in_header *in, const void *argument)
{
    const struct fuse_read_in *read = argument;
    const struct fuse_write_in *write = argument;
    int writing = in->opcode == FUSE_WRITE;
    uint64_t offset = writing ? write->offset : read->offset;
    uint32_t bytes = writing ? write->size : read->size;
    if (in->nodeid == MODEL) {
        struct fuse_write_out out = { .size = bytes };
        int error = writing ? choose((const char *)(write + 1), bytes) : 0;
        if (error || !writing)
            reply(in->unique, error, model->name, error || offset ? 0 : strlen(model->name));
        else
            reply(in->unique, 0, &out, sizeof out);
        return;
    }
    if (offset > size || (writing && bytes > size - offset)) {
        reply(in->unique, writing ? ENOSPC : 0, NULL, 0);
        return;
    }
    struct request *request = malloc(sizeof *request);
    if (!request)
        abort();
    *request = (struct request){ in->unique, offset, bytes < size - offset ? bytes : size - offset, writing, 0 };
    if (writing)
        memcpy(memory + offset, write + 1, bytes);
    submit(request);
}

static void handle(const struct fuse_in_header *in, const void *argument)
{
    switch (in->opcode) {
    case FUSE_INIT: {
        const struct fuse_init_in *asked = argument;
        struct fuse_init_out out = {
            .major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_readahead = asked->max_readahead,
            .flags = asked->flags & (FUSE_ASYNC_READ | FUSE_ASYNC_DIO | FUSE_BIG_WRITES | FUSE_MAX_PAGES),
            .max_background = 512, .congestion_threshold = 512, .max_write = REQUEST_BYTES, .time_gran = 1,
            .max_pages = REQUEST_BYTES / 4096,
        };
        reply(in->unique, 0, &out, sizeof out);
        return;
    }
    case FUSE_LOOKUP:
        look_up(in->unique, argument);
        return;
    case FUSE_GETATTR:
    case FUSE_SETATTR: {
        struct fuse_attr_out out = { .attr_valid = 3600, .attr = attributes(in->nodeid) };
        reply(in->unique, 0, &out, sizeof out);
        return;
    }
    case FUSE_OPEN: {
        struct fuse_open_out out = { .open_flags = FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES };
        reply(in->unique, 0, &out, sizeof out);
        return;
    }
    case FUSE_READ:
    case FUSE_WRITE:
        transfer(in, argument);
        return;
    case FUSE_STATFS: {
        struct fuse_statfs_out out = { .st = { .bsize = 4096, .namelen = 255 } };
        reply(in->unique, 0, &out, sizeof out);
        return;
    }
    case FUSE_RELEASE:
    case FUSE_FLUSH:
    case FUSE_DESTROY:
        reply(in->unique, 0, NULL, 0);
        return;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
        return;
    default:
        reply(in->unique, ENOSYS, NULL, 0);
    }
}

static int fail(const char *what)
{
    fprintf(stderr, "disk: %s: %s\n", what, strerror(errno));
    return 1;
}

int main(int count, char **arguments)
{
    if (count != 3 || !(size = strtoull(arguments[2], NULL, 10))) {
        fprintf(stderr, "usage: disk DIRECTORY BYTES\n");
        return 2;
    }
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return fail("memory");
    char options[128];
    if ((device = open("/dev/fuse", O_RDWR | O_CLOEXEC)) < 0)
        return fail("/dev/fuse");
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", device);
    if (mount("reprise-disk", arguments[1], "fuse", MS_NOSUID | MS_NODEV, options) < 0)
        return fail("mount");
    for (int i = 0; i < MOST_UNITS; i++) {
        pthread_t thread;
        pthread_mutex_init(&units[i].lock, NULL);
        pthread_cond_init(&units[i].arrived, NULL);
        if (pthread_create(&thread, NULL, serve_unit, &units[i]))
            return fail("thread");
    }
    static _Alignas(4096) char buffer[REQUEST_BYTES + 65536];
    for (;;) {
        ssize_t got = read(device, buffer, sizeof buffer);
        if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT))
            continue;
        if (got < 0)
            return errno == ENODEV ? 0 : fail("read"); /* ENODEV: unmounted */
        const struct fuse_in_header *in = (void *)buffer;
        handle(in, in + 1);
    }
}
