/* SPDX-License-Identifier: Apache-2.0 */
/* Content that calls move inside the kernel: no memory of the program holds it. What goes through a pipe nobody could tell later,
 * and of what a device gave nobody knows anything but the file that it went to.
 *
 * Goals: the bytes as the page cache has them when the call is over; also what came from a file that is not in the page cache, since
 * the kernel makes it up (`/proc`). Non-goals: from file to file, where they still stand when the program has ended (unless the first has no
 * name), and very much at once, which would take all room.
 */
#ifndef REPRISE_PASSED_H
#define REPRISE_PASSED_H

#include "mapped.h"
#include "moved.h"

/* The position that a call was given in memory, and has moved on. */
static __always_inline __u64 given_position(__u64 cell, __s64 moved)
{
	__u64 position = 0;

	if (!cell || bpf_probe_read_user(&position, sizeof(position), (void *)cell))
		return -1;
	return position - moved;
}

/* Where content stands that a call moved, if that side of it is a regular file; else its `file` stays 0. */
static __always_inline void stands_in(struct moved *out, struct task_struct *task, struct thread *t, struct row_end *end)
{
	__u64 cell = end->cell ? argument(t, end->cell - 1) : 0;

	moved_in(out, file_of(task, argument(t, end->fd)), given_position(cell, t->result), t->result);
}

/* Whether the page cache has anything of a file. Of what the kernel shows (`/proc`) it never has. */
static __always_inline int is_cached(__u64 file)
{
	struct address_space *pages = (struct address_space *)pages_behind(file);

	return BPF_CORE_READ(pages, nrpages) != 0;
}

/* Whether a file has no name: `memfd`, `O_TMPFILE`, removed. */
static __always_inline int is_nameless(__u64 file)
{
	struct file___moved *of = (struct file___moved *)file;

	return !BPF_CORE_READ(of, f_inode, i_nlink);
}

/* More than this is read from the file that it came from, when the program has ended. */
#define PASSED_MOST (16 << 20)

/* Where to look for what a call moved that goes through no pipe; 0: it stands in a file that can be looked at later. */
static __always_inline int stands_beside(struct moved *source, struct moved *target, struct thread *t, struct row *row)
{
	int few = t->result <= PASSED_MOST;

	/* A replay cannot open a file without a name once more, and writes what was kept. Its holes are in no page cache. */
	if (source->file && target->file && is_nameless(source->file)) {
		if (is_cached(target->file))
			*source = *target;
		return few;
	}
	/* `copy_file_range`: it stands in files on both sides. */
	if (row->target.cell)
		return 0;
	if (source->file && is_cached(source->file))
		return few && !target->file;
	*source = *target;
	return 1;
}

/* Keeps what a call moved, before its record. */
__noinline int keep_passed(struct thread *t)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct watch *w = watch();
	struct cpu *cpu = this_cpu();
	struct moved moved = {}, target = {};
	struct row *row;

	if (!t || !cpu || !w->offset)
		return 0;
	row = row_of_record(t->nr, t->flags);
	stands_in(&moved, task, t, &row->source);
	stands_in(&target, task, t, &row->target);
	if (!(row->flags & ROW_PIPES)) {
		if (!stands_beside(&moved, &target, t, row))
			return 0;
	} else if (!moved.file) {
		moved = target;
	}
	if (!moved.file)
		return 0;
	moved.memory = w->offset;
	if (!occupy(cpu))
		return 0;
	keep_moved(t, cpu, &moved);
	leave(cpu);
	return 0;
}

#endif
