// Threads that map, store to and unmap files of their own: one is given the addresses that another's munmap, which is not over yet, has freed.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#define BYTES (256 * 4096)
#define THREADS 6
static void *thread(void *number) {
    for (int i = 0; i < 400; i++) {
        char name[32];
        snprintf(name, sizeof name, "f%ld.%d", (long)number, i);
        int fd = open(name, O_RDWR | O_CREAT, 0644);
        ftruncate(fd, BYTES);
        char *at = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        for (int page = 0; page < 4; page++)
            at[page * 16 * 4096 + i] = 1 + i % 100;
        close(fd);
        munmap(at, BYTES);
    }
    return 0;
}
int main() {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, thread, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    return 0;
}
