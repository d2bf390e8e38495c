/* Threads that end soon, one after the other, until it is killed. */
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

static void *thread(void *unused)
{
	int fd = open("brief", O_RDWR | O_CREAT | O_APPEND, 0644);

	(void)unused;
	if (fd >= 0 && write(fd, "x", 1) == 1)
		close(fd);
	return NULL;
}

int main(void)
{
	pthread_t made;

	for (;;) {
		if (pthread_create(&made, NULL, thread, NULL))
			return 1;
		pthread_join(made, NULL);
	}
}
