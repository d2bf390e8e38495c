/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a call with at most one buffer and one open file, nothing at its entry, and small numbers: the most frequent
 * ones, told in brief.
 *
 * Goals: straight from the registers, the kernel and the buffer into the segment, in one function. Non-goals: anything
 * that is not at hand (room, a page, another piece): such a call's record is made by the walk of records.h.
 */
#ifndef REPRISE_SIMPLE_H
#define REPRISE_SIMPLE_H

#include "known.h"
#include "quick.h"
#include "ranges.h"

/* What such a record has at most, its content apart. */
#define SIMPLE_BYTES                                                                                            \
	(sizeof(struct record_head) + sizeof(struct brief_body) + sizeof(struct brief_object) + 6 * sizeof(__u64) +      \
	 sizeof(struct brief_range) + sizeof(__u64))

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

/* What a simple call was about. */
struct simple {
	struct row *row;
	struct pt_regs *regs;
	__s64 result;
	struct inode *inode; /* of the open file; 0: there is none */
	struct brief_object *seen;
	__u64 size;
	struct told *told;   /* where it is to be remembered that it is told */
	__u32 told_at;       /* here; 0: it is not told in full */
};

/* Whether an open file is as it was told, but for its size and position. Behind these are numbers of 32 bits, compared by twos. */
static __always_inline int is_as_told(struct brief_object *now, struct brief_object *told)
{
	__u64 *rest = (__u64 *)&now->device, *rest_told = (__u64 *)&told->device;

	return !((now->id ^ told->id) | (now->inode ^ told->inode) | (rest[0] ^ rest_told[0]) | (rest[1] ^ rest_told[1]) |
		 (rest[2] ^ rest_told[2]));
}

/* Tells in short of an open file that this segment has told of; how many bytes that took. */
static __always_inline __u32 tell_again(struct brief_again *out, __u32 object, struct brief_object *now, struct brief_object *told)
{
	struct brief_moved *moved = (struct brief_moved *)(out + 1);

	out->object = object;
	out->moved = now->size != told->size || now->position != told->position;
	if (!out->moved)
		return sizeof(*out);
	moved->size = now->size;
	moved->position = now->position;
	return sizeof(*out) + sizeof(*moved);
}

/* Appends the open file that a call names at a place in a segment; how many bytes that took. */
static __always_inline __u32 append_object(struct simple *of, struct file *file, struct cpu *cpu, struct brief_body *body,
					   char *base, __u32 at)
{
	__u8 source = of->row->objects[0];
	struct brief_object now, *out, *before;
	struct inode *inode;
	struct told *told;
	__u32 told_at;

	CHECKED(at);
	if (!file || at > SEGMENT_BYTES)
		return 0;
	out = (struct brief_object *)(base + at);
	TELL_FILE(&now, file, inode);
	now.reserved = 0;
	of->inode = inode;
	of->size = now.size;
	told = &cpu->told[now.id / (~0ULL / TOLD + 1)];
	told_at = told->at;
	CHECKED(told_at);
	before = (struct brief_object *)(base + (told_at & (SEGMENT_BYTES - 1)));
	if (told_at && is_as_told(&now, before)) {
		body->object = source | OBJECT_AGAIN;
		of->seen = before;
		return tell_again((struct brief_again *)out, told->object, &now, before);
	}
	*out = now;
	body->object = source;
	of->seen = out;
	of->told = told;
	of->told_at = at;
	return sizeof(*out);
}

/* Appends the arguments that the call has; how many bytes that took. What stands behind them is written over. */
static __always_inline __u32 append_arguments(__u32 count, struct pt_regs *regs, char *base, __u32 at)
{
	__u64 *out;
	__u32 i;

	CHECKED(at);
	if (at > SEGMENT_BYTES)
		return 0;
	out = (__u64 *)(base + at);
#pragma unroll
	for (i = 0; i < 6; i++)
		out[i] = register_of(regs, i);
	return (count > 6 ? 6 : count) * sizeof(*out);
}

/* Says where content stands that was read, if that is known; else copies it, and says of which file's state it is. */
static __always_inline long append_content(struct simple *of, struct brief_range *range, __u64 address, __u32 length, __u32 at)
{
	__u32 lead = 0;
	struct steady *steady = (struct steady *)(range + 1);
	struct passage passage = { .length = length };
	__u64 place;

	if (of->seen && reads_passage(of->row, length))
		passage.changed = changed_ns(of->inode);
	if (passage.changed) {
		passage.inode = of->seen->inode;
		passage.device = of->seen->device;
		passage.generation = of->seen->generation;
		passage.size = of->size;
		passage.offset = register_of(of->regs, of->row->offset - 1);
		place = place_of(&passage);
		if (place) {
			*(__u64 *)(range + 1) = place;
			range->flags = RANGE_SAID;
			range->lead = 0;
			return sizeof(*range) + sizeof(place);
		}
		if (is_at_rest(of->inode)) {
			steady->changed_ns = passage.changed;
			steady->offset = passage.offset;
			lead = sizeof(*steady);
		}
	}
	range->flags = lead ? RANGE_STEADY : 0;
	lead += lead_of(address, at + sizeof(*range) + lead, length);
	range->lead = lead;
	CHECKED(length);
	if (length > INLINE_BYTES || at + sizeof(*range) + lead + padded(length) > SEGMENT_BYTES)
		return -1;
	if (bpf_probe_read_user((char *)(range + 1) + lead, length, (void *)address))
		return -1;
	return sizeof(*range) + lead + padded(length);
}

/* Appends the buffer at a place in a segment; how many bytes that took, or -1: not so simple. */
static __always_inline long append_buffer(struct simple *of, char *base, __u32 at)
{
	struct part *part = &of->row->part[0];
	__u64 address = register_of(of->regs, part->arg);
	__u64 length = address ? simple_length(part, of->regs, of->result) : 0;
	struct brief_range *range;

	if (!length)
		return 0;
	CHECKED(at);
	if (at > SEGMENT_BYTES)
		return -1;
	range = (struct brief_range *)(base + at);
	range->length = length;
	range->argument = part->arg;
	if (!(part->when & PART_UNWANTED))
		return length > INLINE_BYTES ? -1 : append_content(of, range, address, length, at);
	range->flags = RANGE_UNWANTED;
	range->lead = 0;
	return length > MOST_MOVED ? -1 : (long)sizeof(*range);
}

/* The record of a simple call; 0: it is not made. */
static __always_inline int write_simple(struct quick *q, struct row *row, struct cpu *cpu, struct task_struct *task,
					struct pt_regs *regs, __s64 result, __u64 end_ns)
{
	__u32 used = cpu->used, index = cpu->segment - 1, at;
	__u64 took_ns = end_ns - q->begin_ns;
	struct record_head *record;
	struct segment_head *head;
	struct brief_body *body;
	__u8 source = row->objects[0];
	struct simple of = { .row = row, .regs = regs, .result = result };
	struct file *file = 0;
	char *base;
	long more;

	base = bpf_map_lookup_elem(&segments, &index);
	if (!base || result != (__s32)result || took_ns != (__u32)took_ns || q->nr != (__u16)q->nr)
		return 0;
	CHECKED(used);
	if (used > SEGMENT_BYTES - SIMPLE_BYTES)
		return 0;
	/* Before Linux 6.9 the verifier forgets what was compared where the compiler looks at a copy. */
	CHECKED(used);
	used &= SEGMENT_BYTES - 1;
	head = (struct segment_head *)base;
	record = (struct record_head *)(base + used);
	body = (struct brief_body *)(record + 1);
	at = used + sizeof(*record) + sizeof(*body);
	body->object = OBJECT_NONE;
	if (source != OBJECT_NONE)
		file = file_of(task, source == OBJECT_RESULT ? result : register_of(regs, source - OBJECT_ARG));
	at += append_object(&of, file, cpu, body, base, at);
	FORGOTTEN(at, end_ns);
	at += append_arguments(row->arguments, regs, base, at);
	if (row->parts) {
		more = append_buffer(&of, base, at);
		if (more < 0)
			return 0;
		at += more;
	}
	body->cpu_ns = q->cpu_ns;
	body->took_ns = took_ns;
	body->call = q->call;
	body->result = result;
	body->nr = q->nr;
	body->arguments = row->arguments;
	record->bytes = at - used;
	record->kind = RECORD_BRIEF;
	record->flags = q->flags;
	record->number = cpu->next++;
	record->time_ns = end_ns;
	record->tid = task->pid;
	record->pid = task->tgid;
	if (of.told_at) {
		of.told->at = of.told_at;
		of.told->object = cpu->objects++;
	}
	cpu->bytes += at - used;
	cpu->used = at;
	barrier();
	head->used = at;
	return 1;
}

#endif
