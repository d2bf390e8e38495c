/* SPDX-License-Identifier: Apache-2.0 */
/* The records of a call: ENTER and CALL, each with the MORE records before it. */
#ifndef REPRISE_RECORDS_H
#define REPRISE_RECORDS_H

#include "ranges.h"

/* More steps than the ranges of any record need. */
#define STEPS_INLINE 16384
/* How much is copied without a pause, where one can be made; else a call's most. */
#ifdef WITH_TASK_WORK
#define STEPS_MORE 128
#else
#define STEPS_MORE 65536
#endif

static __always_inline __u32 body_bytes(struct thread *t)
{
	return sizeof(struct record_head) + (t->entry ? sizeof(struct enter_body) : sizeof(struct call_body));
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
	body->more = t->more;
	body->lacking = t->lacking + t->lost;
}

static __always_inline void fill_call(struct thread *t, struct call_body *body)
{
	body->begin_ns = t->begin_ns;
	body->call = t->call;
	body->cpu_ns = t->cpu_ns;
	body->result = t->result;
	__builtin_memcpy(body->args, t->args, sizeof(body->args));
	body->nr = t->nr;
	body->ranges = t->ranges;
	body->more = t->more;
	body->lacking = t->lacking + t->lost;
	__builtin_memcpy(body->objects, t->objects, sizeof(body->objects));
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

/* Calls with one short buffer, or none, are the most frequent: their record without a walk; 0 if there has to be one. */
static __always_inline int write_simple(struct thread *t, struct row *row, struct cpu *cpu)
{
	__u32 length = 0, flags = 0, kept, body = body_bytes(t);
	struct part *part = &row->part[0];
	struct record_head *record;
	struct range_head *range;
	__u64 address = 0, wanted;

	if (t->entry || row->parts > 1 || (row->parts && part->kind != PART_DATA))
		return 0;
	if (row->parts && applies(t, part)) {
		wanted = argument(t, part->of);
		if (part->when & PART_FILLED)
			wanted = at_most(wanted, t->result);
		if (wanted > INLINE_BYTES)
			return 0;
		address = argument(t, part->arg);
		length = address ? wanted : 0;
		flags = part->when & PART_UNWANTED ? RANGE_UNWANTED : 0;
	}
	kept = flags ? 0 : length;
	if (!make_room(cpu, body + sizeof(*range) + padded(kept), 0))
		return 0;
	record = place(cpu->segment, cpu->used);
	if (!record)
		return 0;
	t->at = cpu->used + body;
	if (length) {
		range = (struct range_head *)((char *)record + sizeof(*record) + sizeof(struct call_body));
		CHECKED(kept);
		if (kept > INLINE_BYTES || (kept && bpf_probe_read_user(range + 1, kept, (void *)address)))
			return 0;
		range->address = address;
		range->length = length;
		range->kept = kept;
		range->when = WHEN_EXIT;
		range->flags = flags;
		range->reserved = 0;
		t->at += sizeof(*range) + padded(kept);
		t->ranges = 1;
	}
	finish_record(t, cpu);
	return 1;
}

/* Makes, or goes on making, the record that was begun: VERDICT_DONE if it stands, VERDICT_GO_ON after so many steps. */
__noinline int write_record(struct thread *t, struct row *row, struct cpu *cpu, int urgent, __u32 steps)
{
	struct walker w = { .t = t, .row = row, .cpu = cpu, .urgent = urgent };
	int attempt;

	if (!t || !row || !cpu)
		return VERDICT_NO_ROOM;
	if (!t->more && !t->cursor.stream && write_simple(t, row, cpu))
		return VERDICT_DONE;
	if (!t->inlined) {
		loop(steps, step, &w);
		if (w.verdict != VERDICT_DONE)
			return w.verdict;
		t->inlined = 1;
	}
	for (attempt = 0; attempt < 2; attempt++) {
		if (!make_room(cpu, body_bytes(t), urgent))
			return VERDICT_NO_ROOM;
		rewind(t);
		w.verdict = VERDICT_GO_ON;
		t->at = cpu->used + body_bytes(t);
		loop(STEPS_INLINE, step, &w);
		if (w.verdict == VERDICT_NO_PAGE)
			return w.verdict;
		if (w.verdict == VERDICT_DONE)
			break;
		/* Not in what is left of this segment; in a whole one everything has room that a call can name. */
		if (attempt == 0) {
			hand_over(cpu);
			continue;
		}
		t->lacking++;
	}
	if (t->entry && !t->ranges && !t->more && !(row->flags & ROW_ALWAYS))
		return VERDICT_DONE;
	finish_record(t, cpu);
	return VERDICT_DONE;
}

#endif
