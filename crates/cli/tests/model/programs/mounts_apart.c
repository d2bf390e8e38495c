/* A thread with mounts of its own has directories of its own, too: unshare(2), CLONE_NEWNS. */
#include "case.h"

static void *apart(void *unused) {
    (void)unused;
    await_turn(1);
    /* Who must not have mounts of its own shows the same without them. */
    if (unshare(CLONE_NEWNS) != 0)
        must(unshare(CLONE_FS));
    must(chdir("a"));
    must(umask(077));
    put("made", "in a");
    give_turn(2);
    return NULL;
}

int main(void) {
    share_turns();
    must(umask(022));
    must(mkdir("a", 0755));
    pthread_t other = start(apart, NULL);
    give_turn(1);
    await_turn(2);
    /* Still above, with the mask of before. */
    put("made", "above");
    has("a/made", "in a");
    join(other);
    struct stat found;
    must(stat("made", &found));
    holds((found.st_mode & 0777) == 0644);
    return 0;
}
