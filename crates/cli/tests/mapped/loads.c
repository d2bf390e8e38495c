/* Loads from mapped files, in pages that are known: it prints "SHARED|PRIVATE PAGE" for each page it was the first to touch.
 *
 * loads FILE SEED PAGES: PAGES of FILE in random order, at most one of each group of 32 that lie together, so that no page
 * comes with another; half through a shared mapping of a descriptor that is closed then, half through a private one of
 * the rest of the file. A child that is forked loads through both, after its parent has unmapped them. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096UL
#define GROUP 32UL

static unsigned long state;

static unsigned long next(unsigned long below)
{
	state = state * 6364136223846793005UL + 1442695040888963407UL;
	return (state >> 33) % below;
}

static volatile unsigned long sum;

static void touch(unsigned char *map, unsigned long first, unsigned long page, const char *how)
{
	sum += map[(page - first) * PAGE + next(PAGE)];
	printf("%s %lu\n", how, page);
}

int main(int argc, char **argv)
{
	int file = open(argv[1], O_RDONLY), wait_for[2], go[2];
	unsigned long count = atol(argv[3]), pages, half, *order;
	unsigned char *shared, *private;
	struct stat st;
	pid_t child;
	char byte;

	state = atol(argv[2]);
	if (file < 0 || fstat(file, &st))
		return 1;
	pages = (st.st_size + PAGE - 1) / PAGE;
	half = pages / 2 / GROUP * GROUP;
	shared = mmap(0, half * PAGE, PROT_READ, MAP_SHARED, file, 0);
	private = mmap(0, st.st_size - half * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, half * PAGE);
	close(file);
	if (shared == MAP_FAILED || private == MAP_FAILED)
		return 1;
	/* A group each, in random order. */
	order = malloc(pages / GROUP * sizeof(*order));
	for (unsigned long i = 0; i < pages / GROUP; i++) {
		unsigned long other = next(i + 1);

		order[i] = order[other];
		order[other] = i;
	}
	for (unsigned long i = 0; i < count; i++) {
		/* Not at the ends of a group: the next one begins there. */
		unsigned long page = order[i] * GROUP + 16 + next(8);

		if (page < half)
			touch(shared, 0, page, "SHARED");
		else
			touch(private, half, page, "PRIVATE");
	}
	/* A store beside what was loaded, of which nobody else sees anything. */
	if (order[0] * GROUP >= half)
		private[(order[0] * GROUP + 24 - half) * PAGE] = 1;
	fflush(stdout);
	if (pipe(go) || pipe(wait_for))
		return 1;
	child = fork();
	if (!child) {
		close(go[1]);
		if (read(go[0], &byte, 1) < 0)
			return 1;
		for (unsigned long i = count; i < count + 20 && i < pages / GROUP; i++) {
			unsigned long page = order[i] * GROUP + 16 + next(8);

			if (page < half)
				touch(shared, 0, page, "SHARED");
			else
				touch(private, half, page, "PRIVATE");
		}
		fflush(stdout);
		_exit(0);
	}
	munmap(shared, half * PAGE);
	munmap(private, st.st_size - half * PAGE);
	if (write(go[1], "x", 1) != 1)
		return 1;
	waitpid(child, 0, 0);
	return 0;
}
