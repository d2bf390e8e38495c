/* SPDX-License-Identifier: Apache-2.0 */
/* The walk over the ranges of a call: piece by piece into the record that is being made, or into MORE records.
 *
 * It can be left at any piece and gone on with later, for there may be no room, or a page may not be there. Which
 * pieces go into MORE records follows from the call alone: content beyond INLINE_BYTES. They are written first, since
 * the record itself says how many they are.
 */
#ifndef REPRISE_RANGES_H
#define REPRISE_RANGES_H

#include "areas.h"
#include "loop.h"
#include "transport.h"

#define STRING_PIECE 4096u
#define PAGE 4096u

enum verdict {
	VERDICT_GO_ON = 0,
	VERDICT_DONE,
	VERDICT_NO_ROOM,
	VERDICT_NO_PAGE,
	VERDICT_TOO_LARGE, /* for any segment */
};

struct walker {
	struct thread *t;
	struct row *row;
	struct cpu *cpu;
	__u32 verdict;
	__u32 urgent;
};

struct prefix {
	__u64 address;
	__u32 segment;
	__u32 at;
	__u32 length;
	__u32 done;
};

static __always_inline __u32 padded(__u32 bytes)
{
	return (bytes + 7) & ~7u;
}

/* Shorter content is copied as quickly wherever it goes. */
#define ALIGNED_FROM 512u
#define LINE 64u

/* How far behind its head content goes, a multiple of 8. Some processors (AMD's Zen 3) take sixteen times as long to copy if the
 * target lies up to 31 bytes further on within its page than the source, and all are quickest if both lie alike in lines of the
 * caches. Segments begin at the beginning of a page. */
static __always_inline __u32 lead_of(__u64 address, __u32 at, __u32 bytes)
{
	return bytes < ALIGNED_FROM ? 0 : ((__u32)address - at) & (LINE - 8);
}

/* One page of a range that cannot be read as a whole. */
static long read_page(__u64 i, struct prefix *p)
{
	__u64 address = p->address + p->done;
	__u32 n = at_most(PAGE - (address & (PAGE - 1)), p->length - p->done);
	void *to = place(p->segment, p->at + p->done);

	if (!to || p->done >= p->length)
		return 1;
	CHECKED(n);
	if (n == 0 || n > PAGE || bpf_probe_read_user(to, n, (void *)address))
		return 1;
	p->done += n;
	return 0;
}

LOOPED(read_page, struct prefix)

__noinline __u32 read_prefix(__u32 segment, __u32 at, __u64 address, __u32 length)
{
	struct prefix p = { .address = address, .segment = segment, .at = at, .length = length };

	loop(PIECE_BYTES / PAGE + 1, read_page, &p);
	return p.done;
}

static __always_inline void next_part(struct thread *t)
{
	t->cursor.part++;
	t->cursor.element = 0;
	t->cursor.offset = 0;
}

static __always_inline void next_area(struct thread *t)
{
	if (t->area.single) {
		next_part(t);
		return;
	}
	t->cursor.element++;
	t->cursor.offset = 0;
}

/* The piece at the cursor is done with. */
static __always_inline void advance(struct thread *t)
{
	if (t->area.content)
		t->cursor.stream += t->length;
	t->cursor.offset += t->length;
	if (t->cursor.offset >= t->area.length)
		next_area(t);
}

static __always_inline int unwanted(struct thread *t)
{
	return t->part.when & PART_UNWANTED && t->area.content;
}

/* How long the piece at the cursor is; 0: the area is done with. */
static __always_inline __u32 piece_length(struct thread *t)
{
	__u64 stream = t->cursor.stream, left = t->area.length - t->cursor.offset, most = MOST_MOVED;

	if (t->cursor.offset >= t->area.length || !t->area.address)
		return 0;
	if (is_content(t->part.kind) && t->area.content) {
		if (t->part.when & PART_FILLED)
			most = at_most(t->result, most);
		left = at_most(left, stream < most ? most - stream : 0);
		if (unwanted(t))
			return left;
		if (stream < INLINE_BYTES)
			left = at_most(left, INLINE_BYTES - stream);
	}
	return at_most(left, t->area.string ? STRING_PIECE : PIECE_BYTES);
}

enum next {
	NEXT_DONE = 0, /* no part is left */
	NEXT_STEP,     /* nothing to keep here */
	NEXT_FAULT,    /* what tells of the memory cannot be read */
	NEXT_KEEP,     /* the piece is to be kept */
	NEXT_MEASURE,  /* only its length is of interest */
};

/* Goes to the next piece. */
__noinline int next_piece(struct thread *t, struct row *row)
{
	__u32 index;

	if (!t || !row)
		return NEXT_DONE;
	index = t->cursor.part;
	if (index >= PARTS || index >= row->parts)
		return NEXT_DONE;
	t->part = row->part[index];
	if (!applies(t, &t->part)) {
		next_part(t);
		return NEXT_STEP;
	}
	switch (find_area(t)) {
	case FOUND_AREA:
		break;
	case FOUND_NOTHING:
		next_area(t);
		return NEXT_STEP;
	case FOUND_FAULT:
		return NEXT_FAULT;
	default:
		next_part(t);
		return NEXT_STEP;
	}
	t->length = piece_length(t);
	if (!t->length) {
		next_area(t);
		return NEXT_STEP;
	}
	if (t->area.content && !unwanted(t) && t->cursor.stream >= INLINE_BYTES) {
		if (!t->inlined)
			return NEXT_KEEP;
		next_part(t);
		return NEXT_STEP;
	}
	if (t->inlined)
		return NEXT_KEEP;
	if (t->area.string && t->area.content)
		return NEXT_MEASURE;
	advance(t);
	return NEXT_STEP;
}

enum kept {
	KEPT = 0,
	KEPT_PART, /* a prefix */
	KEPT_NOT,
};

/* Reads the piece to a place in a segment; `kept` is what stands there. */
__noinline int read_piece(struct thread *t, __u32 segment, __u32 at)
{
	__u64 address;
	__u32 bytes;
	char *to = place(segment, at);
	long got;

	if (!to || !t)
		return KEPT_NOT;
	address = t->area.address + t->cursor.offset + t->aside;
	bytes = t->length;
	if (t->area.string) {
		got = bpf_probe_read_user_str(to, STRING_PIECE, (void *)address);
		if (got > 0) {
			if (got < STRING_PIECE)
				t->area.length = 0; /* that was its end */
			else
				got = STRING_PIECE - 1;
			t->length = t->kept = got;
			return KEPT;
		}
	} else {
		CHECKED(bytes);
		if (bytes <= PIECE_BYTES && !bpf_probe_read_user(to, bytes, (void *)address)) {
			t->kept = bytes;
			return KEPT;
		}
	}
	if (!t->accept) {
		t->fault_address = address;
		t->fault_bytes = t->area.string ? 1 : t->length;
		return KEPT_NOT;
	}
	t->kept = read_prefix(segment, at, address, t->length);
	return KEPT_PART;
}

/* Keeps the piece at the cursor: in the record that is being made, or in a MORE record of its own. */
__noinline int keep_piece(struct thread *t, struct cpu *cpu, int urgent, int measure)
{
	__u32 bytes, start, head = 0, lead = 0, flags = 0;
	struct range_head *range;

	if (!t || !cpu)
		return VERDICT_NO_ROOM;
	/* How long a string is shows as it is read. */
	bytes = unwanted(t) ? 0 : t->area.string ? STRING_PIECE : t->length;
	if (!t->inlined) {
		head = sizeof(struct record_head) + sizeof(struct more_body);
		if (!make_room(cpu, head + sizeof(*range) + LINE + padded(bytes), urgent))
			return VERDICT_NO_ROOM;
	}
	start = t->inlined ? t->at : cpu->used;
	if (!t->area.string)
		lead = lead_of(t->area.address + t->cursor.offset, start + head + sizeof(*range), bytes);
	if (start + head + sizeof(*range) + lead + padded(bytes) > SEGMENT_BYTES)
		return VERDICT_NO_ROOM;
	t->kept = 0;
	if (!bytes) {
		flags = RANGE_UNWANTED;
	} else {
		switch (read_piece(t, cpu->segment, start + head + sizeof(*range) + lead)) {
		case KEPT:
			break;
		case KEPT_PART:
			flags = RANGE_LACKING;
			break;
		default:
			return VERDICT_NO_PAGE;
		}
	}
	range = place(cpu->segment, start + head);
	if (!range)
		return VERDICT_NO_ROOM;
	if (!measure) {
		range->address = t->area.address + t->cursor.offset;
		range->length = t->length;
		range->kept = t->kept;
		range->when = t->entry ? WHEN_ENTRY : WHEN_EXIT;
		range->flags = flags;
		range->lead = lead;
		start += head + sizeof(*range) + lead + padded(t->kept);
		if (t->inlined) {
			t->at = start;
			t->ranges++;
			t->lacking += flags & RANGE_LACKING;
		} else {
			struct record_head *record = place(cpu->segment, cpu->used);

			if (!record)
				return VERDICT_NO_ROOM;
			((struct more_body *)(record + 1))->call = t->call;
			commit(cpu, record, start, RECORD_MORE | t->flags << 16, t->entry ? t->begin_ns : t->end_ns);
			t->more++;
			t->lost += flags & RANGE_LACKING;
		}
	}
	/* Content is kept up to the first byte that cannot be read. */
	if (flags & RANGE_LACKING && (t->area.content || t->area.string))
		next_part(t);
	else
		advance(t);
	return VERDICT_GO_ON;
}

/* One piece, or one step on to the next. */
static long step(__u64 i, struct walker *w)
{
	struct thread *t = w->t;
	int next = next_piece(t, w->row);

	switch (next) {
	case NEXT_STEP:
		return 0;
	case NEXT_FAULT:
		if (!t->accept) {
			w->verdict = VERDICT_NO_PAGE;
			return 1;
		}
		t->lacking++;
		next_part(t);
		return 0;
	case NEXT_KEEP:
	case NEXT_MEASURE:
		w->verdict = keep_piece(t, w->cpu, w->urgent, next == NEXT_MEASURE);
		return w->verdict != VERDICT_GO_ON;
	default:
		w->verdict = VERDICT_DONE;
		return 1;
	}
}

LOOPED(step, struct walker)

#endif
