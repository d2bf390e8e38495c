// Holds a lock that belongs to its process, and makes no call; its child tries to have it, in vain, until it is killed.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static int try(int fd)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	return fcntl(fd, F_SETLK, &whole);
}

int main(void)
{
	int fd = open("lock", O_RDWR | O_CREAT, 0600);
	if (fd < 0 || try(fd))
		return 1;
	pid_t child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			if (!try(fd))
				abort();
			usleep(2000);
		}
	}
	printf("%d\n", child);
	fflush(stdout);
	for (;;)
		pause();
}
