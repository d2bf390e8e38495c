/* Reads a file, and loads from it, again and again, while its child stores to it through memory without end. All of a page is one letter,
 * until the child goes over it with the next: most see pages half done. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define BYTES (5 * PAGE)
#define TURNS 400

/* Each on a processor of its own, if there are two. */
static void stay_on(int processor)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void stir(char *at, size_t bytes)
{
	for (unsigned turn = 0;; turn++)
		for (size_t page = 0; page < bytes; page += PAGE)
			memset(at + page, 'a' + turn % 26, PAGE);
}

static ssize_t load(int fd)
{
	const char volatile *at = mmap(0, BYTES, PROT_READ, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return -1;
	for (int page = 0; page < 5; page++)
		(void)at[page * PAGE];
	return munmap((void *)at, BYTES) ? -1 : 1;
}

static ssize_t look(int fd, int turn)
{
	static char buffer[BYTES];
	struct iovec halves[2] = { { buffer, BYTES / 2 }, { buffer + BYTES / 2, BYTES / 2 } };

	switch (turn % 4) {
	case 0:
		lseek(fd, 0, SEEK_SET);
		return read(fd, buffer, BYTES);
	case 1:
		return preadv(fd, halves, 2, 0);
	case 2:
		return pread(fd, buffer, 1000, PAGE / 2 * (turn % 5));
	default:
		return load(fd);
	}
}

int main(void)
{
	int fd = open("f", O_RDWR | O_CREAT | O_TRUNC, 0644), status;
	char *at;
	pid_t child;

	/* The last page is not all of the file's. */
	if (fd < 0 || ftruncate(fd, BYTES - 100))
		return 1;
	at = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return 1;
	child = fork();
	stay_on(!child);
	if (!child)
		stir(at, BYTES);
	while (!*(char volatile *)at)
		sched_yield();
	for (int turn = 0; turn < TURNS; turn++) {
		for (volatile int pause = 0; pause < 20000; pause++)
			;
		if (look(fd, turn) <= 0)
			return 1;
	}
	kill(child, SIGKILL);
	return waitpid(child, &status, 0) != child;
}
