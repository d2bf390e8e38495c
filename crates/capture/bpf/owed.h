/* SPDX-License-Identifier: Apache-2.0 */
/* What requests moved that found no room when they were complete: kept later, by the thread that completed them, before it goes on.
 *
 * Who completes a request holds its ring, and cannot wait. So the completion is told at once, without the memory that belongs to it, and
 * that follows in a record of its own: on the way back to the program, or, by a thread of the kernel's own, before it takes the next
 * request. Such threads are slowed down as those of the program are, which are not let go on meanwhile. Goals: as much may be complete at once as there likes to be, and
 * nothing is lost. Non-goals: content whose completion the program has taken by then, since it may use that memory again; kernels
 * without task work, where such requests go without.
 */
#ifndef REPRISE_OWED_H
#define REPRISE_OWED_H

#include "flights.h"
#include "waiting.h"

#ifndef WITH_TASK_WORK

static __always_inline int owe(struct making *m)
{
	return 0;
}

static __always_inline void slow_down(void)
{
}

static __always_inline void forget_debts(struct task_struct *task)
{
}

#else

/* A request whose memory is owed. */
struct owed {
	__u64 request;
	__u64 ring;
	__u64 mark;
	__u64 vector; /* where that is kept; 0: nowhere */
	__s64 result;
	__u64 args[6];
	__u32 opcode; /* whose row says what is owed */
	__u32 place;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MOST_FLIGHTS);
	__type(key, __u64); /* of the debtor and which of its debts, `debt` */
	__type(value, struct owed);
} debts SEC(".maps");

/* A thread that completed requests when there was no room, or little. */
struct debtor {
	__u64 serial;     /* as that of a thread in scope; 0: it has none yet */
	__u64 waiting_ns; /* since when it waits for room */
	__u32 wakes;
	__u32 first;      /* debt */
	__u32 next;       /* after the last */
	__u32 opcode;     /* of the first, while `begun` */
	__u8 begun;       /* its record is being made */
	__u8 scheduled;
	__u8 is_kernels;  /* it is a thread of the kernel's own: the program may go on meanwhile */
	__u8 reserved[5];
	struct making making;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct debtor);
} debtors SEC(".maps");

struct settling {
	struct debtor *d;
	struct task_struct *task;
	struct control *c;
};

static int on_settling(struct bpf_map *map, void *key, void *value);

static __always_inline __u64 debt(struct debtor *d, __u32 which)
{
	return d->serial << 32 | which;
}

/* The vector of a request has that number when the request is complete. */
static __always_inline __u64 kept_vector(__u64 request)
{
	return 1ULL << 63 | request;
}

static __always_inline struct debtor *debtor_of(struct task_struct *task)
{
	struct debtor *d = bpf_task_storage_get(&debtors, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (d && !d->serial) {
		d->serial = __sync_fetch_and_add(&control()->serials, 1) + 1;
		d->is_kernels = !!(task->flags & (PF_IO_WORKER | PF_USER_WORKER));
	}
	return d;
}

static __always_inline int wake_debtor(struct debtor *d, struct task_struct *task)
{
	struct wake *wake = wake_of(d->serial | 1ULL << 62, &d->wakes);

	return wake && !RESUME(task, &wake->work, &wakes, on_settling);
}

static __always_inline int schedule_debtor(struct debtor *d, struct task_struct *task)
{
	if (!d->scheduled)
		d->scheduled = wake_debtor(d, task);
	return d->scheduled;
}

/* Puts off what a request moved that is complete; 0: it cannot be. */
static __always_inline int owe(struct making *m)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct control *c = control();
	struct owed owed = {};
	struct debtor *d;
	__u64 key, vector;

	if (!c->block || c->stopped || m->thread.result <= 0 || m->completion.flags & CQE_MORE)
		return 0;
	d = debtor_of(task);
	if (!d || !schedule_debtor(d, task))
		return 0;
	owed.request = m->completion.request;
	owed.ring = m->flight.ring;
	owed.mark = m->completion.mark;
	owed.result = m->thread.result;
	__builtin_memcpy(owed.args, m->flight.args, sizeof(owed.args));
	owed.opcode = m->completion.state & REQUEST_CHOSEN ? OPCODES - 1 : m->flight.opcode;
	owed.place = m->completion.place;
	vector = m->thread.vector;
	if (vector) {
		struct vector *kept = bpf_map_lookup_elem(&vectors, &vector);

		vector = kept_vector(owed.request);
		if (kept && !bpf_map_update_elem(&vectors, &vector, kept, BPF_ANY))
			owed.vector = vector;
	}
	key = debt(d, d->next);
	if (bpf_map_update_elem(&debts, &key, &owed, BPF_ANY)) {
		if (owed.vector)
			bpf_map_delete_elem(&vectors, &owed.vector);
		return 0;
	}
	d->next++;
	if (d->is_kernels) {
		__sync_fetch_and_add(&c->owed, 1);
		c->owed_ns = bpf_ktime_get_ns();
	}
	return 1;
}

/* Slows a thread down that completes requests, before the segments run out: the kernel's own make no calls after which they would be. */
static __always_inline void slow_down(void)
{
	struct control *c = control();
	struct task_struct *task;
	struct debtor *d;

	if (!c->block || c->free >= c->low || c->stopped)
		return;
	task = bpf_get_current_task_btf();
	d = debtor_of(task);
	if (d)
		schedule_debtor(d, task);
}

/* Takes up the first debt; 0: there is nothing of it. */
static __always_inline int begin_settling(struct debtor *d)
{
	__u64 key = debt(d, d->first);
	struct owed *owed = bpf_map_lookup_elem(&debts, &key);
	struct completion_body *out = &d->making.completion;
	struct thread *t = &d->making.thread;
	struct row *row;

	if (!owed)
		return 0;
	row = row_of_opcode(owed->opcode);
	if (!row)
		return 0;
	__builtin_memset(out, 0, sizeof(*out));
	out->request = owed->request;
	out->ring = identity_of((void *)owed->ring);
	out->mark = owed->mark;
	out->result = t->result = owed->result;
	out->place = owed->place;
	out->state = REQUEST_SETTLED;
	__builtin_memcpy(t->args, owed->args, sizeof(t->args));
	/* Behind the completion, which may stand in another processor's segment. */
	t->end_ns = bpf_ktime_get_ns();
	t->vector = owed->vector;
	t->flags = 0;
	t->accept = 1;
	t->call = REQUEST_MORE(owed->request, 1);
	begin_record(t, row, 0);
	d->opcode = owed->opcode;
	d->making.flight.ring = owed->ring;
	d->begun = 1;
	return 1;
}

/* The first debt is settled, or never will be. */
static __always_inline void end_settling(struct debtor *d)
{
	__u64 key = debt(d, d->first), vector = d->making.thread.vector;

	if (d->begun && vector)
		bpf_map_delete_elem(&vectors, &vector);
	bpf_map_delete_elem(&debts, &key);
	d->first++;
	d->begun = 0;
	if (d->is_kernels)
		__sync_fetch_and_add(&control()->owed, -1);
}

/* Goes on with the first debt. */
static __always_inline int settle_first(struct debtor *d)
{
	struct row *row = row_of_opcode(d->opcode);
	int verdict = VERDICT_NO_ROOM;
	struct cpu *cpu;

	bpf_preempt_disable();
	cpu = this_cpu();
	if (row && cpu && occupy(cpu)) {
		verdict = write_request(&d->making, row, cpu, STEPS_DEFERRED);
		if (verdict == VERDICT_DONE)
			cpu->deferred++;
		leave(cpu);
	}
	bpf_preempt_enable();
	return verdict;
}

static long settle_round(__u64 i, struct settling *s)
{
	struct debtor *d = s->d;
	struct control *c = s->c;
	int verdict = VERDICT_DONE;
	__u64 now;

	if (d->first != d->next) {
		/* What is left for what cannot wait is not for this. */
		if (c->free <= c->reserve)
			verdict = VERDICT_NO_ROOM;
		else if (d->begun || begin_settling(d))
			verdict = settle_first(d);
		if (verdict == VERDICT_GO_ON)
			return 0;
		if (verdict != VERDICT_NO_ROOM || is_hopeless(s->task, c)) {
			end_settling(d);
			return 0;
		}
	} else if (c->free >= c->low || is_hopeless(s->task, c)) {
		return 1;
	}
	now = bpf_ktime_get_ns();
	if (!d->waiting_ns) {
		d->waiting_ns = now;
		__sync_fetch_and_add(&c->waits, 1);
	}
	pause_from(now);
	return 0;
}

/* Runs in the thread, on its way back to the program, or before it takes the next request. */
static int on_settling(struct bpf_map *map, void *key, void *value)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct debtor *d = bpf_task_storage_get(&debtors, task, 0, 0);
	struct settling s = { .d = d, .task = task, .c = control() };

	if (!d)
		return 0;
	if (loop(ROUNDS, settle_round, &s) == ROUNDS && wake_debtor(d, task))
		return 0;
	d->scheduled = 0;
	if (d->waiting_ns)
		__sync_fetch_and_add(&s.c->waited_ns, bpf_ktime_get_ns() - d->waiting_ns);
	d->waiting_ns = 0;
	return 0;
}

/* A thread ends: what it owes still it owes for ever. */
static long forgive(__u64 i, struct settling *s)
{
	struct debtor *d = s->d;

	if (d->first == d->next)
		return 1;
	end_settling(d);
	return 0;
}

static __always_inline void forget_debts(struct task_struct *task)
{
	struct debtor *d = bpf_task_storage_get(&debtors, task, 0, 0);
	struct settling s = { .d = d };

	if (!d)
		return;
	loop(MOST_FLIGHTS, forgive, &s);
	if (d->wakes)
		forget_wakes(d->serial | 1ULL << 62);
}

#endif
#endif
