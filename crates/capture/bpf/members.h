/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes are recorded, for whoever asks: their numbers, one after the other.
 *
 * Goals: exact whatever the scope is, and whoever the parents are by now; no cost to the recorded program. Non-goals:
 * threads, and processes of whose first thread nothing but an entry in its parent's table is left.
 */
#ifndef REPRISE_MEMBERS_H
#define REPRISE_MEMBERS_H

#include "state.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

#define PF_EXITING 4

SEC("iter/task")
int members(struct bpf_iter__task *context)
{
	struct seq_file *seq = context->meta->seq;
	struct task_struct *task = context->task;
	__s32 pid;

	if (!task || task->pid != task->tgid || task->flags & PF_EXITING)
		return 0;
	if (!bpf_task_storage_get(&threads, task, 0, 0))
		return 0;
	pid = task->tgid;
	bpf_seq_write(seq, &pid, sizeof(pid));
	return 0;
}

#endif
