/* SPDX-License-Identifier: Apache-2.0 */
/* Which memory belongs to a call: the areas that the parts of its row name. */
#ifndef REPRISE_AREAS_H
#define REPRISE_AREAS_H

#include "state.h"

#define MOST_VECTORS 1024     /* UIO_MAXIOV */
#define MOST_MOVED 0x7ffff000 /* MAX_RW_COUNT */
#define MOST_CONTROL 65536
#define MESSAGE_BYTES 56      /* struct msghdr */
#define MESSAGES_BYTES 64     /* struct mmsghdr */

enum found {
	FOUND_AREA = 0,
	FOUND_NOTHING, /* this element has none */
	FOUND_END,     /* nor has any later one */
	FOUND_FAULT,   /* the memory that tells cannot be read now */
};

static __always_inline int failed(__s64 result)
{
	return result < 0 && result >= -4095;
}

static __always_inline __u64 at_most(__u64 value, __u64 limit)
{
	return value < limit ? value : limit;
}

static __always_inline __u64 argument(struct thread *t, __u32 index)
{
	return index < 6 ? t->args[index] : 0;
}

static __always_inline int is_content(__u8 kind)
{
	return kind == PART_DATA || kind == PART_VECTOR;
}

/* Memory that names further memory. */
static __always_inline int peek(struct thread *t, void *into, __u32 bytes, __u64 address)
{
	if (!bpf_probe_read_user(into, bytes, (void *)address))
		return 1;
	t->fault_address = address;
	t->fault_bytes = bytes;
	return 0;
}

/* The structure that a command of fcntl or ioctl is given or fills. */
static __always_inline __u64 command_bytes(struct thread *t, __u8 kind)
{
	__u32 request = t->args[1], size = 0, when = 0;
	__u64 key = ((__u64)kind << 32) | request;
	struct command *known = bpf_map_lookup_elem(&commands, &key);

	if (known) {
		size = known->size;
		when = known->when;
	} else if (kind == PART_IOCTL) {
		size = (request >> 16) & 0x3fff;
		when = request >> 30;
	}
	if (t->entry)
		return when == (PART_AT_ENTRY | PART_AT_EXIT) ? size : 0;
	if (when == PART_AT_ENTRY)
		return size;
	return failed(t->result) ? 0 : (when ? size : 0);
}

/* Element 0 is the array of headers; then come, for each message, its vector and its control data. */
static __always_inline int find_in_message(struct thread *t, struct part *part, __u32 element, struct area *area)
{
	__u64 base = argument(t, part->arg), size = MESSAGE_BYTES, count = 1, of = 0;
	__u64 words[2];

	if (part->kind == PART_MESSAGES) {
		size = MESSAGES_BYTES;
		count = at_most(part->when & PART_FILLED ? (__u64)t->result : argument(t, part->of), MOST_VECTORS);
	}
	if (element == 0) {
		area->address = base;
		area->length = size * count;
		return FOUND_AREA;
	}
	of = (element - 1) >> 1;
	if (of >= count)
		return FOUND_END;
	base += of * size;
	if (element & 1) {
		if (part->when & PART_FILLED)
			return FOUND_NOTHING;
		if (!peek(t, words, sizeof(words), base + 16))
			return FOUND_FAULT;
		area->address = words[0];
		area->length = 16 * at_most(words[1], MOST_VECTORS);
		return FOUND_AREA;
	}
	if (!peek(t, words, sizeof(words), base + 32))
		return FOUND_FAULT;
	area->address = words[0];
	area->length = at_most(words[1], MOST_CONTROL);
	return FOUND_AREA;
}

/* A buffer of a vector, the first is 1; 0: it cannot be read now. */
static __always_inline int peek_buffer(struct thread *t, __u64 base, __u32 element, __u64 *words)
{
	__u64 slot = t->vector;
	struct vector *kept = slot ? bpf_map_lookup_elem(&vectors, &slot) : 0;
	__u32 at = (element - 1) % VECTOR_MOST;

	if (!kept)
		return peek(t, words, 2 * sizeof(*words), base + 16 * (__u64)(element - 1));
	words[0] = kept->words[2 * at];
	words[1] = kept->words[2 * at + 1];
	return 1;
}

/* Whether a buffer of a vector is the one before it, once more. */
static __always_inline int is_named_again(struct thread *t, __u64 base, __u32 element, __u64 *words)
{
	__u64 before[2];

	return element > 1 && peek_buffer(t, base, element - 1, before) && before[0] == words[0] &&
	       before[1] == words[1];
}

/* Element 0 is the array, then come the buffers. One that is named again (zeros, mostly) is kept once, since it is found by its
 * address. */
static __always_inline int find_in_vector(struct thread *t, struct part *part, __u32 element, struct area *area)
{
	__u64 base = argument(t, part->arg), count = at_most(argument(t, part->of), MOST_VECTORS);
	__u64 words[2];

	if (element == 0) {
		area->address = base;
		area->length = 16 * count;
		return t->vector ? FOUND_NOTHING : FOUND_AREA;
	}
	if (element > count || (part->when & PART_FILLED && failed(t->result)))
		return FOUND_END;
	if (!peek_buffer(t, base, element, words))
		return FOUND_FAULT;
	if (!t->cursor.offset && is_named_again(t, base, element, words)) {
		t->cursor.stream += words[1];
		return FOUND_NOTHING;
	}
	area->address = words[0];
	area->length = words[1];
	area->content = 1;
	return FOUND_AREA;
}

/* Each string has two elements: the pointer to it, and its text. */
static __always_inline int find_in_strings(struct thread *t, struct part *part, __u32 element, struct area *area)
{
	__u64 at = argument(t, part->arg) + 8 * (__u64)(element >> 1), pointer = 0;

	area->content = 1;
	if (t->cursor.stream >= part->size)
		return FOUND_END;
	if (!(element & 1)) {
		area->address = at;
		area->length = 8;
		return FOUND_AREA;
	}
	if (!peek(t, &pointer, sizeof(pointer), at))
		return FOUND_FAULT;
	if (!pointer)
		return FOUND_END;
	area->address = pointer;
	area->length = 1 << 17; /* MAX_ARG_STRLEN */
	area->string = 1;
	return FOUND_AREA;
}

/* `struct clone_args`, to its second word. */
struct clone_words {
	__u64 flags;
	__u64 handle;
};

/* Element 0 is the structure, 1 the descriptor of the child. */
static __always_inline int find_in_clone_args(struct thread *t, struct part *part, __u32 element, struct area *area)
{
	struct clone_words words;

	if (element > 1 || (element && failed(t->result)))
		return FOUND_END;
	if (!element) {
		area->length = at_most(argument(t, part->of), part->size);
		return FOUND_AREA;
	}
	if (!peek(t, &words, sizeof(words), area->address))
		return FOUND_FAULT;
	area->address = words.handle;
	area->length = words.flags & CLONE_PIDFD ? 4 : 0;
	return FOUND_AREA;
}

#include "registered.h"
#include "iocbs.h"

/* Finds the area at the cursor, in the thread's present part. */
__noinline int find_area(struct thread *t)
{
	struct part *part;
	struct area *area;
	__u32 element;

	if (!t)
		return FOUND_END;
	part = &t->part;
	area = &t->area;
	element = t->cursor.element;
	area->address = argument(t, part->arg);
	area->length = part->size;
	area->single = 1;
	area->string = area->content = 0;
	if (!area->address)
		return FOUND_END;
	switch (part->kind) {
	case PART_BYTES:
		break;
	case PART_SIZED:
		area->length = at_most(argument(t, part->of), part->size);
		break;
	case PART_CHILD_HANDLE:
		area->length = argument(t, 0) & CLONE_PIDFD ? part->size : 0;
		break;
	case PART_CLONE_ARGS:
		area->single = 0;
		return find_in_clone_args(t, part, element, area);
	case PART_WORDS:
		area->length = 4 * at_most(argument(t, part->of), part->size);
		break;
	case PART_STRING:
		area->string = 1;
		break;
	case PART_DATA:
		area->length = argument(t, part->of);
		area->content = 1;
		break;
	case PART_FCNTL:
	case PART_IOCTL:
		area->length = command_bytes(t, part->kind);
		break;
	case PART_BUFFERS:
		area->length = 16 * at_most(argument(t, part->of), MOST_VECTORS);
		break;
	case PART_IOCBS:
		area->single = 0;
		return find_in_iocbs(t);
	case PART_EVENTS:
		area->single = 0;
		return find_in_events(t);
	case PART_REGISTERED:
		area->single = 0;
		return find_registered(t);
	case PART_STRINGS:
		area->single = 0;
		return find_in_strings(t, part, element, area);
	case PART_VECTOR:
		area->single = 0;
		return find_in_vector(t, part, element, area);
	case PART_MESSAGE:
	case PART_MESSAGES:
		area->single = 0;
		return find_in_message(t, part, element, area);
	default:
		return FOUND_END;
	}
	return FOUND_AREA;
}

/* Whether a part is kept on this side of the call. */
static __always_inline int applies(struct thread *t, struct part *part)
{
	if (t->entry)
		return part->when & PART_AT_ENTRY;
	if (part->when & PART_AT_EXIT)
		return 1;
	/* How long buffers are is told by what names them, also where nothing was filled. */
	return part->when & PART_FILLED && (!failed(t->result) || part->kind == PART_VECTOR);
}

#endif
