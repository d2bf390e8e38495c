/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of Linux AIO as they are submitted, and their completions as they are fetched. Included by `areas.h`.
 *
 * What tells of memory comes before all content: content beyond a record's own goes into others. Where the program is in the
 * queue's memory tells whether it takes completions from there itself.
 */
#ifndef REPRISE_IOCBS_H
#define REPRISE_IOCBS_H

#define MOST_IOCBS 1024
#define IOCB_BYTES 64 /* struct iocb */
#define EVENT_BYTES 32 /* struct io_event */
#define QUEUE_BYTES 16 /* of struct aio_ring: its size, its head, its tail */
/* Buffers of a request, and one element more, which goes on to the next. */
#define BUFFERS_EACH (MOST_VECTORS + 1)

enum iocb_opcode {
	IOCB_PREAD = 0,
	IOCB_PWRITE = 1,
	IOCB_PREADV = 7,
	IOCB_PWRITEV = 8,
};

/* `struct iocb` from its opcode on. */
struct iocb_words {
	__u16 opcode;
	__s16 priority;
	__u32 fd;
	__u64 buffer;
	__u64 bytes;
};

static __always_inline int has_vector(struct iocb_words *iocb)
{
	return iocb->opcode == IOCB_PREADV || iocb->opcode == IOCB_PWRITEV;
}

static __always_inline int iocb_vector(struct thread *t, struct iocb_words *iocb)
{
	if (!has_vector(iocb))
		return FOUND_NOTHING;
	t->area.address = iocb->buffer;
	t->area.length = 16 * at_most(iocb->bytes, MOST_VECTORS);
	return FOUND_AREA;
}

/* Buffer `number` of a request; FOUND_END: it has no more. */
static __always_inline int iocb_buffer(struct thread *t, struct iocb_words *iocb, __u32 number)
{
	__u64 words[2] = { iocb->buffer, iocb->bytes };

	if (number >= (has_vector(iocb) ? at_most(iocb->bytes, MOST_VECTORS) : 1))
		return FOUND_END;
	if (has_vector(iocb) && !peek(t, words, sizeof(words), iocb->buffer + 16 * (__u64)number))
		return FOUND_FAULT;
	t->area.address = words[0];
	t->area.length = words[1];
	t->area.content = 1;
	return FOUND_AREA;
}

/* The request has no more buffers: the element after this one is the first of the next. */
static __always_inline int next_iocb(struct thread *t, __u32 first, __u32 index)
{
	t->cursor.element = first + (index + 1) * BUFFERS_EACH - 1;
	return FOUND_NOTHING;
}

/* Element 0 are the pointers, 1 the beginning of the queue; then each request and its vector; then the buffers of those that write. */
__noinline int find_in_iocbs(struct thread *t)
{
	struct iocb_words iocb = {};
	__u64 address = 0;
	__u32 element, count, index, number = 0, first;
	int found;

	if (!t || t->result <= 0)
		return FOUND_END;
	element = t->cursor.element;
	count = at_most(t->result, MOST_IOCBS);
	first = 2 + 2 * count;
	if (!element) {
		t->area.length = 8 * count;
		return FOUND_AREA;
	}
	if (element == 1) {
		t->area.address = argument(t, 0);
		t->area.length = QUEUE_BYTES;
		return FOUND_AREA;
	}
	index = (element - 2) >> 1;
	if (element >= first) {
		index = (element - first) / BUFFERS_EACH;
		number = (element - first) % BUFFERS_EACH;
	}
	if (index >= count)
		return FOUND_END;
	if (!peek(t, &address, sizeof(address), argument(t, t->part.arg) + 8 * (__u64)index))
		return FOUND_FAULT;
	if (element < first && !(element & 1)) {
		t->area.address = address;
		t->area.length = IOCB_BYTES;
		return FOUND_AREA;
	}
	if (!peek(t, &iocb, sizeof(iocb), address + 16))
		return FOUND_FAULT;
	if (element < first)
		return iocb_vector(t, &iocb);
	if (iocb.opcode != IOCB_PWRITE && iocb.opcode != IOCB_PWRITEV)
		return next_iocb(t, first, index);
	found = iocb_buffer(t, &iocb, number);
	return found == FOUND_END ? next_iocb(t, first, index) : found;
}

/* Element 0 are the completions; then the vector of each request; then the buffers of those that read. */
__noinline int find_in_events(struct thread *t)
{
	struct iocb_words iocb = {};
	__u64 event[3] = {};
	__u32 element, count, index, number = 0, first;
	int found;

	if (!t || t->result <= 0)
		return FOUND_END;
	element = t->cursor.element;
	count = at_most(t->result, MOST_IOCBS);
	first = 1 + count;
	if (!element) {
		t->area.length = EVENT_BYTES * count;
		return FOUND_AREA;
	}
	index = element - 1;
	if (element >= first) {
		index = (element - first) / BUFFERS_EACH;
		number = (element - first) % BUFFERS_EACH;
	}
	if (index >= count)
		return FOUND_END;
	if (!peek(t, event, sizeof(event), argument(t, t->part.arg) + EVENT_BYTES * (__u64)index))
		return FOUND_FAULT;
	if (!peek(t, &iocb, sizeof(iocb), event[1] + 16))
		return FOUND_FAULT;
	if (element < first)
		return iocb_vector(t, &iocb);
	if ((iocb.opcode != IOCB_PREAD && iocb.opcode != IOCB_PREADV) || (__s64)event[2] <= 0)
		return next_iocb(t, first, index);
	found = iocb_buffer(t, &iocb, number);
	if (found == FOUND_AREA && !has_vector(&iocb))
		t->area.length = at_most(t->area.length, event[2]);
	return found == FOUND_END ? next_iocb(t, first, index) : found;
}

#endif
