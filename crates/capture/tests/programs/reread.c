// reread: reads a file again and again, and changes it in between in every way that there is. After each read it writes the sum of
// what it got, which is what it must have got: else it ends with 2. Where it has made `mapped`, another has to answer its questions.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 32
#define PASSES 60

static unsigned char expected[PAGES][PAGE];
static int sums;

/* Content that is nowhere else. */
static void invent(int page)
{
	static uint64_t x = 88172645463325252;

	for (int i = 0; i < PAGE; i += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(&expected[page][i], &x, 8);
	}
}

static void put(int fd, int page)
{
	invent(page);
	pwrite(fd, expected[page], PAGE, (off_t)page * PAGE);
}

static void create(const char *name)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	for (int page = 0; page < PAGES; page++)
		put(fd, page);
	close(fd);
}

static void look(int fd, int page)
{
	unsigned char got[PAGE] __attribute__((aligned(8)));
	uint64_t sum = 14695981039346656037u;

	if (pread(fd, got, PAGE, (off_t)page * PAGE) != PAGE || memcmp(got, expected[page], PAGE))
		_exit(2);
	for (int i = 0; i < PAGE; i += 8)
		sum = (sum ^ *(uint64_t *)&got[i]) * 1099511628211u;
	write(sums, &sum, sizeof(sum));
}

/* Until it is known what the file holds; slowly, so that the recorder can say so. */
static void again(int fd)
{
	usleep(1300000);
	for (int pass = 0; pass < PASSES; pass++) {
		for (int page = 0; page < PAGES; page++)
			look(fd, page);
		usleep(2000);
	}
}

/* Has somebody store to the file: `store.c`. */
static void ask(int n)
{
	char name[16];

	snprintf(name, sizeof(name), "asked%d", n);
	close(open(name, O_WRONLY | O_CREAT, 0644));
	snprintf(name, sizeof(name), "done%d", n);
	while (access(name, F_OK))
		usleep(1000);
}

int main(void)
{
	int in, out;
	void *map;

	sums = open("sums", O_WRONLY | O_CREAT | O_TRUNC, 0644);
	create("file");
	in = open("file", O_RDONLY);
	again(in);
	/* By a call. */
	out = open("file", O_RDWR);
	look(in, 3);
	put(out, 3);
	look(in, 3);
	close(out);
	look(in, 3);
	look(in, 4);
	again(in);
	/* While somebody has it open. */
	out = open("file", O_WRONLY);
	again(in);
	put(out, 5);
	look(in, 5);
	usleep(1300000);
	look(in, 5);
	put(out, 5);
	look(in, 5);
	close(out);
	again(in);
	/* As zeros, and all anew. */
	out = open("file", O_RDWR);
	fallocate(out, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 9 * PAGE, PAGE);
	memset(expected[9], 0, PAGE);
	close(out);
	look(in, 9);
	look(in, 10);
	truncate("file", 0);
	create("file");
	for (int page = 0; page < PAGES; page++)
		look(in, page);
	again(in);
	/* Another file of the same name, perhaps with the same number. */
	close(in);
	unlink("file");
	create("file");
	in = open("file", O_RDONLY);
	for (int page = 0; page < PAGES; page++)
		look(in, page);
	again(in);
	create("other");
	rename("other", "file");
	close(in);
	in = open("file", O_RDONLY);
	for (int page = 0; page < PAGES; page++)
		look(in, page);
	again(in);
	/* Through memory of somebody who is not recorded: the file is changed when its page is made writable, and not any more when that
	 * is stored to again. */
	close(open("mapped", O_WRONLY | O_CREAT, 0644));
	for (int n = 1; n <= 2; n++) {
		ask(n);
		memset(expected[7], n, PAGE);
		again(in);
	}
	/* Through memory of its own. */
	out = open("file", O_RDWR);
	map = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, out, 0);
	close(out);
	look(in, 7);
	invent(7);
	memcpy(map + 7 * PAGE, expected[7], PAGE);
	look(in, 7);
	usleep(1300000);
	look(in, 7);
	invent(7);
	memcpy(map + 7 * PAGE, expected[7], PAGE);
	look(in, 7);
	munmap(map, PAGES * PAGE);
	look(in, 7);
	again(in);
	return 0;
}
