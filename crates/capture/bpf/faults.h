/* SPDX-License-Identifier: Apache-2.0 */
/* Faults: what they tell of loads, and of stores.
 *
 * Goals: a fault that is about no file costs a few comparisons. Non-goals: what is kept of them (`loads.h`, `mapped.h`).
 */
#ifndef REPRISE_FAULTS_H
#define REPRISE_FAULTS_H

#include "program.h"
#include "quick.h"
#include "waiting.h"

#define FAULT_FETCH 16
#define INSIDE_LOADING 3

struct task_struct___faults {
	int pagefault_disabled;
} __attribute__((preserve_access_index));

/* A load that could not be written when its fault was told is written, in the call that the kernel makes it for. */
static __always_inline void write_late(struct thread *t)
{
	struct cpu *cpu = this_cpu();

	t->load.late = 1;
	if (!cpu || !occupy(cpu))
		return;
	if (write_load(t, cpu, 0) == VERDICT_DONE)
		t->load.waits = 0;
	leave(cpu);
}

/* A call is over in which something was loaded that was not in the cache. */
static __always_inline void end_loading(struct thread *t)
{
	t->inside = 1;
	if (t->load.waits)
		write_late(t);
}

/* The load has to wait until its page is there, or there is room; 0: it cannot. */
static __always_inline int wait_with_load(struct thread *t, struct task_struct *task, int verdict, int in_kernel)
{
	t->load.late = 1;
	if (in_kernel && (t->inside || t->pending)) {
		t->load.waits = 1;
		/* Else the record that is pending takes it along. */
		if (t->inside == 1)
			t->inside = INSIDE_LOADING;
		return 1;
	}
	if (!defer(t, task, verdict))
		return 0;
	t->load.waits = 1;
	t->pending = PENDING_LOAD;
	/* The kernel brings the page. */
	t->verdict = VERDICT_NO_ROOM;
	return 1;
}

static __always_inline void on_load(__u64 address, int in_kernel)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);
	struct control *c = control();
	struct cpu *cpu = this_cpu();
	int found, verdict;

	if (!t || t->launching || t->pending == PENDING_LOAD || !cpu)
		return;
	settle(t);
	/* The recording has no room left for ever: it is counted. */
	if (c->stopped) {
		if (find_load(t, address) == LOADS_PAGE)
			cpu->passed++;
		return;
	}
	/* Where the kernel only tries, it tries again. */
	if (in_kernel && (cpu->busy || BPF_CORE_READ((struct task_struct___faults *)task, pagefault_disabled)))
		return;
	if (t->load.waits) {
		write_late(t);
		if (t->load.waits) {
			t->load.waits = 0;
			drop(cpu, LACK_GIVEN_UP);
		}
	}
	found = find_load(t, address);
	if (found == LOADS_UNKNOWN)
		drop(cpu, LACK_READ);
	if (found != LOADS_PAGE)
		return;
	if (!occupy(cpu)) {
		drop(cpu, LACK_TURN);
		return;
	}
	verdict = write_load(t, cpu, 0);
	if (verdict != VERDICT_DONE && !wait_with_load(t, task, verdict, in_kernel)) {
		t->load.waits = 0;
		if (write_load(t, cpu, 0) != VERDICT_DONE)
			drop(cpu, lack_of_wait());
	}
	leave(cpu);
	/* It waits before it goes on; on its processor it cannot, since interrupts are off. */
	if (!in_kernel && WAITS)
		throttle(t, task);
}

/* Something was touched that was not there, or not to be written to. */
static __always_inline int fault(__u64 address, __u64 error, int in_kernel)
{
	struct watch *w = watch();

	if (w && w->loads && !(error & (FAULT_PRESENT | FAULT_WRITE | FAULT_FETCH)))
		on_load(address, in_kernel);
	return on_fault(address, error);
}

TRACEPOINT(page_fault_user, on_fault_user)
{
	return fault(ctx[0], ctx[2], 0);
}

TRACEPOINT(page_fault_kernel, on_fault_kernel)
{
	return fault(ctx[0], ctx[2], 1);
}

#endif
