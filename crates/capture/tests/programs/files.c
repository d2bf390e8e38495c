// files: reads and writes four open files in turn, and changes between them what is to be told of an open file: size, position,
// mode, links, flags. In `log` stands what each of these calls saw: descriptor, inode, size, position, mode, links, flags.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES 4
#define CALLS 40000

static int fds[FILES];
static const char *names[FILES] = { "a", "b", "c", "a" };

static unsigned pick(unsigned below)
{
	static unsigned x = 7;

	x = x * 1664525 + 1013904223;
	return (x >> 16) % below;
}

static void change(int i)
{
	char other[16];

	snprintf(other, sizeof(other), "%s2", names[i]);
	switch (pick(6)) {
	case 0:
		lseek(fds[i], pick(5000), SEEK_SET);
		break;
	case 1:
		fchmod(fds[i], pick(2) ? 0600 : 0644);
		break;
	case 2:
		ftruncate(fds[i], pick(5000));
		break;
	case 3:
		if (unlink(other))
			link(names[i], other);
		break;
	case 4:
		fcntl(fds[i], F_SETFL, pick(2) ? O_APPEND : 0);
		break;
	case 5:
		close(fds[i]);
		fds[i] = open(names[i], O_RDWR);
	}
}

static void tell(FILE *log, int fd)
{
	struct stat s;

	fstat(fd, &s);
	fprintf(log, "%d %llu %llu %lld %u %u %u\n", fd, (unsigned long long)s.st_ino, (unsigned long long)s.st_size,
		(long long)lseek(fd, 0, SEEK_CUR), s.st_mode, (unsigned)s.st_nlink, (unsigned)fcntl(fd, F_GETFL));
}

int main(void)
{
	char bytes[20] = "what is written here", *told;
	size_t length;
	FILE *log = open_memstream(&told, &length);
	cpu_set_t here;
	int out;

	for (int i = 0; i < FILES; i++)
		fds[i] = open(names[i], O_RDWR | O_CREAT, 0644);
	for (int call = 0; call < CALLS; call++) {
		int i = pick(FILES);

		if (call % 1000 == 0) {
			CPU_ZERO(&here);
			CPU_SET(call / 1000 % sysconf(_SC_NPROCESSORS_ONLN), &here);
			sched_setaffinity(0, sizeof(here), &here);
		}
		if (pick(4) == 0)
			change(i);
		switch (pick(3)) {
		case 0:
			write(fds[i], bytes, pick(sizeof(bytes)) + 1);
			break;
		case 1:
			pread(fds[i], bytes, sizeof(bytes), pick(5000));
			break;
		case 2:
			read(fds[i], bytes, sizeof(bytes));
		}
		tell(log, fds[i]);
	}
	fclose(log);
	out = open("log", O_WRONLY | O_CREAT, 0644);
	return write(out, told, length) != (ssize_t)length;
}
