// NAME SIZE RECORDS BUFFER: appends records to a file, while its child reads on behind it to the end again and again, as `tail -f` and
// collectors of logs do: it sees records half written. The child compares what it reads with what was written.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char letter(size_t record)
{
	return 'a' + record % 26;
}

static int follow(const char *name, size_t size, size_t bytes, char *buffer, size_t most)
{
	int fd = open(name, O_RDONLY);
	size_t done = 0;

	while (fd >= 0 && done < bytes) {
		ssize_t got = read(fd, buffer, most);

		if (got < 0)
			return 1;
		for (size_t at = 0, part; at < (size_t)got; at += part, done += part) {
			part = size - done % size;
			part = part < got - at ? part : got - at;
			/* All of a record is one letter. */
			if (buffer[at] != letter(done / size) || memcmp(buffer + at, buffer + at + 1, part - 1))
				return 1;
		}
		if (!got)
			usleep(50);
	}
	return fd < 0;
}

int main(int count, char **words)
{
	if (count != 5)
		return 2;
	size_t size = atol(words[2]), records = atol(words[3]), most = atol(words[4]);
	char *record = malloc(size), *buffer = malloc(most);
	int fd = open(words[1], O_WRONLY | O_CREAT | O_APPEND, 0644), status;
	pid_t child = fork();

	if (!child)
		_exit(follow(words[1], size, size * records, buffer, most));
	for (size_t i = 0; i < records; i++) {
		memset(record, letter(i), size);
		if (write(fd, record, size) != (ssize_t)size)
			return 1;
		for (volatile int pause = 0; pause < 3000; pause++)
			;
	}
	if (waitpid(child, &status, 0) != child || status)
		return 1;
	printf("checksum %zu\n", size * records);
	return 0;
}
