/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of io_uring: as they are submitted, and as they are complete, before the program can know that.
 *
 * A request is kept as the program wrote it, with the paths and structures that it names. Content is kept when it is
 * complete, given or filled: until then the memory is the kernel's, and what a linked request is given may come from the
 * one before it. Which memory that is says a row for each opcode, as for calls; its arguments are fields of the request.
 *
 * Goals: a completion is seen before the program can see it; memory of a request that no call mentions. Non-goals:
 * knowing what requests mean; waiting for room, which nobody can who holds a ring: `owed.h`.
 */
#ifndef REPRISE_REQUESTS_H
#define REPRISE_REQUESTS_H

#include "flights.h"
#include "objects.h"
#include "owed.h"
#include "program.h"
#include "tasks.h"

struct bpf_map;

struct submissions {
	__u64 made;
	__u64 flying; /* of them so many, at most, are among the flights */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct submissions);
} submissions SEC(".maps");

/* Whether a task is recorded. Threads of the kernel in a process are if its first thread is. */
static __always_inline int is_recorded(struct task_struct *task)
{
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);
	struct control *c = control();

	if (c->stopped)
		return 0;
	if (!t && task->flags & (PF_IO_WORKER | PF_USER_WORKER) && task->group_leader)
		t = bpf_task_storage_get(&threads, task->group_leader, 0, 0);
	return t && !t->launching;
}

static __always_inline struct submissions *submissions_so_far(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&submissions, &zero);
}

/* Content beyond this is not kept in the segments that are left for what cannot wait. */
#define SMALL_BYTES 4096

static __always_inline int is_worth_trying(struct making *m, int entry)
{
	struct control *c = control();

	if (entry || c->free > c->reserve)
		return 1;
	return !(m->completion.state & REQUEST_GIVEN) && m->thread.result <= SMALL_BYTES;
}

static __always_inline void write_request_record(struct making *m, struct row *row, int entry)
{
	struct control *c = control();
	struct cpu *cpu = this_cpu();
	struct thread *t = &m->thread;

	if (!cpu)
		return;
	__builtin_memcpy(t->args, m->flight.args, sizeof(t->args));
	t->flags = 0;
	t->accept = 1;
	t->call = REQUEST_MORE(m->flight.number, !entry);
	begin_record(t, row, entry);
	if (!occupy(cpu)) {
		__sync_fetch_and_add(&c->nested, 1);
		return;
	}
	if (!entry && m->completion.state & REQUEST_MOVED)
		keep_moved(t, cpu, &m->moved);
	if (!is_worth_trying(m, entry) || write_request(m, row, cpu, STEPS_INLINE) != VERDICT_DONE)
		write_bare(m, cpu, !entry && owe(m) ? REQUEST_LATER : REQUEST_NO_ROOM);
	leave(cpu);
}

/* The content that a request is given, at once: of its success nothing will be heard, or where there is none of the program's memory. */
static __always_inline void write_given(struct making *m, struct row *row)
{
	struct completion_body *out = &m->completion;

	__builtin_memset(out, 0, sizeof(*out));
	out->request = m->flight.number;
	out->ring = m->request.ring;
	out->mark = m->flight.mark;
	out->state = REQUEST_GIVEN;
	out->result = m->thread.result = -1;
	m->thread.end_ns = m->thread.begin_ns;
	write_request_record(m, row, 0);
}

static __always_inline void take_fields(struct flight *f, __u64 *sqe)
{
	f->opcode = sqe[0] & 0xff;
	f->flags = sqe[0] >> 8 & 0xff;
	f->mark = sqe[4];
	f->args[0] = sqe[0] >> 32;
	f->args[1] = sqe[2];
	f->args[2] = (__u32)sqe[3];
	f->args[3] = sqe[1];
	f->args[4] = sqe[3] >> 32;
	f->args[5] = sqe[6];
	f->from = sqe[5] >> 32;
}

/* Keeps the vector of a request until it is complete, if it is short: the kernel has a copy, the program may have none any more. */
static __always_inline void keep_vector(struct making *m, struct row *row, __u64 slot)
{
	struct thread *t = &m->thread;
	struct part *part = 0;
	__u32 i, bytes;

	for (i = 0; i < PARTS; i++) {
		if (row->part[i].kind == PART_VECTOR)
			part = &row->part[i];
	}
	if (!part)
		return;
	bytes = at_most(argument(t, part->of), VECTOR_MOST + 1) * 16;
	CHECKED(bytes);
	if (!bytes || bytes > sizeof(m->vector) ||
	    bpf_probe_read_user(&m->vector, bytes, (void *)argument(t, part->arg)) ||
	    bpf_map_update_elem(&vectors, &slot, &m->vector, BPF_ANY))
		bpf_map_delete_elem(&vectors, &slot);
}

/* What a request shows of a file: all of it, unless it is known better. 0: nothing. */
static __always_inline int part_shown(struct making *m, struct row *row, struct file *file)
{
	struct shown *s = &m->shown;
	struct flight *f = &m->flight;

	if (!may_be_mapped(file) || !look_at_file(&s->object, file, 0))
		return 0;
	s->offset = ~0ULL;
	s->length = 0;
	if (f->opcode == OPCODE_SPLICE) {
		s->offset = f->args[1];
		s->length = f->args[2];
	} else if (row->look == LOOK_PART) {
		s->offset = f->args[3];
		s->length = row->parts && row->part[0].kind == PART_DATA ? f->args[2] : 0;
	}
	return 1;
}

/* Whether what a request shows can be looked at as it is submitted. */
static __always_inline int is_shown_at_once(struct making *m)
{
	__u32 source = m->flight.opcode == OPCODE_SPLICE ? m->flight.args[4] & SPLICE_FROM_FIXED : m->flight.flags & SQE_FIXED_FILE;

	return !source && !(m->flight.flags & SQE_DRAIN) && !(m->request.state & REQUEST_FOLLOWS);
}

static __always_inline struct file *file_shown(struct making *m, struct task_struct *task)
{
	return file_of(task, m->flight.opcode == OPCODE_SPLICE ? m->flight.from : (__s32)m->flight.args[0]);
}

/* A request is submitted. `sqe` is where it stands, 0: where the ring fetched it last. */
static __always_inline void submitted(struct io_kiocb *request, const void *sqe, __u32 state)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);
	struct submissions *all = submissions_so_far();
	struct io_ring_ctx *ring;
	struct making *m;
	struct row *row;
	__u64 slot = (__u64)request, mark;

	if (!is_recorded(task))
		return;
	m = making();
	if (!m || !all)
		return;
	if (t)
		t->asks = 1;
	ring = BPF_CORE_READ(request, ctx);
	mark = BPF_CORE_READ(request, cqe.user_data);
	if (!sqe)
		sqe = fetched_sqe(ring);
	m->thread.begin_ns = bpf_ktime_get_ns();
	m->thread.result = 0;
	m->request.state = state | (task->flags & (PF_IO_WORKER | PF_USER_WORKER) ? REQUEST_POLLED : 0);
	if (BPF_CORE_READ(ring, submit_state.link.head))
		m->request.state |= REQUEST_FOLLOWS;
	if (!sqe || bpf_probe_read_kernel(m->request.sqe, sizeof(m->request.sqe), sqe) || m->request.sqe[4] != mark) {
		__builtin_memset(m->request.sqe, 0, sizeof(m->request.sqe));
		m->request.sqe[4] = mark;
		m->request.state |= REQUEST_UNREAD;
	}
	take_fields(&m->flight, m->request.sqe);
	m->flight.number = __sync_fetch_and_add(&all->made, 1);
	m->flight.ring = (__u64)ring;
	m->flight.mm = (__u64)task->mm;
	m->flight.task = (__u64)task;
	m->request.request = m->flight.number;
	m->request.ring = identity_of(ring);
	m->request.slot = identity_of(request);
	row = row_of_opcode(m->flight.opcode);
	if (!row)
		return;
	m->flight.shows = row->look && stores_are_followed() && !is_shown_at_once(m);
	if (bpf_map_update_elem(&flights, &slot, &m->flight, BPF_ANY))
		m->request.state |= REQUEST_UNTOLD;
	else
		__sync_fetch_and_add(&all->flying, 1);
	if (row->look && !m->flight.shows && stores_are_followed() && part_shown(m, row, file_shown(m, task)))
		before_shown(&m->shown, m->thread.begin_ns);
	m->thread.vector = 0;
	write_request_record(m, row, 1);
	keep_vector(m, row, slot);
	if (m->flight.flags & SQE_SKIP_SUCCESS)
		write_given(m, row);
}

/* The buffer that the kernel chose: as if it had been given. */
static __always_inline struct row *choose(struct making *m, struct io_kiocb *request, struct row *row)
{
	struct io_rw *transfer = (struct io_rw *)request;
	struct completion_body *out = &m->completion;

	out->address = m->flight.args[CHOSEN_ADDRESS] = BPF_CORE_READ(transfer, addr);
	out->length = m->flight.args[CHOSEN_LENGTH] = BPF_CORE_READ(transfer, len);
	out->state |= REQUEST_CHOSEN;
	/* The last row is that of a transfer of one buffer. */
	return row_of_opcode(OPCODES - 1);
}

/* What is spliced passes no memory of the program: it is read from the file it came from, or went to. */
static __always_inline void look_for_moved(struct making *m, struct io_kiocb *request, struct task_struct *task)
{
	struct completion_body *out = &m->completion;
	struct file *from = 0;

	if (m->flight.opcode != OPCODE_SPLICE || out->result <= 0)
		return;
	if (!(m->flight.args[4] & SPLICE_FROM_FIXED))
		from = file_of(task, m->flight.from);
	if (!moved_in(&m->moved, from, m->flight.args[1], out->result) &&
	    !moved_in(&m->moved, BPF_CORE_READ(request, file), m->flight.args[3], out->result))
		return;
	m->moved.memory = memory_by(BPF_CORE_READ(request, ctx));
	out->address = m->moved.offset;
	out->state |= REQUEST_MOVED;
}

/* The file that a request has shown that is complete; of a splice from a registered one none is known. */
static __always_inline struct file *file_completed(struct making *m, struct io_kiocb *request, struct task_struct *task)
{
	if (m->flight.opcode != OPCODE_SPLICE)
		return BPF_CORE_READ(request, file);
	return m->flight.args[4] & SPLICE_FROM_FIXED ? 0 : file_shown(m, task);
}

/* A request made memory present; its length is wide where it has no room in the short one. */
static __always_inline void after_advice(struct making *m, __s32 result)
{
	__u64 start = m->flight.args[1], bytes = m->flight.args[2] ? m->flight.args[2] : m->flight.args[3];
	__u32 advice = m->flight.args[4];

	if (m->flight.opcode != OPCODE_MADVISE || result < 0 || !populates(advice) || !stores_are_followed())
		return;
	populate_range(&m->present, start, whole_pages(start, bytes), advice == MADV_POPULATE_WRITE);
}

/* A request is complete, or one step further. */
static __always_inline void completed(struct io_kiocb *request, struct io_ring_ctx *ring, __u64 mark, __s32 result,
				      __u32 flags)
{
	__u64 slot = (__u64)request;
	struct flight *flight = bpf_map_lookup_elem(&flights, &slot);
	struct task_struct *task = bpf_get_current_task_btf();
	struct submissions *all = submissions_so_far();
	struct completion_body *out;
	struct making *m;
	struct row *row;

	if (!flight || flight->ring != (__u64)ring || flight->mark != mark)
		return;
	m = making();
	row = row_of_opcode(flight->opcode);
	if (!m || !row)
		return;
	m->flight = *flight;
	m->thread.end_ns = bpf_ktime_get_ns();
	m->thread.result = result;
	if (m->flight.shows && result >= 0 && part_shown(m, row, file_completed(m, request, task)))
		before_shown(&m->shown, m->thread.end_ns - 1);
	after_advice(m, result);
	out = &m->completion;
	__builtin_memset(out, 0, sizeof(*out));
	out->request = m->flight.number;
	out->ring = identity_of(ring);
	out->mark = mark;
	out->result = result;
	out->flags = flags;
	out->place = BPF_CORE_READ(ring, cached_cq_tail);
	out->taken = BPF_CORE_READ(ring, rings, cq.head);
	if (m->flight.flags & SQE_BUFFER_SELECT && flags & CQE_BUFFER)
		row = choose(m, request, row);
	if (!row)
		return;
	look_at_file(&out->objects[0], BPF_CORE_READ(request, file), m->flight.args[0]);
	if (row->objects[0] == OBJECT_RESULT && result >= 0)
		look_at(&out->objects[1], task, result);
	look_for_moved(m, request, task);
	if ((__u64)task->mm != m->flight.mm) {
		/* Nothing can be kept of the program's memory here. */
		row = row_of_opcode(0);
		out->state |= REQUEST_FOREIGN;
		if (!row)
			return;
	}
	m->thread.vector = bpf_map_lookup_elem(&vectors, &slot) ? slot : 0;
	write_request_record(m, row, 0);
	slow_down();
	if (flags & CQE_MORE)
		return;
	if (!bpf_map_delete_elem(&flights, &slot) && all)
		__sync_fetch_and_add(&all->flying, -1);
	if (m->thread.vector)
		bpf_map_delete_elem(&vectors, &slot);
}

struct leaving {
	__u64 task;
};

static long keep_given(struct bpf_map *map, __u64 *slot, struct flight *flight, struct leaving *of)
{
	struct making *m = making();
	struct row *row = row_of_opcode(flight->opcode);

	if (flight->task != of->task || flight->flags & SQE_SKIP_SUCCESS || !m || !row)
		return 0;
	/* Where it lies in memory may be another thread soon. */
	flight->task = 0;
	m->flight = *flight;
	m->request.ring = identity_of((void *)flight->ring);
	m->thread.begin_ns = bpf_ktime_get_ns();
	m->thread.vector = bpf_map_lookup_elem(&vectors, slot) ? *slot : 0;
	write_given(m, row);
	return 0;
}

/* A thread ends, and has requests under way: a thread of the kernel completes them, which has no memory of the program. */
TRACEPOINT(sched_process_exit, on_submitter_end)
{
	struct leaving of = { .task = (__u64)bpf_get_current_task_btf() };
	struct thread *t = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
	struct submissions *all = submissions_so_far();

	if (t && t->asks && all && all->flying)
		bpf_for_each_map_elem(&flights, keep_given, &of, 0);
	forget_debts(bpf_get_current_task_btf());
	return 0;
}

static __always_inline void ring_made(__s32 fd, void *ring, __u32 flags)
{
	const __u32 bytes = sizeof(struct record_head) + sizeof(struct ring_body);
	struct control *c = control();
	struct cpu *cpu = this_cpu();
	struct record_head *record;
	struct ring_body *body;

	if (!cpu || !is_recorded(bpf_get_current_task_btf()))
		return;
	if (!occupy(cpu)) {
		__sync_fetch_and_add(&c->nested, 1);
		return;
	}
	record = open_small(cpu, bytes);
	if (record) {
		body = (struct ring_body *)(record + 1);
		body->ring = identity_of(ring);
		body->fd = fd;
		body->flags = flags;
		close_small(cpu, record, bytes, RECORD_RING);
	}
	leave(cpu);
}

/* An argument as a number, which may be reckoned with. */
static __always_inline __u64 told(__u64 *ctx, __u32 index)
{
	__u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), ctx + index);
	return value;
}

TRACEPOINT(io_uring_create, on_ring)
{
	ring_made(told(ctx, 0), (void *)told(ctx, 1), told(ctx, 4));
	return 0;
}

TRACEPOINT(io_uring_submit_req, on_submit)
{
	submitted((struct io_kiocb *)told(ctx, 0), 0, 0);
	return 0;
}

/* As kernels before 6.4 tell it. */
TRACEPOINT(io_uring_submit_sqe, on_submit_entry)
{
	submitted((struct io_kiocb *)told(ctx, 0), 0, 0);
	return 0;
}

/* Of a request that is wrong this is all; that it failed is told as of any. */
TRACEPOINT(io_uring_req_failed, on_refused)
{
	submitted((struct io_kiocb *)told(ctx, 1), (const void *)told(ctx, 0), REQUEST_REFUSED);
	return 0;
}

TRACEPOINT(io_uring_complete, on_complete)
{
	struct io_uring_cqe *completion = (struct io_uring_cqe *)told(ctx, 2);

	completed((struct io_kiocb *)told(ctx, 1), (struct io_ring_ctx *)told(ctx, 0),
		  BPF_CORE_READ(completion, user_data), BPF_CORE_READ(completion, res),
		  BPF_CORE_READ(completion, flags));
	return 0;
}

/* As kernels before 6.11 tell it. */
TRACEPOINT(io_uring_complete, on_complete_by_values)
{
	completed((struct io_kiocb *)told(ctx, 1), (struct io_ring_ctx *)told(ctx, 0), ctx[2], ctx[3], ctx[4]);
	return 0;
}

struct overflow {
	struct io_ring_ctx *ring;
	__u64 mark;
	__u64 request;
	struct io_wq_work_node *next; /* of those that the ring tells of in one go */
	__s32 result;
};

/* Whether it is one of those that may be meant: it is not told of yet, though it will be. */
static __always_inline int is_untold(struct flight *flight, struct overflow *o)
{
	return flight->ring == (__u64)o->ring && flight->mark == o->mark &&
	       !(flight->flags & SQE_SKIP_SUCCESS && o->result >= 0);
}

static long find_completed(__u64 i, struct overflow *o)
{
	struct io_wq_work_node *node = o->next;
	__u64 request = (__u64)node - bpf_core_field_offset(struct io_kiocb, comp_list);
	struct flight *flight;

	if (!node)
		return 1;
	flight = bpf_map_lookup_elem(&flights, &request);
	if (flight && is_untold(flight, o)) {
		o->request = request;
		return 1;
	}
	o->next = BPF_CORE_READ(node, next);
	return 0;
}

LOOPED(find_completed, struct overflow)

static long find_flight(struct bpf_map *map, __u64 *request, struct flight *flight, struct overflow *o)
{
	if (!is_untold(flight, o))
		return 0;
	o->request = *request;
	return 1;
}

/* The queue of completions is full: this one is told later, when there is room. Rare; the request is not named. It is the first that is
 * not told of yet among those that its ring tells of in one go, if there are any; else one that bears its mark. */
TRACEPOINT(io_uring_cqe_overflow, on_overflow)
{
	struct io_ring_ctx *ring = (struct io_ring_ctx *)told(ctx, 0);
	struct overflow o = { .ring = ring, .mark = ctx[1], .result = ctx[2] };

	if (bpf_core_field_exists(ring->submit_state.compl_reqs.first)) {
		o.next = BPF_CORE_READ(ring, submit_state.compl_reqs.first);
		loop(STEPS_MOST, find_completed, &o);
	}
	if (!o.request)
		bpf_for_each_map_elem(&flights, find_flight, &o, 0);
	if (o.request)
		completed((struct io_kiocb *)o.request, ring, o.mark, ctx[2], ctx[3]);
	return 0;
}

#endif
