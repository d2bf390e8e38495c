/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting, in the thread, after its call and before it returns to the program: for room, and for pages.
 *
 * Goals: no record is dropped for want of room or of a page; the program cannot notice more than that time passes.
 * A thread never waits when it is to die, or when the recorder is gone. Kernels without task work know no such waiting:
 * there they stay a while on their processors (`linger`), and what cannot be written then is dropped, and counted.
 */
#ifndef REPRISE_WAITING_H
#define REPRISE_WAITING_H

#include "mapped.h"
#include "program.h"

#ifndef WITH_TASK_WORK

#define CAN_WAIT 0
/* So long a thread stays after each call while segments are few. */
#define THROTTLE_NS 200000ULL
#define THROTTLE_TURNS 65536

static __always_inline int defer(struct thread *t, struct task_struct *task, int verdict)
{
	return 0;
}

static __always_inline int defer_end(struct thread *t, struct task_struct *task)
{
	return 0;
}

struct pausing {
	struct control *c;
	__u64 until;
	__u64 now;
};

static long pause_turn(__u64 i, struct pausing *p)
{
	struct control *c = p->c;

	p->now = bpf_ktime_get_ns();
	return *(volatile __u64 *)&c->free >= c->low || c->stopped || p->now >= p->until;
}

LOOPED(pause_turn, struct pausing)

static __noinline int pause_after_call(void)
{
	struct pausing p = { .c = control(), .now = bpf_ktime_get_ns() };
	__u64 begin = p.now;

	if (is_gone(p.c, begin))
		return 0;
	p.until = begin + THROTTLE_NS;
	loop(THROTTLE_TURNS, pause_turn, &p);
	count_wait(p.c, p.now - begin);
	return 0;
}

/* Slows a thread down before the segments run out. */
static __always_inline void throttle(struct thread *t, struct task_struct *task)
{
	struct control *c = control();

	if (c->block && c->free < c->low)
		pause_after_call();
}

static __always_inline enum lack lack_of_wait(void)
{
	return LACK_ROOM;
}

static __always_inline void wait_to_be_looked_at(struct thread *t, struct task_struct *task)
{
}

static __always_inline void abandon(struct thread *t, struct cpu *cpu, enum lack why)
{
}

static __always_inline void forget(struct thread *t, struct cpu *cpu)
{
}

#else

#define CAN_WAIT 1
/* Rounds of one callback, each a pause of this length; between callbacks the kernel may do other work. */
#define ROUNDS 4
#define PAUSE_NS 10000
/* So long a thread that came in from outside waits until user space has looked at what it has. */
#define LOOK_NS 1000000000ULL
/* So long after the last that threads of the kernel owe others wait for it. */
#define OWED_NS 2000000000ULL
/* Pieces that are copied in one go with preemption disabled. */
#define STEPS_DEFERRED 8
/* A page that is fetched so often and is gone again is given up. */
#define MOST_FETCHES 64
#define SIGKILL_BIT (1UL << 8)

struct bpf_task_work {
	__u64 __opaque;
} __attribute__((aligned(8)));

/* Complete, since the kernel's is: libbpf compares. */
struct bpf_map {
	unsigned int id;
} __attribute__((preserve_access_index));

typedef int (*bpf_task_work_callback_t)(struct bpf_map *map, void *key, void *value);

/* Up to 6.19 the program has an argument for what the verifier tells of it. */
#ifdef TOLD_ITSELF
extern int WITH_TASK_WORK(struct task_struct *task, struct bpf_task_work *work, void *map,
			  bpf_task_work_callback_t callback, void *aux) __ksym;
#define RESUME(task, work, map, callback) WITH_TASK_WORK(task, work, map, callback, 0)
#else
extern int WITH_TASK_WORK(struct task_struct *task, struct bpf_task_work *work, void *map,
			  bpf_task_work_callback_t callback) __ksym;
#define RESUME(task, work, map, callback) WITH_TASK_WORK(task, work, map, callback)
#endif

struct wake {
	struct bpf_task_work work;
};

/* Two for each thread: a callback that asks for another finds its own in use. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 20);
	__type(key, __u64);
	__type(value, struct wake);
} wakes SEC(".maps");

struct round {
	struct thread *t;
	struct task_struct *task;
	struct control *c;
	struct row *row;
};

struct fetch {
	__u64 address;
	__u64 end;
	__u32 failed;
};

static int on_return(struct bpf_map *map, void *key, void *value);

/* What a callback is asked for by, the next of two; 0 if there is no memory for it. */
static __always_inline struct wake *wake_of(__u64 serial, __u32 *wakes_so_far)
{
	__u64 key = serial << 1 | ((*wakes_so_far)++ & 1);
	struct wake *wake = bpf_map_lookup_elem(&wakes, &key), none = {};

	if (wake)
		return wake;
	bpf_map_update_elem(&wakes, &key, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&wakes, &key);
}

static __always_inline void forget_wakes(__u64 serial)
{
	__u64 key = serial << 1;

	bpf_map_delete_elem(&wakes, &key);
	key |= 1;
	bpf_map_delete_elem(&wakes, &key);
}

static __always_inline int schedule(struct thread *t, struct task_struct *task)
{
	struct wake *wake = wake_of(t->serial, &t->wakes);

	return wake && !RESUME(task, &wake->work, &wakes, on_return);
}

/* The record that was begun is made later; 0 if it cannot be. */
static __always_inline int defer(struct thread *t, struct task_struct *task, int verdict)
{
	struct control *c = control();

	if (c->stopped || (verdict == VERDICT_NO_ROOM && !c->block))
		return 0;
	t->verdict = verdict;
	t->flags |= RECORD_DEFERRED;
	t->rounds = t->fetched = 0;
	t->waiting_ns = 0;
	if (!schedule(t, task))
		return 0;
	t->pending = 1;
	__sync_fetch_and_add(&c->pending, 1);
	return 1;
}

/* The end of a thread is written later, before its process is seen to have ended; 0 if it cannot be. */
static __always_inline int defer_end(struct thread *t, struct task_struct *task)
{
	return defer(t, task, VERDICT_NO_ROOM);
}

/* Whether there is room for more, and nothing waits for it that the program may change: not for long, as who owes that may be about
 * a request that comes to its end only when the program goes on. */
static __always_inline int has_room(struct control *c)
{
	if (*(volatile __u64 *)&c->free < c->low)
		return 0;
	return !*(volatile __u64 *)&c->owed || bpf_ktime_get_ns() > *(volatile __u64 *)&c->owed_ns + OWED_NS;
}

/* Slows a thread down before the segments run out. */
static __always_inline void throttle(struct thread *t, struct task_struct *task)
{
	struct control *c = control();

	if (t->pending || !c->block || has_room(c))
		return;
	t->waiting_ns = 0;
	schedule(t, task);
}

/* What a thread has that came in from outside is what user space finds: it does nothing until then. */
static __always_inline void wait_to_be_looked_at(struct thread *t, struct task_struct *task)
{
	schedule(t, task);
}

static __always_inline void no_longer_pending(struct thread *t, struct control *c)
{
	t->pending = 0;
	__sync_fetch_and_add(&c->pending, -1);
}

/* Why something is dropped that could not be deferred. */
static __always_inline enum lack lack_of_wait(void)
{
	struct control *c = control();

	return c->block && !c->stopped ? LACK_WAIT : LACK_ROOM;
}

/* What still waits is not made any more. */
static __always_inline void abandon(struct thread *t, struct cpu *cpu, enum lack why)
{
	struct control *c = control();

	int is_load = t->pending == PENDING_LOAD;

	t->load.waits = 0;
	if (!t->pending)
		return;
	no_longer_pending(t, c);
	/* What it would have loaded, it did not. */
	if (is_load)
		return;
	drop(cpu, why);
}

static __always_inline void forget(struct thread *t, struct cpu *cpu)
{
	abandon(t, cpu, LACK_GIVEN_UP);
	if (t->wakes)
		forget_wakes(t->serial);
}

static long fetch_page(__u64 i, struct fetch *f)
{
	char byte;

	if (f->address >= f->end)
		return 1;
	if (bpf_copy_from_user(&byte, 1, (void *)f->address)) {
		f->failed = 1;
		return 1;
	}
	f->address = (f->address | (PAGE - 1)) + 1;
	return 0;
}

/* How far a walk is, by part, element and piece; what is further has a larger number, as far as there is room for it. */
static __always_inline __u32 reached(struct cursor *cursor)
{
	__u64 element = at_most(cursor->element, 0x1fff), piece = at_most(cursor->offset / PIECE_BYTES, 0xffff);

	return (cursor->part & 7) << 29 | element << 16 | piece;
}

/* Brings the pages of a piece into memory, as the program would by looking at them. */
static __always_inline void fetch(struct thread *t)
{
	struct fetch f = { .address = t->fault_address, .end = t->fault_address + t->fault_bytes };
	__u32 at = reached(&t->cursor);

	/* Where memory is short they may be gone again before they are read, each time anew: what counts is whether it gets on. */
	if (at > t->fetched) {
		t->fetched = at;
		t->rounds = 0;
	}
	loop(PIECE_BYTES / PAGE + 2, fetch_page, &f);
	if (f.failed || t->rounds++ > MOST_FETCHES)
		t->accept = 1;
}

static __always_inline int is_hopeless(struct task_struct *task, struct control *c)
{
	if (task->pending.signal.sig[0] & SIGKILL_BIT)
		return 1;
	return is_gone(c, bpf_ktime_get_ns());
}

static __always_inline int hopeless(struct round *r)
{
	return is_hopeless(r->task, r->c);
}

/* Goes on with a record that waits; `last`: if it cannot be made now, it is not made, for this reason. */
static __always_inline int retry(struct round *r, int last, enum lack why)
{
	struct thread *t = r->t;
	int verdict = VERDICT_NO_ROOM;
	struct cpu *cpu;

	if (t->verdict == VERDICT_NO_PAGE) {
		if (last)
			t->accept = 1;
		else
			fetch(t);
	}
	bpf_preempt_disable();
	cpu = this_cpu();
	if (cpu && occupy(cpu)) {
		verdict = write_all(t, r->row, cpu, last, last ? STEPS_MORE : STEPS_DEFERRED);
		if (verdict == VERDICT_DONE) {
			no_longer_pending(t, r->c);
			cpu->deferred++;
		} else if (last) {
			abandon(t, cpu, why);
		}
		leave(cpu);
	}
	bpf_preempt_enable();
	t->verdict = verdict;
	return verdict;
}

static __always_inline int waits_to_be_looked_at(struct round *r)
{
	struct thread *t = r->t;

	if (!t->arrival)
		return 0;
	if ((__s32)(t->arrival - *(volatile __u32 *)&r->c->looked) > 0 && bpf_ktime_get_ns() < t->begin_ns + LOOK_NS &&
	    !hopeless(r))
		return 1;
	t->arrival = 0;
	return 0;
}

static long pause_until(__u64 i, __u64 *until)
{
	return bpf_ktime_get_ns() >= *until;
}

static __always_inline void pause_from(__u64 now)
{
	__u64 until = now + PAUSE_NS;

	loop(10000, pause_until, &until);
}

static long round(__u64 i, struct round *r)
{
	struct thread *t = r->t;
	struct control *c = r->c;
	__u64 now;

	if (t->pending) {
		/* Its pages are there now, but no room is: where none is waited for, it is not made. */
		int no_room = t->verdict == VERDICT_NO_ROOM && !c->block;
		int verdict = retry(r, no_room || hopeless(r), no_room ? LACK_ROOM : LACK_GIVEN_UP);

		if (t->pending && (verdict != VERDICT_NO_ROOM || !c->block))
			return 0;
	}
	int unseen = !t->pending && waits_to_be_looked_at(r);

	if (!t->pending && !unseen && (!c->block || has_room(c) || hopeless(r)))
		return 1;
	now = bpf_ktime_get_ns();
	if (!t->waiting_ns && !unseen) {
		t->waiting_ns = now;
		__sync_fetch_and_add(&c->waits, 1);
	}
	pause_from(now);
	return 0;
}

/* Runs in the thread, on its way back to the program. */
static int on_return(struct bpf_map *map, void *key, void *value)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);
	struct round r = { .t = t, .task = task, .c = control() };

	if (!t)
		return 0;
	r.row = row_of_record(t->nr, t->flags);
	if (loop(ROUNDS, round, &r) == ROUNDS) {
		if (schedule(t, task))
			return 0;
		if (t->pending)
			retry(&r, 1, LACK_WAIT);
	}
	if (t->waiting_ns)
		__sync_fetch_and_add(&r.c->waited_ns, bpf_ktime_get_ns() - t->waiting_ns);
	return 0;
}

#endif
#endif
