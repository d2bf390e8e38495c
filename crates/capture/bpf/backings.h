/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are mapped so that they can be written, in how many places.
 *
 * Goals: a call tells at once whether its file is one; a recording may go on however many were mapped before. Non-goals: where they
 * are mapped (`spaces.h`), and which of their pages were stored to (`suspects.h`).
 */
#ifndef REPRISE_BACKINGS_H
#define REPRISE_BACKINGS_H

#include "pages.h"

/* A file that has not been mapped for so long, and has no patches, is forgotten: every fault has come to its end, and every look. */
#define UNMAPPED_NS 2000000000ULL

/* A file, as calls name it. */
struct which {
	__u64 device;
	__u64 inode;
};

/* A file that is mapped so that it can be written. */
struct backing {
	__u64 mapping; /* its `struct address_space` */
	__u32 ranges;  /* addresses where it is mapped, in all processes */
	__u32 generation;
	__u32 ender;   /* the thread that ended a mapping of it last, told before `ranges` */
	__u32 patches; /* that there are of it (`suspects.h`) */
	__u64 ended_ns; /* when the last mapping of it ended */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct which);
	__type(value, struct backing);
} backings SEC(".maps");

/* What is kept of a file, if it is. Before Linux 6.2 keys have to stand on the stack. */
static __always_inline struct backing *backing_of(struct which *file)
{
	struct which key = *file;

	return bpf_map_lookup_elem(&backings, &key);
}

/* What is kept of a file that is mapped, or about to be; 0: there is no room. */
static __always_inline struct backing *backing_for(struct which *file, __u32 generation, __u64 mapping)
{
	struct backing fresh = { .generation = generation, .mapping = mapping }, *backing;
	struct which key = *file;

	if (!bpf_map_update_elem(&backings, &key, &fresh, BPF_NOEXIST))
		__sync_fetch_and_add(&watch()->backings, 1);
	backing = bpf_map_lookup_elem(&backings, &key);
	if (backing)
		backing->mapping = mapping;
	return backing;
}

/* There is one patch of a file more, or (-1) less; 0: the file is not kept. */
static __always_inline int count_patch(struct which *file, int more)
{
	struct backing *backing = backing_of(file);

	if (backing)
		__sync_fetch_and_add(&backing->patches, more);
	return !!backing;
}

/* Whether nobody maps a file any more, and the thread is the one that ended its last mapping. Others that ended theirs at the same
 * time may have stored after this one looked, and are about to look; all that ended theirs before the last have stored before it looked. */
static __always_inline int is_last_ender(struct which *file, __u32 tid)
{
	struct backing *backing = backing_of(file);

	return !backing || (!*(volatile __u32 *)&backing->ranges && *(volatile __u32 *)&backing->ender == tid);
}

static long forget_backing(struct bpf_map *map, struct which *key, struct backing *backing, __u64 *now)
{
	struct which file = *key;
	struct backing kept = *backing;

	if (kept.ranges || kept.patches || kept.ended_ns + UNMAPPED_NS > *now || bpf_map_delete_elem(&backings, &file))
		return 0;
	__sync_fetch_and_add(&watch()->backings, -1);
	/* Who has mapped it meanwhile finds it gone, or did so before it was. */
	kept.ranges = *(volatile __u32 *)&backing->ranges;
	kept.patches = *(volatile __u32 *)&backing->patches;
	if ((kept.ranges || kept.patches) && !bpf_map_update_elem(&backings, &file, &kept, BPF_NOEXIST))
		__sync_fetch_and_add(&watch()->backings, 1);
	return 0;
}

/* Now and then, where there are many. */
SEC("raw_tp")
int forget_backings(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 now = bpf_ktime_get_ns();

	bpf_for_each_map_elem(&backings, forget_backing, &now, 0);
	return 0;
}

#endif
