/* Writes files through shared mappings, in a random pattern that its seed determines.
 *
 *     mmap-writer FILE PAGES WRITES PROCESSES SEED [msync]
 *
 * Each of the PROCESSES maps FILE shared (PAGES of 4 KiB; made, or its content kept where it has that size) and makes
 * WRITES stores of 1 to 256 bytes: every page has a slot for each process, so that pages are shared and bytes are not,
 * and the content at the end does not depend on who was first. Before a store it reads what the slot holds, and it
 * depends on it what is stored: whoever replays this with another initial content gets another file. Now and then a
 * process maps anew: a store may be the first touch of a mapping or one of many. With `msync` it writes back at times,
 * so that pages are stored to, written back, and stored to again.
 *
 * At the end the file is read by calls and compared with what the stores must have left.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

#define PAGE 4096
#define MOST_PROCESSES 16
#define MOST_BYTES (PAGE / MOST_PROCESSES)

static const char *path;
static unsigned long pages, writes, processes, seed;
static int syncs;

/* Where one process stores: into a mapping of the file, or into memory that stands for it. */
struct writer {
    uint8_t *memory;
    int (*pause)(struct writer *, uint64_t chosen);
    int file;
};

static void *map(int file)
{
    void *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        die("%s: mmap: %m", path);
    return memory;
}

/* Between stores: writes back, maps anew, or does nothing. */
static int pause_mapped(struct writer *writer, uint64_t chosen)
{
    uint8_t *page = writer->memory + (chosen >> 32) % pages * PAGE;
    if (syncs && chosen % 16 == 0)
        return msync(page, PAGE, MS_SYNC);
    if (syncs && chosen % 16 == 1)
        return msync(page, PAGE, MS_ASYNC);
    if (chosen % 64 == 2) {
        if (munmap(writer->memory, pages * PAGE))
            return -1;
        writer->memory = map(writer->file);
    }
    return 0;
}

static int pause_nothing(struct writer *writer, uint64_t chosen)
{
    (void)writer, (void)chosen;
    return 0;
}

static void stores(struct writer *writer, unsigned long me)
{
    uint64_t state = seed * MOST_PROCESSES + me;
    for (unsigned long i = 0; i < writes; i++) {
        uint64_t chosen = next(&state), page = chosen % pages;
        size_t length = 1 + (chosen >> 24) % MOST_BYTES, from = (chosen >> 40) % (MOST_BYTES - length + 1);
        uint8_t *slot = writer->memory + page * PAGE + me * MOST_BYTES;
        fill(slot + from, length, fnv(next(&state), slot, MOST_BYTES));
        if (writer->pause(writer, next(&state)))
            die("%s: msync or munmap: %m", path);
    }
}

static void mapped(unsigned long me)
{
    int file = open(path, O_RDWR);
    if (file < 0)
        die("%s: %m", path);
    struct writer writer = { map(file), pause_mapped, file };
    /* A mapping outlives its descriptor; for every other process, that is. */
    if (me % 2 && close(writer.file) == 0)
        writer.file = open(path, O_RDWR);
    stores(&writer, me);
    if (syncs && msync(writer.memory, pages * PAGE, MS_SYNC))
        die("%s: msync: %m", path);
    if (me % 2)
        munmap(writer.memory, pages * PAGE); /* the others leave it to their end */
}

static void whole(uint8_t *memory)
{
    int file = open(path, O_RDONLY);
    for (size_t done = 0; done < pages * PAGE;) {
        ssize_t count = pread(file, memory + done, pages * PAGE - done, done);
        if (count <= 0)
            die("%s: read: %m", path);
        done += count;
    }
    close(file);
}

static void make(void)
{
    struct stat about;
    int file = open(path, O_RDWR | O_CREAT, 0644);
    if (file < 0 || fstat(file, &about))
        die("%s: %m", path);
    if ((unsigned long)about.st_size != pages * PAGE && (ftruncate(file, 0) || ftruncate(file, pages * PAGE)))
        die("%s: ftruncate: %m", path);
    close(file);
}

static void run_all(void)
{
    for (unsigned long me = 0; me < processes; me++) {
        pid_t child = fork();
        if (child < 0)
            die("fork: %m");
        if (child == 0) {
            mapped(me);
            _exit(0);
        }
    }
    for (unsigned long me = 0; me < processes; me++) {
        int status;
        if (wait(&status) < 0 || status)
            die("a process ended with %#x", status);
    }
}

int main(int count, char **arguments)
{
    syncs = count == 7 && !strcmp(arguments[6], "msync");
    if (count == 6 || syncs) {
        path = arguments[1], pages = atol(arguments[2]), writes = atol(arguments[3]);
        processes = atol(arguments[4]), seed = atol(arguments[5]);
    }
    if (pages < 1 || processes < 1 || processes > MOST_PROCESSES) {
        fprintf(stderr, "usage: mmap-writer FILE PAGES WRITES PROCESSES SEED [msync]\n");
        return 2;
    }
    make();
    uint8_t *expected = malloc(pages * PAGE), *found = malloc(pages * PAGE);
    if (!expected || !found)
        die("out of memory");
    whole(expected);
    run_all();
    for (unsigned long me = 0; me < processes; me++)
        stores(&(struct writer){ expected, pause_nothing, -1 }, me);
    whole(found);
    printf("checksum %016lx\n", (unsigned long)fnv(FNV_BEGIN, found, pages * PAGE));
    if (memcmp(expected, found, pages * PAGE))
        die("%s does not contain what was stored", path);
    return 0;
}
