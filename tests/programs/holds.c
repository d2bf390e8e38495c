// SPDX-License-Identifier: Apache-2.0
/* holds DIR: maps and locks files below DIR, says `ready PID`, and then stores and loads a little for each line that it is given.
 *
 * Nothing that is stored to has a descriptor any more. One file has lost its name, one never had any (memfd_create), one is
 * closed to stores when the program is ready, one can only be read, of one each page is mapped by itself, and a child has all of
 * them, too; it finds locked what the program has locked. It ends with its input.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 96

static unsigned turn = 1;

static unsigned draw(unsigned below)
{
	turn = turn * 1103515245 + 12345;
	return (turn >> 16) % below;
}

static void need(int well, const char *what)
{
	if (well)
		return;
	perror(what);
	exit(1);
}

static char *map(const char *name, int writes)
{
	static char page[PAGE];
	int fd = open(name, O_RDWR | O_CREAT, 0644);
	char *at;

	need(fd >= 0, name);
	for (int i = 0; i < PAGES; i++) {
		memset(page, 'a' + i % 26, PAGE);
		need(write(fd, page, PAGE) == PAGE, name);
	}
	need(fsync(fd) == 0, "fsync");
	close(fd);
	fd = open(name, writes ? O_RDWR : O_RDONLY);
	at = mmap(0, PAGES * PAGE, PROT_READ | (writes ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
	need(at != MAP_FAILED, "mmap");
	close(fd);
	return at;
}

/* Memory that is a file, and has been stored to. */
static char *map_memory(void)
{
	int fd = memfd_create("memory", 0);
	char *at;

	need(fd >= 0 && ftruncate(fd, PAGES * PAGE) == 0, "memfd_create");
	at = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	need(at != MAP_FAILED, "mmap");
	memset(at, '.', PAGES * PAGE);
	close(fd);
	return at;
}

/* The last page first, so that no mapping is joined to another one. */
static void map_each_page(const char *name, char **pages)
{
	int fd;

	munmap(map(name, 1), PAGES * PAGE);
	fd = open(name, O_RDWR);
	for (int i = PAGES - 1; i >= 0; i--) {
		pages[i] = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (PAGES - 1 - i) * PAGE);
		need(pages[i] != MAP_FAILED, "mmap");
	}
	close(fd);
}

static int make(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT, 0644);

	need(fd >= 0, name);
	return fd;
}

static int ask(int fd, int command, int kind, long start, long length)
{
	struct flock range = { .l_type = kind, .l_whence = SEEK_SET, .l_start = start, .l_len = length };

	return fcntl(fd, command, &range);
}

/* One range is the process's, one the open file's, and a file is locked as a whole. */
static void lock_all(void)
{
	int of_process = make("ranges"), of_file = make("ranges"), whole = make("whole");

	need(ask(of_process, F_SETLK, F_WRLCK, 100, 100) == 0, "F_SETLK");
	need(ask(of_process, F_SETLK, F_UNLCK, 120, 10) == 0, "F_SETLK");
	need(ask(of_file, F_OFD_SETLK, F_RDLCK, 300, 0) == 0, "F_OFD_SETLK");
	need(flock(whole, LOCK_EX) == 0, "flock");
}

static void find_locked(void)
{
	int ranges = make("ranges"), whole = make("whole");

	need(ask(ranges, F_SETLK, F_WRLCK, 150, 1) < 0 && errno == EAGAIN, "a locked byte");
	need(ask(ranges, F_SETLK, F_WRLCK, 120, 10) == 0, "bytes between");
	need(ask(ranges, F_SETLK, F_RDLCK, 130, 1) < 0 && errno == EAGAIN, "a locked byte");
	need(ask(ranges, F_SETLK, F_RDLCK, 9999, 1) == 0, "a shared byte");
	need(ask(ranges, F_SETLK, F_WRLCK, 9999, 1) < 0 && errno == EAGAIN, "a shared byte");
	need(flock(whole, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK, "a locked file");
	close(ranges);
	close(whole);
}

static void store(char *at, int pages)
{
	for (int i = 0; i < pages; i++)
		memset(at + draw(PAGES) * PAGE + draw(PAGE - 16), 'A' + draw(26), 1 + draw(15));
}

static void store_apart(char **pages, int count)
{
	for (int i = 0; i < count; i++)
		pages[draw(PAGES)][draw(PAGE)] = 'A' + draw(26);
}

int main(int count, char **words)
{
	static char *apart[PAGES];
	char *open_to_stores, *nameless, *memory, *closed, *read_only, line[64];
	int to_child[2], from_child[2];
	volatile char sum = 0;
	pid_t child;

	need(count == 2 && chdir(words[1]) == 0, "usage: holds DIR");
	open_to_stores = map("stores", 1);
	nameless = map("nameless", 1);
	memory = map_memory();
	closed = map("closed", 1);
	read_only = map("loads", 0);
	map_each_page("apart", apart);
	store_apart(apart, 9);
	need(unlink("nameless") == 0, "unlink");
	store(open_to_stores, PAGES);
	need(msync(open_to_stores, PAGES / 2 * PAGE, MS_SYNC) == 0, "msync");
	store(open_to_stores, 9);
	store(nameless, 9);
	need(mprotect(closed, PAGES * PAGE, PROT_READ) == 0, "mprotect");
	lock_all();
	need(pipe(to_child) == 0 && pipe(from_child) == 0, "pipe");
	child = fork();
	need(child >= 0, "fork");
	if (!child) {
		close(to_child[1]);
		while (read(to_child[0], line, 1) == 1) {
			store(open_to_stores, 5);
			store_apart(apart, 5);
			find_locked();
			need(write(from_child[1], "!", 1) == 1, "write");
		}
		_exit(0);
	}
	close(to_child[0]);
	printf("ready %d\n", getpid());
	fflush(stdout);
	for (int round = 0; fgets(line, sizeof(line), stdin); round++) {
		int fd = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644);

		turn += round;
		store(open_to_stores, 7);
		store(nameless, 7);
		store(memory, 7);
		store_apart(apart, 7);
		need(mprotect(closed, PAGES * PAGE, PROT_READ | PROT_WRITE) == 0, "mprotect");
		store(closed, 7);
		need(mprotect(closed, PAGES * PAGE, PROT_READ) == 0, "mprotect");
		need(madvise(read_only, PAGES * PAGE, MADV_DONTNEED) == 0, "madvise");
		for (int i = 0; i < 9; i++)
			sum += read_only[draw(PAGES) * PAGE];
		need(write(to_child[1], "?", 1) == 1 && read(from_child[0], line, 1) == 1, "the child");
		need(msync(open_to_stores, PAGES * PAGE, MS_SYNC) == 0, "msync");
		/* What was stored where nobody can open it any more. */
		need(write(fd, nameless, PAGES * PAGE) == PAGES * PAGE, "write");
		need(write(fd, memory, PAGES * PAGE) == PAGES * PAGE, "write");
		close(fd);
		printf("done\n");
		fflush(stdout);
	}
	need(munmap(closed, PAGES * PAGE) == 0, "munmap");
	for (int i = 0; i < PAGES; i += 3)
		need(munmap(apart[i], PAGE) == 0, "munmap");
	close(to_child[1]);
	need(wait(0) == child, "wait");
	return 0;
}
