/* SPDX-License-Identifier: Apache-2.0 */
/* Threads and processes: how they begin, become another program, and end. */
#ifndef REPRISE_TASKS_H
#define REPRISE_TASKS_H

#include "transport.h"

static __always_inline void fill_identity(struct identity *out, struct task_struct *task)
{
	const struct cred *cred = task->cred;

	if (!cred) {
		__builtin_memset(out, 0, sizeof(*out));
		return;
	}
	out->uid = cred->uid.val;
	out->euid = cred->euid.val;
	out->suid = cred->suid.val;
	out->fsuid = cred->fsuid.val;
	out->gid = cred->gid.val;
	out->egid = cred->egid.val;
	out->sgid = cred->sgid.val;
	out->fsgid = cred->fsgid.val;
}

/* Room for a small record that cannot wait; 0 if it is dropped. */
static __always_inline void *open_small(struct cpu *cpu, __u32 bytes)
{
	if (make_room(cpu, bytes, 1))
		return place(cpu->segment, cpu->used);
	drop(cpu, LACK_ROOM);
	return 0;
}

static __always_inline void close_small(struct cpu *cpu, struct record_head *record, __u32 bytes, __u32 kind)
{
	commit(cpu, record, cpu->used + bytes, kind, bpf_ktime_get_ns());
}

/* The descriptors of a new process are a copy of its maker's, of a moment when other threads may open and close some. */
static __always_inline void tell_open(struct task_body *body, struct task_struct *task)
{
	struct files_struct *files = task->files;
	struct fdtable *table = files ? files->fdt : 0;
	__u32 words;

	__builtin_memset(body->open, 0, sizeof(body->open));
	body->open_words = 0;
	if (body->clone_flags & CLONE_FILES || !table)
		return;
	/* A small table has one word, or two. */
	words = table->max_fds >= 256 ? OPEN_WORDS : table->max_fds >= 128 ? 2 : 1;
	CHECKED(words);
	if (words <= OPEN_WORDS && !bpf_probe_read_kernel(body->open, words * 8, table->open_fds))
		body->open_words = words;
}

static __always_inline void write_task(struct cpu *cpu, struct task_struct *task, __u64 clone_flags)
{
	const __u32 bytes = sizeof(struct record_head) + sizeof(struct task_body);
	struct record_head *record = open_small(cpu, bytes);
	struct fs_struct *fs = task->fs;
	struct task_body *body;

	if (!record)
		return;
	body = (struct task_body *)(record + 1);
	close_small(cpu, record, bytes, RECORD_TASK);
	body->parent_tid = record->tid;
	body->parent_pid = record->pid;
	record->tid = task->pid;
	record->pid = task->tgid;
	body->clone_flags = clone_flags;
	fill_identity(&body->identity, task);
	body->umask = fs ? fs->umask : 0;
	tell_open(body, task);
	bpf_probe_read_kernel(body->comm, sizeof(body->comm), &task->comm);
}

static __always_inline void write_exec(struct cpu *cpu, struct task_struct *task, __u32 old_tid)
{
	const __u32 bytes = sizeof(struct record_head) + sizeof(struct exec_body);
	struct record_head *record = open_small(cpu, bytes);
	struct exec_body *body;

	if (!record)
		return;
	body = (struct exec_body *)(record + 1);
	body->old_tid = old_tid;
	body->reserved = 0;
	fill_identity(&body->identity, task);
	bpf_probe_read_kernel(body->comm, sizeof(body->comm), &task->comm);
	close_small(cpu, record, bytes, RECORD_EXEC);
}

static __always_inline void write_end(struct cpu *cpu, struct task_struct *task)
{
	const __u32 bytes = sizeof(struct record_head) + sizeof(struct end_body);
	struct record_head *record = open_small(cpu, bytes);
	struct signal_struct *signal = task->signal;
	struct end_body *body;

	if (!record)
		return;
	body = (struct end_body *)(record + 1);
	body->exit_code = task->exit_code;
	body->last = signal ? signal->live.counter == 0 : 0;
	close_small(cpu, record, bytes, RECORD_END);
}

/* More threads than that are not gone through. */
#define MOST_LEFT 64

struct left {
	struct list_head *head, *at;
	__u32 all_gone;
};

static long look_for_life(__u64 i, struct left *l)
{
	struct list_head *at = l->at;
	struct task_struct *task = (void *)((char *)at - bpf_core_field_offset(struct task_struct, thread_node));

	if (at == l->head) {
		l->all_gone = 1;
		return 1;
	}
	if (!(BPF_CORE_READ(task, flags) & (PF_EXITING | PF_IO_WORKER | PF_USER_WORKER)))
		return 1;
	l->at = BPF_CORE_READ(at, next);
	return 0;
}

LOOPED(look_for_life, struct left)

/* Whether of the process of a thread that ends none is left but those that work for the kernel: who polls a ring may end last. */
static __noinline int leaves_none(void)
{
	struct signal_struct *signal = bpf_get_current_task_btf()->signal;
	struct list_head *head;
	struct left l = {};

	if (!signal || !signal->live.counter)
		return 1;
	head = (void *)((char *)signal + bpf_core_field_offset(struct signal_struct, thread_head));
	l.head = head;
	l.at = BPF_CORE_READ(head, next);
	loop(MOST_LEFT, look_for_life, &l);
	return l.all_gone;
}

/* A process gives its locks back when its files are closed, which is after its memory is freed: long after its end was told, if
 * that is much. Who asks meanwhile is refused. */
static __noinline int unlocked(void)
{
	const __u32 bytes = sizeof(struct record_head);
	struct task_struct *task = bpf_get_current_task_btf();
	struct control *c = control();
	struct record_head *record;
	struct cpu *cpu;

	if (!(task->flags & PF_EXITING) || !bpf_task_storage_get(&threads, task, 0, 0))
		return 0;
	cpu = this_cpu();
	if (!cpu || c->stopped)
		return 0;
	if (!occupy(cpu)) {
		__sync_fetch_and_add(&c->nested, 1);
		return 0;
	}
	record = open_small(cpu, bytes);
	if (record)
		close_small(cpu, record, bytes, RECORD_UNLOCKED);
	leave(cpu);
	return 0;
}

#endif
