/* SPDX-License-Identifier: Apache-2.0 */
/* Content that a request moves inside the kernel: read from the page cache, since no memory of the program holds it.
 *
 * Goals: the bytes as they are when the request is complete. Non-goals: pages that are not in the cache, and kernels that
 * do not say where their memory is: what is lacking is counted.
 */
#ifndef REPRISE_MOVED_H
#define REPRISE_MOVED_H

#include "pages.h"
#include "ring.h"

/* The kernel has mapped it once more, elsewhere. */
#define REGION_IS_MAPPED 1
/* More than any request moves. */
#define STEPS_PIECES 32768

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct inode___moved {
	unsigned short i_mode;
	unsigned int i_nlink;
	struct address_space *i_mapping;
};

struct file___moved {
	__s64 f_pos;
	struct inode___moved *f_inode;
	void *private_data;
};

/* `fs/overlayfs/file.c`: the files below one of an overlay (Linux 6.13). */
struct ovl_file___moved {
	struct file___moved *realfile;  /* as it was when it was opened */
	struct file___moved *upperfile; /* since it was written to, if that is another */
};

#pragma clang attribute pop

/* What is to be kept. */
struct moved {
	__u64 file;
	__u64 offset;
	__u64 length;
	__u64 memory; /* see `memory_by` */
};

struct moving {
	struct thread *t;
	struct cpu *cpu;
	__u64 pages; /* its `struct address_space` */
	__u64 offset;
	__u64 end;
	__u64 memory;
	__u32 at;
	__u32 done;
};

/* The `struct address_space` with the content of a file: of one of an overlay that of the file below. */
static __always_inline __u64 pages_behind(__u64 file)
{
	struct file___moved *of = (struct file___moved *)file, *below = 0;
	struct ovl_file___moved *pair;

	if (BPF_CORE_READ((struct file *)file, f_inode, i_sb, s_magic) == OVERLAY_MAGIC) {
		pair = BPF_CORE_READ(of, private_data);
		if (!bpf_core_type_exists(struct ovl_file___moved))
			below = (struct file___moved *)pair;
		else if (!(below = BPF_CORE_READ(pair, upperfile)))
			below = BPF_CORE_READ(pair, realfile);
		of = below ? below : of;
	}
	return (__u64)BPF_CORE_READ(of, f_inode, i_mapping);
}

/* Where in the kernel's memory the content at the offset stands; 0: not in the cache. */
static __always_inline __u64 cached_at(struct moving *mv)
{
	__u64 index = mv->offset / PAGE, folio = folio_at(mv->pages, index);

	return folio ? content_of(folio, index, mv->memory) + (mv->offset & (PAGE - 1)) : 0;
}

static long move_page(__u64 i, struct moving *mv)
{
	__u32 n = at_most(PAGE - (mv->offset & (PAGE - 1)), mv->end - mv->offset);
	__u64 from;
	void *to;

	if (mv->offset >= mv->end || mv->done + n > PIECE_BYTES)
		return 1;
	from = cached_at(mv);
	to = place(mv->cpu->segment, mv->at + mv->done);
	CHECKED(n);
	if (!from || !to || !n || n > PAGE || bpf_probe_read_kernel(to, n, (void *)from)) {
		mv->end = mv->offset;
		return 1;
	}
	mv->done += n;
	mv->offset += n;
	return 0;
}

LOOPED(move_page, struct moving)

/* A MORE record with so much as fits into one. */
static long move_piece(__u64 i, struct moving *mv)
{
	const __u32 heads = sizeof(struct record_head) + sizeof(struct more_body) + sizeof(struct range_head);
	struct cpu *cpu = mv->cpu;
	struct record_head *record;
	struct range_head *range;
	__u64 begin = mv->offset;

	if (begin >= mv->end || !make_room(cpu, heads + PIECE_BYTES, 0))
		return 1;
	mv->at = cpu->used + heads;
	mv->done = 0;
	loop(PIECE_BYTES / PAGE + 1, move_page, mv);
	record = place(cpu->segment, cpu->used);
	if (!mv->done || !record)
		return 1;
	((struct more_body *)(record + 1))->call = mv->t->call;
	range = (struct range_head *)((char *)(record + 1) + sizeof(struct more_body));
	range->address = MOVED_AT + begin;
	range->length = range->kept = mv->done;
	range->when = WHEN_EXIT;
	range->flags = 0;
	range->lead = 0;
	commit(cpu, record, mv->at + padded(mv->done), RECORD_MORE, mv->t->end_ns);
	mv->t->more++;
	return 0;
}

LOOPED(move_piece, struct moving)

/* How far memory is from 64 times the addresses of its pages: a ring knows one of its own by both. Where it does not (before Linux 6.13 or
 * so), as it was found for mapped files (`find_memory`); 0: it was not looked for. */
static __always_inline __u64 memory_by(struct io_ring_ctx *ring)
{
	__u64 page = 0, address, found = watch()->offset;

	if (!bpf_core_field_exists(ring->sq_region) || bpf_core_type_size(struct page) != PAGE_STRUCT)
		return found;
	if (BPF_CORE_READ(ring, sq_region.flags) & REGION_IS_MAPPED)
		return found;
	address = (__u64)BPF_CORE_READ(ring, sq_region.ptr);
	bpf_probe_read_kernel(&page, sizeof(page), BPF_CORE_READ(ring, sq_region.pages));
	return address && page ? address - page * (PAGE / PAGE_STRUCT) : found;
}

/* Keeps a range of a regular file. */
__noinline int keep_moved(struct thread *t, struct cpu *cpu, struct moved *moved)
{
	struct moving mv = { .t = t, .cpu = cpu };

	if (!t || !cpu || !moved || !moved->memory)
		return 0;
	mv.offset = moved->offset;
	mv.end = moved->offset + moved->length;
	mv.memory = moved->memory;
	mv.pages = pages_behind(moved->file);
	loop(STEPS_PIECES, move_piece, &mv);
	return 1;
}

/* Where in a regular file a request that moved so much was: at the offset that it was given, or at the file's own. */
static __always_inline int moved_in(struct moved *out, void *file, __u64 given, __s64 result)
{
	struct file___moved *of = file;

	if (!file || !S_ISREG(BPF_CORE_READ(of, f_inode, i_mode)))
		return 0;
	out->file = (__u64)file;
	out->offset = given == (__u64)-1 ? BPF_CORE_READ(of, f_pos) - result : given;
	out->length = result;
	return 1;
}

#endif
