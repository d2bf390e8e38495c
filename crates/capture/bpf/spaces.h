/* SPDX-License-Identifier: Apache-2.0 */
/* Where processes have files mapped so that they can be written: which page of which file an address stands for.
 *
 * Goals: known in a fault, where the kernel's own list cannot be asked; a process without such mappings has none of this.
 * Non-goals: private mappings, and those of files that are open for reading only.
 */
#ifndef REPRISE_SPACES_H
#define REPRISE_SPACES_H

#include "suspects.h"

/* Such mappings in one sheet, and sheets of one process at once; mappings for which there is no room are lost, and counted. */
#define RANGES 64
#define SHEETS 256
/* A pass goes once to each range, and once to each sheet. */
#define PASS_STEPS (SHEETS * (RANGES + 1) + 1)

struct range {
	__u64 start, end; /* addresses; end 0: not told yet, or no more */
	__u64 page;       /* of the file, at the start */
	__u64 mapping;
	struct which file;
	__u32 generation;
	__u32 written_back;
};

struct sheet_key {
	__u32 pid;
	__u32 number;
};

/* Some of what a process has mapped; there are as many sheets as are needed. */
struct sheet {
	__u64 taken; /* a bit for each range that is in use */
	__u64 more;  /* there is a next sheet */
	struct range ranges[RANGES];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct sheet_key);
	__type(value, struct sheet);
} sheets SEC(".maps");

/* The first element is what a new one is made from. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sheet);
} no_sheet SEC(".maps");

/* Part of a file. */
struct span {
	__u64 mapping;
	__u64 first, last; /* pages */
};

/* Somebody maps a file once more, or (-1) once less. */
static __always_inline void count_range(struct range *r, int more)
{
	struct backing *backing = backing_of(&r->file);

	__sync_fetch_and_add(&watch()->ranges, (__s64)more);
	if (!backing)
		return;
	if (more < 0) {
		backing->ended_ns = bpf_ktime_get_ns();
		__sync_lock_test_and_set(&backing->ender, (__u32)bpf_get_current_pid_tgid());
	}
	__sync_fetch_and_add(&backing->ranges, more);
}

/* A pass over the ranges of a process, one after the other. */
struct pass {
	struct sheet_key next;
	struct sheet *sheet;
	__u64 bits; /* ranges of this sheet that are still to come */
	__u32 at;   /* the present range */
	__u32 over;
	__u32 done;
	__u64 start, end;
	struct range found;
};

/* Goes to the next sheet; 0: there is none. */
static __always_inline int next_sheet(struct pass *p)
{
	struct sheet *sheet = p->sheet;

	if (sheet && !sheet->more)
		return 0;
	sheet = bpf_map_lookup_elem(&sheets, &p->next);
	if (!sheet)
		return 0;
	p->next.number++;
	p->sheet = sheet;
	p->bits = sheet->taken;
	return 1;
}

/* Before the first sheet. Its number is 0, but the verifier need not know, or it would look at each step anew. */
static __always_inline void before_first(struct pass *p, __u32 pid)
{
	p->next.pid = pid;
	p->next.number = watch()->nought;
}

/* Goes to the beginning; 0: the process has no range. */
static __always_inline int begin_pass(struct pass *p, __u32 pid)
{
	before_first(p, pid);
	p->sheet = 0;
	p->bits = 0;
	p->over = p->done = 0;
	return next_sheet(p);
}

/* 0: there is none here, and `over` says whether none comes. */
static __always_inline struct range *next_range(struct pass *p)
{
	struct sheet *sheet = p->sheet;
	__u64 bits = p->bits;

	if (!sheet || !bits) {
		p->over = !sheet || !next_sheet(p);
		return 0;
	}
	p->bits = bits & (bits - 1);
	p->at = lowest(bits) & (RANGES - 1);
	return &sheet->ranges[p->at & (RANGES - 1)];
}

/* The first sheet of a process; 0: it has no range. */
static __always_inline struct sheet *first_sheet(__u32 pid)
{
	struct sheet_key key = { .pid = pid };

	return bpf_map_lookup_elem(&sheets, &key);
}

static __always_inline int has_ranges(__u32 pid)
{
	return !!first_sheet(pid);
}

static long find_step(__u64 i, struct pass *p)
{
	struct range *r = next_range(p);

	if (!r)
		return p->over;
	if (p->start < r->start || p->start >= r->end)
		return 0;
	p->found = *r;
	return 1;
}

LOOPED(find_step, struct pass)

/* The range of a process that an address lies in; its end is 0 if it lies in none, which is the result. */
__noinline int find_range(struct range *found, __u32 pid, __u64 address)
{
	struct pass p = { .start = address };

	if (!found)
		return 0;
	if (begin_pass(&p, pid))
		loop(PASS_STEPS, find_step, &p);
	*found = p.found;
	return !!p.found.end;
}

/* The sheet that a pass is to go to next, made if need be. */
static __always_inline struct sheet *sheet_for(struct pass *p)
{
	struct sheet *sheet = bpf_map_lookup_elem(&sheets, &p->next), *none;
	__u32 zero = 0;

	if (sheet)
		return sheet;
	none = bpf_map_lookup_elem(&no_sheet, &zero);
	if (!none)
		return 0;
	bpf_map_update_elem(&sheets, &p->next, none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&sheets, &p->next);
}

static long add_step(__u64 i, struct pass *p)
{
	struct sheet *sheet = sheet_for(p);
	__u64 bits, bit;
	struct range *r;
	__u32 at;

	if (!sheet)
		return 1;
	bits = ~sheet->taken;
	if (!bits) {
		if (++p->next.number >= SHEETS)
			return 1;
		/* If it cannot be made, a pass ends there all the same. */
		sheet->more = 1;
		return 0;
	}
	at = lowest(bits) & (RANGES - 1);
	bit = 1ULL << at;
	/* Another thread may have taken it. */
	if (__sync_fetch_and_or(&sheet->taken, bit) & bit)
		return 0;
	r = &sheet->ranges[at];
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
static __always_inline int add_range(struct pass *p, __u32 pid)
{
	before_first(p, pid);
	p->done = 0;
	loop(PASS_STEPS, add_step, p);
	return p->done;
}

/* Adds a range, whose file counts as mapped from now on; 0: there is no room. */
__noinline int map_range(struct range *r, __u32 pid)
{
	struct pass p = {};

	if (!r || !backing_for(&r->file, r->generation, r->mapping))
		return 0;
	__sync_fetch_and_or(&watch()->mappings, trace_of(r->mapping));
	p.found = *r;
	if (!add_range(&p, pid))
		return 0;
	/* It may have been forgotten in between, as a file that nobody maps. */
	if (!backing_of(&r->file)) {
		struct backing *backing = backing_for(&r->file, r->generation, r->mapping);

		if (backing)
			__sync_fetch_and_add(&backing->ranges, 1);
	}
	return 1;
}

/* The present range is unused from now on. */
static __always_inline void give_back(struct pass *p)
{
	struct sheet *sheet = p->sheet;

	if (sheet)
		__sync_fetch_and_and(&sheet->taken, ~(1ULL << (p->at & (RANGES - 1))));
}

/* One range, of which addresses are taken out. What stands behind them is left in `found`. */
static long cut_step(__u64 i, struct pass *p)
{
	struct range *r = next_range(p);

	if (!r)
		return p->over;
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
		give_back(p);
	}
	return 0;
}

LOOPED(cut_step, struct pass)

/* Nothing of a file lies at these addresses of a process any more. */
__noinline int cut_ranges(__u32 pid, __u64 start, __u64 end)
{
	struct pass p = { .start = start, .end = end };

	if (!begin_pass(&p, pid))
		return 1;
	loop(PASS_STEPS, cut_step, &p);
	return p.done ? add_range(&p, pid) : 1;
}

/* The range that ends at `start` ends at `end`. */
static long grow_step(__u64 i, struct pass *p)
{
	struct range *r = next_range(p);

	if (!r)
		return p->over;
	if (!r->end || r->end != p->start)
		return 0;
	r->end = p->end;
	return 1;
}

LOOPED(grow_step, struct pass)

/* The range of a process that ended at `from` ends at `to`. */
__noinline int grow_range(__u32 pid, __u64 from, __u64 to)
{
	struct pass p = { .start = from, .end = to };

	if (begin_pass(&p, pid))
		loop(PASS_STEPS, grow_step, &p);
	return 0;
}

struct shifting {
	struct pass pass;
	__u64 by;
};

static long shift_step(__u64 i, struct shifting *m)
{
	struct range *r = next_range(&m->pass);

	if (!r)
		return m->pass.over;
	if (!r->end || r->start < m->pass.start || r->end > m->pass.end)
		return 0;
	r->start += m->by;
	r->end += m->by;
	return 0;
}

LOOPED(shift_step, struct shifting)

/* The ranges of a process that lie at these addresses, as a whole, lie behind `to` from now on. */
__noinline int shift_ranges(__u32 pid, __u64 start, __u64 end, __u64 to)
{
	struct shifting m = { .pass.start = start, .pass.end = end, .by = to - start };

	if (begin_pass(&m.pass, pid))
		loop(PASS_STEPS, shift_step, &m);
	return 0;
}

static long forget_step(__u64 i, struct sheet_key *key)
{
	if (bpf_map_delete_elem(&sheets, key))
		return 1;
	key->number++;
	return 0;
}

LOOPED(forget_step, struct sheet_key)

/* A process has none any more. */
static __always_inline void forget_ranges(__u32 pid)
{
	struct sheet_key key = { .pid = pid };

	cut_ranges(pid, 0, ~0ULL);
	loop(SHEETS, forget_step, &key);
}

struct inheritance {
	struct sheet_key of, to;
	__u32 lacks; /* there was no room for a sheet */
};

static long inherit_step(__u64 i, struct inheritance *h)
{
	struct sheet *sheet = bpf_map_lookup_elem(&sheets, &h->of);

	if (!sheet)
		return 1;
	h->lacks = !!bpf_map_update_elem(&sheets, &h->to, sheet, BPF_ANY);
	if (h->lacks)
		return 1;
	h->of.number++;
	h->to.number++;
	return 0;
}

LOOPED(inherit_step, struct inheritance)

static long count_step(__u64 i, struct pass *p)
{
	struct range *r = next_range(p);

	if (!r)
		return p->over;
	if (r->end)
		count_range(r, 1);
	return 0;
}

LOOPED(count_step, struct pass)

/* A process was made with a copy of another's memory; 0: there is no room for all that it has mapped. */
static __always_inline int inherit_ranges(__u32 parent, __u32 child)
{
	struct inheritance h = { .of.pid = parent, .to.pid = child };
	struct pass p = {};

	if (child == parent || !watch()->ranges || !has_ranges(parent))
		return 1;
	loop(SHEETS, inherit_step, &h);
	if (begin_pass(&p, child))
		loop(PASS_STEPS, count_step, &p);
	return !h.lacks;
}

#endif
