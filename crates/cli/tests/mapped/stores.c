// Stores to shared mappings of files, and calls on the same files, in a seeded random order: stores SEED [STEPS].
// Every read is compared with what this program knows to be in the file, so that it notices a recorder that disturbs it.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILES = 3, MOST = 40, PAGE = 4096 };

static uint64_t state;
static unsigned below(unsigned n) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (state >> 11) % n;
}

static struct {
    char name[8];
    int fd;
    size_t pages; // size of the file
    size_t mapped; // pages of the mapping, 0 without one
    int writable;
    unsigned char *at;
    unsigned char *shadow; // what is in the file, shared with the children
} files[FILES];

static void must(int ok, const char *what) {
    if (!ok) perror(what), exit(3);
}

static void fill(unsigned char *at, size_t n) {
    for (size_t i = 0; i < n; i++) at[i] = below(256);
}

static void map(int f) {
    files[f].mapped = files[f].pages;
    files[f].at = mmap(0, files[f].mapped * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, files[f].fd, 0);
    must(files[f].at != MAP_FAILED, "mmap");
    files[f].writable = 1;
}

static void resize(int f, size_t pages) {
    must(ftruncate(files[f].fd, pages * PAGE) == 0, "ftruncate");
    if (pages < files[f].pages) memset(files[f].shadow + pages * PAGE, 0, (files[f].pages - pages) * PAGE);
    files[f].pages = pages;
}

static void store(int f) {
    size_t reach = files[f].mapped < files[f].pages ? files[f].mapped : files[f].pages;
    if (!files[f].writable || reach == 0) return;
    size_t at = below(reach * PAGE), n = 1 + below(below(4) ? 64 : 9000);
    if (at + n > reach * PAGE) n = reach * PAGE - at;
    unsigned char bytes[9000];
    fill(bytes, n);
    memcpy(files[f].at + at, bytes, n);
    memcpy(files[f].shadow + at, bytes, n);
}

static void step(void) {
    int f = below(FILES);
    size_t size = files[f].pages * PAGE, at = size ? below(size) : 0, n = size ? 1 + below(6000) : 0;
    unsigned char bytes[6001];
    if (at + n > size) n = size - at;
    switch (below(26)) {
    default: store(f); break;
    case 0:
        fill(bytes, n);
        must(pwrite(files[f].fd, bytes, n, at) == (ssize_t)n, "pwrite");
        memcpy(files[f].shadow + at, bytes, n);
        break;
    case 1:
        must(pread(files[f].fd, bytes, n, at) == (ssize_t)n, "pread");
        must(memcmp(bytes, files[f].shadow + at, n) == 0, "pread: other bytes");
        break;
    case 2: {
        struct iovec parts[2] = {{bytes, n / 2}, {bytes + n / 2, n - n / 2}};
        lseek(files[f].fd, at, SEEK_SET);
        must(readv(files[f].fd, parts, 2) == (ssize_t)n, "readv");
        must(memcmp(bytes, files[f].shadow + at, n) == 0, "readv: other bytes");
        break;
    }
    case 3: if (files[f].mapped) must(msync(files[f].at, files[f].mapped * PAGE, MS_SYNC) == 0, "msync"); break;
    case 4: fdatasync(files[f].fd); break;
    case 5: resize(f, 1 + below(MOST)); break;
    case 6: if (files[f].pages) resize(f, files[f].pages); break;
    case 7:
        if (files[f].mapped) must(munmap(files[f].at, files[f].mapped * PAGE) == 0, "munmap");
        map(f);
        break;
    case 8: {
        pid_t child = fork();
        if (child == 0) {
            for (unsigned i = 0, n = below(5); i < n; i++) store(below(FILES));
            if (below(3) == 0) raise(SIGKILL);
            _exit(0);
        }
        below(9), waitpid(child, 0, 0); // go on otherwise than the child
        break;
    }
    case 9:
        if (!files[f].mapped) break;
        files[f].writable = !files[f].writable;
        must(mprotect(files[f].at, files[f].mapped * PAGE, PROT_READ | (files[f].writable ? PROT_WRITE : 0)) == 0, "mprotect");
        break;
    case 10: if (files[f].mapped) madvise(files[f].at, files[f].mapped * PAGE, MADV_DONTNEED); break;
    case 11:
        if (!files[f].mapped) break;
        files[f].at = mremap(files[f].at, files[f].mapped * PAGE, (files[f].pages + 2) * PAGE, MREMAP_MAYMOVE);
        must(files[f].at != MAP_FAILED, "mremap");
        files[f].mapped = files[f].pages + 2;
        break;
    case 12:
        // Its descriptor goes, its mapping stays.
        close(files[f].fd);
        files[f].fd = open(files[f].name, O_RDWR);
        must(files[f].fd >= 0, "open");
        break;
    case 13: {
        // A file without a name is still stored to, and read into another.
        char other[] = "copy0";
        other[4] += f;
        int fd = open("gone", O_RDWR | O_CREAT | O_TRUNC, 0600), to = open(other, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        must(fd >= 0 && to >= 0 && ftruncate(fd, 3 * PAGE) == 0, "gone");
        unsigned char *p = mmap(0, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        unlink("gone");
        fill(p + 5000, 3000);
        must(sendfile(to, fd, 0, 3 * PAGE) == 3 * PAGE, "sendfile");
        close(fd), close(to);
        fill(p, 10);
        munmap(p, 3 * PAGE);
        break;
    }
    case 14:
        if (fallocate(files[f].fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, n ? n : 1) == 0)
            memset(files[f].shadow + at, 0, n);
        break;
    case 15: {
        char to[16];
        snprintf(to, sizeof to, "g%d", f);
        strcmp(files[f].name, to) ? 0 : snprintf(to, sizeof to, "f%d", f);
        must(rename(files[f].name, to) == 0, "rename");
        strcpy(files[f].name, to);
        break;
    }
    }
}

int main(int argc, char **argv) {
    state = (strtoull(argc > 1 ? argv[1] : "1", 0, 0) + 1) * 0x9E3779B97F4A7C15ull;
    int steps = argc > 2 ? atoi(argv[2]) : 400;
    for (int f = 0; f < FILES; f++) {
        snprintf(files[f].name, sizeof files[f].name, "f%d", f);
        files[f].fd = open(files[f].name, O_RDWR | O_CREAT, 0644);
        must(files[f].fd >= 0, "open");
        files[f].shadow = mmap(0, (MOST + 2) * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        size_t there = lseek(files[f].fd, 0, SEEK_END) / PAGE;
        must(pread(files[f].fd, files[f].shadow, there * PAGE, 0) == (ssize_t)(there * PAGE), "pread");
        files[f].pages = there;
        resize(f, 1 + below(MOST));
        map(f);
    }
    for (int i = 0; i < steps; i++) step();
    for (int f = 0; f < FILES; f++) {
        int fd = open(files[f].name, O_RDONLY);
        unsigned char bytes[PAGE];
        for (size_t page = 0; page < files[f].pages; page++) {
            must(read(fd, bytes, PAGE) == PAGE, "read");
            must(memcmp(bytes, files[f].shadow + page * PAGE, PAGE) == 0, "the end: other bytes");
        }
        close(fd);
        store(f);
    }
    return 0;
}
