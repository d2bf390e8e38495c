/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes are recorded, for whoever asks: their numbers, one after the other.
 *
 * Goals: exact whatever the scope is, and whoever the parents are by now; no cost to the recorded program. Non-goals:
 * threads, and processes of whose first thread nothing but an entry in its parent's table is left.
 */
#ifndef REPRISE_MEMBERS_H
#define REPRISE_MEMBERS_H

#include "scope.h"

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
