/* SPDX-License-Identifier: Apache-2.0 */
/* Loads from mapped files: the page that a fault brings into the memory of a process, with what it says at that moment.
 *
 * A fault is told before the kernel sees to it, and the program goes on after it. Pages that are in the cache are written at
 * once; those that are not (and those for which there is no room) when the thread is about to go on.
 * Goals: each page that a process touches for the first time by a load; nothing of programs and libraries. Non-goals: further
 * loads of the same page, and those of pages that the kernel brings with it: they make no fault.
 */
#ifndef REPRISE_LOADS_H
#define REPRISE_LOADS_H

#include "looks.h"
#include "regions.h"

/* What is `pending` of a thread: no record. */
#define PENDING_LOAD 2
/* Of the kernel's own: memory that processes share without a file. */
#define SB_NOUSER (1UL << 31)
#define ELF_MAGIC 0x464c457f
#define ELF_EXECUTABLE 2
#define ELF_SHARED 3

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct super_block___loads {
	unsigned long s_flags;
};

#pragma clang attribute pop

/* For what was stored to a page that is loaded. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct look);
} looks_before_loads SEC(".maps");

/* Programs and libraries that were seen: their first pages may leave the cache before others are loaded. */
struct program_key {
	__u64 mapping;
	__u64 inode; /* its number */
	__u64 generation;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct program_key);
	__type(value, __u8);
} programs SEC(".maps");

/* Whether a file is a program or a library, as its first page says; -1: that is not in the cache. */
static __always_inline int begins_as_program(__u64 mapping)
{
	struct watch *w = watch();
	__u64 folio = folio_at(mapping, 0);
	struct {
		__u32 magic, class[3];
		__u16 type, machine;
	} head = {};

	if (!folio || !is_uptodate(folio))
		return -1;
	if (bpf_probe_read_kernel(&head, sizeof(head), (void *)content_of(folio, 0, w->offset)))
		return -1;
	return head.magic == ELF_MAGIC && (head.type == ELF_EXECUTABLE || head.type == ELF_SHARED);
}

/* What of a program or a library is loaded is part of running it. */
static __always_inline int is_program(struct mm_struct *mm, struct inode *inode, __u64 mapping)
{
	struct program_key key = { mapping, FIELD(inode, i_ino), FIELD(inode, i_generation) };
	int was = !!bpf_map_lookup_elem(&programs, &key), begins = begins_as_program(mapping);
	__u8 one = 1;

	if (begins < 0)
		return was || BPF_CORE_READ(mm, exe_file, f_inode) == inode;
	if (begins && !was)
		bpf_map_update_elem(&programs, &key, &one, BPF_ANY);
	if (!begins && was)
		bpf_map_delete_elem(&programs, &key);
	return begins;
}

enum loading {
	LOADS_NOTHING = 0,
	LOADS_PAGE,
	LOADS_UNKNOWN,
};

/* The inode of an area's file, if that is a regular one. */
static __always_inline struct inode *regular_of_area(struct vm_area_struct *area)
{
	struct file *file = FIELD(area, vm_file);
	struct inode *inode;

	if (!file)
		return 0;
	inode = FIELD(TYPED(struct file, file), f_inode);
	if (!inode)
		return 0;
	inode = TYPED(struct inode, inode);
	return S_ISREG(FIELD(inode, i_mode)) ? inode : 0;
}

/* Whether it is of a file system that no user sees: memory that is a file to the kernel. */
static __always_inline int is_memory(struct inode *inode)
{
	struct super_block *super = FIELD(inode, i_sb);

	return !super || BPF_CORE_READ((struct super_block___loads *)super, s_flags) & SB_NOUSER;
}

/* What of which file is loaded at an address, into the load of the present thread. */
__noinline int find_load(struct thread *t, __u64 address)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct mm_struct *mm = task->mm;
	struct vm_area_struct *area;
	struct inode *inode;
	__u64 found, flags;
	__u32 arrived = 0;

	if (!t || !mm)
		return LOADS_NOTHING;
	found = region_at(address, &arrived);
	/* Another thread may be changing the tree. */
	if (arrived == 2)
		found = region_at(address, &arrived);
	if (!found)
		return arrived == 2 ? LOADS_UNKNOWN : LOADS_NOTHING;
	area = TYPED(struct vm_area_struct, (void *)found);
	flags = FIELD(area, vm_flags);
	if (!(flags & VM_READ) || flags & (VM_EXEC | VM_PFNMAP | VM_IO | VM_HUGETLB))
		return LOADS_NOTHING;
	inode = regular_of_area(area);
	if (!inode || is_memory(inode))
		return LOADS_NOTHING;
	t->load.mapping = mapping_of_inode((__u64)inode);
	if (!(flags & VM_MAYSHARE) && is_program(mm, inode, t->load.mapping))
		return LOADS_NOTHING;
	t->load.page = FIELD(area, vm_pgoff) + ((address - FIELD(area, vm_start)) >> PAGE_SHIFT);
	t->load.address = address & ~(__u64)(PAGE - 1);
	t->load.device = device_of(inode);
	t->load.inode = FIELD(inode, i_ino);
	t->load.late = 0;
	return LOADS_PAGE;
}

/* What others stored to the page goes first. */
static __always_inline int look_before_load(struct load *load, struct cpu *cpu, int urgent)
{
	struct patch_key key = { load->mapping, load->page >> PATCH_SHIFT };
	struct patch *patch = patch_of(&key);
	struct look *l;
	__u32 zero = 0;

	if (!patch || !(patch->suspects & 1ULL << (load->page & (PATCH_PAGES - 1))))
		return VERDICT_DONE;
	l = bpf_map_lookup_elem(&looks_before_loads, &zero);
	if (!l)
		return VERDICT_DONE;
	clear_look(l, bpf_ktime_get_ns(), 0);
	add_span(l, load->mapping, load->page, load->page);
	return go_on_looking(l, cpu, urgent, 16);
}

/* Writes the load of a thread. Where the page is not there yet: VERDICT_NO_PAGE, or, if it is too late for that, without
 * its content. */
__noinline int write_load(struct thread *t, struct cpu *cpu, int urgent)
{
	const __u32 heads = sizeof(struct record_head) + sizeof(struct loaded_body);
	struct record_head *record;
	struct loaded_body *body;
	__u64 folio = 0, size, at;
	struct watch *w = watch();
	struct load *load;
	__u32 length, kept = 0;

	if (!t || !cpu)
		return VERDICT_DONE;
	load = &t->load;
	size = file_size(load->mapping);
	at = load->page << PAGE_SHIFT;
	/* Behind the end of the file nothing is loaded. */
	if (at >= size)
		return VERDICT_DONE;
	length = at_most(size - at, PAGE);
	if (w->keeps) {
		folio = folio_at(load->mapping, load->page);
		if (folio && (!is_uptodate(folio) || folio_mapping(folio) != load->mapping))
			folio = 0;
		if (!folio && !load->late)
			return VERDICT_NO_PAGE;
	}
	if (w->patches && look_before_load(load, cpu, urgent) != VERDICT_DONE)
		return VERDICT_NO_ROOM;
	if (!make_room(cpu, heads + PAGE, urgent))
		return VERDICT_NO_ROOM;
	record = place(cpu->segment, cpu->used);
	if (!record)
		return VERDICT_NO_ROOM;
	body = (struct loaded_body *)(record + 1);
	if (folio && !bpf_probe_read_kernel(body + 1, PAGE, (void *)content_of(folio, load->page, w->offset)))
		kept = length;
	body->device = load->device;
	body->inode = load->inode;
	body->page = load->page;
	body->address = load->address;
	body->length = length;
	body->kept = kept;
	body->flags = w->keeps && !kept ? LOADED_LACKING : 0;
	body->reserved = 0;
	commit(cpu, record, cpu->used + heads + padded(kept), RECORD_LOADED, bpf_ktime_get_ns());
	return VERDICT_DONE;
}

#endif
