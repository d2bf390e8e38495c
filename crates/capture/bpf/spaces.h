/* SPDX-License-Identifier: Apache-2.0 */
/* Where processes have files mapped so that they can be written: which page of which file an address stands for.
 *
 * Goals: known in a fault, where the kernel's own list cannot be asked; a process without such mappings has none of this.
 * Non-goals: private mappings, and those of files that are open for reading only.
 */
#ifndef REPRISE_SPACES_H
#define REPRISE_SPACES_H

#include "suspects.h"

#define CLONE_THREAD 0x10000
/* Such mappings of one process at once; more are lost, and counted. */
#define RANGES 64

struct range {
	__u64 start, end; /* addresses; end 0: unused */
	__u64 page;       /* of the file, at the start */
	__u64 mapping;
	struct which file;
	__u32 generation;
	__u32 written_back;
	__u64 taken;
};

struct space {
	struct range ranges[RANGES];
};

/* By process. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct space);
} spaces SEC(".maps");

/* The first element is what a new one is made from. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct space);
} no_space SEC(".maps");

/* Part of a file. */
struct span {
	__u64 mapping;
	__u64 first, last; /* pages */
};

static __always_inline struct space *space_of(__u32 pid)
{
	return bpf_map_lookup_elem(&spaces, &pid);
}

static __always_inline struct space *space_for(__u32 pid)
{
	struct space *space = space_of(pid), *none;
	__u32 zero = 0;

	if (space)
		return space;
	none = bpf_map_lookup_elem(&no_space, &zero);
	if (!none)
		return 0;
	bpf_map_update_elem(&spaces, &pid, none, BPF_NOEXIST);
	return space_of(pid);
}

/* Somebody maps a file once more, or (-1) once less. */
static __always_inline void count_range(struct range *r, int more)
{
	struct backing *backing = bpf_map_lookup_elem(&backings, &r->file);
	struct watch *w = watch();

	if (backing && more < 0)
		__sync_lock_test_and_set(&backing->ender, (__u32)bpf_get_current_pid_tgid());
	if (backing)
		__sync_fetch_and_add(&backing->ranges, more);
	if (w)
		__sync_fetch_and_add(&w->ranges, (__s64)more);
}

/* A pass over the ranges of a process, one after the other. */
struct pass {
	struct space *space;
	__u32 at;
	__u32 done;
	__u64 start, end;
	struct range found;
};

/* Where a pass begins. It is 0, but the verifier need not know, or it would look at each step anew. */
static __always_inline __u32 beginning(void)
{
	struct watch *w = watch();

	return w ? w->nought : RANGES;
}

static __always_inline struct range *next_range(struct pass *p)
{
	__u32 at = p->at++;

	if (at >= RANGES)
		return 0;
	return &p->space->ranges[at];
}

static long find_step(__u64 i, struct pass *p)
{
	struct range *r = next_range(p);

	if (!r)
		return 1;
	if (p->start < r->start || p->start >= r->end)
		return 0;
	p->found = *r;
	return 1;
}

LOOPED(find_step, struct pass)

/* The range that an address lies in; its end is 0 if it lies in none. */
static __always_inline void find_range(struct pass *p, struct space *space, __u64 address)
{
	p->space = space;
	p->at = beginning();
	p->start = address;
	p->found.end = 0;
	loop(RANGES, find_step, p);
}

static long add_step(__u64 i, struct pass *p)
{
	struct range *r = next_range(p);

	if (!r)
		return 1;
	if (r->taken || __sync_val_compare_and_swap(&r->taken, 0, 1))
		return 0;
	r->start = p->found.start;
	r->page = p->found.page;
	r->mapping = p->found.mapping;
	r->file = p->found.file;
	r->generation = p->found.generation;
	r->written_back = p->found.written_back;
	barrier();
	r->end = p->found.end;
	p->done = 1;
	count_range(r, 1);
	return 1;
}

LOOPED(add_step, struct pass)

/* Adds the range in `found`; 0: there are too many. */
static __always_inline int add_range(struct pass *p, struct space *space)
{
	p->space = space;
	p->at = beginning();
	p->done = 0;
	loop(RANGES, add_step, p);
	return p->done;
}

/* One range, of which addresses are taken out. What stands behind them is left in `found`. */
static long cut_step(__u64 i, struct pass *p)
{
	struct range *r = next_range(p);

	if (!r)
		return 1;
	if (!r->end || r->end <= p->start || r->start >= p->end)
		return 0;
	if (r->end > p->end && r->start < p->start) {
		p->found = *r;
		p->found.page += (p->end - r->start) >> PAGE_SHIFT;
		p->found.start = p->end;
		p->done = 1;
		r->end = p->start;
	} else if (r->start < p->start) {
		r->end = p->start;
	} else if (r->end > p->end) {
		r->page += (p->end - r->start) >> PAGE_SHIFT;
		r->start = p->end;
	} else {
		r->end = 0;
		count_range(r, -1);
		barrier();
		r->taken = 0;
	}
	return 0;
}

LOOPED(cut_step, struct pass)

/* Nothing of a file lies at these addresses any more. */
__noinline int cut_ranges(struct space *space, __u64 start, __u64 end)
{
	struct pass p = { .space = space, .at = beginning(), .start = start, .end = end };

	if (!space)
		return 0;
	loop(RANGES, cut_step, &p);
	return p.done ? add_range(&p, space) : 1;
}

static long count_step(__u64 i, struct pass *p)
{
	struct range *r = next_range(p);

	if (!r)
		return 1;
	if (r->end)
		count_range(r, 1);
	return 0;
}

LOOPED(count_step, struct pass)

/* A process was made with a copy of another's memory. */
static __always_inline void inherit_space(__u32 parent, __u32 child)
{
	struct space *space = space_of(parent);
	struct pass p = {};

	if (!space || child == parent || bpf_map_update_elem(&spaces, &child, space, BPF_ANY))
		return;
	p.space = space_of(child);
	p.at = beginning();
	if (p.space)
		loop(RANGES, count_step, &p);
}

#endif
