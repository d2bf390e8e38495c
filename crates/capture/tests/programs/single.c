// One thread, a bit of everything: what strace says of it is compared with the trace.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
int main(void) {
    char buf[4096];
    struct stat s;
    struct statfs fs;
    mkdir("d", 0755);
    int f = open("d/a", O_RDWR | O_CREAT | O_EXCL, 0640);
    open("d/a", O_RDWR | O_CREAT | O_EXCL, 0640);
    write(f, "hello world", 11);
    lseek(f, -5, SEEK_CUR);
    read(f, buf, 100);
    pread(f, buf, 5, 3);
    fsync(f);
    ftruncate(f, 10000);
    fallocate(f, 0, 0, 20000);
    link("d/a", "d/b");
    symlink("a", "d/l");
    readlink("d/l", buf, 100);
    stat("d/l", &s);
    lstat("d/l", &s);
    chmod("d/a", 0600);
    fsetxattr(f, "user.x", "value", 5, 0);
    fgetxattr(f, "user.x", buf, 100);
    flistxattr(f, buf, 100);
    rename("d/b", "d/c");
    DIR *d = opendir("d");
    while (readdir(d)) {}
    closedir(d);
    statfs(".", &fs);
    flock(f, LOCK_EX);
    struct flock l = {F_WRLCK, SEEK_SET, 0, 10};
    fcntl(f, F_SETLK, &l);
    fcntl(f, F_GETLK, &l);
    void *m = mmap(0, 8192, PROT_READ, MAP_SHARED, f, 0);
    munmap(m, 8192);
    dup2(f, 20);
    close(20);
    close(99);
    umask(077);
    if (fork() == 0) {
        chdir("d");
        getcwd(buf, 4096);
        unlink("l");
        _exit(3);
    }
    wait(0);
    unlink("d/a");
    unlink("d/c");
    rmdir("d");
    close(f);
    return 0;
}
