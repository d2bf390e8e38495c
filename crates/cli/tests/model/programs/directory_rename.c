/* A directory is renamed while descriptors below it are open and another thread works through them. */
#include "case.h"

static int top, sub, file;

static void *worker(void *unused) {
    (void)unused;
    await_turn(1);
    /* By descriptors all is as before; by the old name nothing is there. */
    must(write(file, "after", 5));
    int made = must(openat(sub, "new", O_WRONLY | O_CREAT | O_EXCL, 0600));
    must(write(made, "made below", 10));
    must(close(made));
    must(mkdirat(top, "beside", 0700));
    fails(ENOENT, open("one/sub/file", O_RDONLY));
    has("two/three/sub/file", "beforeafter");
    give_turn(2);
    await_turn(3);
    /* `..` of an open directory is where it stands now. */
    must(faccessat(sub, "../../marker", F_OK, 0));
    must(renameat(sub, "file", top, "beside/moved"));
    give_turn(4);
    return NULL;
}

int main(void) {
    share_turns();
    must(mkdir("one", 0755));
    must(mkdir("one/sub", 0755));
    must(mkdir("two", 0755));
    must(mkdir("other", 0755));
    put("other/marker", "m");
    top = must(open("one", O_RDONLY | O_DIRECTORY));
    sub = must(openat(top, "sub", O_PATH | O_DIRECTORY));
    file = must(openat(sub, "file", O_RDWR | O_CREAT, 0644));
    must(write(file, "before", 6));
    pthread_t thread = start(worker, NULL);
    must(rename("one", "two/three"));
    give_turn(1);
    await_turn(2);
    must(renameat(AT_FDCWD, "two/three", AT_FDCWD, "other/four"));
    give_turn(3);
    await_turn(4);
    fails(EINVAL, rename("other", "other/four/inside"));
    has("other/four/beside/moved", "beforeafter");
    must(rename("other/four", "one"));
    join(thread);
    return 0;
}
