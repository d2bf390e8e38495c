/* SPDX-License-Identifier: Apache-2.0 */
/* The records of a call: ENTER and CALL, each with the MORE records before it. */
#ifndef REPRISE_RECORDS_H
#define REPRISE_RECORDS_H

#include "ranges.h"

/* More steps than the ranges of any record need. */
#define STEPS_INLINE 16384
/* A call's most; at its entry nobody can wait. */
#define STEPS_MOST 65536
/* How much is copied without a pause, where one can be made. */
#ifdef WITH_TASK_WORK
#define STEPS_MORE 128
#else
#define STEPS_MORE STEPS_MOST
#endif

/* What stands before the ranges. */
static __always_inline __u32 body_bytes(struct thread *t)
{
	__u32 found = t->found;

	if (t->entry)
		return sizeof(struct record_head) + sizeof(struct enter_body);
	return sizeof(struct record_head) + sizeof(struct call_body) + (found > 1 ? 2 : found) * sizeof(struct object);
}

static __always_inline void rewind(struct thread *t)
{
	t->cursor.part = t->cursor.element = 0;
	t->cursor.offset = t->cursor.stream = 0;
	t->ranges = t->lacking = 0;
}

/* Begins the record of the present call: at its entry, or at its exit. */
static __always_inline void begin_record(struct thread *t, struct row *row, int entry)
{
	rewind(t);
	t->more = t->lost = 0;
	t->entry = entry;
	t->inlined = !(row->flags & ROW_MORE);
}

static __always_inline void fill_enter(struct thread *t, struct enter_body *body)
{
	body->begin_ns = t->begin_ns;
	body->call = t->call;
	body->cpu_ns = t->cpu_ns;
	__builtin_memcpy(body->args, t->args, sizeof(body->args));
	body->nr = t->nr;
	body->ranges = t->ranges;
	body->objects = 0;
	body->more = t->more;
	body->lacking = t->lacking + t->lost;
}

static __always_inline void fill_call(struct thread *t, struct call_body *body)
{
	struct object *objects = (struct object *)(body + 1);

	body->begin_ns = t->begin_ns;
	body->call = t->call;
	body->cpu_ns = t->cpu_ns;
	body->result = t->result;
	__builtin_memcpy(body->args, t->args, sizeof(body->args));
	body->nr = t->nr;
	body->ranges = t->ranges;
	body->objects = t->found;
	body->more = t->more;
	body->lacking = t->lacking + t->lost;
	if (t->found > 0)
		__builtin_memcpy(objects, t->objects, sizeof(*objects));
	if (t->found > 1)
		__builtin_memcpy(objects + 1, t->objects + 1, sizeof(*objects));
}

static __always_inline void finish_record(struct thread *t, struct cpu *cpu)
{
	struct record_head *record = place(cpu->segment, cpu->used);

	if (!record)
		return;
	if (t->entry) {
		fill_enter(t, (struct enter_body *)(record + 1));
		commit(cpu, record, t->at, RECORD_ENTER | t->flags << 16, t->begin_ns);
	} else {
		fill_call(t, (struct call_body *)(record + 1));
		commit(cpu, record, t->at, RECORD_CALL | t->flags << 16, t->end_ns);
	}
}

/* Writes the ranges that stand in the record itself, behind all that the segment holds; VERDICT_GO_ON: they do not fit there. */
static __always_inline int write_ranges(struct walker *w)
{
	struct thread *t = w->t;

	if (!make_room(w->cpu, body_bytes(t), w->urgent))
		return VERDICT_NO_ROOM;
	rewind(t);
	w->verdict = VERDICT_GO_ON;
	t->at = w->cpu->used + body_bytes(t);
	loop(STEPS_INLINE, step, w);
	return w->verdict == VERDICT_NO_ROOM ? VERDICT_GO_ON : w->verdict;
}

/* Makes, or goes on making, the record that was begun: VERDICT_DONE if it stands, VERDICT_GO_ON after so many steps. */
__noinline int write_record(struct thread *t, struct row *row, struct cpu *cpu, int urgent, __u32 steps)
{
	struct walker w = { .t = t, .row = row, .cpu = cpu, .urgent = urgent };
	int verdict;

	if (!t || !row || !cpu)
		return VERDICT_NO_ROOM;
	if (!t->inlined) {
		loop(steps, step, &w);
		if (w.verdict != VERDICT_DONE)
			return w.verdict;
		t->inlined = 1;
	}
	verdict = write_ranges(&w);
	if (verdict == VERDICT_GO_ON) {
		/* Not in what is left of this segment; in a whole one everything has room that a call can name. */
		hand_over(cpu);
		verdict = write_ranges(&w);
		t->lacking += verdict == VERDICT_GO_ON;
	}
	if (verdict == VERDICT_NO_PAGE || verdict == VERDICT_NO_ROOM)
		return verdict;
	if (t->entry && !t->ranges && !t->more && !(row->flags & ROW_ALWAYS))
		return VERDICT_DONE;
	finish_record(t, cpu);
	return VERDICT_DONE;
}

#endif
