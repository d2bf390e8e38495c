// SPDX-License-Identifier: Apache-2.0
/* unnamed DIR: has files in DIR that never had a name (`O_TMPFILE`), and a sealed one in memory, says `ready PID`, and reads and stores a
 * little of them for each line that it is given. When its input ends it gives each a name, in one of the ways there are.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void need(int well, const char *what)
{
	if (well)
		return;
	perror(what);
	exit(1);
}

static int made(const char *text, int mode)
{
	int fd = open(".", O_TMPFILE | O_RDWR, mode);

	need(fd >= 0, "O_TMPFILE");
	need(write(fd, text, strlen(text)) == (long)strlen(text), "write");
	return fd;
}

static void has(int fd, const char *text)
{
	char found[64] = {0};

	need(pread(fd, found, strlen(text), 0) == (long)strlen(text) && strcmp(found, text) == 0, "pread");
}

/* What is sealed is not written to. */
static int sealed(const char *text)
{
	int fd = memfd_create("sealed", MFD_ALLOW_SEALING);

	need(fd >= 0 && write(fd, text, strlen(text)) == (long)strlen(text), "memfd_create");
	need(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW) == 0, "F_ADD_SEALS");
	return fd;
}

int main(int count, char **words)
{
	char line[64], path[64];

	need(count == 2 && chdir(words[1]) == 0, "DIR");
	int by_path = made("one", 0640), by_number = made("two", 0600), mapped = made("three", 0600);
	int again = dup(by_path), in_memory = sealed("four");

	need(again >= 0 && ftruncate(mapped, 8192) == 0, "dup, ftruncate");
	char *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, mapped, 0);

	need(memory != MAP_FAILED, "mmap");
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		has(by_path, "one");
		has(by_number, "two");
		has(in_memory, "four");
		need(write(in_memory, "+", 1) == -1 && errno == EPERM, "a seal");
		need(fcntl(in_memory, F_GET_SEALS) == (F_SEAL_WRITE | F_SEAL_GROW), "F_GET_SEALS");
		need(write(again, "+", 1) == 1, "write");
		memory[5000]++;
		printf("done\n");
		fflush(stdout);
	}
	snprintf(path, sizeof path, "/proc/self/fd/%d", by_path);
	need(linkat(AT_FDCWD, path, AT_FDCWD, "by_path", AT_SYMLINK_FOLLOW) == 0, "linkat");
	/* An ordinary user may not, before Linux 6.10. */
	if (linkat(by_number, "", AT_FDCWD, "by_number", AT_EMPTY_PATH) != 0)
		need(write(by_number, "!", 1) == 1, "write");
	snprintf(path, sizeof path, "/proc/self/fd/%d", mapped);
	need(linkat(AT_FDCWD, path, AT_FDCWD, "mapped", AT_SYMLINK_FOLLOW) == 0, "linkat");
	return 0;
}
