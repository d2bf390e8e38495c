/* SPDX-License-Identifier: Apache-2.0 */
/* Segments: each CPU fills its own. Whoever writes keeps the CPU (a tracepoint, or with preemption disabled).
 *
 * Goals: no lock and no copy between a record and the disk; every record that is not there is counted on its CPU.
 * Non-goals: knowing what a record says.
 */
#ifndef REPRISE_TRANSPORT_H
#define REPRISE_TRANSPORT_H

#include "loop.h"
#include "state.h"

/* Where in a segment something is to stand; behind it a piece and its heads are within the map's value. */
static __always_inline void *place(__u32 segment, __u32 at)
{
	__u32 index = segment - 1;
	char *base = bpf_map_lookup_elem(&segments, &index);

	if (!base)
		return 0;
	CHECKED(at);
	if (at > SEGMENT_BYTES)
		return 0;
	return base + at;
}

static __always_inline void announce(__u32 kind, __u32 segment)
{
	struct notice notice = { .kind = kind, .segment = segment };

	bpf_ringbuf_output(&notices, &notice, sizeof(notice), 0);
}

/* Hands the present segment over to the sink. */
static __always_inline void hand_over(struct cpu *cpu)
{
	struct segment_head *head;

	if (!cpu->segment)
		return;
	head = place(cpu->segment, 0);
	if (head)
		head->dropped = cpu->dropped;
	announce(NOTICE_FULL, cpu->segment - 1);
	cpu->segment = 0;
}

/* Takes a free segment; `urgent` records may take the reserve too. */
static __always_inline int take_segment(struct cpu *cpu, int urgent)
{
	struct control *c = control();
	struct segment_head *head;
	__u32 index;

	if (c->free <= (urgent ? 0 : c->reserve) || bpf_map_pop_elem(&unused, &index))
		return 0;
	__sync_fetch_and_add(&c->free, -1);
	head = place(index + 1, 0);
	if (!head)
		return 0;
	head->magic = SEGMENT_MAGIC;
	head->cpu = bpf_get_smp_processor_id();
	head->used = sizeof(*head);
	head->number = cpu->segments++;
	head->first = cpu->next;
	head->dropped = cpu->dropped;
	head->reserved[0] = head->reserved[1] = head->reserved[2] = 0;
	cpu->used = sizeof(*head);
	cpu->objects = 0;
	__builtin_memset(cpu->told, 0, sizeof(cpu->told));
	cpu->segment = index + 1;
	return 1;
}

/* Nobody waits for a recorder that is gone, or for a recording that is over. */
static __always_inline int is_gone(struct control *c, __u64 now)
{
	return c->stopped || now > c->heartbeat_ns + c->patience_ns;
}

#ifdef WITH_TASK_WORK

/* Threads wait when their call is over (`waiting.h`). */
static __always_inline void may_linger(struct cpu *cpu, int may)
{
}

static __always_inline int linger(struct cpu *cpu)
{
	return 0;
}

#else

/* So long a call stays on its processor, in all, for records that find no room. */
#define LINGER_NS 500000000ULL
/* Turns of one wait: as many as a loop may have, which take some hundred milliseconds. */
#define LINGER_TURNS (1 << 23)

struct lingering {
	struct cpu *cpu;
	__u64 until;
	__u64 now;
	__u64 taken;
};

static long linger_turn(__u64 i, struct lingering *l)
{
	struct control *c = control();
	struct cpu *cpu = l->cpu;

	l->now = bpf_ktime_get_ns();
	/* Another processor may have been faster. */
	if (*(volatile __u64 *)&c->free > c->reserve && take_segment(cpu, 0))
		l->taken = 1;
	return l->taken || c->stopped || l->now >= l->until;
}

LOOPED(linger_turn, struct lingering)

static __always_inline void count_wait(struct control *c, __u64 took_ns)
{
	__sync_fetch_and_add(&c->waits, 1);
	__sync_fetch_and_add(&c->waited_ns, took_ns);
}

/* Until there is room for what the present call keeps, or it has waited long enough: at its exit, where nothing is held that others wait
 * for, and the sink runs on another processor, or on this one as soon as the call is over. */
static __always_inline void may_linger(struct cpu *cpu, int may)
{
	cpu->linger_ns = may && control()->block ? LINGER_NS : 0;
}

/* Waits for a segment, on the processor; 0: there is none. Before Linux 5.17 for some milliseconds each time. */
static __always_inline int linger(struct cpu *cpu)
{
	struct control *c = control();
	struct lingering l = { .cpu = cpu, .now = bpf_ktime_get_ns() };
	__u64 begin = l.now;

	if (!cpu->linger_ns || is_gone(c, begin))
		return 0;
	l.until = begin + cpu->linger_ns;
	loop(LINGER_TURNS, linger_turn, &l);
	cpu->linger_ns -= l.now - begin < cpu->linger_ns ? l.now - begin : cpu->linger_ns;
	count_wait(c, l.now - begin);
	return l.taken;
}

#endif

/* Sees to it that a record of so many bytes has room; 0 if there is none. */
__noinline int make_room(struct cpu *cpu, __u32 bytes, int urgent)
{
	if (!cpu)
		return 0;
	if (cpu->segment && cpu->used + bytes <= SEGMENT_BYTES)
		return 1;
	hand_over(cpu);
	return take_segment(cpu, urgent) || linger(cpu);
}

/* The record of the present thread that stands behind the last one, up to `end`, is complete. */
static __always_inline void commit(struct cpu *cpu, struct record_head *record, __u32 end, __u32 kind_flags,
				   __u64 time_ns)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct segment_head *head = place(cpu->segment, 0);

	record->bytes = end - cpu->used;
	record->kind = kind_flags;
	record->flags = kind_flags >> 16;
	record->number = cpu->next++;
	record->time_ns = time_ns;
	record->tid = id;
	record->pid = id >> 32;
	cpu->bytes += end - cpu->used;
	cpu->used = end;
	if (head) {
		barrier();
		head->used = end;
	}
}

/* A record is not made: its number is left out. */
static __always_inline void drop(struct cpu *cpu, enum lack why)
{
	cpu->next++;
	cpu->dropped++;
	cpu->lacks[why]++;
}

/* Keeps others off this CPU's segment: who comes within a program all the same (an interrupt) finds it taken. */
static __always_inline int occupy(struct cpu *cpu)
{
	if (cpu->busy)
		return 0;
	cpu->busy = 1;
	return 1;
}

static __always_inline void leave(struct cpu *cpu)
{
	barrier();
	cpu->busy = 0;
}

#endif
