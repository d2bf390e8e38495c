/* A file without a name, written, and named afterwards in each of the ways there are. */
#include "case.h"

static int nameless(int more) {
    int fd = must(open("dir", O_TMPFILE | O_RDWR | more, 0640));
    holds(about(fd).st_nlink == 0);
    must(write(fd, "nameless", 8));
    return fd;
}

static int give_name(int fd, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, path, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
}

static void *namer(void *fd) {
    await_turn(1);
    must(give_name((int)(long)fd, "dir/by_another"));
    give_turn(2);
    return NULL;
}

int main(void) {
    share_turns();
    must(mkdir("dir", 0755));
    int fd = nameless(0);
    must(give_name(fd, "dir/by_proc"));
    holds(about(fd).st_nlink == 1);
    must(write(fd, " no more", 8));
    has("dir/by_proc", "nameless no more");
    fails(EEXIST, give_name(fd, "dir/by_proc"));
    must(give_name(fd, "dir/again"));
    must(close(fd));
    fd = nameless(0);
    must(linkat(fd, "", AT_FDCWD, "dir/by_descriptor", AT_EMPTY_PATH));
    must(close(fd));
    fd = nameless(O_EXCL);
    fails(ENOENT, give_name(fd, "dir/never"));
    must(ftruncate(fd, 3));
    holds(about(fd).st_size == 3);
    must(close(fd));
    fd = nameless(0);
    pthread_t thread = start(namer, (void *)(long)fd);
    must(fchmod(fd, 0604));
    give_turn(1);
    await_turn(2);
    has("dir/by_another", "nameless");
    join(thread);
    must(close(nameless(0)));
    return 0;
}
