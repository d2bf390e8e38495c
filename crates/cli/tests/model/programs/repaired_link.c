/* A broken link that the rename of a directory repairs, and another breaks again: a lookup through the link depends on
 * names that its own path does not hold. */
#include "case.h"

#define ROUNDS 20

static void *looker(void *unused) {
    (void)unused;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        await_turn(4 * i + 1);
        fails(ENOENT, open("link", O_RDONLY));
        give_turn(4 * i + 2);
        await_turn(4 * i + 3);
        has("link", "found");
        give_turn(4 * i + 4);
    }
    return NULL;
}

int main(void) {
    share_turns();
    must(mkdir("there", 0755));
    must(mkdir("there/deep", 0755));
    put("there/deep/file", "found");
    must(symlink("here/link2", "link"));
    must(symlink("deep/file", "there/link2"));
    pthread_t thread = start(looker, NULL);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        give_turn(4 * i + 1);
        await_turn(4 * i + 2);
        must(rename("there", "here"));
        give_turn(4 * i + 3);
        await_turn(4 * i + 4);
        must(rename("here", "there"));
    }
    join(thread);
    return 0;
}
