// advised: pages of a mapped file are made present by a request, so that stores to them make no fault.
#include "../../../../tests/programs/ring.h"
#include <fcntl.h>
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
int main(void) {
    static struct ring ring;
    static struct batch batch;
    int fd = open("advised", O_RDWR | O_CREAT | O_TRUNC, 0644);
    ftruncate(fd, 64 * 4096);
    char *at = mmap(0, 64 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (ring_begin(&ring, 0)) die("io_uring_setup: %m");
    struct io_uring_sqe *request = ring_add(&batch, IORING_OP_MADVISE, -1, 0);
    request->addr = (uint64_t)(at + 10 * 4096);
    request->len = 4 * 4096;
    request->fadvise_advice = MADV_POPULATE_WRITE;
    ring_go(&ring, &batch, 0);
    at[11 * 4096] = 9;
    return 0;
}
