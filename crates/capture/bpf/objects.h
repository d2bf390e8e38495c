/* SPDX-License-Identifier: Apache-2.0 */
/* The open files that a call names: what they are, as the kernel has it. */
#ifndef REPRISE_OBJECTS_H
#define REPRISE_OBJECTS_H

#include "state.h"

/* A device number as stat(2) tells it. */
static __always_inline __u64 user_device(__u32 device)
{
	__u64 major = device >> 20, minor = device & 0xfffff;

	return (minor & 0xff) | (major << 8) | ((minor & ~0xffULL) << 12);
}

static __always_inline struct file *file_of(struct task_struct *task, __s32 fd)
{
	struct files_struct *files = task->files;
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

static __always_inline void look_at(struct object *out, struct task_struct *task, __s32 fd)
{
	struct file *found = file_of(task, fd), *file;
	struct super_block *super;
	struct inode *inode;

	out->fd = fd;
	if (!found)
		return;
	file = TYPED(struct file, found);
	out->id = ((__u64)found ^ scramble) * 0x9e3779b97f4a7c15ULL;
	out->position = FIELD(file, f_pos);
	out->flags = FIELD(file, f_flags);
	out->file_mode = FIELD(file, f_mode);
	inode = FIELD(file, f_inode);
	if (!inode)
		return;
	out->inode = FIELD(inode, i_ino);
	out->size = FIELD(inode, i_size);
	out->generation = FIELD(inode, i_generation);
	out->mode = FIELD(inode, i_mode);
	out->links = FIELD(inode, i_nlink);
	super = FIELD(inode, i_sb);
	if (super)
		out->device = user_device(FIELD(super, s_dev));
}

static __always_inline void look_at_source(struct thread *t, struct object *out, struct task_struct *task, __u8 source)
{
	__u32 arg = source & 15;
	__s32 fd = -1;

	if (source == OBJECT_NONE && !out->id && out->fd == -1)
		return;
	__builtin_memset(out, 0, sizeof(*out));
	out->fd = -1;
	if (source == OBJECT_NONE)
		return;
	if (source == OBJECT_RESULT) {
		if (t->result < 0)
			return;
		fd = t->result;
	} else if (source >= OBJECT_PAIR) {
		if (t->result < 0 || arg > 5)
			return;
		if (bpf_probe_read_user(&fd, sizeof(fd), (void *)(t->args[arg] + (source >= OBJECT_PAIR_2 ? 4 : 0))))
			return;
	} else if (arg - 1 < 6) {
		fd = t->args[arg - 1];
	}
	look_at(out, task, fd);
}

static __always_inline void look_at_objects(struct thread *t, struct row *row, struct task_struct *task)
{
	look_at_source(t, &t->objects[0], task, row->objects[0]);
	look_at_source(t, &t->objects[1], task, row->objects[1]);
}

#endif
