/* SPDX-License-Identifier: Apache-2.0 */
/* Stores to mapped files: what calls and faults tell of them, and which calls are a reason to look.
 *
 * Looks are made when a call is over, and stand before it in the trace: the thread can wait then, and pages stay in the
 * cache when a mapping ends. Calls that only shorten a file or take a part of it away need none: what was stored there is
 * seen by nobody. Goals: programs without such mappings pay one comparison. Non-goals: stores of devices (DAX).
 */
#ifndef REPRISE_MAPPED_H
#define REPRISE_MAPPED_H

#include "program.h"
#include "shared.h"
#include "tasks.h"

#define FAULT_PRESENT 1
#define FAULT_WRITE 2
#define HUGE_PAGES 512
/* Pages around a fault that are opened with it where nothing is written back. */
#define AROUND 16
/* So much of a mapping is suspect at once, at most, when it is made present. */
#define MOST_POPULATED 65536

/* Values of `looking`. */
#define LOOKS_FIRST 1 /* before the record of a call */
#define LOOKS_LAST 2  /* before that of the thread's end */

static __always_inline __u32 this_process(void)
{
	return bpf_get_current_pid_tgid() >> 32;
}

/* Something could not be kept in mind. */
static __always_inline void count_lost(void)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		drop(cpu, LACK_MEMORY);
}

/* A look of the present thread that is made when its call is over. */
static __always_inline struct look *begin_look(struct thread *t, struct task_struct *task, __u64 time_ns)
{
	struct look *l = bpf_task_storage_get(&looks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!l) {
		count_lost();
		return 0;
	}
	clear_look(l, time_ns, bpf_get_current_pid_tgid());
	t->looking = LOOKS_FIRST;
	return l;
}

struct spanning {
	struct pass pass;
	struct look *l;
};

static long span_step(__u64 i, struct spanning *s)
{
	struct range *r = next_range(&s->pass);
	__u64 start = s->pass.start, end = s->pass.end;

	if (!r)
		return s->pass.over;
	if (r->end <= start || r->start >= end)
		return 0;
	start = start > r->start ? start : r->start;
	end = at_most(end, r->end);
	add_span(s->l, r->mapping, r->page + ((start - r->start) >> PAGE_SHIFT),
		 r->page + ((end - 1 - r->start) >> PAGE_SHIFT));
	return 0;
}

LOOPED(span_step, struct spanning)

/* Adds what lies at these addresses of a process. */
__noinline int add_memory(struct look *l, __u32 pid, __u64 start, __u64 end)
{
	struct spanning s = { .pass = { .start = start, .end = end }, .l = l };

	if (!l)
		return 0;
	if (begin_pass(&s.pass, pid))
		loop(PASS_STEPS, span_step, &s);
	return l->count;
}

/* Adds a part of the file that a call names, if it is mapped. */
static __always_inline void add_file(struct look *l, struct object *object, __u64 first, __u64 last)
{
	struct which file = { object->device, object->inode };
	struct backing *backing = backing_of(&file);

	if (backing && backing->mapping)
		add_span(l, backing->mapping, first, last);
}

static __always_inline __u64 whole_pages(__u64 address, __u64 length)
{
	return address + ((length + PAGE - 1) & ~(__u64)(PAGE - 1));
}

/* Pages of a range are suspect. */
struct opening {
	struct fault fault;
	__u64 first, last;
	__u32 lost;
	__u32 fresh;
};

static long open_step(__u64 i, struct opening *o)
{
	struct span span = { 0, o->first, o->last };
	int found;

	if (o->first > o->last)
		return 1;
	o->fault.key.number = o->first >> PATCH_SHIFT;
	o->fault.bits = within(&span, o->fault.key.number);
	found = suspect(&o->fault);
	o->lost |= found == SUSPECT_LOST;
	o->fresh |= found == SUSPECT_NEW;
	o->first = (o->fault.key.number + 1) << PATCH_SHIFT;
	return 0;
}

LOOPED(open_step, struct opening)

/* Gives whether some of them were never written. */
__noinline int open_pages(struct range *r, __u64 page, __u64 first, __u64 last, int whole)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct opening o = { .first = first, .last = last };

	if (!r)
		return 0;
	o.fault.key.mapping = r->mapping;
	o.fault.file = r->file;
	o.fault.generation = r->generation;
	o.fault.written_back = r->written_back;
	o.fault.tid = id;
	o.fault.pid = id >> 32;
	o.fault.page = page;
	o.fault.whole = whole;
	o.fault.now = bpf_ktime_get_ns();
	loop(MOST_POPULATED, open_step, &o);
	if (o.lost || o.first <= o.last)
		count_lost();
	return o.fresh;
}

/* Pages at these addresses are made present without a fault; `r` is where the range that they are of may stand. */
static __always_inline void populate_range(struct range *r, __u64 start, __u64 end, int writes)
{
	__u64 first, last;

	if (!find_range(r, this_process(), start) || (r->written_back && !writes))
		return;
	end = at_most(end, r->end);
	if (end <= start)
		return;
	first = r->page + ((start - r->start) >> PAGE_SHIFT);
	last = r->page + ((end - 1 - r->start) >> PAGE_SHIFT);
	open_pages(r, first, first, last, 0);
}

static __always_inline void populate(__u64 start, __u64 end, int writes)
{
	struct range r = {};

	populate_range(&r, start, end, writes);
}

/* Whether memory that somebody gives this advice on is made present. */
static __always_inline int populates(__u32 advice)
{
	return advice == MADV_POPULATE_READ || advice == MADV_POPULATE_WRITE;
}

#ifdef WITHOUT_LOOP
/* Linux 5.15 does not tell which file lies at an address: one of an overlay is taken for its own. */
static __always_inline __u64 mapping_at(struct task_struct *task, __u64 address, __u64 inode)
{
	return mapping_of_inode(inode);
}
#else
static long note_mapping(struct task_struct *task, struct vm_area_struct *area, __u64 *mapping)
{
	__u64 inode = (__u64)BPF_CORE_READ(area, vm_file, f_inode);

	*mapping = mapping_of_inode(inode);
	return 0;
}

/* The pages behind an address: of a file of an overlay those of the file below. */
static __always_inline __u64 mapping_at(struct task_struct *task, __u64 address, __u64 inode)
{
	__u64 mapping = 0;

	if (bpf_find_vma(task, address, note_mapping, &mapping, 0) || !mapping)
		mapping = mapping_of_inode(inode);
	return mapping;
}
#endif

/* Whether memory was mapped that, when it is written to, changes a regular file. */
static __always_inline int stores_to_file(struct thread *t)
{
	__u32 type = t->args[3] & MAP_TYPE;

	return (type == MAP_SHARED || type == MAP_SHARED_VALIDATE) && !(t->args[3] & MAP_ANONYMOUS) &&
	       S_ISREG(t->objects[0].mode) && (t->objects[0].flags & O_ACCMODE) == O_RDWR;
}

static __always_inline void after_map(struct thread *t, struct task_struct *task)
{
	struct object *object = &t->objects[0];
	__u32 pid = this_process();
	struct range r = {};
	struct file *file;
	__u64 inode;

	if (failed(t->result))
		return;
	/* What lay there ended; or it may seem to lie there though it ended while it was taken in (`begun.h`). */
	if (!cut_ranges(pid, t->result, whole_pages(t->result, t->args[1])))
		count_lost();
	if (!stores_to_file(t))
		return;
	file = file_of(task, object->fd);
	inode = (__u64)BPF_CORE_READ(file, f_inode);
	r.start = t->result;
	r.end = whole_pages(t->result, t->args[1]);
	r.page = t->args[5] >> PAGE_SHIFT;
	r.file.device = object->device;
	r.file.inode = object->inode;
	r.generation = object->generation;
	r.mapping = mapping_at(task, t->result, inode);
	r.written_back = is_written_back(r.mapping);
	__sync_fetch_and_or(&watch()->inodes, trace_of(inode));
	/* Whose memory it is may store there when this process has ended. */
	if (!map_range(&r, pid) || t->lodges)
		count_lost();
	else if (t->args[3] & (MAP_POPULATE | MAP_LOCKED))
		populate(r.start, r.end, 0);
}

/* What lies at an address is mapped a second time: here and there, stores reach the file from now on. */
static __always_inline void map_once_more(struct range *r, __u32 pid, __u64 address, __u64 start, __u64 end)
{
	r->page += (address - r->start) >> PAGE_SHIFT;
	r->start = start;
	r->end = end;
	cut_ranges(pid, start, end);
	if (!map_range(r, pid))
		count_lost();
}

/* What is mapped at an address is mapped once more. Since Linux 6.17 several areas may be: of all but the first nothing is known there. */
static __always_inline void after_second_map(struct thread *t, __u32 pid, __u64 start, __u64 end, __u64 to)
{
	struct range r = {};
	__u64 known;

	find_range(&r, pid, start);
	known = r.end;
	if (known)
		map_once_more(&r, pid, start, to, whole_pages(to, t->args[2]));
	if (known < end && find_range(&r, pid, end - 1))
		count_lost();
}

/* There may be many areas, of several files. */
__noinline int after_remap(struct thread *t)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 start, end, to, to_end, kept;
	__u32 pid = this_process();
	struct look *l;

	if (!t || failed(t->result) || !has_ranges(pid))
		return 0;
	start = t->args[0];
	end = whole_pages(start, t->args[1]);
	to = t->result;
	to_end = whole_pages(to, t->args[2]);
	kept = at_most(end - start, to_end - to);
	if (t->args[3] & MREMAP_DONTUNMAP || !t->args[1]) {
		after_second_map(t, pid, start, end, to);
		return 0;
	}
	if (to != start || start + kept < end) {
		l = t->looking ? bpf_task_storage_get(&looks, task, 0, 0) : begin_look(t, task, t->end_ns - 1);
		if (l)
			add_memory(l, pid, start, end);
		if (!cut_ranges(pid, start + kept, end))
			count_lost();
	}
	if (to != start) {
		/* Where nothing is taken out, a range is parted. */
		if (!(cut_ranges(pid, to, to_end) && cut_ranges(pid, start, start) && cut_ranges(pid, start + kept, start + kept)))
			count_lost();
		shift_ranges(pid, start, start + kept, to);
	}
	grow_range(pid, to + kept, to_end);
	return 0;
}

static __always_inline void look_at_part(struct thread *t, struct row *row, struct look *l)
{
	__u64 moved = t->result, at = 0;

	if (failed(t->result) || !moved)
		return;
	at = row->offset ? argument(t, row->offset - 1) : ~0ULL;
	if ((__s64)at < 0)
		at = t->objects[0].position - moved;
	add_file(l, &t->objects[0], at >> PAGE_SHIFT, (at + moved - 1) >> PAGE_SHIFT);
}

/* What was stored before a call is stamped with an instant before it; what was stored while it copied the file, ahead of it or behind
 * it, with one after it. */
static __always_inline __u64 stamp_of_look(struct thread *t, struct row *row)
{
	if (row->look != LOOK_COPIED)
		return t->end_ns - 1;
	return t->unlooked ? t->begin_ns : t->end_ns + 1;
}

/* The target was looked at before: what the call brought there is no store. */
static __always_inline void look_at_source(struct thread *t, struct row *row, struct look *l)
{
	struct object *source = &t->objects[row->offset == 1], *target = &t->objects[row->offset != 1];

	if (source->device != target->device || source->inode != target->inode)
		add_file(l, source, 0, LAST_PAGE);
}

/* Nothing of a process is mapped any more. */
static __always_inline void leave_memory(struct look *l, __u32 pid)
{
	add_memory(l, pid, 0, ~0ULL);
	l->ends = 1;
	forget_ranges(pid);
}

/* A call is over that a look belongs to. */
/* More pages are not looked at where nothing is written back. */
#define PAGES_ASYNC 64ULL

/* MS_ASYNC does nothing and leaves pages open to stores, so that a look would show all of them, each time (LMDB's MDB_MAPASYNC: all of the
 * database for each transaction). What was stored is seen by the next look. */
static __always_inline int is_too_much(struct thread *t)
{
	return !(t->args[2] & MS_SYNC) && t->args[1] > PAGES_ASYNC * PAGE;
}

__noinline int look_after(struct thread *t, struct row *row)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 pid = this_process();
	struct look *l;

	if (!t || !row)
		return 0;
	l = begin_look(t, task, stamp_of_look(t, row));
	if (!l)
		return 0;
	switch (row->look) {
	case LOOK_PART:
		look_at_part(t, row, l);
		break;
	case LOOK_COPIED:
		l->flags = t->unlooked ? 0 : MAPPED_DURING;
		look_at_source(t, row, l);
		break;
	case LOOK_SYNC:
		l->closes = !t->result;
		add_file(l, &t->objects[0], 0, LAST_PAGE);
		break;
	case LOOK_SYNC_MEMORY:
		if (is_too_much(t))
			break;
		l->closes = !t->result && t->args[2] & MS_SYNC;
		add_memory(l, pid, t->args[0], whole_pages(t->args[0], t->args[1]));
		break;
	case LOOK_SYNC_ALL:
		l->closes = 1;
		add_span(l, 0, 0, LAST_PAGE);
		break;
	case LOOK_PROTECT:
		if (!(t->args[2] & PROT_WRITE))
			add_memory(l, pid, t->args[0], whole_pages(t->args[0], t->args[1]));
		break;
	case LOOK_EXECUTE:
		if (!failed(t->result) && has_ranges(pid))
			leave_memory(l, pid);
		break;
	}
	if (!l->count)
		t->looking = 0;
	return 0;
}

__noinline int map_after(struct thread *t, struct row *row)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!t || !row)
		return 0;
	switch (row->look) {
	case LOOK_MAP:
		after_map(t, task);
		break;
	case LOOK_POPULATED:
		if (!row->offset || populates(t->args[2]))
			populate(t->args[0], whole_pages(t->args[0], t->args[1]),
				 row->offset && t->args[2] == MADV_POPULATE_WRITE);
		break;
	}
	return 0;
}

/* Whether an open file is perhaps one that somebody has mapped. */
static __always_inline int may_be_mapped(struct file *file)
{
	return file && watch()->inodes & trace_of((__u64)BPF_CORE_READ(file, f_inode));
}

/* Whether a call, `fd` its first argument, may be a reason to look, or map something. Programs with one mapping (PostgreSQL's in
 * `/dev/shm`) read and write many other files. */
static __always_inline int is_followed(struct row *row, struct task_struct *task, __s32 fd)
{
	struct watch *w;

	if (!row->look)
		return 0;
	w = watch();
	if (!w->on || !(w->ranges || row->look == LOOK_MAP))
		return 0;
	return (row->look != LOOK_PART && row->look != LOOK_WRITTEN) || may_be_mapped(file_of(task, fd));
}

/* Where in its file a call began that wrote as much, when it is over. */
static __always_inline __u64 written_at(struct thread *t, struct row *row, __u64 length)
{
	struct object *object = &t->objects[0];
	__s64 given = row->offset ? argument(t, row->offset - 1) : ~0ULL;

	if (given < 0)
		return object->position - length;
	return object->flags & O_APPEND ? object->size - length : given;
}

/* A file that is written to from a mapping of its own changes what it is written from: what was written stands where it was written to,
 * if that is mapped with it. */
__noinline int look_where_written(struct thread *t, struct row *row)
{
	struct range found = {};
	__u64 address, length, at;

	if (!t || !row || row->part[0].kind != PART_DATA || !S_ISREG(t->objects[0].mode))
		return 0;
	address = argument(t, row->part[0].arg);
	length = argument(t, row->part[0].of);
	if (t->result <= 0 || t->result != length || !find_range(&found, this_process(), address))
		return 0;
	if (found.file.device != t->objects[0].device || found.file.inode != t->objects[0].inode)
		return 0;
	at = written_at(t, row, length) - (found.page << PAGE_SHIFT);
	if (at < found.end - found.start && length <= found.end - found.start - at)
		t->aside = found.start + at - address;
	return 0;
}

/* At the exit of a call, before its record. What is looked at before it: `before.h`. */
static __always_inline void after_call(struct thread *t, struct row *row, struct task_struct *task)
{
	if (!t->looking && !is_followed(row, task, t->args[0]))
		return;
	if (t->looking) {
		/* Begun at the entry. */
		struct look *l = bpf_task_storage_get(&looks, task, 0, 0);

		if (l)
			l->time_ns = t->end_ns - 1;
	}
	switch (row->look) {
	case LOOK_WRITTEN:
		look_where_written(t, row);
		break;
	case LOOK_MAP:
	case LOOK_POPULATED:
		map_after(t, row);
		break;
	case LOOK_REMAP:
		after_remap(t);
		break;
	case LOOK_UNMAP:
		/* What lies there is mapped still. */
		if (t->looking && failed(t->result))
			count_lost();
		break;
	case LOOK_ASKED:
	case LOOK_CLONED:
		break;
	default:
		look_after(t, row);
	}
}

/* A thread is no more. */
static __always_inline void one_task_less(struct control *c)
{
	if (__sync_fetch_and_add(&c->tasks, -1) == 1)
		announce(NOTICE_OVER, 0);
}

/* What is to be written of a call, of the end of a thread, or of a fault: pages, then the record. */
static __always_inline int write_all(struct thread *t, struct row *row, struct cpu *cpu, int urgent, __u32 steps)
{
	if (t->load.waits) {
		int verdict = write_load(t, cpu, urgent);

		if (verdict != VERDICT_DONE && WAITS && control()->block && !urgent)
			return verdict;
		if (verdict != VERDICT_DONE)
			drop(cpu, LACK_ROOM);
		t->load.waits = 0;
	}
	if (t->pending == PENDING_LOAD)
		return VERDICT_DONE;
	if (t->looking) {
		struct task_struct *task = bpf_get_current_task_btf();
		struct look *l = bpf_task_storage_get(&looks, task, 0, 0);
		int verdict = l ? go_on_looking(l, cpu, urgent, 16 * steps) : VERDICT_DONE;
		__u32 looking = t->looking;

		if (verdict != VERDICT_DONE && WAITS && control()->block && !urgent)
			return verdict;
		if (verdict != VERDICT_DONE)
			drop(cpu, LACK_ROOM);
		t->looking = 0;
		if (looking == LOOKS_LAST) {
			write_end(cpu, task);
			one_task_less(control());
			return VERDICT_DONE;
		}
	}
	return write_record(t, row, cpu, urgent, steps);
}

/* The last thread of a process ends; 1: it has to wait for room before all is written. */
__noinline int end_of_space(struct thread *t, struct cpu *cpu)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct control *c = control();
	struct watch *w = watch();
	struct row *row;
	struct look *l;
	int asked;

	if (!t || !cpu || !has_ranges(task->tgid) || !leaves_none())
		return 0;
	if (!w->ranges) {
		forget_ranges(task->tgid);
		return 0;
	}
	row = row_of(t->nr);
	asked = t->inside && row->flags & ROW_ALWAYS && !(row->flags & ROW_EXECUTE);
	l = begin_look(t, task, asked ? t->begin_ns : bpf_ktime_get_ns());
	if (!l)
		return 0;
	t->looking = 0;
	leave_memory(l, task->tgid);
	if (go_on_looking(l, cpu, 0, 2048) == VERDICT_DONE)
		return 0;
	if (WAITS && c->block) {
		t->looking = LOOKS_LAST;
		return 1;
	}
	look_now(l, cpu);
	return 0;
}

/* It cannot wait. */
__noinline int end_at_once(struct thread *t, struct cpu *cpu)
{
	struct look *l = bpf_task_storage_get(&looks, bpf_get_current_task_btf(), 0, 0);

	if (!t || !cpu)
		return 0;
	t->looking = 0;
	if (l)
		look_now(l, cpu);
	return 0;
}

/* For looks that are no thread's of the program. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct look);
} evictions SEC(".maps");

/* Pages are about to be stored to for the first time: as they are now, so far as they are in the cache. */
__noinline int show_before(__u64 mapping, __u64 first, __u64 last)
{
	struct cpu *cpu = this_cpu();
	struct look *l;
	__u32 zero = 0;

	l = bpf_map_lookup_elem(&evictions, &zero);
	if (!l || !cpu || !occupy(cpu))
		return 0;
	clear_look(l, bpf_ktime_get_ns(), 0);
	add_span(l, mapping, first, last);
	l->before = 1;
	l->flags = MAPPED_BEFORE;
	go_on_looking(l, cpu, 0, 2048);
	leave(cpu);
	return 0;
}

/* Something was touched that was not there, or not to be written to. */
static __always_inline int on_fault(__u64 address, __u64 error)
{
	struct watch *w = watch();
	__u32 pid = this_process();
	struct range r = {};
	struct sheet *sheet;
	__u64 page, first, last, end, folio;
	int whole;

	if (!w->ranges)
		return 0;
	sheet = first_sheet(pid);
	if (!sheet)
		return 0;
	/* It takes long to go to each of many. */
	if (!sheet->more || !is_area(&r, address))
		find_range(&r, pid, address);
	if (!r.end || (r.written_back && !(error & FAULT_WRITE)))
		return 0;
	page = r.page + ((address - r.start) >> PAGE_SHIFT);
	end = r.page + ((r.end - 1 - r.start) >> PAGE_SHIFT);
	first = last = page;
	/* The first touch opens the whole folio, a store to what could be read only its page, unless it was mapped as one. */
	folio = folio_at(r.mapping, page);
	whole = !r.written_back || !(error & FAULT_PRESENT) || (folio && folio_pages(folio) >= HUGE_PAGES);
	if (!r.written_back) {
		__u64 in_window = (address >> PAGE_SHIFT) & (AROUND - 1);

		first -= at_most(in_window, page - r.page);
		last = at_most(page + AROUND - 1 - in_window, end);
	}
	if (whole && folio) {
		__u64 begins = folio_index(folio), ends = begins + folio_pages(folio) - 1;

		begins = begins > r.page ? begins : r.page;
		first = at_most(first, begins);
		ends = at_most(ends, end);
		last = last > ends ? last : ends;
	}
	if (open_pages(&r, page, first, last, whole) && w->keeps)
		show_before(r.mapping, first, last);
	return 0;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct look);
} last_looks SEC(".maps");

struct faults {
	struct patch_key key;
	__u64 first, last;
	struct patch *found;
	__u32 tid;
};

static long find_fault(__u64 i, struct faults *f)
{
	struct patch *patch;

	if (f->key.number > f->last >> PATCH_SHIFT)
		return 1;
	patch = patch_of(&f->key);
	f->key.number++;
	if (!patch || patch->tid != f->tid || patch->page < f->first || patch->page > f->last)
		return 0;
	f->found = patch;
	return 1;
}

LOOPED(find_fault, struct faults)

/* The patch among those of a folio where the present thread had its last fault. */
static __always_inline struct patch *faulted(struct patch_key *key, __u64 index, __u64 pages)
{
	struct faults f = { .key = *key, .first = index, .last = index + pages - 1 };

	f.tid = bpf_get_current_pid_tgid();
	loop(16, find_fault, &f);
	return f.found;
}

/* A folio is dirty from now on: what was not in the cache when it was touched is there by now, and nobody has stored to it
 * yet. */
static __always_inline int dirtied(__u64 folio)
{
	__u64 index, pages, first, last;
	struct watch *w = watch();
	struct range r = {};
	struct patch_key key;
	struct patch *patch;
	struct thread *t;
	int fresh = 1;

	if (!w->ranges)
		return 0;
	key.mapping = folio_mapping(folio);
	if (!(w->mappings & trace_of(key.mapping)))
		return 0;
	t = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
	if (!t)
		return 0;
	settle(t);
	index = folio_index(folio);
	pages = folio_pages(folio);
	key.number = index >> PATCH_SHIFT;
	patch = faulted(&key, index, pages);
	if (!patch)
		return 0;
	first = last = patch->page;
	if (patch->whole) {
		first = index;
		last = index + pages - 1;
		r.mapping = key.mapping;
		r.file = patch->file;
		r.generation = patch->generation;
		r.written_back = patch->written_back;
		fresh = open_pages(&r, patch->page, first, last, 1);
	}
	if (fresh && w->keeps && !t->inside)
		show_before(key.mapping, first, last);
	return 0;
}

TRACEPOINT(writeback_dirty_folio, on_dirtied)
{
	return dirtied(ctx[0]);
}

/* As Linux 5.15 tells it. */
TRACEPOINT(writeback_dirty_page, on_dirtied_page)
{
	return dirtied(ctx[0]);
}

/* Pages leave the cache. */
TRACEPOINT(mm_filemap_delete_from_page_cache, on_evicted)
{
	__u64 folio = ctx[0], mapping, index, pages;
	struct watch *w = watch();
	struct patch_key key;
	struct patch *patch;
	struct look *l;
	struct cpu *cpu;
	__u32 zero = 0;

	if (!w->patches)
		return 0;
	mapping = folio_mapping(folio);
	if (!(w->mappings & trace_of(mapping)))
		return 0;
	index = folio_index(folio);
	pages = folio_pages(folio);
	key.mapping = mapping;
	key.number = index >> PATCH_SHIFT;
	if (pages <= PATCH_PAGES) {
		patch = patch_of(&key);
		if (!patch || !patch->suspects)
			return 0;
	}
	l = bpf_map_lookup_elem(&evictions, &zero);
	cpu = this_cpu();
	if (!l || !cpu)
		return 0;
	if (!occupy(cpu)) {
		drop(cpu, LACK_TURN);
		return 0;
	}
	clear_look(l, bpf_ktime_get_ns(), 0);
	add_span(l, mapping, index, index + pages - 1);
	l->closes = 1;
	look_now(l, cpu);
	leave(cpu);
	return 0;
}

/* At the end of the recording, and at its beginning where memory is mapped already. `args[0]`: 1 begins, 2 begins and keeps the pages as
 * they were before anything is stored to them, 0 goes on. */
SEC("raw_tp")
int look_at_all(struct bpf_raw_tracepoint_args *ctx)
{
	struct watch *w = watch();
	struct cpu *cpu = this_cpu();
	__u32 zero = 0;
	struct look *l = bpf_map_lookup_elem(&last_looks, &zero);

	if (!cpu || !l)
		return 0;
	if (ctx->args[0]) {
		clear_look(l, bpf_ktime_get_ns(), 0);
		add_span(l, 0, 0, LAST_PAGE);
		l->before = ctx->args[0] == 2;
		l->flags = l->before ? MAPPED_BEFORE : 0;
	}
	if (occupy(cpu)) {
		w->left = go_on_looking(l, cpu, 0, 4096) != VERDICT_DONE;
		leave(cpu);
	}
	return 0;
}

#endif
