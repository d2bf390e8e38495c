/* Processes and threads come and go: what one did before it ended, others see after they waited for it. */
#include "case.h"

static void *thread(void *name) {
    must(mkdir(name, 0755));
    char path[64];
    snprintf(path, sizeof path, "%s/in", (char *)name);
    put(path, name);
    return NULL;
}

/* The same program again: what was to be closed is closed, the rest is open at its offset. */
static int again(char **words) {
    int kept = atoi(words[2]), closed = atoi(words[3]);
    fails(EBADF, fcntl(closed, F_GETFD));
    gives(kept, "second");
    put("by_the_next_program", "x");
    return 0;
}

int main(int count, char **words) {
    if (count == 4)
        return again(words);
    put("file", "first second third");
    int kept = must(open("file", O_RDONLY)), closed = must(open("file", O_RDONLY | O_CLOEXEC));
    gives(kept, "first ");
    join(start(thread, "t1"));
    has("t1/in", "t1");
    pid_t child = must(fork());
    if (child == 0) {
        char a[16], b[16];
        snprintf(a, sizeof a, "%d", kept);
        snprintf(b, sizeof b, "%d", closed);
        pthread_t other = start(thread, "t2");
        join(other);
        fails(ENOENT, execl("missing", "missing", NULL));
        must(execl(words[0], words[0], "again", a, b, NULL));
    }
    wait_for(child);
    /* The offset moved in the child. */
    gives(kept, " third");
    has("by_the_next_program", "x");
    has("t2/in", "t2");
    must(close(closed));
    /* A child of a child, and many at a time. */
    for (int i = 0; i < 5; i++) {
        if (must(fork()) == 0) {
            pid_t inner = must(fork());
            char name[32];
            snprintf(name, sizeof name, "%s%d", inner == 0 ? "inner" : "outer", i);
            put(name, name);
            if (inner != 0)
                wait_for(inner);
            _exit(0);
        }
    }
    for (int i = 0; i < 5; i++)
        must(wait(NULL));
    must(rename("inner3", "outer3"));
    return 0;
}
