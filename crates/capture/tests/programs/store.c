// store FILE ASKED DONE: has a file mapped, and stores to its eighth page whenever ASKED followed by 1, 2 comes to be; then makes
// DONE followed by the same.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR);
	char *map = mmap(0, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	char name[4096];

	for (int n = 1; n <= 2; n++) {
		snprintf(name, sizeof(name), "%s%d", argv[2], n);
		while (access(name, F_OK))
			usleep(1000);
		memset(map + 7 * PAGE, n, PAGE);
		snprintf(name, sizeof(name), "%s%d", argv[3], n);
		close(open(name, O_WRONLY | O_CREAT, 0644));
	}
	return 0;
}
