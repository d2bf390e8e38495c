/* A whiteout is left where a file was, as overlayfs does it. */
#include "case.h"

int main(void) {
    struct stat found;
    put("file", "moved");
    must(mkdir("dir", 0755));
    put("dir/in", "inside");
    must(renameat2(AT_FDCWD, "file", AT_FDCWD, "dir/file", RENAME_WHITEOUT));
    must(stat("file", &found));
    holds(S_ISCHR(found.st_mode) && found.st_rdev == 0);
    has("dir/file", "moved");
    fails(EEXIST, open("file", O_WRONLY | O_CREAT | O_EXCL, 0644));
    fails(ENXIO, open("file", O_RDONLY));
    must(renameat2(AT_FDCWD, "dir", AT_FDCWD, "gone", RENAME_WHITEOUT));
    has("gone/in", "inside");
    fails(ENOTDIR, open("dir/in", O_RDONLY));
    /* Whiteouts are names like others. */
    must(rename("file", "gone/out"));
    must(unlink("gone/out"));
    must(mknod("made", S_IFCHR | 0600, 0));
    must(lstat("made", &found));
    holds(S_ISCHR(found.st_mode) && found.st_rdev == 0);
    return 0;
}
