// Eight threads write, read and rename files of their own and a shared one; deterministic per thread.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
static int shared;
static void *work(void *arg) {
    long id = (long)arg;
    char name[32], other[32], buf[512];
    snprintf(name, 32, "file%ld", id);
    snprintf(other, 32, "other%ld", id);
    memset(buf, 'a' + id, sizeof buf);
    for (int i = 0; i < 50; i++) {
        int fd = open(name, O_RDWR | O_CREAT, 0644);
        write(fd, buf, sizeof buf);
        pread(fd, buf, sizeof buf, 0);
        close(fd);
        rename(name, other);
        rename(other, name);
        pwrite(shared, &id, 1, i);
        struct stat s;
        stat(name, &s);
    }
    return 0;
}
int main(void) {
    pthread_t t[8];
    shared = open("shared", O_RDWR | O_CREAT, 0644);
    for (long i = 0; i < 8; i++) pthread_create(&t[i], 0, work, (void *)i);
    for (int i = 0; i < 8; i++) pthread_join(t[i], 0);
    return 7;
}
