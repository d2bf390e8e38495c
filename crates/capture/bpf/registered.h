/* SPDX-License-Identifier: Apache-2.0 */
/* What is registered with a ring: descriptors, and other rings. Included by `areas.h`. */
#ifndef REPRISE_REGISTERED_H
#define REPRISE_REGISTERED_H

#define MOST_REGISTERED (1u << 15)

enum registration {
	REGISTER_FILES = 2,
	REGISTER_FILES_UPDATE = 6,
	REGISTER_FILES2 = 13,
	REGISTER_FILES_UPDATE2 = 14,
	REGISTER_RINGS = 20,
	UNREGISTER_RINGS = 21,
};

/* Element 0 is what the call names; 1 are the descriptors that this leads to. */
__noinline int find_registered(struct thread *t)
{
	__u32 opcode, words[8] = {}, bytes = 32, count = 0;
	struct area *area;

	if (!t || t->cursor.element > 1)
		return FOUND_END;
	area = &t->area;
	opcode = (__u32)t->args[1] & 0x7fffffff;
	count = at_most(t->args[3], MOST_REGISTERED);
	switch (opcode) {
	case REGISTER_FILES:
		area->length = 4 * count;
		return t->cursor.element ? FOUND_END : FOUND_AREA;
	case REGISTER_RINGS:
	case UNREGISTER_RINGS:
		area->length = 16 * count;
		return t->cursor.element ? FOUND_END : FOUND_AREA;
	case REGISTER_FILES_UPDATE:
		bytes = 16;
		break;
	case REGISTER_FILES2:
	case REGISTER_FILES_UPDATE2:
		break;
	default:
		return FOUND_END;
	}
	area->length = bytes;
	if (!t->cursor.element)
		return FOUND_AREA;
	if (!peek(t, words, bytes == 16 ? 16 : 32, t->args[2]))
		return FOUND_FAULT;
	if (opcode == REGISTER_FILES2) {
		count = words[0];
		area->address = (__u64)words[5] << 32 | words[4];
	} else {
		count = opcode == REGISTER_FILES_UPDATE2 ? words[6] : count;
		area->address = (__u64)words[3] << 32 | words[2];
	}
	area->length = 4 * at_most(count, MOST_REGISTERED);
	return area->address ? FOUND_AREA : FOUND_END;
}

#endif
