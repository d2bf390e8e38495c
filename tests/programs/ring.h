/* An io_uring by raw system calls, used in batches: all requests of a batch are prepared, submitted and awaited, and each
 * must result in what was foretold.
 */
#ifndef RING_H
#define RING_H

#include <errno.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common.h"

#ifndef RING_ENTRIES
#define RING_ENTRIES 64
#endif
#define RING_SQPOLL_IDLE_MS 20 /* short, so that the kernel's thread also has to be woken */

struct ring {
    int file;
    unsigned flags;
    _Atomic unsigned *sq_tail, *sq_flags, *cq_head, *cq_tail;
    unsigned *sq_array, sq_mask, cq_mask, submitted;
    struct io_uring_sqe *requests;
    struct io_uring_cqe *results;
};

/* A batch: requests, and the result that each must have. */
struct batch {
    struct io_uring_sqe requests[RING_ENTRIES];
    long wanted[RING_ENTRIES];
    unsigned flags[RING_ENTRIES]; /* of the results */
    unsigned count;
};

static inline int ring_begin(struct ring *ring, unsigned flags)
{
    struct io_uring_params p = { .flags = flags, .sq_thread_idle = RING_SQPOLL_IDLE_MS };
    ring->file = syscall(SYS_io_uring_setup, RING_ENTRIES, &p);
    if (ring->file < 0)
        return -1;
    ring->flags = flags;
    size_t sq_bytes = p.sq_off.array + p.sq_entries * sizeof(unsigned);
    size_t cq_bytes = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
    int shared = MAP_SHARED | MAP_POPULATE, access = PROT_READ | PROT_WRITE;
    char *sq = mmap(NULL, sq_bytes, access, shared, ring->file, IORING_OFF_SQ_RING);
    char *cq = mmap(NULL, cq_bytes, access, shared, ring->file, IORING_OFF_CQ_RING);
    ring->requests = mmap(NULL, p.sq_entries * sizeof *ring->requests, access, shared, ring->file, IORING_OFF_SQES);
    if (sq == MAP_FAILED || cq == MAP_FAILED || (void *)ring->requests == MAP_FAILED)
        return -1;
    ring->sq_tail = (void *)(sq + p.sq_off.tail);
    ring->sq_flags = (void *)(sq + p.sq_off.flags);
    ring->sq_mask = *(unsigned *)(sq + p.sq_off.ring_mask);
    ring->sq_array = (void *)(sq + p.sq_off.array);
    ring->cq_head = (void *)(cq + p.cq_off.head);
    ring->cq_tail = (void *)(cq + p.cq_off.tail);
    ring->cq_mask = *(unsigned *)(cq + p.cq_off.ring_mask);
    ring->results = (void *)(cq + p.cq_off.cqes);
    return 0;
}

static inline int ring_register(struct ring *ring, unsigned what, const void *values, unsigned count)
{
    return syscall(SYS_io_uring_register, ring->file, what, values, count);
}

/* A further request of the batch. */
static inline struct io_uring_sqe *ring_add(struct batch *batch, unsigned opcode, int file, long wanted)
{
    if (batch->count == RING_ENTRIES)
        die("the batch is full");
    struct io_uring_sqe *request = &batch->requests[batch->count];
    *request = (struct io_uring_sqe){ .opcode = opcode, .fd = file, .user_data = batch->count };
    batch->wanted[batch->count++] = wanted;
    return request;
}

static inline void ring_submit(struct ring *ring, const struct io_uring_sqe *requests, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        unsigned slot = ring->submitted++ & ring->sq_mask;
        ring->requests[slot] = requests[i];
        ring->sq_array[slot] = slot;
    }
    atomic_store_explicit(ring->sq_tail, ring->submitted, memory_order_release);
    if (!(ring->flags & IORING_SETUP_SQPOLL)) {
        long taken = syscall(SYS_io_uring_enter, ring->file, count, 0, 0, NULL, 0);
        if (taken != (long)count)
            die("io_uring_enter took %ld of %u: %m", taken, count);
        return;
    }
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(ring->sq_flags) & IORING_SQ_NEED_WAKEUP)
        syscall(SYS_io_uring_enter, ring->file, 0, 0, IORING_ENTER_SQ_WAKEUP, NULL, 0);
}

static inline void ring_reap(struct ring *ring, struct batch *batch)
{
    for (unsigned left = batch->count; left;) {
        unsigned head = atomic_load(ring->cq_head);
        if (head == atomic_load_explicit(ring->cq_tail, memory_order_acquire)) {
            long done = syscall(SYS_io_uring_enter, ring->file, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
            if (done < 0 && errno != EINTR)
                die("io_uring_enter: %m");
            continue;
        }
        struct io_uring_cqe *result = &ring->results[head & ring->cq_mask];
        unsigned i = result->user_data;
        if (result->res != batch->wanted[i])
            die("request %u (opcode %u): %d and not %ld", i, batch->requests[i].opcode, result->res, batch->wanted[i]);
        batch->flags[i] = result->flags;
        atomic_store(ring->cq_head, head + 1);
        left--;
    }
}

/* Submits a batch, the first `middle` of its requests by a call of their own, and awaits it. */
static inline void ring_go(struct ring *ring, struct batch *batch, unsigned middle)
{
    if (middle)
        ring_submit(ring, batch->requests, middle);
    ring_submit(ring, batch->requests + middle, batch->count - middle);
    ring_reap(ring, batch);
}

#endif
