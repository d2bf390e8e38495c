/* Calls that an ordinary user is refused. */
#include "case.h"

int main(void) {
    char page[64];
    put("file", "of root");
    must(chmod("file", 0600));
    put("readable", "by all");
    must(mkdir("dir", 0755));
    put("dir/in", "in");
    must(mkdir("closed", 0700));
    put("closed/in", "in");
    must(mkdir("sticky", 0777));
    must(chmod("sticky", 01777));
    put("sticky/of_root", "x");
    must(mkdir("own", 0777));
    must(chmod("own", 0777));
    must(syscall(SYS_setgroups, 0, NULL));
    must(syscall(SYS_setresgid, 65534, 65534, 65534));
    must(syscall(SYS_setresuid, 65534, 65534, 65534));
    fails(EACCES, open("file", O_RDONLY));
    fails(EACCES, open("readable", O_WRONLY));
    fails(EACCES, open("dir/new", O_WRONLY | O_CREAT, 0644));
    fails(EACCES, open("closed/in", O_RDONLY));
    fails(EACCES, open("closed/missing", O_RDONLY));
    fails(EACCES, unlink("dir/in"));
    fails(EACCES, rename("dir/in", "own/in"));
    fails(EACCES, mkdir("dir/new", 0755));
    fails(EACCES, truncate("readable", 0));
    fails(EACCES, access("file", R_OK));
    fails(EACCES, chdir("closed"));
    fails(EPERM, chmod("readable", 0666));
    fails(EPERM, chown("readable", 65534, -1));
    fails(EPERM, unlink("sticky/of_root"));
    fails(EPERM, rename("sticky/of_root", "own/x"));
    fails(EPERM, chroot("own"));
    fails(EPERM, mknod("own/device", S_IFBLK | 0600, 0x101));
    fails(EPERM, open("readable", O_RDONLY | O_NOATIME));
    fails(EPERM, syscall(SYS_setresuid, 0, 0, 0));
    has("readable", "by all");
    put("own/file", "of nobody");
    must(chmod("own/file", 0400));
    fails(EACCES, open("own/file", O_WRONLY));
    fails(EPERM, syscall(SYS_setxattr, "own", "trusted.x", page, 1, 0));
    must(rename("own/file", "sticky/file"));
    return 0;
}
