/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for room: in the thread, after its call and before it returns to the program. */
#ifndef REPRISE_WAITING_H
#define REPRISE_WAITING_H

#include "records.h"

#define CAN_WAIT 0

static __always_inline int defer(struct thread *t, struct task_struct *task)
{
	return 0;
}

static __always_inline void throttle(struct thread *t, struct task_struct *task)
{
}

static __always_inline void forget(struct thread *t, struct cpu *cpu)
{
}

#endif
