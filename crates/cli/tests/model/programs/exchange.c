/* Two names exchange what they name: files, a file and a directory, a link; and a move that must replace nothing. */
#include "case.h"

static int swap(const char *a, const char *b) {
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
}

static void *other(void *unused) {
    (void)unused;
    for (uint32_t i = 1; i < 8; i += 2) {
        await_turn(i);
        must(swap("left/x", "right/x"));
        /* What is under the name now differs at every turn. */
        has("left/x/in", "a directory");
        give_turn(i + 1);
        await_turn(i + 1);
    }
    return NULL;
}

int main(void) {
    share_turns();
    must(mkdir("left", 0755));
    must(mkdir("right", 0755));
    put("left/x", "a file");
    must(mkdir("right/x", 0755));
    put("right/x/in", "a directory");
    int held = must(open("right/x", O_RDONLY | O_DIRECTORY));
    put("f", "first");
    put("g", "second");
    must(swap("f", "g"));
    has("f", "second");
    must(symlink("f", "link"));
    must(swap("link", "g"));
    has("link", "first");
    has("g", "second");
    fails(ENOENT, swap("f", "missing"));
    fails(EEXIST, renameat2(AT_FDCWD, "f", AT_FDCWD, "link", RENAME_NOREPLACE));
    must(renameat2(AT_FDCWD, "f", AT_FDCWD, "free", RENAME_NOREPLACE));
    fails(EINVAL, renameat2(AT_FDCWD, "free", AT_FDCWD, "f", RENAME_NOREPLACE | RENAME_EXCHANGE));
    fails(EINVAL, swap("right", "right/x"));
    pthread_t thread = start(other, NULL);
    for (uint32_t i = 1; i < 8; i += 2) {
        give_turn(i);
        await_turn(i + 1);
        has("right/x", "a file");
        must(swap("left/x", "right/x"));
        has("left/x", "a file");
        must(faccessat(held, "../x/in", F_OK, 0));
    }
    give_turn(9);
    join(thread);
    return 0;
}
