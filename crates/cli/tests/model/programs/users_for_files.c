/* `setfsuid` and `setfsgid` that do nothing: asked with nobody, or with somebody whom the thread may not be. They never fail. */
#include "case.h"
#include <sys/fsuid.h>

#define OTHER 65534
#define NOBODY ((uid_t)-1)

static void asks_for_the_user(void) {
    setfsuid(OTHER);
    holds(setfsuid(NOBODY) == OTHER);
    fails(EACCES, open("secret", O_RDONLY));
    fails(EPERM, unlink("sticky/of_root"));
    put("open/user", "of the other");
}

static void asks_for_the_group(void) {
    setfsgid(OTHER);
    holds(setfsgid(NOBODY) == OTHER);
    put("open/group", "of the other's group");
}

static void comes_back(void) {
    setfsuid(OTHER);
    holds(setfsuid(0) == OTHER);
    has("secret", "of root");
    has("others", "of another");
    put("open/back", "of root");
}

static void is_refused(void) {
    must(syscall(SYS_setgroups, 0, NULL));
    must(syscall(SYS_setresgid, OTHER, OTHER, OTHER));
    must(syscall(SYS_setresuid, OTHER, OTHER, OTHER));
    setfsuid(1);
    setfsgid(0);
    setfsuid(0);
    fails(EACCES, open("secret", O_RDONLY));
    fails(EPERM, unlink("sticky/of_root"));
    put("open/refused", "of the other");
}

/* Back to the real user, who may be that. */
static void is_the_real_one(void) {
    must(syscall(SYS_setresuid, 1, OTHER, OTHER));
    setfsuid(1);
    put("open/real", "of the real one");
    fails(EPERM, unlink("sticky/of_root"));
}

static void is_the_saved_one(void) {
    must(syscall(SYS_setresuid, 1, OTHER, 2));
    setfsuid(2);
    put("open/saved", "of the saved one");
    must(syscall(SYS_setresuid, -1, 1, -1));
    put("open/another", "of the real one");
}

int main(void) {
    put("secret", "of root");
    must(chmod("secret", 0600));
    put("others", "of another");
    must(chmod("others", 0600));
    must(chown("others", 1, 1));
    must(mkdir("sticky", 0777));
    must(chmod("sticky", 01777));
    put("sticky/of_root", "x");
    must(mkdir("open", 0777));
    must(chmod("open", 0777));
    void (*bodies[])(void) = {asks_for_the_user, asks_for_the_group, comes_back, is_refused, is_the_real_one,
                              is_the_saved_one};
    for (unsigned i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        pid_t child = must(fork());
        if (child == 0) {
            bodies[i]();
            _exit(0);
        }
        wait_for(child);
    }
    return 0;
}
