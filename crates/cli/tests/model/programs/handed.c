/* Work is handed from thread to thread through a pipe, a pair of sockets, a FIFO, a counter, a connection: who received
 * goes on only after who sent. Nothing else orders them. */
#include "case.h"

static int in, out;

static void take(int length) {
    char text[16];
    while (length > 0) {
        int taken = must(read(in, text, length));
        holds(taken > 0);
        length -= taken;
    }
}

static void *receiver(void *unused) {
    (void)unused;
    char text[1];
    must(mkdir("before", 0755));
    /* Two pieces, so two waits; then the end. */
    take(3);
    must(mkdir("after_three", 0755));
    take(3);
    must(mkdir("after_six", 0755));
    holds(must(read(in, text, 1)) == 0);
    must(mkdir("after_all", 0755));
    return NULL;
}

static void send_all(pthread_t thread) {
    must(mkdir("one", 0755));
    must(write(out, "ab", 2));
    must(mkdir("two", 0755));
    must(write(out, "cdef", 4));
    usleep(30000);
    must(mkdir("three", 0755));
    must(close(out));
    join(thread);
}

static void by_pipe(void) {
    int ends[2];
    must(pipe2(ends, O_CLOEXEC));
    in = ends[0], out = ends[1];
    send_all(start(receiver, NULL));
}

static void by_pair(void) {
    int ends[2];
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    in = ends[0], out = ends[1];
    send_all(start(receiver, NULL));
}

static void *fifo_receiver(void *unused) {
    in = must(open("fifo", O_RDONLY));
    return receiver(unused);
}

static void by_fifo(void) {
    must(mkfifo("fifo", 0600));
    pthread_t thread = start(fifo_receiver, NULL);
    out = must(open("fifo", O_WRONLY));
    send_all(thread);
}

static struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};

static void *connecting_receiver(void *unused) {
    in = must(socket(AF_UNIX, SOCK_STREAM, 0));
    must(connect(in, (struct sockaddr *)&address, sizeof address));
    return receiver(unused);
}

static void by_connection(void) {
    int listener = must(socket(AF_UNIX, SOCK_STREAM, 0));
    must(bind(listener, (struct sockaddr *)&address, sizeof address));
    must(listen(listener, 5));
    pthread_t thread = start(connecting_receiver, NULL);
    out = must(accept(listener, NULL, NULL));
    send_all(thread);
}

static void *counter_receiver(void *unused) {
    (void)unused;
    uint64_t value;
    must(mkdir("before", 0755));
    must(read(in, &value, sizeof value));
    must(mkdir("after_three", 0755));
    return NULL;
}

static void by_counter(void) {
    uint64_t one = 1;
    in = must(eventfd(0, 0)), out = must(dup(in));
    pthread_t thread = start(counter_receiver, NULL);
    must(mkdir("one", 0755));
    must(write(out, &one, sizeof one));
    join(thread);
}

/* Between processes, the descriptors inherited; the child's exit is the end of what it sends. */
static void by_child(void) {
    int ends[2];
    must(pipe(ends));
    pid_t child = must(fork());
    if (child == 0) {
        must(close(ends[0]));
        must(mkdir("one", 0755));
        must(write(ends[1], "abcdef", 6));
        usleep(30000);
        must(mkdir("three", 0755));
        _exit(0);
    }
    must(close(ends[1]));
    in = ends[0];
    receiver(NULL);
    wait_for(child);
}

int main(int count, char **words) {
    holds(count == 2);
    const struct {
        const char *name;
        void (*way)(void);
    } ways[] = {{"pipe", by_pipe},   {"pair", by_pair},       {"fifo", by_fifo},
                {"child", by_child}, {"counter", by_counter}, {"connection", by_connection}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(words[1], ways[i].name) == 0)
            return ways[i].way(), 0;
    return 98;
}
