/* SPDX-License-Identifier: Apache-2.0 */
/* Areas of memory that change files when they are stored to, as the kernel keeps them.
 *
 * Goals: which part of which file such an area is, however many a process has. Non-goals: those of files that are open for reading
 * only.
 */
#ifndef REPRISE_SHARED_H
#define REPRISE_SHARED_H

#include "loads.h"

#define VM_SHARED 0x8UL
#define VM_MAYWRITE 0x20UL

/* `fs/file_table.c`: the file below one of an overlay, which knows the one above (Linux 6.6). Which bit says that a file is one has
 * changed (6.10), and each stands for something else in the other kernels: so what is found must be of such a file system. */
#define FMODE_BACKING (1u << 24 | 1u << 25)
#define FUSE_MAGIC 0x65735546

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct qstr {
	const unsigned char *name;
};

struct dentry___shared {
	struct inode *d_inode;
	struct qstr d_name;
};

struct path___shared {
	struct dentry___shared *dentry;
};

struct file___shared {
	struct path___shared f_path;
};

struct backing_file {
	struct path___shared user_path;
};

#pragma clang attribute pop

/* The inode by which calls name the file of an area. */
static __always_inline __u64 named_inode(struct file *file)
{
	struct backing_file *below = (struct backing_file *)file;
	__u64 own = (__u64)BPF_CORE_READ(file, f_inode), magic;
	struct inode *above;

	if (!bpf_core_field_exists(below->user_path) || !(FIELD(file, f_mode) & FMODE_BACKING))
		return own;
	above = BPF_CORE_READ(below, user_path.dentry, d_inode);
	magic = BPF_CORE_READ(above, i_sb, s_magic);
	return magic == OVERLAY_MAGIC || magic == FUSE_MAGIC ? (__u64)above : own;
}

/* Whether memory is what memfd_create(2) made, which can be open, too: as it names its files, "memfd:". */
static __always_inline int is_memfd(struct file *file)
{
	const __u64 memfd = 0x3a64666d656dULL;
	const void *name = BPF_CORE_READ((struct file___shared *)file, f_path.dentry, d_name.name);
	__u64 text = 0;

	return !bpf_probe_read_kernel(&text, 6, name) && text == memfd;
}

/* What an area is a range of: the inode by which calls name its file; 0: stores to it change no file. */
static __always_inline __u64 take_area(struct vm_area_struct *area, struct range *r)
{
	__u64 flags = FIELD(area, vm_flags), number;
	struct inode *inode, *named;
	struct file *file;

	if (!(flags & VM_SHARED) || !(flags & VM_MAYWRITE) || flags & (VM_PFNMAP | VM_IO | VM_HUGETLB))
		return 0;
	inode = regular_of_area(area);
	if (!inode)
		return 0;
	file = TYPED(struct file, FIELD(area, vm_file));
	if (is_memory(inode) && !is_memfd(file))
		return 0;
	number = named_inode(file);
	named = TYPED(struct inode, (void *)number);
	r->start = FIELD(area, vm_start);
	r->end = FIELD(area, vm_end);
	r->page = FIELD(area, vm_pgoff);
	r->mapping = mapping_of_inode((__u64)inode);
	r->file.device = device_of(named);
	r->file.inode = FIELD(named, i_ino);
	r->generation = FIELD(named, i_generation);
	r->written_back = is_written_back(r->mapping);
	return number;
}

/* What lies at an address of the present process, at the same cost however much it has mapped; 0: it was not found. What is none is
 * found, too: its end is 0. */
__noinline int range_at(struct range *r, __u64 address)
{
	__u32 arrived = 0;
	__u64 found;

	if (!r || !bpf_get_current_task_btf()->mm || !follows_loads())
		return 0;
	found = region_at(address, &arrived);
	/* Another thread may be changing the tree. */
	if (!found && arrived != 1)
		return 0;
	r->end = 0;
	if (found)
		take_area(TYPED(struct vm_area_struct, (void *)found), r);
	return 1;
}

/* The same, where calls name the file as the area does; before Linux 6.6 they name one of an overlay otherwise. */
static __always_inline int is_area(struct range *r, __u64 address)
{
	return range_at(r, address) && (!r->end || backing_of(&r->file));
}

#endif
