/* Working directories: of a thread that unshared its own, of one made without CLONE_FS, of all others in common. */
#include "case.h"

static void *own(void *unused) {
    (void)unused;
    await_turn(1);
    must(unshare(CLONE_FS));
    must(chdir("a"));
    must(umask(077));
    has("which", "a");
    give_turn(2);
    await_turn(3);
    /* The others went elsewhere. */
    put("made", "in a");
    give_turn(4);
    return NULL;
}

static void *common(void *dir) {
    await_turn(2);
    must(fchdir((int)(long)dir));
    give_turn(3);
    return NULL;
}

static int separate(void *unused) {
    (void)unused;
    /* Made without CLONE_FS: a directory of its own from the start. */
    syscall(SYS_chdir, "../c");
    int fd = syscall(SYS_openat, AT_FDCWD, "made", O_WRONLY | O_CREAT, 0644);
    syscall(SYS_write, fd, "in c", 4);
    syscall(SYS_close, fd);
    syscall(SYS_exit, 0);
    return 0;
}

int main(void) {
    share_turns();
    must(umask(022));
    const char *names[] = {"a", "b", "c"};
    char path[16];
    for (int i = 0; i < 3; i++) {
        must(mkdir(names[i], 0755));
        snprintf(path, sizeof path, "%s/which", names[i]);
        put(path, names[i]);
    }
    int b = must(open("b", O_RDONLY | O_DIRECTORY));
    pthread_t first = start(own, NULL), second = start(common, (void *)(long)b);
    give_turn(1);
    await_turn(4);
    has("which", "b");
    put("made", "in b");
    static char stack[65536] __attribute__((aligned(16)));
    static volatile pid_t gone = 1;
    int flags = CLONE_VM | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID;
    must(clone(separate, stack + sizeof stack, flags, NULL, NULL, NULL, &gone));
    while (gone != 0)
        usleep(1000);
    has("../c/made", "in c");
    has("which", "b");
    fails(ENOTDIR, chdir("which"));
    fails(ENOTDIR, fchdir(must(open("which", O_RDONLY))));
    join(first);
    join(second);
    struct stat found;
    must(stat("../a/made", &found));
    holds((found.st_mode & 0777) == 0600);
    must(stat("../b/made", &found));
    holds((found.st_mode & 0777) == 0644);
    return 0;
}
