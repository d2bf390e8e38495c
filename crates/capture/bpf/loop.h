/* SPDX-License-Identifier: Apache-2.0 */
/* Loops whose body the verifier looks at once: a function that returns 1 to end the loop.
 *
 * Linux 5.17 has a call for them. Before it the elements of a map are visited, whatever is in them.
 */
#ifndef REPRISE_LOOP_H
#define REPRISE_LOOP_H

#include "kernel.h"

struct bpf_map;

#ifdef WITHOUT_LOOP

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, __u64);
} turns SEC(".maps");

#define LOOPED(function, context)                                                                          \
	static long function##_turn(struct bpf_map *map, __u32 *key, __u64 *value, context *with)          \
	{                                                                                                  \
		return function(0, with);                                                                  \
	}
#define loop(most, function, context)                                                                      \
	({                                                                                                 \
		/* Looked at, or a function whose argument it is would not be given it. */                 \
		__u64 as_told = most;                                                                      \
		CHECKED(as_told);                                                                          \
		bpf_for_each_map_elem(&turns, function##_turn, context, 0);                                \
	})

#else

#define LOOPED(function, context)
#define loop(most, function, context) bpf_loop(most, function, context, 0)

#endif
#endif
