/* A process with a root of its own; its parent is not concerned. Needs CAP_SYS_CHROOT. */
#include "case.h"

static void inside(int outside) {
    must(chroot("jail"));
    must(chdir("/"));
    has("/file", "inside");
    has("/../../file", "inside");
    /* An absolute link means the new root. */
    has("/link", "inside");
    fails(ENOENT, open("/jail/file", O_RDONLY));
    put("/made", "inside");
    char path[64];
    must(syscall(SYS_getcwd, path, sizeof path));
    holds(strcmp(path, "/") == 0);
    /* A directory that was open before leads out. */
    must(fchdir(outside));
    has("jail/made", "inside");
    put("made_outside", "x");
    has("/file", "inside");
    _exit(0);
}

int main(void) {
    must(mkdir("jail", 0755));
    put("jail/file", "inside");
    put("file", "outside");
    must(symlink("/file", "jail/link"));
    int here = must(open(".", O_PATH | O_DIRECTORY));
    pid_t child = must(fork());
    if (child == 0)
        inside(here);
    wait_for(child);
    has("file", "outside");
    has("jail/made", "inside");
    fails(ENOENT, chroot("missing"));
    fails(ENOTDIR, chroot("file"));
    return 0;
}
