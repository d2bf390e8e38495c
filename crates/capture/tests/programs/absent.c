// absent FILE DIR: calls whose memory is not there when they are made: a page of a mapped file that nobody has looked
// at, one that was taken away, and half a buffer.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define LENGTH (1 << 20)

int main(int argc, char **argv)
{
	int in = open(argv[1], O_RDONLY), null = open("/dev/null", O_WRONLY), out, shut;
	char *mapped = mmap(0, LENGTH, PROT_READ, MAP_PRIVATE, in, 0);
	char *own = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec pieces[3] = { { mapped + 100, 5000 }, { own, 10 }, { mapped + 300000, 70000 } };

	madvise(mapped, LENGTH, MADV_RANDOM);
	/* The null device does not look at what it is given. */
	write(null, mapped, LENGTH);
	madvise(mapped, LENGTH, MADV_DONTNEED);
	writev(null, pieces, 3);
	memset(own, 'x', 4096);
	munmap(own + 4096, 4096);
	write(null, own, 8192);
	out = open("half", O_WRONLY | O_CREAT | O_TRUNC, 0644);
	write(out, own, 8192);
	write(out, (void *)8, 100);
	open((void *)16, O_RDONLY);
	return 0;
}
