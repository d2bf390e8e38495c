// The main thread maps each page of the upper part of a file once, stores to it, and unmaps it, while another syncs the file, whose lower
// part stays mapped: what a look at many pages comes to was stored through mappings that began after the sync was over.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define LOWER (1024 * PAGE)
#define PAGES 1024

static int file;
static volatile int over;

static void *syncs(void *unused)
{
	while (!over)
		fsync(file);
	return 0;
}

int main(void)
{
	pthread_t thread;
	char *lower, *page;

	file = open("beside", O_RDWR | O_CREAT, 0666);
	ftruncate(file, LOWER + PAGES * PAGE);
	lower = mmap(0, LOWER, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	pthread_create(&thread, 0, syncs, 0);
	for (int i = 0; i < PAGES; i++) {
		if (i % 32 == 0)
			for (int k = 0; k < LOWER; k += PAGE)
				lower[k + 8] = i / 32 + 1;
		page = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, LOWER + i * PAGE);
		page[64] = i % 100 + 1;
		munmap(page, PAGE);
	}
	over = 1;
	pthread_join(thread, 0);
	return 0;
}
