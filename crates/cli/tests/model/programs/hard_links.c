/* One file under names in several directories, changed by turns through each of them by several threads. */
#include "case.h"

#define THREADS 3

static const char *names[THREADS] = {"a/one", "b/two", "c/d/three"};

static void *writer(void *number) {
    long me = (long)number;
    char text[32];
    for (uint32_t round = 0; round < 10; round++) {
        uint32_t mine = round * THREADS + me + 1;
        await_turn(mine);
        int fd = must(open(names[me], O_RDWR));
        struct stat found = about(fd);
        holds(found.st_nlink == THREADS);
        snprintf(text, sizeof text, "%u ", mine);
        must(pwrite(fd, text, strlen(text), found.st_size));
        must(close(fd));
        give_turn(mine + 1);
    }
    return NULL;
}

int main(void) {
    share_turns();
    must(mkdir("a", 0755));
    must(mkdir("b", 0755));
    must(mkdir("c", 0755));
    must(mkdir("c/d", 0755));
    put(names[0], "");
    must(link(names[0], names[1]));
    must(linkat(AT_FDCWD, names[1], AT_FDCWD, names[2], 0));
    fails(EEXIST, link(names[0], names[1]));
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        threads[i] = start(writer, (void *)i);
    give_turn(1);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    /* Two names of one file: the rename does nothing, and both stay. */
    must(rename(names[0], names[1]));
    must(unlink(names[0]));
    int fd = must(open(names[2], O_RDONLY));
    holds(about(fd).st_nlink == 2);
    must(symlink("two", "b/link"));
    must(linkat(AT_FDCWD, "b/link", AT_FDCWD, "link", 0));
    must(linkat(AT_FDCWD, "b/link", AT_FDCWD, "a/followed", AT_SYMLINK_FOLLOW));
    holds(about(fd).st_nlink == 3);
    fails(EPERM, link("a", "b/directory"));
    return 0;
}
