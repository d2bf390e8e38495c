/* SPDX-License-Identifier: Apache-2.0 */
/* What is looked at of a ring of io_uring and its requests in the kernel. Offsets are those of the running kernel. */
#ifndef REPRISE_RING_H
#define REPRISE_RING_H

#include "kernel.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct io_uring {
	__u32 head;
};

struct io_rings {
	struct io_uring cq;
};

struct io_submit_link {
	struct io_kiocb *head;
};

struct io_wq_work_node {
	struct io_wq_work_node *next;
};

struct io_wq_work_list {
	struct io_wq_work_node *first;
};

struct io_submit_state {
	struct io_wq_work_list compl_reqs;
	struct io_submit_link link;
};

/* Memory that a ring shares with its program. */
struct io_mapped_region {
	void *pages;
	void *ptr;
	unsigned int flags;
};

struct io_ring_ctx {
	unsigned int flags;
	struct io_rings *rings;
	__u32 *sq_array;
	void *sq_sqes;
	unsigned int cached_sq_head;
	unsigned int sq_entries;
	struct io_submit_state submit_state;
	unsigned int cached_cq_tail;
	struct io_mapped_region sq_region;
};

struct io_cqe {
	__u64 user_data;
};

struct io_kiocb {
	struct file *file;
	struct io_cqe cqe;
	struct io_ring_ctx *ctx;
	struct io_wq_work_node comp_list;
};

/* What a request that reads or writes keeps in itself. */
struct io_rw {
	__u64 addr;
	__u32 len;
};

struct io_uring_cqe {
	__u64 user_data;
	__s32 res;
	__u32 flags;
};

#pragma clang attribute pop

#define SETUP_SQE128 (1u << 10)
#define SETUP_NO_SQARRAY (1u << 16)

#define OPCODE_MADVISE 25
#define OPCODE_SPLICE 30
#define SPLICE_FROM_FIXED (1u << 31)
#define SQE_BYTES 64
#define SQE_FIXED_FILE 1
#define SQE_DRAIN 2
#define SQE_BUFFER_SELECT 32
#define SQE_SKIP_SUCCESS 64
#define CQE_BUFFER 1
#define CQE_MORE 2

/* Where the request stands that was fetched last; 0 if it cannot be found. */
static __always_inline void *fetched_sqe(struct io_ring_ctx *ring)
{
	__u32 entries = BPF_CORE_READ(ring, sq_entries), flags = BPF_CORE_READ(ring, flags);
	__u32 at = (BPF_CORE_READ(ring, cached_sq_head) - 1) & (entries - 1);
	char *requests = BPF_CORE_READ(ring, sq_sqes);

	if (!(flags & SETUP_NO_SQARRAY)) {
		__u32 *places = BPF_CORE_READ(ring, sq_array);

		if (bpf_probe_read_kernel(&at, sizeof(at), places + at))
			return 0;
	}
	if (at >= entries || !requests)
		return 0;
	return requests + (__u64)at * (flags & SETUP_SQE128 ? 2 * SQE_BYTES : SQE_BYTES);
}

#endif
