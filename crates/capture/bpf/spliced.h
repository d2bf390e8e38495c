/* SPDX-License-Identifier: Apache-2.0 */
/* Content that splice moves between a file and a pipe: no memory of the program holds it, and of what a pipe passes on
 * nobody could tell later where it came from.
 *
 * Goals: the bytes as the page cache has them when the call is over. Non-goals: between files, where they still stand
 * when the program has ended.
 */
#ifndef REPRISE_SPLICED_H
#define REPRISE_SPLICED_H

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

/* Keeps what a splice moved, before the record of the call. */
__noinline int keep_spliced(struct thread *t)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct watch *w = watch();
	struct cpu *cpu = this_cpu();
	struct moved moved = {};

	if (!t || !cpu || !w->offset)
		return 0;
	if (!moved_in(&moved, file_of(task, t->args[0]), given_position(t->args[1], t->result), t->result) &&
	    !moved_in(&moved, file_of(task, t->args[2]), given_position(t->args[3], t->result), t->result))
		return 0;
	moved.memory = w->offset;
	if (!occupy(cpu))
		return 0;
	keep_moved(t, cpu, &moved);
	leave(cpu);
	return 0;
}

#endif
