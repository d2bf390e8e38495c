/* SPDX-License-Identifier: Apache-2.0 */
/* How the programs of tracepoints are run: to their end, on their processor, with nobody else's between.
 *
 * Goals: what belongs to a processor (its segment, its numbers, what it keeps for a while) needs no lock. Kernels before 7.0 see to
 * that themselves; since then a thread may be taken off its processor within such a program
 * (`tracing: Guard __DECLARE_TRACE() use of __DO_TRACE_CALL() with SRCU-fast`), unless the program forbids it. Non-goals: the
 * iterators, which keep nothing for a processor, and programs that user space runs: the kernel runs those to their end.
 */
#ifndef REPRISE_PROGRAM_H
#define REPRISE_PROGRAM_H

#include "kernel.h"

#ifdef WITH_TASK_WORK
extern void bpf_preempt_disable(void) __ksym;
extern void bpf_preempt_enable(void) __ksym;
#endif

#if defined(WITH_TASK_WORK) && !defined(TOLD_ITSELF)
#define HOLD_PROCESSOR() bpf_preempt_disable()
#define LEAVE_PROCESSOR() bpf_preempt_enable()
#else
#define HOLD_PROCESSOR()
#define LEAVE_PROCESSOR()
#endif

/* Begins the program of a tracepoint; its body follows. What it returns says nothing to the kernel. */
#define TRACEPOINT(tracepoint, name)                     \
	static __always_inline int name##_held(__u64 *ctx); \
	SEC("tp_btf/" #tracepoint)                       \
	int name(__u64 *ctx)                             \
	{                                                \
		HOLD_PROCESSOR();                        \
		name##_held(ctx);                        \
		LEAVE_PROCESSOR();                       \
		return 0;                                \
	}                                                \
	static __always_inline int name##_held(__u64 *ctx)

#endif
