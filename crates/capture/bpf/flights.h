/* SPDX-License-Identifier: Apache-2.0 */
/* Requests in flight, and their records: REQUEST and COMPLETION, each with the MORE records before it.
 *
 * Goals: a record with its memory, or without, whoever makes it, and when. Non-goals: what happens to requests (`requests.h`), and
 * what becomes of memory that found no room (`owed.h`).
 */
#ifndef REPRISE_FLIGHTS_H
#define REPRISE_FLIGHTS_H

#include "before.h"
#include "moved.h"
#include "records.h"
#include "ring.h"

#define OPCODES 128
#define MOST_FLIGHTS (1 << 17)
/* The argument in whose place the address of a chosen buffer comes, and its length. */
#define CHOSEN_ADDRESS 1
#define CHOSEN_LENGTH 2

/* A request in flight. */
struct flight {
	__u64 number;
	__u64 ring;
	__u64 mark;
	__u64 mm;
	__u64 task; /* that submitted it */
	__u64 args[6]; /* fd, addr, len, off, flags, addr3 */
	__u32 opcode;
	__u32 flags;
	__s32 from; /* the descriptor that is spliced from */
	__u32 shows; /* what it shows is looked at when it is complete */
};

/* What is being made of a request on this CPU: too much for a stack. `thread` stands for one in the walk. */
struct making {
	struct thread thread;
	struct flight flight;
	struct request_body request;
	struct completion_body completion;
	struct moved moved;
	struct vector vector;
	struct shown shown;
	struct range present;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MOST_FLIGHTS);
	__type(key, __u64); /* where the kernel keeps the request */
	__type(value, struct flight);
} flights SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct making);
} makings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, OPCODES);
	__type(key, __u32);
	__type(value, struct row);
} opcodes SEC(".maps");

static __always_inline __u64 identity_of(const void *pointer)
{
	return ((__u64)pointer ^ scramble) * 0x9e3779b97f4a7c15ULL;
}

static __always_inline struct making *making(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&makings, &zero);
}

static __always_inline struct row *row_of_opcode(__u32 opcode)
{
	if (opcode >= OPCODES)
		opcode = OPCODES - 1;
	return bpf_map_lookup_elem(&opcodes, &opcode);
}

static __always_inline __u32 request_bytes(struct thread *t)
{
	return sizeof(struct record_head) +
	       (t->entry ? sizeof(struct request_body) : sizeof(struct completion_body));
}

/* Whether the program has taken the completion from the ring. */
static __always_inline int is_taken(struct making *m)
{
	struct io_ring_ctx *ring = (void *)m->flight.ring;

	return (__s32)(BPF_CORE_READ(ring, rings, cq.head) - m->completion.place) >= 0;
}

static __always_inline void close_request(struct making *m, struct cpu *cpu)
{
	struct record_head *record = place(cpu->segment, cpu->used);
	struct thread *t = &m->thread;

	if (!record)
		return;
	if (t->entry) {
		m->request.ranges = t->ranges;
		m->request.more = t->more;
		m->request.lacking = t->lacking + t->lost;
		__builtin_memcpy(record + 1, &m->request, sizeof(m->request));
		commit(cpu, record, t->at, RECORD_REQUEST, t->begin_ns);
	} else {
		if (m->completion.state & REQUEST_SETTLED && is_taken(m))
			m->completion.state |= REQUEST_STALE;
		m->completion.ranges = t->ranges;
		m->completion.more = t->more;
		m->completion.lacking = t->lacking + t->lost;
		__builtin_memcpy(record + 1, &m->completion, sizeof(m->completion));
		commit(cpu, record, t->at, RECORD_COMPLETION, t->end_ns);
	}
}

/* The record with its memory: VERDICT_DONE if it stands, VERDICT_GO_ON after so many steps, else no room is left. */
__noinline int write_request(struct making *m, struct row *row, struct cpu *cpu, __u32 steps)
{
	struct walker w = {};
	struct thread *t;
	int attempt;

	if (!m || !row || !cpu)
		return VERDICT_NO_ROOM;
	t = &m->thread;
	w.t = t;
	w.row = row;
	w.cpu = cpu;
	if (!t->inlined) {
		loop(steps, step, &w);
		if (w.verdict != VERDICT_DONE)
			return w.verdict;
		t->inlined = 1;
	}
	for (attempt = 0; attempt < 2; attempt++) {
		if (!make_room(cpu, request_bytes(t), 0))
			return VERDICT_NO_ROOM;
		rewind(t);
		w.verdict = VERDICT_GO_ON;
		t->at = cpu->used + request_bytes(t);
		loop(STEPS_INLINE, step, &w);
		if (w.verdict == VERDICT_DONE) {
			close_request(m, cpu);
			return VERDICT_DONE;
		}
		hand_over(cpu);
	}
	return VERDICT_TOO_LARGE;
}

/* The record without its memory, and why. */
__noinline int write_bare(struct making *m, struct cpu *cpu, __u32 why)
{
	struct thread *t;

	if (!m || !cpu)
		return 0;
	t = &m->thread;
	if (!make_room(cpu, request_bytes(t), 1)) {
		drop(cpu, LACK_ROOM);
		return 0;
	}
	rewind(t);
	t->at = cpu->used + request_bytes(t);
	m->request.state |= why;
	m->completion.state |= why;
	close_request(m, cpu);
	return 1;
}

#endif
