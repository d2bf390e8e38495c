/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a call with at most one buffer and one open file, and nothing at its entry: the most frequent ones.
 *
 * Goals: straight from the registers, the kernel and the buffer into the segment, in one function. Non-goals: anything
 * that is not at hand (room, a page, another piece): such a call's record is made by the walk of records.h.
 */
#ifndef REPRISE_SIMPLE_H
#define REPRISE_SIMPLE_H

#include "objects.h"
#include "quick.h"
#include "ranges.h"

/* What such a record has at most, its content apart. */
#define SIMPLE_BYTES                                                                                            \
	(sizeof(struct record_head) + sizeof(struct call_body) + sizeof(struct object) + sizeof(struct range_head))

static __always_inline __u64 register_of(struct pt_regs *regs, __u32 argument)
{
	switch (argument) {
	case 0:
		return regs->di;
	case 1:
		return regs->si;
	case 2:
		return regs->dx;
	case 3:
		return regs->r10;
	case 4:
		return regs->r8;
	default:
		return regs->r9;
	}
}

/* How long the buffer was; of content that was moved as much as was moved. */
static __always_inline __u64 simple_length(struct part *part, struct pt_regs *regs, __s64 result)
{
	__u64 wanted = part->kind == PART_DATA ? register_of(regs, part->of) : part->size;

	if (!(part->when & PART_FILLED))
		return wanted;
	if (failed(result))
		return 0;
	return part->kind == PART_DATA ? at_most(wanted, result) : wanted;
}

/* Appends the buffer at a place in a segment; how many bytes that took, or -1: not so simple. */
static __always_inline long append_buffer(struct row *row, struct pt_regs *regs, __s64 result, char *base, __u32 at)
{
	struct part *part = &row->part[0];
	__u64 address = register_of(regs, part->arg), length = address ? simple_length(part, regs, result) : 0;
	__u32 kept = length, lead = 0, unwanted = part->when & PART_UNWANTED;
	struct range_head *range;

	if (!length)
		return 0;
	CHECKED(at);
	if (at > SEGMENT_BYTES)
		return -1;
	range = (struct range_head *)(base + at);
	if (unwanted) {
		kept = 0;
		if (length > MOST_MOVED)
			return -1;
	} else {
		lead = lead_of(address, at + sizeof(*range), kept);
		CHECKED(kept);
		if (length > INLINE_BYTES || at + sizeof(*range) + lead + padded(kept) > SEGMENT_BYTES)
			return -1;
		if (kept > INLINE_BYTES || bpf_probe_read_user((char *)(range + 1) + lead, kept, (void *)address))
			return -1;
	}
	range->address = address;
	range->length = length;
	range->kept = kept;
	range->when = WHEN_EXIT;
	range->flags = unwanted ? RANGE_UNWANTED : 0;
	range->lead = lead;
	return sizeof(*range) + lead + padded(kept);
}

/* The record of a simple call; 0: it is not made. */
static __always_inline int write_simple(struct quick *q, struct row *row, struct cpu *cpu, struct task_struct *task,
					struct pt_regs *regs, __s64 result, __u64 end_ns)
{
	__u32 used = cpu->used, index = cpu->segment - 1, at;
	struct record_head *record;
	struct segment_head *head;
	struct call_body *body;
	__u8 source = row->objects[0];
	char *base;
	long more;

	base = bpf_map_lookup_elem(&segments, &index);
	if (!base)
		return 0;
	CHECKED(used);
	if (used > SEGMENT_BYTES - SIMPLE_BYTES)
		return 0;
	head = (struct segment_head *)base;
	record = (struct record_head *)(base + used);
	body = (struct call_body *)(record + 1);
	at = used + sizeof(*record) + sizeof(*body);
	body->objects = 0;
	if (source != OBJECT_NONE &&
	    look_at((struct object *)(body + 1), task, source == OBJECT_RESULT ? result : register_of(regs, source - OBJECT_ARG))) {
		body->objects = 1;
		at += sizeof(struct object);
	}
	body->ranges = 0;
	if (row->parts) {
		more = append_buffer(row, regs, result, base, at);
		if (more < 0)
			return 0;
		body->ranges = more > 0;
		at += more;
	}
	body->begin_ns = q->begin_ns;
	body->call = q->call;
	body->cpu_ns = q->cpu_ns;
	body->result = result;
	body->args[0] = regs->di;
	body->args[1] = regs->si;
	body->args[2] = regs->dx;
	body->args[3] = regs->r10;
	body->args[4] = regs->r8;
	body->args[5] = regs->r9;
	body->nr = q->nr;
	body->more = 0;
	body->lacking = 0;
	record->bytes = at - used;
	record->kind = RECORD_CALL;
	record->flags = q->flags;
	record->number = cpu->next++;
	record->time_ns = end_ns;
	record->tid = task->pid;
	record->pid = task->tgid;
	cpu->bytes += at - used;
	cpu->used = at;
	barrier();
	head->used = at;
	return 1;
}

#endif
