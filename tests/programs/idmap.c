// idmap SRC DST: what stands in SRC stands at DST, too, where files belong to users 10000 above those that they belong to in SRC.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(int fine, const char *what)
{
	if (!fine) {
		perror(what);
		exit(1);
	}
}

static void map(pid_t of, const char *which)
{
	const char text[] = "0 10000 60000\n";
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/%s_map", of, which);
	int fd = open(path, O_WRONLY);
	must(fd >= 0 && write(fd, text, strlen(text)) > 0, path);
	close(fd);
}

int main(int count, char **words)
{
	int ready[2], over[2];
	char byte, path[64];
	must(count == 3 && !pipe(ready) && !pipe(over), "pipe");
	pid_t child = fork();
	if (!child) {
		must(!unshare(CLONE_NEWUSER) && write(ready[1], "x", 1) == 1, "unshare");
		close(over[1]);
		exit(read(over[0], &byte, 1) < 0);
	}
	close(ready[1]);
	must(read(ready[0], &byte, 1) == 1, "a user namespace");
	map(child, "uid");
	map(child, "gid");
	snprintf(path, sizeof path, "/proc/%d/ns/user", child);
	int users = open(path, O_RDONLY | O_CLOEXEC);
	int tree = syscall(SYS_open_tree, AT_FDCWD, words[1], OPEN_TREE_CLONE | O_CLOEXEC);
	must(users >= 0 && tree >= 0, "open_tree");
	struct mount_attr attributes = { .attr_set = MOUNT_ATTR_IDMAP, .userns_fd = users };
	must(!syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attributes, sizeof attributes), "mount_setattr");
	must(!syscall(SYS_move_mount, tree, "", AT_FDCWD, words[2], MOVE_MOUNT_F_EMPTY_PATH), "move_mount");
	close(over[1]);
	wait(NULL);
	return 0;
}
