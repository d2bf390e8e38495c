/* Users and groups over `execve`: a program with rights of its own runs as its owner and group, and whom a program is for access
 * to files it is again in the next. */
#include "case.h"
#include <sys/fsuid.h>
#include <sys/statvfs.h>

#define OTHER 65534

static void copy_of_this(const char *name, int mode) {
    static char bytes[1 << 16];
    long length;
    int from = must(open("/proc/self/exe", O_RDONLY)), to = must(open(name, O_WRONLY | O_CREAT | O_EXCL, 0700));
    while ((length = must(read(from, bytes, sizeof bytes))) > 0)
        holds(write(to, bytes, length) == length);
    must(close(from));
    must(close(to));
    must(chmod(name, mode));
}

static void in_a_child(void become(void), const char *program, const char *word) {
    pid_t child = must(fork());
    if (child == 0) {
        become();
        must(execl(program, program, word, NULL));
    }
    wait_for(child);
}

static void other(void) {
    must(syscall(SYS_setgroups, 0, NULL));
    must(syscall(SYS_setresgid, OTHER, OTHER, OTHER));
    must(syscall(SYS_setresuid, OTHER, OTHER, OTHER));
}

static void other_for_files(void) {
    setfsuid(OTHER);
    fails(EACCES, open("secret", O_RDONLY));
    put("open/for_files", "of the other");
}

int main(int count, char **words) {
    struct statvfs fs;
    if (count < 2) {
        put("secret", "of root");
        must(chmod("secret", 0600));
        must(mkdir("open", 0777));
        must(chmod("open", 0777));
        copy_of_this("plain", 0755);
        copy_of_this("rooted", 04755);
        copy_of_this("grouped", 02755);
        in_a_child(other_for_files, "./plain", "restored");
        in_a_child(other, "./plain", "plain");
        must(statvfs(".", &fs));
        if (fs.f_flag & ST_NOSUID)
            return 0;
        in_a_child(other, "./rooted", "rooted");
        in_a_child(other, "./grouped", "grouped");
        return 0;
    }
    char made[64];
    snprintf(made, sizeof made, "open/%s", words[1]);
    if (strcmp(words[1], "restored") == 0 || strcmp(words[1], "rooted") == 0) {
        has("secret", "of root");
        put(made, "of root");
        must(chmod(made, 0600));
    } else {
        fails(EACCES, open("secret", O_RDONLY));
        put(made, "of the other");
        fails(EPERM, chown("secret", OTHER, OTHER));
    }
    if (strcmp(words[1], "rooted") == 0) {
        /* Back to who started it, and root again. */
        must(syscall(SYS_setresuid, -1, OTHER, -1));
        fails(EACCES, open("secret", O_RDONLY));
        must(syscall(SYS_setresuid, -1, 0, -1));
        has("secret", "of root");
    }
    return 0;
}
