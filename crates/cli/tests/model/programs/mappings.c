/* Files that one thread maps and another advises on and unmaps: nothing but the turns orders them. */
#include "case.h"

enum { ROUNDS = 200, PAGES = 4, PAGE = 4096 };
static char *volatile mapped;

static void *ends(void *unused) {
    (void)unused;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        await_turn(2 * round + 1);
        must(madvise(mapped, PAGES * PAGE, MADV_RANDOM));
        must(munmap(mapped, PAGES * PAGE));
        give_turn(2 * round + 2);
    }
    return NULL;
}

int main(void) {
    share_turns();
    int fd = must(open("file", O_RDWR | O_CREAT | O_EXCL, 0644));
    must(ftruncate(fd, PAGES * PAGE));
    pthread_t thread = start(ends, NULL);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        mapped = mmap(NULL, PAGES * PAGE, PROT_READ, MAP_SHARED, fd, 0);
        holds(mapped != MAP_FAILED);
        give_turn(2 * round + 1);
        await_turn(2 * round + 2);
    }
    join(thread);
    must(close(fd));
    return 0;
}
