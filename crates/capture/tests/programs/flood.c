// flood DIR THREADS ROUNDS BYTES: each thread writes ROUNDS buffers of BYTES with a pattern of its own to DIR/N.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *dir;
static long rounds, bytes;

static void *flood(void *argument)
{
	long number = (long)argument, i, round;
	unsigned *buffer = malloc(bytes);
	unsigned x = 12345 + number;
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%ld", dir, number);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < bytes / 4; i++)
			buffer[i] = x = x * 1664525u + 1013904223u;
		if (write(fd, buffer, bytes) != bytes)
			_exit(1);
	}
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[64];
	long n = atol(argv[2]), i;
	char path[4096];
	FILE *pid;

	dir = argv[1];
	rounds = atol(argv[3]);
	bytes = atol(argv[4]);
	snprintf(path, sizeof(path), "%s/pid", dir);
	pid = fopen(path, "w");
	fprintf(pid, "%d\n", getpid());
	fclose(pid);
	for (i = 0; i < n; i++)
		pthread_create(&threads[i], 0, flood, (void *)i);
	for (i = 0; i < n; i++)
		pthread_join(threads[i], 0);
	return 0;
}
