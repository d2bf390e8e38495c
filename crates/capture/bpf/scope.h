/* SPDX-License-Identifier: Apache-2.0 */
/* Which threads are recorded when no command is: those of processes, of a control group, or all.
 *
 * Goals: no thread slips through between the ones that are there and the ones that they make: new threads are asked for
 * first, then all that are there are walked over. A call that a thread was in by then is recorded when it ends.
 * Non-goals: what these threads have open (user space looks).
 *
 * Who is in the scope once stays in it to its end, and so does what it starts.
 */
#ifndef REPRISE_SCOPE_H
#define REPRISE_SCOPE_H

#include "loop.h"
#include "objects.h"
#include "program.h"
#include "quick.h"
#include "waiting.h"

enum scope_kind {
	SCOPE_COMMAND = 0, /* user space seeds its only thread */
	SCOPE_PROCESSES = 1,
	SCOPE_CGROUP = 2,
	SCOPE_SYSTEM = 3,
};

/* A group with a longer path is not known again. */
#define GROUP_PATH 256

struct scope {
	__u32 kind;
	__u32 recorder;        /* its process; never in the scope */
	__u64 cgroup;          /* its number (that of its directory) */
	char path[GROUP_PATH]; /* in its hierarchy, to its NUL; empty: not to be known again */
};

/* A thread in the scope, as the walk tells. */
struct member {
	__u32 tid;
	__u32 pid;
	__u32 arrival; /* not 0: it came from outside, and may not have been looked at */
	__u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scope);
} scopes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32); /* process */
	__type(value, __u32);
} wanted SEC(".maps");

struct kernfs_node {
	__u64 id;
} __attribute__((preserve_access_index));

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup_subsys_state *parent;
} __attribute__((preserve_access_index));

struct cgroup_root {
	int hierarchy_id;
} __attribute__((preserve_access_index));

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
	struct cgroup_root *root;
} __attribute__((preserve_access_index));

struct css_set {
	struct cgroup *dfl_cgrp;
} __attribute__((preserve_access_index));

/* As far as the task of a kernel with control groups goes; another name, so that those without are no error. */
struct task_struct___grouped {
	struct css_set *cgroups;
} __attribute__((preserve_access_index));

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
} __attribute__((preserve_access_index));

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} __attribute__((preserve_access_index));

#define DEEPEST_GROUP 64
/* `inside` of a thread that was there before: it may be in a call whose entry nobody saw. */
#define INSIDE_UNKNOWN 2
#define CALL_CLONE 56
#define CALL_FORK 57
#define CALL_VFORK 58
#define CALL_CLONE3 435

struct ascent {
	struct cgroup_subsys_state *at;
	__u64 wanted;
	__u32 found;
};

static long ascend(__u64 i, struct ascent *a)
{
	struct cgroup_subsys_state *at = a->at;
	struct cgroup *group = (struct cgroup *)((char *)at - bpf_core_field_offset(struct cgroup, self));

	if (!at)
		return 1;
	if (BPF_CORE_READ(group, kn, id) == a->wanted) {
		a->found = 1;
		return 1;
	}
	a->at = BPF_CORE_READ(at, parent);
	return 0;
}

LOOPED(ascend, struct ascent)

/* Whether a group is one of this number, or lies below it. */
static __always_inline int is_within(struct cgroup *group, __u64 wanted_group)
{
	struct ascent a = { .wanted = wanted_group };

	a.at = (struct cgroup_subsys_state *)((char *)group + bpf_core_field_offset(struct cgroup, self));
	loop(DEEPEST_GROUP, ascend, &a);
	return a.found;
}

static __always_inline int in_group(struct task_struct *task, __u64 wanted_group)
{
	struct task_struct___grouped *grouped = (void *)task;
	struct cgroup *group;

	if (!bpf_core_field_exists(grouped->cgroups))
		return 0;
	group = BPF_CORE_READ(grouped, cgroups, dfl_cgrp);
	return group && is_within(group, wanted_group);
}

/* Whether a thread is in the scope by itself, whoever made it. */
static __always_inline int is_wanted(struct task_struct *task)
{
	__u32 zero = 0, pid = task->tgid;
	struct scope *scope = bpf_map_lookup_elem(&scopes, &zero);

	if (!scope || pid == scope->recorder || task->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER))
		return 0;
	switch (scope->kind) {
	case SCOPE_PROCESSES:
		return bpf_map_lookup_elem(&wanted, &pid) != 0;
	case SCOPE_CGROUP:
		return in_group(task, scope->cgroup);
	case SCOPE_SYSTEM:
		return 1;
	}
	return 0;
}

/* Whether a new thread is in the scope though the one that made it is not, or not yet. */
static __always_inline int is_wanted_child(struct task_struct *maker, struct task_struct *task)
{
	__u32 zero = 0;
	struct scope *scope = bpf_map_lookup_elem(&scopes, &zero);

	if (!scope || scope->kind == SCOPE_COMMAND || maker->tgid == scope->recorder)
		return 0;
	return is_wanted(task) || is_wanted(maker);
}

/* A thread that came in from outside is recorded from now on, and waits where it can. Where it cannot, the walk takes it in,
 * so that what is found of it is not much older than what it does. */
static __always_inline void arrive(struct thread *t, struct task_struct *task)
{
	struct notice notice = { .kind = NOTICE_ARRIVED };
	struct control *c = control();

	notice.segment = __sync_fetch_and_add(&c->arrivals, 1) + 1;
	if (t) {
		t->arrival = notice.segment;
		t->begin_ns = bpf_ktime_get_ns();
		wait_to_be_looked_at(t, task);
	}
	bpf_ringbuf_output(&arrived, &notice, sizeof(notice), 0);
}

/* Takes a thread into the scope; 0 if it cannot be followed. */
static __always_inline struct thread *take_in(struct task_struct *task)
{
	struct thread *t = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct control *c = control();

	if (!t) {
		__sync_fetch_and_add(&c->lost_tasks, 1);
		return 0;
	}
	t->serial = __sync_fetch_and_add(&c->serials, 1);
	__sync_fetch_and_add(&c->tasks, 1);
	return t;
}

/* Once for every thread there is: takes those into the scope that belong there, and tells who is in it. */
SEC("iter/task")
int on_walk(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct member member = {};
	__u32 found = 0;
	struct thread *t;

	if (!task)
		return 0;
	t = bpf_task_storage_get(&threads, task, 0, 0);
	if (!t) {
		if (task->flags & PF_EXITING || !is_wanted(task))
			return 0;
		t = take_in(task);
		if (!t)
			return 0;
		t->begin_ns = bpf_ktime_get_ns();
		t->inside = INSIDE_UNKNOWN;
		found = 1;
	} else if (task->flags & PF_EXITING) {
		return 0;
	}
	member.tid = task->pid;
	member.pid = task->tgid;
	member.arrival = t->arrival | found;
	bpf_seq_write(ctx->meta->seq, &member, sizeof(member));
	return 0;
}

/* The hierarchy of version 2. Groups of others may have the same numbers. */
static __always_inline int is_unified(struct cgroup *group)
{
	return BPF_CORE_READ(group, root, hierarchy_id) == 0;
}

struct comparison {
	struct scope *scope;
	const char *path;
	__u32 same;
};

static long compare(__u64 i, struct comparison *c)
{
	char byte;

	if (i >= GROUP_PATH || bpf_probe_read_kernel(&byte, 1, c->path + i) || c->scope->path[i & (GROUP_PATH - 1)] != byte)
		return 1;
	c->same = !byte;
	return !byte;
}

LOOPED(compare, struct comparison)

/* A group was made: it may be the one that is recorded, once more. A service that starts again has a new one of the same name. */
TRACEPOINT(cgroup_mkdir, on_made_group)
{
	struct cgroup *group = (struct cgroup *)ctx[0];
	struct comparison c = { .path = (const char *)ctx[1] };
	__u32 zero = 0;

	c.scope = bpf_map_lookup_elem(&scopes, &zero);
	if (!c.scope || c.scope->kind != SCOPE_CGROUP || !c.scope->path[0] || !is_unified(group))
		return 0;
	loop(GROUP_PATH, compare, &c);
	if (c.same)
		c.scope->cgroup = BPF_CORE_READ(group, kn, id);
	return 0;
}

/* A thread, or with it all of its process, moved to another group. A call that moves its own thread is no part of the recording;
 * the other threads of its process are found by a walk. */
TRACEPOINT(cgroup_attach_task, on_move)
{
	struct cgroup *to = (struct cgroup *)ctx[0];
	struct task_struct *task = (struct task_struct *)ctx[2];
	__u32 zero = 0;
	struct scope *scope = bpf_map_lookup_elem(&scopes, &zero);
	struct thread *t = 0;

	if (!scope || !to || scope->kind != SCOPE_CGROUP || task->tgid == scope->recorder || !is_unified(to))
		return 0;
	if (!is_within(to, scope->cgroup) || bpf_task_storage_get(&threads, task, 0, 0))
		return 0;
	if (CAN_WAIT) {
		t = take_in(task);
		if (t && task != bpf_get_current_task_btf())
			t->inside = INSIDE_UNKNOWN;
	}
	arrive(t, task);
	return 0;
}

/* The end of a call whose entry nobody saw: what the thread entered the kernel with is still in its registers. 0 if it is
 * none that is recorded. */
static __always_inline int catch_up(struct thread *t, struct task_struct *task, struct pt_regs *regs, __s64 result)
{
	__u32 nr = regs->orig_ax;
	int narrow;
	struct row *row = row_of_call(task, nr, &narrow);

	if (!(row->flags & ROW_RECORDED) || row->flags & ROW_EXECUTE)
		return 0;
	/* A new thread comes to life here too. */
	if (!result && (nr == CALL_CLONE || nr == CALL_FORK || nr == CALL_VFORK || nr == CALL_CLONE3))
		return 0;
	t->nr = nr;
	t->flags = narrow ? RECORD_NARROW : 0;
	t->found = 0;
	t->cpu_ns = 0;
	count_call(t);
	return 1;
}

#endif
