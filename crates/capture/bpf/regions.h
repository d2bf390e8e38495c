/* SPDX-License-Identifier: Apache-2.0 */
/* What lies at an address of the present process, as the kernel keeps it: in a tree of areas (Linux 6.1 and later).
 *
 * Goals: any number of mappings, whoever made them and when, at no cost when they are made; in a fault, where no lock can be
 * taken. Non-goals: kernels that keep areas otherwise (`follows_loads`).
 */
#ifndef REPRISE_REGIONS_H
#define REPRISE_REGIONS_H

#include "pages.h"

#define VM_READ 1UL
#define VM_EXEC 4UL
#define VM_MAYSHARE 0x80UL
#define VM_PFNMAP 0x400UL
#define VM_IO 0x4000UL
#define VM_HUGETLB 0x400000UL

#define MOST_PIVOTS 15
#define AREAS_PIVOTS 9
#define TREE_LEVELS 8

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct maple_tree {
	void *ma_root;
};

struct maple_range_64 {
	unsigned long pivot[MOST_PIVOTS];
	void *slot[MOST_PIVOTS + 1];
};

struct maple_arange_64 {
	unsigned long pivot[AREAS_PIVOTS];
	void *slot[AREAS_PIVOTS + 1];
};

enum maple_type {
	maple_leaf_64 = 1,
	maple_range_64 = 2,
	maple_arange_64 = 3,
};

struct mm_struct {
	struct maple_tree mm_mt;
	struct file *exe_file;
};

struct vm_area_struct {
	unsigned long vm_start, vm_end;
	unsigned long vm_flags;
	unsigned long vm_pgoff;
	struct file *vm_file;
};

#pragma clang attribute pop

struct descent {
	__u64 address;
	__u64 entry;
	__u64 pivots[MOST_PIVOTS];
	__u32 arrived; /* at a leaf */
};

/* 1 or 0, without a branch: the verifier follows both ways of each, through all 15 pivots of a node. */
static __always_inline __u64 is_below(__u64 one, __u64 other)
{
	__u64 borrows = (~one & other) | ((~one | other) & (one - other));

	CHECKED(borrows);
	return borrows >> 63;
}

/* From a node to the one below, or from a leaf to the area. */
static long descend_regions(__u64 i, struct descent *d)
{
	__u64 node = d->entry & ~255ULL, slots;
	__u32 type = d->entry >> 3 & 15;
	__u64 at = 0, goes_on = 1;

	if (type == maple_arange_64) {
		slots = node + bpf_core_field_offset(struct maple_arange_64, slot);
		node += bpf_core_field_offset(struct maple_arange_64, pivot);
	} else if (type == maple_leaf_64 || type == maple_range_64) {
		slots = node + bpf_core_field_offset(struct maple_range_64, slot);
		node += bpf_core_field_offset(struct maple_range_64, pivot);
	} else {
		d->entry = 0;
		return 1;
	}
	d->entry = 0;
	if (bpf_probe_read_kernel(d->pivots, sizeof(d->pivots), (void *)node))
		return 1;
	if (type == maple_arange_64) {
#pragma unroll
		for (__u32 k = AREAS_PIVOTS; k < MOST_PIVOTS; k++)
			d->pivots[k] = ~0UL;
	}
#pragma unroll
	for (__u32 k = 0; k < MOST_PIVOTS; k++) {
		/* A pivot of 0 stands for the last address of the node (`mas_logical_pivot`). */
		goes_on &= is_below(d->pivots[k] - 1, (d->address | 1) - 1);
		at += goes_on;
	}
	bpf_probe_read_kernel(&d->entry, sizeof(d->entry), (void *)(slots + 8 * at));
	d->arrived = type == maple_leaf_64;
	return d->arrived || !d->entry;
}

LOOPED(descend_regions, struct descent)

/* The area at an address of the present process; 0: there is none, or it was not found (`arrived` 2). One function for all that ask:
 * the verifier goes through the pivots of a node in many ways. */
__noinline __u64 region_at(__u64 address, __u32 *arrived)
{
	struct mm_struct *mm = bpf_get_current_task_btf()->mm;
	struct descent d = { .address = address };
	struct vm_area_struct *found;

	if (!arrived || !mm)
		return 0;
	*arrived = 0;
	if (!follows_loads())
		return 0;
	/* As a number: a function for all may not give back what the verifier takes for a pointer. */
	d.entry = (__u64)BPF_CORE_READ(mm, mm_mt.ma_root);
	/* A tree of one area alone has no node. */
	if ((d.entry & 3) == 2 && d.entry > 4096)
		loop(TREE_LEVELS, descend_regions, &d);
	*arrived = d.arrived;
	if (!d.entry)
		return 0;
	found = TYPED(struct vm_area_struct, (void *)d.entry);
	if (!(d.entry & 3) && FIELD(found, vm_start) <= address && address < FIELD(found, vm_end))
		return d.entry;
	*arrived = 2;
	return 0;
}

#endif
