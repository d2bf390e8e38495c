/* Several processes append to one file, each by a descriptor of its own: where a record lands is the order of writes. */
#include "case.h"

#define PROCESSES 4
#define RECORDS 25

static void appender(int me) {
    int fd = must(open("log", O_WRONLY | O_APPEND));
    char text[16];
    for (int i = 0; i < RECORDS; i++) {
        snprintf(text, sizeof text, "<%d:%03d>\n", me, i);
        must(write(fd, text, strlen(text)));
        /* The offset is where the record ended. */
        long at = must(lseek(fd, 0, SEEK_CUR));
        holds(at % 8 == 0 && at > 0);
    }
    must(close(fd));
    _exit(0);
}

int main(void) {
    put("log", "");
    pid_t children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++)
        if ((children[i] = must(fork())) == 0)
            appender(i);
    for (int i = 0; i < PROCESSES; i++)
        wait_for(children[i]);
    int fd = must(open("log", O_RDONLY));
    holds(about(fd).st_size == PROCESSES * RECORDS * 8);
    char all[PROCESSES * RECORDS * 8];
    must(read(fd, all, sizeof all));
    return 0;
}
