/* Files and directories that are open when their last name goes. */
#include "case.h"

int main(void) {
    char path[64], room[4096];
    put("file", "content");
    int fd = must(open("file", O_RDWR));
    must(unlink("file"));
    holds(about(fd).st_nlink == 0);
    /* Another file takes the name; the open one is as it was. */
    put("file", "another");
    gives(fd, "content");
    must(pwrite(fd, "CON", 3, 0));
    must(write(fd, " more", 5));
    must(lseek(fd, 0, SEEK_SET));
    gives(fd, "CONtent more");
    must(ftruncate(fd, 3));
    must(fchmod(fd, 0600));
    must(fallocate(fd, 0, 0, 8192));
    holds(about(fd).st_size == 8192);
    /* It can be given no new name. */
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    fails(ENOENT, linkat(AT_FDCWD, path, AT_FDCWD, "revived", AT_SYMLINK_FOLLOW));
    fails(ENOENT, linkat(fd, "", AT_FDCWD, "revived", AT_EMPTY_PATH));
    int kept = must(dup(fd));
    must(close(fd));
    holds(about(kept).st_size == 8192);
    must(close(kept));
    has("file", "another");
    /* Replaced by a rename while open. */
    fd = must(open("file", O_RDONLY));
    put("new", "newest");
    must(rename("new", "file"));
    gives(fd, "another");
    holds(about(fd).st_nlink == 0);
    must(close(fd));
    /* A directory. */
    must(mkdir("dir", 0755));
    int dir = must(open("dir", O_RDONLY | O_DIRECTORY));
    must(rmdir("dir"));
    fails(ENOENT, openat(dir, "in", O_WRONLY | O_CREAT, 0644));
    fails(ENOENT, mkdirat(dir, "in", 0755));
    fails(ENOENT, syscall(SYS_getdents64, dir, room, sizeof room));
    must(mkdir("dir", 0755));
    must(chdir("dir"));
    must(rmdir("../dir"));
    fails(ENOENT, syscall(SYS_getcwd, room, sizeof room));
    fails(ENOENT, open("in", O_WRONLY | O_CREAT, 0644));
    must(access("../file", F_OK));
    return 0;
}
