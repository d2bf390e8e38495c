/* Links that lead in circles, a chain as long as the kernel follows, and `..` while directories move. */
#include "case.h"

static int base;

static void *mover(void *unused) {
    (void)unused;
    await_turn(1);
    fails(ELOOP, open("a", O_RDONLY));
    /* One link of the circle becomes a file. */
    must(rename("file", "b"));
    give_turn(2);
    await_turn(3);
    must(renameat(base, "d/sub", base, "e/sub"));
    give_turn(4);
    await_turn(5);
    must(renameat(base, "e", base, "d/e"));
    give_turn(6);
    return NULL;
}

int main(void) {
    share_turns();
    char name[32], to[32];
    must(symlink("b", "a"));
    must(symlink("c", "b"));
    must(symlink("a", "c"));
    must(symlink("self", "self"));
    fails(ELOOP, open("self/x", O_RDONLY));
    fails(ELOOP, open("a", O_WRONLY | O_CREAT, 0644));
    fails(ELOOP, open("a", O_RDONLY | O_NOFOLLOW));
    put("end", "of the chain");
    must(symlink("end", "l0"));
    for (int i = 1; i < 42; i++) {
        snprintf(name, sizeof name, "l%d", i);
        snprintf(to, sizeof to, "l%d", i - 1);
        must(symlink(to, name));
    }
    has("l39", "of the chain");
    fails(ELOOP, open("l40", O_RDONLY));
    base = must(open(".", O_RDONLY | O_DIRECTORY));
    put("file", "was a link");
    must(mkdir("d", 0755));
    must(mkdir("d/sub", 0755));
    must(mkdir("e", 0755));
    put("d/which", "d");
    put("e/which", "e");
    pthread_t thread = start(mover, NULL);
    give_turn(1);
    await_turn(2);
    has("a", "was a link");
    must(chdir("d/sub"));
    has("../which", "d");
    give_turn(3);
    await_turn(4);
    has("../which", "e");
    fails(ENOENT, open("../../d/sub/../which", O_RDONLY));
    give_turn(5);
    await_turn(6);
    has("../which", "e");
    has("../../which", "d");
    char path[4096];
    must(syscall(SYS_getcwd, path, sizeof path));
    holds(strstr(path, "/d/e/sub") != NULL);
    join(thread);
    return 0;
}
