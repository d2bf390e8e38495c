/* SPDX-License-Identifier: Apache-2.0 */
/* comers DIR GROUP COUNT: processes that come into a control group, work for a moment, and end.
 *
 * Each has opened DIR/<how>-<number> and written a line to it before, and works in DIR; when it is in the group it writes a second line,
 * makes a directory and a file below it, and ends. How they come: they move themselves, they are made in it, or they are moved while they
 * wait for that. Prints their numbers, a line each.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

static int procs; /* the file that takes who moves */

static void move(pid_t who)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%d", who);

	if (write(procs, text, length) != length)
		die("cgroup.procs");
}

static int prepare(const char *how, int number)
{
	char name[64];
	int file;

	snprintf(name, sizeof(name), "%s-%d", how, number);
	file = open(name, O_RDWR | O_CREAT | O_EXCL, 0640);
	if (file < 0 || write(file, "before\n", 7) != 7)
		die(name);
	return file;
}

static void work(const char *how, int number, int file)
{
	char name[64];
	int made;

	if (write(file, "after\n", 6) != 6)
		die("write");
	snprintf(name, sizeof(name), "%s-%d.d", how, number);
	if (mkdir(name, 0750) || chdir(name))
		die(name);
	made = open("made", O_WRONLY | O_CREAT, 0600);
	if (made < 0 || write(made, name, strlen(name)) != (ssize_t)strlen(name))
		die("made");
	_exit(0);
}

static pid_t made_in(int group)
{
	struct clone_args args = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = group };

	return syscall(SYS_clone3, &args, sizeof(args));
}

static void one(const char *how, int number, int group)
{
	int is_made = !strcmp(how, "made"), is_moved = !strcmp(how, "moved"), gate[2], status;
	int file = prepare(how, number);
	pid_t child;
	char byte;

	if (pipe(gate))
		die("pipe");
	child = is_made ? made_in(group) : fork();
	if (child < 0)
		die("a child");
	if (!child) {
		if (is_moved && read(gate[0], &byte, 1) != 1)
			die("gate");
		if (!is_made && !is_moved)
			move(getpid());
		work(how, number, file);
	}
	printf("%d\n", child);
	if (is_moved) {
		usleep(2000);
		move(child);
		if (write(gate[1], "g", 1) != 1)
			die("gate");
	}
	close(gate[0]);
	close(gate[1]);
	close(file);
	if (waitpid(child, &status, 0) != child || status)
		die("its end");
}

int main(int argc, char **argv)
{
	const char *const how[] = { "moves", "made", "moved" };
	int group, number;

	if (argc != 4 || chdir(argv[1]))
		die("usage: comers DIR GROUP COUNT");
	group = open(argv[2], O_RDONLY | O_DIRECTORY);
	procs = openat(group, "cgroup.procs", O_WRONLY);
	if (procs < 0)
		die(argv[2]);
	for (number = 0; number < atoi(argv[3]); number++)
		one(how[number % 3], number, group);
	return fflush(stdout);
}
