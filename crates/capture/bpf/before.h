/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at pages that were stored to before a call, or a request, is performed.
 *
 * A request is looked at as it is submitted: afterwards another one that was submitted with it may have written to the same page. What
 * waits for other requests, or whose file is registered, is looked at when it is complete: the program may have stored meanwhile, and
 * which file it is the kernel tells only then. Goals: what a request shows has its row before it. Non-goals: waiting for room, which
 * nobody can here: what is not looked at now is later, as it is then; stores while a request is performed.
 */
#ifndef REPRISE_BEFORE_H
#define REPRISE_BEFORE_H

#include "mapped.h"
#include "ranges.h"

/* So many pages and patches are gone over. */
#define MOST_BEFORE 4096

/* Looks at what was added, as far as it can be at once; whether that was all. */
static __always_inline int look_before(struct look *l, struct cpu *cpu)
{
	int all;

	if (!l->count)
		return 1;
	if (!occupy(cpu))
		return 0;
	all = go_on_looking(l, cpu, 0, MOST_BEFORE) == VERDICT_DONE;
	leave(cpu);
	return all;
}

/* No program has memory beyond, with five levels of tables neither. */
#define LAST_ADDRESS (1ULL << 56)

/* Addresses at which a call ends what is mapped there. */
static __always_inline void ended_by(struct thread *t, struct row *row, __u64 *start, __u64 *length)
{
	*start = t->args[0];
	*length = t->args[1];
	if (row->look == LOOK_REMAP) {
		*start = t->args[4];
		*length = t->args[3] & MREMAP_FIXED ? t->args[2] : 0;
	} else if (row->look == LOOK_MAP && !(t->args[3] & MAP_FIXED)) {
		*length = 0;
	}
}

/* Before a mapping ends. After `munmap` another thread may have been given its addresses: nothing is known to lie there from now on. Who
 * maps something else there keeps them, or may fail. */
__noinline int before_unmap(struct thread *t, struct row *row)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 pid = this_process();
	__u64 start, length, end;
	struct look *l;

	if (!t || !row)
		return 0;
	ended_by(t, row, &start, &length);
	end = whole_pages(start, length);
	if (start & (PAGE - 1) || end <= start || end > LAST_ADDRESS)
		return 0;
	l = has_ranges(pid) ? begin_look(t, task, 0) : 0;
	if (!l || !add_memory(l, pid, start, end)) {
		t->looking = 0;
		return 0;
	}
	l->ends = 1;
	if (row->look == LOOK_UNMAP && !cut_ranges(pid, start, end))
		count_lost();
	return 0;
}

/* Before a call writes to a mapped file, or copies into it: what was stored, and what the finisher puts the written bytes upon, so
 * that they are not taken for stores. */
__noinline int before_write(struct thread *t, struct row *row)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu *cpu = this_cpu();
	__u64 first = 0, last = LAST_PAGE, at, length;
	struct object *object;
	struct look *l;

	if (!t || !row || !cpu)
		return 0;
	object = &t->objects[0];
	__builtin_memset(object, 0, sizeof(*object));
	look_at(object, task, row->look == LOOK_COPIED ? argument(t, row->offset - 1) : t->args[0]);
	if (!S_ISREG(object->mode))
		return 0;
	at = row->offset ? argument(t, row->offset - 1) : ~0ULL;
	if ((__s64)at < 0)
		at = object->position;
	if (row->look == LOOK_WRITTEN && row->parts && row->part[0].kind == PART_DATA && !(object->flags & O_APPEND)) {
		length = argument(t, row->part[0].of);
		first = at >> PAGE_SHIFT;
		last = (at + length - 1) >> PAGE_SHIFT;
	}
	l = begin_look(t, task, t->begin_ns);
	t->looking = 0;
	if (!l)
		return 0;
	l->flags = row->look == LOOK_WRITTEN ? MAPPED_WRITTEN : 0;
	add_file(l, object, first, last);
	look_before(l, cpu);
	return 0;
}

/* Before a call copies a file inside the kernel: what is stored from now on is stored while it copies. */
__noinline int before_copy(struct thread *t, struct row *row)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu *cpu = this_cpu();
	struct object *source;
	struct look *l;

	if (!t || !row || !cpu)
		return 0;
	source = &t->objects[0];
	__builtin_memset(source, 0, sizeof(*source));
	look_at(source, task, row->offset == 1 ? t->args[1] : t->args[0]);
	if (!S_ISREG(source->mode))
		return 0;
	l = begin_look(t, task, t->begin_ns);
	t->looking = 0;
	t->unlooked = 1;
	if (!l)
		return 0;
	add_file(l, source, 0, LAST_PAGE);
	t->unlooked = !look_before(l, cpu);
	return 0;
}

/* Part of a file that is about to be shown. */
struct shown {
	struct object object;
	__u64 offset; /* the highest bit is set: wherever the open file is */
	__u64 length; /* 0: not known */
};

/* Adds the part, if the file is mapped so that it can be written; all parts of it that are added are one. */
__noinline int add_shown(struct look *l, struct shown *s)
{
	struct which file = {};
	struct backing *backing;
	__u64 first = 0, last;

	if (!l || !s || !S_ISREG(s->object.mode))
		return 0;
	file.device = s->object.device;
	file.inode = s->object.inode;
	backing = backing_of(&file);
	if (!backing || !backing->mapping)
		return 0;
	last = s->object.size >> PAGE_SHIFT;
	if ((__s64)s->offset >= 0) {
		first = s->offset >> PAGE_SHIFT;
		if (s->length)
			last = at_most(last, (s->offset + s->length - 1) >> PAGE_SHIFT);
	}
	if (first <= last)
		widen_span(l, backing->mapping, first, last);
	return 0;
}

static __always_inline int stores_are_followed(void)
{
	struct watch *w = watch();

	return w->on && w->ranges;
}

/* Before a request shows a file, in whatever context. */
__noinline int before_shown(struct shown *s, __u64 time_ns)
{
	struct cpu *cpu = this_cpu();
	struct look *l;
	__u32 zero = 0;

	if (!s || !cpu)
		return 0;
	l = bpf_map_lookup_elem(&evictions, &zero);
	if (!l || !occupy(cpu))
		return 0;
	clear_look(l, time_ns, 0);
	add_shown(l, s);
	if (l->count)
		go_on_looking(l, cpu, 0, MOST_BEFORE);
	leave(cpu);
	return 0;
}

/* `struct iocb` as far as it is asked here. */
struct iocb_asks {
	struct iocb_words words;
	__u64 offset;
};

/* What the request shows whose address stands there; 0: nothing that is mapped. */
__noinline int find_shown(struct shown *s, __u64 at)
{
	struct iocb_asks asks = {};
	struct file *file;
	__u64 address = 0;

	if (!s || bpf_probe_read_user(&address, sizeof(address), (void *)at) ||
	    bpf_probe_read_user(&asks, sizeof(asks), (void *)(address + 16)))
		return 0;
	if (asks.words.opcode == IOCB_PWRITE || asks.words.opcode == IOCB_PWRITEV)
		return 0;
	file = file_of(bpf_get_current_task_btf(), asks.words.fd);
	if (!may_be_mapped(file))
		return 0;
	look_at_file(&s->object, file, 0);
	s->offset = asks.words.opcode == IOCB_PREAD || asks.words.opcode == IOCB_PREADV ? asks.offset : ~0ULL;
	s->length = asks.words.opcode == IOCB_PREAD ? asks.words.bytes : 0;
	return 1;
}

struct asking {
	struct look *l;
	__u64 at; /* where the address of the next request stands */
	__u64 end;
};

static long ask_step(__u64 i, struct asking *a)
{
	struct shown s = {};

	if (a->at >= a->end)
		return 1;
	if (find_shown(&s, a->at))
		add_shown(a->l, &s);
	a->at += sizeof(__u64);
	return 0;
}

LOOPED(ask_step, struct asking)

/* Before a call submits requests of Linux AIO: what they are about is theirs from then on. */
__noinline int before_asked(struct thread *t)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu *cpu = this_cpu();
	struct asking a = {};

	if (!t || !cpu)
		return 0;
	a.l = begin_look(t, task, t->begin_ns);
	t->looking = 0;
	if (!a.l)
		return 0;
	a.at = t->args[2];
	a.end = a.at + 8 * at_most(t->args[1], MOST_IOCBS);
	loop(MOST_IOCBS, ask_step, &a);
	look_before(a.l, cpu);
	return 0;
}

/* Adds all of a file, if it is mapped so that it can be written. By itself: where few have much of the stack. */
__noinline int add_open(struct look *l, struct thread *t, __s32 fd)
{
	if (!l || !t)
		return 0;
	__builtin_memset(&t->objects[0], 0, sizeof(t->objects[0]));
	look_at(&t->objects[0], bpf_get_current_task_btf(), fd);
	add_file(l, &t->objects[0], 0, LAST_PAGE);
	return 0;
}

/* Before a file gets what another one has: what was stored to either. */
__noinline int before_clone(struct thread *t)
{
	struct cpu *cpu = this_cpu();
	struct look *l;
	__u64 source;

	if (!t || !cpu)
		return 0;
	source = t->args[2];
	if ((__u32)t->args[1] == FICLONERANGE) {
		if (bpf_probe_read_user(&source, sizeof(source), (void *)t->args[2]))
			return 0;
	} else if ((__u32)t->args[1] != FICLONE) {
		return 0;
	}
	l = begin_look(t, bpf_get_current_task_btf(), t->begin_ns);
	t->looking = 0;
	if (!l)
		return 0;
	add_open(l, t, source);
	add_open(l, t, t->args[0]);
	look_before(l, cpu);
	return 0;
}

/* At the entry of a call. */
static __always_inline void before_call(struct thread *t, struct row *row)
{
	if (row->look == LOOK_UNMAP || row->look == LOOK_MAP || row->look == LOOK_REMAP)
		before_unmap(t, row);
	else if (row->look == LOOK_WRITTEN || row->look == LOOK_COPIED)
		before_write(t, row);
	else if (row->look == LOOK_ASKED)
		before_asked(t);
	else if (row->look == LOOK_CLONED)
		before_clone(t);
	if (row->look == LOOK_COPIED)
		before_copy(t, row);
}

#endif
