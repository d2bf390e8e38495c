// Files are copied inside the kernel by one thread. Another stores behind the place that the copy has reached: to one through a mapping
// that was there before, to one through a mapping that it makes meanwhile.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#define SIZE (64 << 20)

static int from, to, sends;
static volatile int begun;

static void *copies(void *unused)
{
	off_t source = 0, target = 0;

	begun = 1;
	if (sends)
		sendfile(to, from, &source, SIZE);
	else
		copy_file_range(from, &source, to, &target, SIZE, 0);
	return 0;
}

static void one(const char *source, const char *target, int mapped_before)
{
	static char block[1 << 20];
	pthread_t thread;
	char *map = 0;

	from = open(source, O_RDWR | O_CREAT, 0666);
	to = open(target, O_RDWR | O_CREAT, 0666);
	memset(block, 7, sizeof(block));
	for (int i = 0; i < SIZE >> 20; i++)
		write(from, block, sizeof(block));
	if (mapped_before)
		map = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, from, 0);
	begun = 0;
	pthread_create(&thread, 0, copies, 0);
	while (!begun)
		;
	usleep(2000);
	if (!mapped_before)
		map = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, from, 0);
	for (int i = 0; i < 10; i++)
		map[i * 4096 + 100] = 9;
	pthread_join(thread, 0);
	munmap(map, SIZE);
	close(from);
	close(to);
}

int main(void)
{
	one("copied", "copy-1", 1);
	one("mapped", "copy-2", 0);
	sends = 1;
	one("sent", "copy-3", 1);
	one("mapped-sent", "copy-4", 0);
	return 0;
}
