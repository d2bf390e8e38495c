/* Directories bound by the calls that name mounts by descriptors: open_tree(2), move_mount(2), fsmount(2), pivot_root(2).
 *
 *     trees DIR
 *
 * Every case works below a directory of its own name in DIR, in mounts of its own, and writes what it saw where it can be
 * compared: each file says by which way it was made. DIR/old, with `given` and `d/given`, is to be there before.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(call) must((call), #call)
#define OPEN_CLOEXEC 0x80000
enum { CLONE = 1, RECURSIVE = 0x8000, FROM_SYMLINKS = 1, FROM_EMPTY = 4, TO_EMPTY = 0x40, EMPTY = 0x1000 };

static int must(long result, const char *call)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", call, strerror(errno));
        _exit(1);
    }
    return result;
}

static int open_tree_(int at, const char *path, unsigned flags)
{
    return MUST(syscall(SYS_open_tree, at, path, flags | OPEN_CLOEXEC));
}

static void attach(int from, const char *path, int to, const char *to_path, unsigned flags)
{
    MUST(syscall(SYS_move_mount, from, path, to, to_path, flags));
}

static void bind_(const char *source, const char *target)
{
    MUST(mount(source, target, NULL, MS_BIND, NULL));
}

static int place(const char *path)
{
    return MUST(open(path, O_PATH | O_DIRECTORY));
}

static void put_at(int dir, const char *path, const char *text)
{
    int fd = MUST(openat(dir, path, O_CREAT | O_WRONLY | O_APPEND, 0644));
    MUST(write(fd, text, strlen(text)));
    MUST(close(fd));
}

static void put(const char *path, const char *text)
{
    put_at(AT_FDCWD, path, text);
}

static void copy(int from, const char *path, const char *to)
{
    char text[256];
    int fd = MUST(openat(from, path, O_RDONLY)), length = MUST(read(fd, text, sizeof text - 1));
    text[length] = 0;
    put(to, text);
    MUST(close(fd));
}

static void in_child(void (*body)(void *), void *given)
{
    int status, child = MUST(fork());
    if (child == 0) {
        body(given);
        _exit(0);
    }
    MUST(waitpid(child, &status, 0));
    if (status != 0)
        _exit(1);
}

static void inherited(void *tree)
{
    put_at(*(int *)tree, "inherited", "by the child");
    MUST(fchdir(*(int *)tree));
    put("from within", "by the child's working directory");
}

/* A copy is reached by its descriptor before it is mounted, while it is, and when it is not any more. */
static void copied(void)
{
    int under = place("m"), tree = open_tree_(AT_FDCWD, "data", CLONE);
    put_at(tree, "before", "not mounted");
    put_at(tree, "../stays", "not mounted, so that there is nothing above");
    copy(tree, "in", "seen before");
    attach(tree, "", under, "", FROM_EMPTY | TO_EMPTY);
    put_at(tree, "after", "mounted");
    put_at(tree, "k/after", "mounted, below");
    put_at(tree, "../above", "where it is mounted");
    put("m/by path", "mounted");
    put_at(under, "below", "what it covers");
    int other = MUST(dup(tree)), third = MUST(fcntl(tree, F_DUPFD, 100));
    put_at(other, "dup", "by a copy of the descriptor");
    put_at(third, "dupfd", "by another");
    in_child(inherited, &tree);
    struct stat found;
    MUST(fstat(tree, &found));
    put("stat", S_ISDIR(found.st_mode) ? "a directory" : "no directory");
    MUST(umount2("m", MNT_DETACH));
    put_at(tree, "gone", "not mounted any more");
    put("m/bare", "what was covered");
    MUST(close(tree));
    put_at(other, "k/last", "not mounted any more");
}

static void by_paths(void)
{
    int tree = open_tree_(place("data"), "", CLONE | EMPTY);
    attach(tree, "", AT_FDCWD, "m", FROM_EMPTY);
    put("m/one", "first place");
    attach(AT_FDCWD, "m", AT_FDCWD, "n", 0);
    put("m/one", "nothing is here any more");
    put("n/two", "second place");
    put_at(tree, "three", "second place");
    attach(tree, "", place("o"), "", FROM_EMPTY | TO_EMPTY);
    put("n/one", "nothing is here any more");
    put("o/four", "third place");
    put_at(tree, "../five", "above the third place");
}

static void deep(void)
{
    bind_("sub", "data/k");
    int whole = open_tree_(AT_FDCWD, "data", CLONE | RECURSIVE), one = open_tree_(AT_FDCWD, "data", CLONE);
    put_at(whole, "k/whole", "below the mount");
    put_at(one, "k/one", "below the directory");
    put_at(whole, "k/../up", "out of the mount");
    MUST(umount2("data/k", MNT_DETACH));
    put("data/k/bare", "the directory");
    attach(whole, "", AT_FDCWD, "m", FROM_EMPTY);
    put("m/k/mounted", "below the mount");
    put_at(whole, "k/mounted too", "below the mount");
}

/* Without a copy a descriptor names the mount that is there. */
static void uncopied(void)
{
    int data = open_tree_(AT_FDCWD, "data", 0);
    put_at(data, "place", "a directory");
    bind_("sub", "data");
    put_at(data, "covered", "what is below the mount");
    put("data/over", "what is mounted there");
    int sub = open_tree_(AT_FDCWD, "data", 0);
    attach(sub, "", AT_FDCWD, "n", FROM_EMPTY);
    put_at(sub, "moved", "by the descriptor");
    put("n/moved too", "by its path");
    put("data/open", "not covered any more");
    MUST(umount2("n", MNT_DETACH));
    put("n/bare", "not covered any more");
}

static void never_mounted(void)
{
    int home = place("."), tree = open_tree_(AT_FDCWD, "data", CLONE);
    MUST(mkdirat(tree, "made", 0750));
    MUST(fchdir(tree));
    put("made/within", "from within");
    put("../stays", "nothing is above");
    MUST(rename("in", "made/in"));
    MUST(fchownat(tree, "", 7, 8, AT_EMPTY_PATH));
    MUST(chdir("made"));
    put("../up", "one up");
    MUST(fchdir(home));
    MUST(close(tree));
}

static void by_name_of_descriptor(void)
{
    char name[64], path[96];
    int tree = open_tree_(AT_FDCWD, "data", CLONE);
    sprintf(name, "/proc/self/fd/%d", tree);
    sprintf(path, "%s/by name", name);
    put(path, "not mounted");
    attach(AT_FDCWD, name, AT_FDCWD, "m", FROM_SYMLINKS);
    sprintf(path, "%s/mounted", name);
    put(path, "mounted");
    put("m/by path", "mounted");
}

static void of_file(void)
{
    int tree = open_tree_(AT_FDCWD, "data/in", CLONE);
    attach(tree, "", AT_FDCWD, "file", FROM_EMPTY);
    put("file", " and more");
    copy(AT_FDCWD, "file", "seen");
    MUST(umount2("file", MNT_DETACH));
    put("file", "bare");
}

static void in_memory(void)
{
    int context = MUST(syscall(SYS_fsopen, "tmpfs", 1));
    MUST(syscall(SYS_fsconfig, context, 6, NULL, NULL, 0));
    int memory = MUST(syscall(SYS_fsmount, context, 1, 0));
    put_at(memory, "before", "not mounted");
    attach(memory, "", AT_FDCWD, "m", FROM_EMPTY);
    put_at(memory, "after", "mounted");
    put("m/by path", "mounted");
    copy(AT_FDCWD, "m/before", "seen");
    int tree = open_tree_(AT_FDCWD, "m", CLONE);
    MUST(umount2("m", MNT_DETACH));
    attach(tree, "", AT_FDCWD, "n", FROM_EMPTY);
    copy(AT_FDCWD, "n/after", "seen");
    put("m/bare", "not covered any more");
}

/* What was there before anybody looked is seen through the copy alone. */
static void there_before(void)
{
    int tree = open_tree_(AT_FDCWD, "../old", CLONE);
    copy(tree, "given", "seen");
    attach(tree, "", AT_FDCWD, "m", FROM_EMPTY);
    copy(tree, "d/given", "seen");
    put("m/given", " and more");
    MUST(renameat(tree, "d/given", AT_FDCWD, "m/moved"));
}

/* As `reprise replay` makes its root. */
static void rooted(void)
{
    int home = place("data"), tree = open_tree_(home, "", CLONE | EMPTY);
    attach(tree, "", home, "", FROM_EMPTY | TO_EMPTY);
    attach(open_tree_(AT_FDCWD, "file", CLONE), "", MUST(openat(tree, "in", O_PATH)), "", FROM_EMPTY | TO_EMPTY);
    MUST(fchdir(tree));
    MUST(syscall(SYS_pivot_root, ".", "."));
    MUST(umount2(".", MNT_DETACH));
    MUST(chdir("/"));
    put("/root", "by a whole path");
    put("../above", "from the root");
    put("/../k/above", "from the root");
    put_at(tree, "tree", "by the descriptor");
    put("in", "what is mounted there");
    MUST(mkdir("/made", 0755));
    MUST(chroot("k"));
    put("/rooted", "in another root");
}

static const struct { const char *name; void (*body)(void); } CASES[] = {
    {"copied", copied}, {"by_paths", by_paths}, {"deep", deep}, {"uncopied", uncopied}, {"never_mounted", never_mounted},
    {"by_name_of_descriptor", by_name_of_descriptor}, {"of_file", of_file}, {"in_memory", in_memory}, {"there_before", there_before},
    {"rooted", rooted},
};

static void alone(void *number)
{
    size_t at = *(size_t *)number;
    const char *names[] = {"data", "data/k", "sub", "m", "n", "o"};
    MUST(mkdir(CASES[at].name, 0755));
    MUST(chdir(CASES[at].name));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        MUST(mkdir(names[i], 0755));
    put("data/in", "within");
    put("file", "without");
    MUST(unshare(CLONE_NEWNS));
    MUST(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
    CASES[at].body();
}

int main(int argc, char **argv)
{
    if (argc != 2 || chdir(argv[1]) != 0)
        return 2;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        in_child(alone, &i);
    return 0;
}
