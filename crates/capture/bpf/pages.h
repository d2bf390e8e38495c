/* SPDX-License-Identifier: Apache-2.0 */
/* The page cache: where a page of a file stands in the kernel's memory, and what it says.
 *
 * Goals: the content of any page of any file, in any context and whatever process runs, without its page tables.
 * Non-goals: pages that are not in the cache; kernels whose `struct page` is not of 64 bytes.
 *
 * A folio's address follows from that of its `struct page`, since both stand in the order of physical memory: it is 64
 * times as far, plus a number that the kernel keeps to itself. User space has it found (`find_memory`): it writes a text
 * into a file of its own, and the one number is right with which this text can be read.
 */
#ifndef REPRISE_PAGES_H
#define REPRISE_PAGES_H

#include "objects.h"
#include "ranges.h"

#define PAGE_SHIFT 12
#define PAGE_STRUCT 64
#define GIB (1UL << 30)
/* Levels of a tree of 2^52 pages with 64 slots each. */
#define MOST_LEVELS 9

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct xarray {
	void *xa_head;
};

struct xa_node {
	unsigned char shift;
	void *slots[64];
};

struct inode___pages;

struct address_space {
	struct inode___pages *host;
	struct xarray i_pages;
	unsigned long nrpages;
};

struct backing_dev_info {
	unsigned int capabilities;
};

struct super_block___pages {
	struct backing_dev_info *s_bdi;
};

struct inode___pages {
	struct address_space *i_mapping;
	struct super_block___pages *i_sb;
	__s64 i_size;
};

/* Its flags stand first. */
struct folio {
	unsigned long index;
	struct address_space *mapping;
	unsigned long _flags_1;
};

/* As it was before there were folios (Linux 5.16). */
struct page {
	unsigned long index;
	struct address_space *mapping;
};

enum pageflags {
	PG_locked,
	PG_uptodate,
	PG_writeback,
	PG_dirty,
	PG_head,
};

#pragma clang attribute pop

/* One of 64 bits, of an address in the kernel. */
static __always_inline __u64 trace_of(__u64 address)
{
	return 1ULL << (address * 0x9e3779b97f4a7c15ULL >> 58);
}

struct walk {
	__u64 entry;
	__u64 index;
	__u8 shift; /* of the last level: so many pages of it, by their logarithm, stand in one slot */
};

#define IS_VALUE(entry) ((entry) & 1)
#define IS_INTERNAL(entry) (((entry) & 3) == 2)
#define IS_NODE(entry) (IS_INTERNAL(entry) && (entry) > 4096)

static long descend(__u64 i, struct walk *w)
{
	struct xa_node *node = (struct xa_node *)(w->entry - 2);
	__u64 slots = w->entry - 2 + bpf_core_field_offset(struct xa_node, slots), at;
	__u8 shift;

	if (!IS_NODE(w->entry))
		return 1;
	shift = BPF_CORE_READ(node, shift);
	w->shift = shift;
	at = (w->index >> (shift & 63)) & 63;
	w->entry = 0;
	bpf_probe_read_kernel(&w->entry, 8, (void *)(slots + 8 * at));
	/* A folio of many pages stands in one slot, and the others tell which. */
	if (IS_INTERNAL(w->entry) && !IS_NODE(w->entry)) {
		at = (w->entry >> 2) & 63;
		w->entry = 0;
		bpf_probe_read_kernel(&w->entry, 8, (void *)(slots + 8 * at));
	}
	return 0;
}

LOOPED(descend, struct walk)

static __always_inline __u64 folio_index(__u64 folio)
{
	if (bpf_core_type_exists(struct folio))
		return BPF_CORE_READ((struct folio *)folio, index);
	if (bpf_core_field_exists(struct page, index))
		return BPF_CORE_READ((struct page *)folio, index);
	return 0;
}

/* The file it belongs to; 0: to none any more. */
static __always_inline __u64 folio_mapping(__u64 folio)
{
	if (bpf_core_type_exists(struct folio))
		return (__u64)BPF_CORE_READ((struct folio *)folio, mapping);
	if (bpf_core_field_exists(struct page, mapping))
		return (__u64)BPF_CORE_READ((struct page *)folio, mapping);
	return 0;
}

static __always_inline __u64 folio_flags(__u64 folio)
{
	__u64 flags = 0;

	bpf_probe_read_kernel(&flags, sizeof(flags), (void *)folio);
	return flags;
}

#define FLAG(name) (1UL << bpf_core_enum_value(enum pageflags, name))

/* Whether it says what the file says. One that is being read, or was set apart and never written, does not, and nobody
 * can have stored to it. */
static __always_inline int is_uptodate(__u64 folio)
{
	return !!(folio_flags(folio) & FLAG(PG_uptodate));
}

/* Pages of a folio. */
static __always_inline __u64 folio_pages(__u64 folio)
{
	if (!bpf_core_field_exists(struct folio, _flags_1) || !(folio_flags(folio) & FLAG(PG_head)))
		return 1;
	return 1UL << (BPF_CORE_READ((struct folio *)folio, _flags_1) & 31);
}

/* The folio of a page of a file; 0: it is not in the cache. */
__noinline __u64 folio_at(__u64 mapping, __u64 index)
{
	struct walk w = { .index = index };

	w.entry = (__u64)BPF_CORE_READ((struct address_space *)mapping, i_pages.xa_head);
	loop(MOST_LEVELS, descend, &w);
	if (!w.entry || IS_VALUE(w.entry) || IS_INTERNAL(w.entry))
		return 0;
	/* The tree may not reach so far. */
	return index - folio_index(w.entry) < folio_pages(w.entry) ? w.entry : 0;
}

/* Whether no process can store to it without a fault: what can be written to is dirty. */
static __always_inline int is_clean(__u64 folio)
{
	return !(folio_flags(folio) & (FLAG(PG_dirty) | FLAG(PG_writeback) | FLAG(PG_locked)));
}

/* Where the content of a page stands. */
static __always_inline __u64 content_of(__u64 folio, __u64 index, __u64 offset)
{
	return (folio + (index - folio_index(folio)) * PAGE_STRUCT) * (PAGE / PAGE_STRUCT) + offset;
}

static __always_inline __u64 mapping_of_inode(__u64 inode)
{
	return (__u64)BPF_CORE_READ((struct inode___pages *)inode, i_mapping);
}

static __always_inline __u64 file_size(__u64 mapping)
{
	return BPF_CORE_READ((struct address_space *)mapping, host, i_size);
}

/* Whether pages that are written back are closed to stores, so that the next one is a fault. Where nothing is ever
 * written back (file systems in memory) they are open from the beginning. */
static __always_inline int is_written_back(__u64 mapping)
{
	return BPF_CORE_READ((struct address_space *)mapping, host, i_sb, s_bdi, capabilities) & 1;
}

/* What is looked for to find the memory, and where. */
struct search {
	__u64 page;   /* 64 times the address of the `struct page` */
	__u64 around; /* an address in the kernel's memory */
	__u64 most;   /* GiB of memory */
	__u64 tried;
	__u64 text[2];
	__u64 found;
};

static long try_offset(__u64 i, struct search *s)
{
	__u64 turn = s->tried++, far = (turn + 1) / 2 * GIB, seen[2] = {};
	__u64 address = (s->around & ~(GIB - 1)) + (s->page & (GIB - 1)) + (turn & 1 ? far : -far);

	if (turn > 2 * s->most)
		return 1;
	if (bpf_probe_read_kernel(seen, sizeof(seen), (void *)address))
		return 0;
	if (seen[0] != s->text[0] || seen[1] != s->text[1])
		return 0;
	s->found = address - s->page;
	return 1;
}

LOOPED(try_offset, struct search)

struct mm_struct___pages {
	struct {
		void *ma_root;
	} mm_mt;
} __attribute__((preserve_access_index));

/* Whether the kernel keeps the areas of a process so that one can be found in a fault (`regions.h`). */
static __always_inline int follows_loads(void)
{
	return bpf_core_field_exists(((struct mm_struct___pages *)0)->mm_mt);
}

/* Finds the offset: of a descriptor of the caller, whose file begins with two words, within so many GiB. */
SEC("raw_tp")
int find_memory(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct search s = { .text = { ctx->args[1], ctx->args[2] }, .most = ctx->args[3] };
	struct watch *w = watch();
	struct file *file = file_of(task, ctx->args[0]);
	__u64 inode = 0, folio;

	if (!file || bpf_core_type_size(struct page) != PAGE_STRUCT)
		return 0;
	inode = (__u64)BPF_CORE_READ(file, f_inode);
	folio = folio_at(mapping_of_inode(inode), 0);
	if (!folio)
		return 0;
	s.page = folio * (PAGE / PAGE_STRUCT);
	s.around = inode;
	s.tried = w->nought;
	loop(65536, try_offset, &s);
	w->offset = s.found;
	w->loads = w->offset && follows_loads();
	return 0;
}

#endif
