/* SPDX-License-Identifier: Apache-2.0 */
/* Where a thread stands that makes one simple call after the other: found by its number, not in the storage of its task.
 *
 * Goals: such a call looks at one line of the caches here, and nowhere else at its thread. Whatever else is to be known of
 * the thread (it waits, is looked at, loads) stands in `struct thread`, and ends that: `settle`. Non-goals: threads whose place
 * another one has; their calls go the long way.
 */
#ifndef REPRISE_QUICK_H
#define REPRISE_QUICK_H

#include "state.h"

#define QUICKS 32768

struct quick {
	__u64 task;     /* whose it is; 0: nobody's */
	__u64 begin_ns;
	__u64 cpu_ns;
	__u64 call;     /* number of the thread's last call */
	__u32 nr;
	__u16 flags;    /* of its record */
	__u8 inside;    /* in a call that is told here, not in its `struct thread` */
	__u8 plain;     /* its `struct thread` says nothing that a simple call has to know */
	__u64 reserved[3];
};

struct quick quicks[QUICKS] SEC(".bss.quicks");

/* The place of a thread, if it has its own. */
static __always_inline struct quick *quick_of(struct task_struct *task)
{
	struct quick *q = &quicks[(__u32)task->pid % QUICKS];

	if (q->task != (__u64)task)
		q = 0;
	/* Else the compiler asks for the task again, which says nothing to the verifier. */
	CHECKED(q);
	return q;
}

static __always_inline struct quick *quick_place(struct thread *t)
{
	return t->quick ? &quicks[(t->quick - 1) % QUICKS] : 0;
}

/* Gives a thread a place, if its is free. */
static __always_inline void take_place(struct thread *t, struct task_struct *task)
{
	__u32 at = (__u32)task->pid % QUICKS;
	struct quick *q = &quicks[at];

	if (__sync_val_compare_and_swap(&q->task, 0, (__u64)task))
		return;
	q->call = t->call;
	q->inside = q->plain = 0;
	t->quick = at + 1;
}

/* The thread ends, or gets another number. */
static __always_inline void leave_place(struct thread *t)
{
	struct quick *q = quick_place(t);

	if (!q)
		return;
	t->call = q->call;
	t->quick = 0;
	q->inside = q->plain = 0;
	barrier();
	q->task = 0;
}

/* All that is known of a thread stands in its `struct thread` from now on. */
static __always_inline void settle(struct thread *t)
{
	struct quick *q = quick_place(t);

	if (!q)
		return;
	q->plain = 0;
	if (!q->inside)
		return;
	q->inside = 0;
	t->begin_ns = q->begin_ns;
	t->cpu_ns = q->cpu_ns;
	t->call = q->call;
	t->nr = q->nr;
	t->flags = q->flags;
	t->looking = 0;
	t->inside = 1;
}

/* The next call of a thread gets its number. */
static __always_inline void count_call(struct thread *t)
{
	struct quick *q = quick_place(t);

	if (q)
		t->call = ++q->call;
	else
		t->call++;
}

/* Its next call may go the short way, unless something is to be known of it. */
static __always_inline void at_ease(struct thread *t)
{
	struct quick *q = quick_place(t);

	if (q)
		q->plain = !t->inside && !t->pending && !t->looking && !t->launching && !t->load.waits;
}

#endif
