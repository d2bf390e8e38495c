/* One open file description, by dup and by fork: its offset and flags are common to all that hold it. */
#include "case.h"

#define TURNS 24

static void take(int fd, uint32_t me, uint32_t others) {
    char text[8];
    for (uint32_t i = me; i < TURNS; i += others) {
        await_turn(i + 1);
        snprintf(text, sizeof text, "%03u ", i);
        gives(fd, text);
        give_turn(i + 2);
    }
}

static void *reader(void *fd) {
    take((int)(long)fd, 1, 3);
    return NULL;
}

int main(void) {
    share_turns();
    int fd = must(open("numbers", O_RDWR | O_CREAT, 0644));
    for (int i = 0; i < TURNS; i++) {
        char text[8];
        snprintf(text, sizeof text, "%03d ", i);
        must(write(fd, text, 4));
    }
    must(lseek(fd, 0, SEEK_SET));
    /* Three take turns at reading: this thread, another by a duplicate, and a child. */
    int twin = must(dup(fd));
    pid_t child = must(fork());
    if (child == 0) {
        take(fd, 2, 3);
        /* Flags belong to the description too; the child's write appends for all. */
        await_turn(TURNS + 2);
        must(fcntl(fd, F_SETFL, O_APPEND));
        give_turn(TURNS + 3);
        _exit(0);
    }
    pthread_t thread = start(reader, (void *)(long)twin);
    give_turn(1);
    take(fd, 0, 3);
    await_turn(TURNS + 1);
    join(thread);
    holds(lseek(twin, 0, SEEK_CUR) == 4 * TURNS);
    must(lseek(twin, 8, SEEK_SET));
    gives(fd, "002 ");
    give_turn(TURNS + 2);
    await_turn(TURNS + 3);
    holds(fcntl(twin, F_GETFL) & O_APPEND);
    must(write(twin, "end", 3));
    holds(lseek(fd, 0, SEEK_CUR) == 4 * TURNS + 3);
    wait_for(child);
    return 0;
}
