/* Requests that are in flight, and stay so: `waits ring|queue` makes a ring, or a queue of Linux AIO, prints a letter, takes one from its
 * standard input, submits three reads, prints another letter, and waits.
 *
 * ring:  of a pipe that nobody writes to.
 * queue: of a file; nobody fetches what they came to.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>

#include "ring.h"

#define READS 3

static char memory[READS][512];

static void say(char letter)
{
    if (write(1, &letter, 1) != 1)
        die("nobody listens: %m");
}

static void wait_for_word(void)
{
    char letter;

    say('r');
    if (read(0, &letter, 1) != 1)
        die("no word: %m");
}

static void by_ring(void)
{
    struct ring ring = { 0 };
    struct batch batch = { .count = 0 };
    int ends[2];

    if (pipe(ends) || ring_begin(&ring, 0))
        die("no pipe, or no ring: %m");
    for (int i = 0; i < READS; i++) {
        struct io_uring_sqe *request = ring_add(&batch, IORING_OP_READ, ends[0], 0);
        request->addr = (uintptr_t)memory[i];
        request->len = sizeof memory[i];
    }
    wait_for_word();
    ring_submit(&ring, batch.requests, batch.count);
}

static void by_queue(void)
{
    aio_context_t queue = 0;
    struct iocb requests[READS] = { 0 }, *each[READS];
    int file = open("file", O_RDWR | O_CREAT, 0666);

    if (file < 0 || ftruncate(file, sizeof memory) || syscall(SYS_io_setup, READS, &queue))
        die("no file, or no queue: %m");
    for (int i = 0; i < READS; i++) {
        requests[i] = (struct iocb){ .aio_fildes = file, .aio_lio_opcode = IOCB_CMD_PREAD, .aio_buf = (uintptr_t)memory[i],
                                     .aio_nbytes = sizeof memory[i] };
        each[i] = &requests[i];
    }
    wait_for_word();
    if (syscall(SYS_io_submit, queue, READS, each) != READS)
        die("io_submit: %m");
}

int main(int argc, char **argv)
{
    if (argc != 2)
        die("usage: waits ring|queue");
    if (!strcmp(argv[1], "ring"))
        by_ring();
    else
        by_queue();
    say('s');
    for (;;)
        pause();
}
