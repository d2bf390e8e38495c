/* SPDX-License-Identifier: Apache-2.0 */
/* The open files that a call names: what they are, as the kernel has it. */
#ifndef REPRISE_OBJECTS_H
#define REPRISE_OBJECTS_H

#include "state.h"

#define BTRFS_MAGIC 0x9123683e
#define OVERLAY_MAGIC 0x794c7630

/* A device number as stat(2) tells it. */
static __always_inline __u64 user_device(__u32 device)
{
	__u64 major = device >> 20, minor = device & 0xfffff;

	return (minor & 0xff) | (major << 8) | ((minor & ~0xffULL) << 12);
}

/* Where a file lies, as stat(2) tells it. In Btrfs each subvolume counts as a device; such have no major number. */
static __always_inline __u64 device_of(struct inode *inode)
{
	struct super_block *super = FIELD(inode, i_sb);
	struct btrfs_inode *outer;
	__u32 device = super ? FIELD(super, s_dev) : 0;

	if (!super || device >> 20 || !bpf_core_type_exists(struct btrfs_inode) || FIELD(super, s_magic) != BTRFS_MAGIC)
		return user_device(device);
	outer = (void *)inode - bpf_core_field_offset(struct btrfs_inode, vfs_inode);
	return user_device(BPF_CORE_READ(outer, root, anon_dev));
}

static __always_inline struct file *file_of(struct task_struct *task, __s32 fd)
{
	/* Of a task that it trusts, the verifier would search all names of types at each visit (a millisecond). */
	struct files_struct *files = TYPED(struct task_struct, task)->files;
	struct fdtable *table;
	struct file **slots;

	if (fd < 0 || !files)
		return 0;
	table = files->fdt;
	if (!table || (__u32)fd >= table->max_fds)
		return 0;
	slots = table->fd;
	return POINTED(slots + fd);
}

/* What is told of an open file, in full or in brief; where the kernel knows nothing, nothing. */
#define TELL_FILE(out, found, behind)                                                                   \
	({                                                                                               \
		struct file *opened = TYPED(struct file, found);                                         \
		behind = FIELD(opened, f_inode);                                                         \
		(out)->id = ((__u64)(found) ^ scramble) * 0x9e3779b97f4a7c15ULL;                         \
		(out)->position = FIELD(opened, f_pos);                                                  \
		(out)->flags = FIELD(opened, f_flags);                                                   \
		(out)->file_mode = FIELD(opened, f_mode);                                                \
		(out)->inode = behind ? FIELD(behind, i_ino) : 0;                                        \
		(out)->size = behind ? FIELD(behind, i_size) : 0;                                        \
		(out)->generation = behind ? FIELD(behind, i_generation) : 0;                            \
		(out)->mode = behind ? FIELD(behind, i_mode) : 0;                                        \
		(out)->links = behind ? FIELD(behind, i_nlink) : 0;                                      \
		(out)->device = behind ? device_of(behind) : 0;                                          \
	})

/* 0: there is no file. */
static __always_inline int look_at_file(struct object *out, struct file *found, __s32 fd)
{
	struct inode *inode;

	if (!found)
		return 0;
	TELL_FILE(out, found, inode);
	out->fd = fd;
	return 1;
}

static __always_inline int look_at(struct object *out, struct task_struct *task, __s32 fd)
{
	return look_at_file(out, file_of(task, fd), fd);
}

/* The number of the descriptor that a source names; -1: none. */
static __always_inline __s32 descriptor(struct thread *t, __u8 source)
{
	__u32 arg = source & 15;
	__s32 fd = -1;

	if (source == OBJECT_NONE)
		return -1;
	if (source == OBJECT_RESULT)
		return t->result < 0 ? -1 : t->result;
	if (source < OBJECT_PAIR)
		return arg - 1 < 6 ? (__s32)t->args[arg - 1] : -1;
	if (t->result < 0 || arg > 5)
		return -1;
	if (bpf_probe_read_user(&fd, sizeof(fd), (void *)(t->args[arg] + (source >= OBJECT_PAIR_2 ? 4 : 0))))
		return -1;
	return fd;
}

static __always_inline void look_at_objects(struct thread *t, struct row *row, struct task_struct *task)
{
	t->found = 0;
	if (look_at(&t->objects[0], task, descriptor(t, row->objects[0])))
		t->found = 1;
	if (row->objects[1] == OBJECT_NONE)
		return;
	if (look_at(&t->objects[t->found ? 1 : 0], task, descriptor(t, row->objects[1])))
		t->found++;
}

#endif
