/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of files that were stored to through memory, or may have been, since they were last known to be as the trace has
 * them.
 *
 * A fault tells that a page may be stored to from then on. No further fault tells of the stores that follow, until the
 * page is closed to them: it stays suspect until it was looked at and is closed (clean), or nobody maps its file.
 * Goals: a bit for a page; nobody is looked for in vain. Non-goals: what a page says (`looks.h`).
 */
#ifndef REPRISE_SUSPECTS_H
#define REPRISE_SUSPECTS_H

#include "backings.h"

#define PATCHES 65536
#define PATCH_SHIFT 6
#define PATCH_PAGES (1UL << PATCH_SHIFT)
/* A fault that was begun so long ago has come to its end. */
#define FAULT_NS 1000000000ULL

/* The number of the lowest bit that is set, of one at least: of the bits below it, how many there are. Without a branch, as
 * the verifier would follow each anew for each of 64 results. */
static __always_inline __u32 lowest(__u64 bits)
{
	__u64 below = (bits & -bits) - 1;

	below -= below >> 1 & 0x5555555555555555ULL;
	below = (below & 0x3333333333333333ULL) + (below >> 2 & 0x3333333333333333ULL);
	below = (below + (below >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return below * 0x0101010101010101ULL >> 56;
}

struct patch_key {
	__u64 mapping;
	__u64 number;
};

/* Neighbouring pages of a file. */
struct patch {
	struct patch_key key; /* mapping 0: unused */
	struct which file;
	__u64 suspects;  /* a bit for each page */
	__u64 shown;     /* those that were written as they were before the first store, or later */
	__u64 last_ns;   /* the last fault */
	__u64 others_ns; /* when it was last another thread's than the one before */
	__u32 tid, pid;  /* the last fault's */
	__u32 generation;
	__u32 written_back;
	__u64 page;      /* the last fault's */
	__u64 whole;     /* that opens all pages of the folio */
	__u64 counted;   /* among those of its file */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PATCHES);
	__type(key, __u32);
	__type(value, struct patch);
} patches SEC(".maps");

/* Made before: in a fault there may be no memory. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PATCHES);
	__type(key, struct patch_key);
	__type(value, __u32);
} patch_slots SEC(".maps");

/* Slots of patches that are no more. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, PATCHES);
	__uint(key_size, 0);
	__uint(value_size, 4);
} spare_slots SEC(".maps");

/* What a fault opens to stores. */
struct fault {
	struct patch_key key;
	struct which file;
	__u64 bits;
	__u64 page;
	__u64 whole;
	__u64 now;
	__u32 tid, pid;
	__u32 generation;
	__u32 written_back;
};

static __always_inline struct patch *patch_of(struct patch_key *of)
{
	struct patch_key key = *of;
	__u32 *slot = bpf_map_lookup_elem(&patch_slots, &key), number;

	if (!slot)
		return 0;
	number = *slot;
	return bpf_map_lookup_elem(&patches, &number);
}

/* Its patch, made if need be; 0: there are too many. */
static __always_inline struct patch *patch_for(struct fault *f, struct watch *w)
{
	struct patch_key key = f->key;
	struct patch *patch = patch_of(&key);
	__u32 slot;

	if (patch)
		return patch;
	if (bpf_map_pop_elem(&spare_slots, &slot)) {
		if (w->patches >= PATCHES)
			return 0;
		slot = __sync_fetch_and_add(&w->patches, 1);
	}
	patch = bpf_map_lookup_elem(&patches, &slot);
	if (!patch)
		return 0;
	patch->file = f->file;
	patch->suspects = patch->shown = patch->others_ns = 0;
	patch->tid = patch->pid = 0;
	patch->generation = f->generation;
	patch->written_back = f->written_back;
	patch->key.number = f->key.number;
	patch->key.mapping = f->key.mapping;
	patch->counted = count_patch(&f->file, 1);
	if (bpf_map_update_elem(&patch_slots, &key, &slot, BPF_NOEXIST)) {
		/* Another thread was faster. */
		if (patch->counted)
			count_patch(&f->file, -1);
		patch->key.mapping = 0;
		bpf_map_push_elem(&spare_slots, &slot, 0);
		return patch_of(&key);
	}
	return patch;
}

enum suspected {
	SUSPECT_LOST = 0, /* they cannot be kept in mind */
	SUSPECT_KNOWN,
	SUSPECT_NEW,      /* some were never written */
};

/* Pages may be stored to from now on. */
__noinline int suspect(struct fault *f)
{
	struct watch *w = watch();
	struct patch *patch;

	if (!f)
		return SUSPECT_LOST;
	patch = patch_for(f, w);
	if (!patch)
		return SUSPECT_LOST;
	/* Before the bits: who takes bits away looks at it afterwards. */
	__sync_lock_test_and_set(&patch->last_ns, f->now);
	if (patch->tid && patch->tid != f->tid)
		patch->others_ns = f->now;
	patch->tid = f->tid;
	patch->pid = f->pid;
	patch->page = f->page;
	patch->whole = f->whole;
	__sync_fetch_and_or(&patch->suspects, f->bits);
	return f->bits & ~patch->shown ? SUSPECT_NEW : SUSPECT_KNOWN;
}

/* The pages were looked at and are closed; by `tid`, none of whose own faults is under way, or by nobody (0). */
static __always_inline void absolve(struct patch *patch, __u64 bits, __u32 tid, __u64 now)
{
	__u64 last = patch->last_ns, others = patch->others_ns;

	if (!bits || !patch->written_back)
		return;
	if (others + FAULT_NS > now || (patch->tid != tid && last + FAULT_NS > now))
		return;
	__sync_fetch_and_and(&patch->suspects, ~bits);
	if (*(volatile __u64 *)&patch->last_ns != last)
		__sync_fetch_and_or(&patch->suspects, bits);
}

/* Forgets a patch whose file nobody maps any more, by the thread that ended the last mapping. Who maps it again meanwhile may have a fault
 * that found this patch and tells it after it is forgotten: then all of its pages are suspect, whatever was told. */
__noinline int forget_unmapped(__u32 slot, __u32 tid)
{
	struct patch *patch = bpf_map_lookup_elem(&patches, &slot);
	struct fault all = {};
	__u64 shown;

	if (!patch)
		return 0;
	all.key = patch->key;
	all.file = patch->file;
	if (!all.key.mapping || !is_last_ender(&all.file, tid))
		return 0;
	all.bits = ~0ULL;
	all.page = patch->page;
	all.whole = patch->whole;
	all.tid = patch->tid;
	all.pid = patch->pid;
	all.generation = patch->generation;
	all.written_back = patch->written_back;
	all.now = bpf_ktime_get_ns();
	shown = patch->shown;
	if (bpf_map_delete_elem(&patch_slots, &all.key))
		return 0;
	if (patch->counted)
		count_patch(&all.file, -1);
	patch->key.mapping = 0;
	patch->suspects = 0;
	bpf_map_push_elem(&spare_slots, &slot, 0);
	if (is_last_ender(&all.file, tid))
		return 0;
	suspect(&all);
	patch = patch_of(&all.key);
	if (patch)
		__sync_fetch_and_or(&patch->shown, shown);
	return 0;
}

#endif
