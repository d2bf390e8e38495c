// SPDX-License-Identifier: Apache-2.0
/* The programs: what happens at the entry and exit of a call, and when threads begin and end.
 *
 * Goals: every call of a thread in scope becomes a record with the memory that its row names, at the cost of little
 * more than the copy; what is not recorded is counted. Non-goals: knowing what calls mean (the rows come from user
 * space).
 */
#include "members.h"
#include "objects.h"
#include "passed.h"
#include "program.h"
#include "records.h"
#include "scope.h"
#include "requests.h"
#include "simple.h"
#include "tasks.h"
#include "faults.h"
#include "begun.h"

char LICENSE[] SEC("license") = "GPL";

/* Makes the record that was begun, here or later. */
static __always_inline void make(struct thread *t, struct row *row, struct task_struct *task)
{
	struct cpu *cpu = this_cpu();
	int verdict = VERDICT_NO_ROOM;

	if (!cpu)
		return;
	if (occupy(cpu)) {
		may_linger(cpu, !t->entry);
		verdict = write_all(t, row, cpu, t->entry, t->entry ? STEPS_MOST : STEPS_MORE);
		may_linger(cpu, 0);
		if (verdict != VERDICT_DONE && (t->entry || !defer(t, task, verdict)))
			drop(cpu, t->entry ? LACK_ROOM : lack_of_wait());
		leave(cpu);
	} else if (t->entry || !defer(t, task, VERDICT_NO_ROOM)) {
		__sync_fetch_and_add(&control()->nested, 1);
	}
}

/* What is kept at the entry of a call. */
static __always_inline void make_entry(struct thread *t, struct row *row, struct task_struct *task)
{
	t->accept = 1;
	begin_record(t, row, 1);
	make(t, row, task);
	t->unread = row->flags & ROW_EXECUTE && t->lacking + t->lost;
}

/* What a program is run with (a text that nobody has touched since `fork`) the kernel has brought into memory meanwhile. */
static __always_inline void read_again(struct thread *t, struct task_struct *task)
{
	make_entry(t, row_of_record(t->nr, t->flags), task);
	t->unread = 0;
}

/* The recording is over, or has no room left for ever: the call is counted. */
static __always_inline int pass_by(void)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		cpu->passed++;
	return 0;
}

static __always_inline void take_arguments(struct thread *t, struct pt_regs *regs)
{
	t->args[0] = regs->di;
	t->args[1] = regs->si;
	t->args[2] = regs->dx;
	t->args[3] = regs->r10;
	t->args[4] = regs->r8;
	t->args[5] = regs->r9;
}

/* A thread that the scheduler has not charged with anything yet used nothing; 0 would say that it is unknown. */
static __always_inline __u64 used_ns(struct task_struct *task)
{
	return task->se.sum_exec_runtime ?: 1;
}

/* At the entry of a call of a thread of which nothing else is to be known; 0: it goes the long way. */
static __always_inline int enter_quick(struct quick *q, struct task_struct *task, struct pt_regs *regs, __u32 nr)
{
	struct control *c = control();
	int narrow;
	struct row *row = row_of_call(task, nr, &narrow);

	if (!(row->flags & ROW_RECORDED))
		return 1;
	if (c->stopped) {
		pass_by();
		return 1;
	}
	if (!(row->flags & ROW_SIMPLE) || is_followed(row, task, regs->di))
		return 0;
	q->begin_ns = bpf_ktime_get_ns();
	q->cpu_ns = used_ns(task);
	q->nr = nr;
	q->flags = narrow ? RECORD_NARROW : 0;
	q->call++;
	q->inside = 1;
	if (c->known && reads_passage(row, regs->dx))
		bring_line(task, regs->di, register_of(regs, row->offset - 1), regs->dx);
	return 1;
}

static __noinline int enter_slowly(__u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)ctx[0];
	struct quick *q = quick_of(task);
	struct control *c;
	struct thread *t;
	struct row *row;
	__u32 nr = ctx[1];
	int narrow;

	t = bpf_task_storage_get(&threads, task, 0, 0);
	if (!t)
		return 0;
	if (q)
		q->inside = q->plain = 0;
	else if (!t->quick)
		take_place(t, task);
	t->inside = 0;
	if (t->pending) {
		struct cpu *cpu = this_cpu();

		if (cpu)
			abandon(t, cpu, LACK_GIVEN_UP);
	}
	c = control();
	row = row_of_call(task, nr, &narrow);
	if (!(row->flags & ROW_RECORDED) || (t->launching && !(row->flags & ROW_EXECUTE)))
		return 0;
	if (c->stopped)
		return pass_by();
	t->begin_ns = bpf_ktime_get_ns();
	t->cpu_ns = used_ns(task);
	t->nr = nr;
	t->flags = narrow ? RECORD_NARROW : 0;
	count_call(t);
	t->inside = 1;
	t->looking = t->unread = t->unlooked = 0;
	t->aside = 0;
	take_arguments(t, regs);
	if (is_followed(row, task, regs->di))
		before_call(t, row);
	if (row->flags & ROW_ENDS)
		look_at_objects(t, row, task);
	if (row->flags & ROW_ENTER)
		make_entry(t, row, task);
	return 0;
}

TRACEPOINT(sys_enter, on_enter)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)ctx[0];
	struct quick *q = quick_of(task);
	__u32 nr = ctx[1];

	if (q && q->plain) {
		q->inside = 0;
		if (enter_quick(q, task, regs, nr))
			return 0;
	}
	return enter_slowly(ctx);
}

/* At the exit of a simple call; 0: its record is made the long way. */
static BESIDE_OTHERS int exit_quick(struct quick *q, struct task_struct *task, struct pt_regs *regs, __s64 result)
{
	struct row *row = row_of_record(q->nr, q->flags);
	struct cpu *cpu = this_cpu();
	__u64 end_ns = bpf_ktime_get_ns();
	struct control *c = control();
	int made;

	if (!cpu || !cpu->segment || is_followed(row, task, regs->di) || !occupy(cpu))
		return 0;
	made = write_simple(q, row, cpu, task, regs, result, end_ns);
	leave(cpu);
	if (!made)
		return 0;
	q->inside = 0;
	if (c->block && c->free < c->low) {
		struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);

		if (t)
			throttle(t, task);
	}
	return 1;
}

static __noinline int exit_slowly(__u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)ctx[0];
	struct thread *t;
	struct row *row;
	int caught_up = 0;

	t = bpf_task_storage_get(&threads, task, 0, 0);
	if (!t)
		return 0;
	settle(t);
	if (!t->inside)
		return 0;
	if (t->inside == INSIDE_LOADING) {
		end_loading(t);
	} else if (t->inside == INSIDE_UNKNOWN) {
		t->inside = catch_up(t, task, regs, ctx[1]);
		if (!t->inside)
			return 0;
		caught_up = t->unlooked = 1;
	}
	t->inside = 0;
	row = row_of_record(t->nr, t->flags);
	/* Of others they were taken at the entry: after `execve` they are another program's. */
	if (caught_up || row->flags & ROW_SIMPLE)
		take_arguments(t, regs);
	t->end_ns = bpf_ktime_get_ns();
	t->result = ctx[1];
	if (!(row->flags & ROW_ENDS))
		look_at_objects(t, row, task);
	after_call(t, row, task);
	/* Else it is another program's memory by now. */
	if (t->unread && failed(t->result))
		read_again(t, task);
	t->accept = !CAN_WAIT || failed(t->result);
	begin_record(t, row, 0);
	if (row->flags & ROW_MOVES && t->result > 0)
		keep_passed(t);
	make(t, row, task);
	throttle(t, task);
	at_ease(t);
	return 0;
}

TRACEPOINT(sys_exit, on_exit)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)ctx[0];
	struct quick *q = quick_of(task);

	if (q && (q->inside ? exit_quick(q, task, regs, ctx[1]) : q->plain))
		return 0;
	return exit_slowly(ctx);
}

/* A thread was made; `wide`: it may come into the scope from outside. */
static __always_inline int new_task(__u64 *ctx, int wide)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct thread *parent = bpf_task_storage_get(&threads, current, 0, 0), *t;
	struct control *c = control();
	struct cpu *cpu = this_cpu();

	if (!cpu || task->flags & (PF_IO_WORKER | PF_USER_WORKER))
		return 0;
	if (parent ? parent->launching : !wide || !is_wanted_child(current, task))
		return 0;
	t = take_in(task);
	if (!t)
		return 0;
	/* Made in the scope by one who is not: nothing is known of what it has from its maker. */
	if (wide && !parent && !is_wanted(current)) {
		arrive(t, task);
		return 0;
	}
	if (!(ctx[1] & CLONE_THREAD) && !inherit_ranges(current->tgid, task->tgid))
		drop(cpu, LACK_MEMORY);
	t->lodges = ctx[1] & CLONE_THREAD ? parent && parent->lodges : !!(ctx[1] & CLONE_VM);
	if (c->stopped)
		return 0;
	if (!occupy(cpu)) {
		__sync_fetch_and_add(&c->nested, 1);
		return 0;
	}
	write_task(cpu, task, ctx[1]);
	leave(cpu);
	return 0;
}

TRACEPOINT(task_newtask, on_new_task)
{
	return new_task(ctx, 1);
}

/* In its place where nobody comes from outside: much less for the kernel to look through before it takes the program. */
TRACEPOINT(task_newtask, on_new_child)
{
	return new_task(ctx, 0);
}

/* The last moment at which what the caller named stands where it did. */
TRACEPOINT(sched_prepare_exec, on_prepare_exec)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);

	if (t && t->inside && t->unread)
		read_again(t, task);
	return 0;
}

TRACEPOINT(sched_process_exec, on_exec)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);
	struct control *c = control();
	struct cpu *cpu = this_cpu();

	if (!t || !cpu)
		return 0;
	t->launching = t->lodges = 0;
	/* Its number may be another one now. */
	leave_place(t);
	if (!occupy(cpu)) {
		__sync_fetch_and_add(&c->nested, 1);
		return 0;
	}
	write_exec(cpu, task, ctx[1]);
	leave(cpu);
	return 0;
}

/* Locks of a process, and of open files by range. */
TRACEPOINT(locks_remove_posix, on_ranges_unlocked)
{
	return unlocked();
}

/* Those of whole open files. */
TRACEPOINT(flock_lock_inode, on_whole_unlocked)
{
	return unlocked();
}

TRACEPOINT(sched_process_exit, on_end)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);
	struct control *c = control();
	struct cpu *cpu = this_cpu();
	int waits = 0;

	if (!t || !cpu)
		return 0;
	settle(t);
	leave_place(t);
	if (occupy(cpu)) {
		forget(t, cpu);
		waits = end_of_space(t, cpu) && defer_end(t, task);
		if (!waits) {
			if (t->looking)
				end_at_once(t, cpu);
			write_end(cpu, task);
		}
		leave(cpu);
	} else {
		__sync_fetch_and_add(&c->nested, 1);
	}
	if (!waits)
		one_task_less(c);
	return 0;
}
