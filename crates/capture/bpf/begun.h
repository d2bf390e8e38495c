/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that processes have mapped before they are recorded: which of it can change files, and which pages of these can
 * be stored to without a fault.
 *
 * Goals: stores to it are followed as those to mappings that calls make. Where pages are written back, those that are clean are
 * closed to stores; all others are suspect from the beginning. Non-goals: loads (`regions.h` finds any mapping).
 */
#ifndef REPRISE_BEGUN_H
#define REPRISE_BEGUN_H

#include "mapped.h"
#include "scope.h"

/* Steps over the pages of one mapping: each goes over a folio, or a part of the file that is not in the cache. */
#define MOST_TOURED (1 << 22)

struct bpf_iter__task_vma {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct vm_area_struct *vma;
} __attribute__((preserve_access_index));

/* The pages of a mapping that are in the cache, one folio after the other. */
struct tour {
	struct opening opening;
	__u64 mapping;
	__u64 page, last;
	__u32 written_back;
};

/* Where the next page is that may be there, if this one is not. */
static __always_inline __u64 behind_gap(struct walk *w, __u64 page)
{
	return w->entry ? page + 1 : (page | ((1ULL << (w->shift & 63)) - 1)) + 1;
}

/* Whether a page has no place in a tree: it is as high as the last page in it needs. */
static __always_inline int is_beyond(__u64 head, __u64 page)
{
	struct xa_node *node = (struct xa_node *)(head - 2);

	if (!IS_NODE(head))
		return !head || page > 0;
	return page >> ((BPF_CORE_READ(node, shift) & 63) + 6) != 0;
}

static long tour_step(__u64 i, struct tour *t)
{
	/* What the verifier knew of the first shift, it would follow from page to page. */
	struct walk w = { .index = t->page, .shift = 63 - watch()->nought };
	__u64 mapping = t->mapping, page = t->page, folio, end;

	if (page > t->last)
		return 1;
	w.entry = (__u64)BPF_CORE_READ((struct address_space *)mapping, i_pages.xa_head);
	if (is_beyond(w.entry, page)) {
		t->page = t->last + 1;
		return 1;
	}
	loop(MOST_LEVELS, descend, &w);
	folio = w.entry;
	if (!folio || IS_VALUE(folio) || IS_INTERNAL(folio) || page - folio_index(folio) >= folio_pages(folio)) {
		t->page = behind_gap(&w, page);
		return t->page <= page;
	}
	end = folio_index(folio) + folio_pages(folio);
	t->page = end;
	if (!is_uptodate(folio) || (t->written_back && is_clean(folio)))
		return 0;
	t->opening.first = page;
	t->opening.last = at_most(end - 1, t->last);
	loop(MOST_POPULATED, open_step, &t->opening);
	return 0;
}

LOOPED(tour_step, struct tour)

/* Those pages of a range are suspect that can be stored to without a fault. */
__noinline int open_dirty(struct range *r, __u32 pid)
{
	struct tour t = {};
	__u64 size;

	if (!r)
		return 0;
	size = file_size(r->mapping);
	if (!size)
		return 0;
	t.mapping = r->mapping;
	t.written_back = r->written_back;
	t.page = r->page;
	t.last = at_most(r->page + ((r->end - 1 - r->start) >> PAGE_SHIFT), (size - 1) >> PAGE_SHIFT);
	t.opening.fault.key.mapping = r->mapping;
	t.opening.fault.file = r->file;
	t.opening.fault.generation = r->generation;
	t.opening.fault.written_back = r->written_back;
	t.opening.fault.tid = t.opening.fault.pid = pid;
	t.opening.fault.page = r->page;
	t.opening.fault.now = bpf_ktime_get_ns();
	loop(MOST_TOURED, tour_step, &t);
	if (t.opening.lost || t.page <= t.last)
		count_lost();
	return 0;
}

/* A range of a process that was there before; 0: it is known, or there are too many. */
__noinline int take_range(struct range *r, __u32 pid)
{
	struct range known = {};

	if (!r || find_range(&known, pid, r->start))
		return 0;
	if (!map_range(r, pid)) {
		count_lost();
		return 0;
	}
	return 1;
}

/* Once for every area of memory of every process in the scope. */
SEC("iter/task_vma")
int on_area(struct bpf_iter__task_vma *ctx)
{
	struct task_struct *task = ctx->task;
	struct vm_area_struct *area = ctx->vma;
	struct watch *w = watch();
	struct range r = {};
	__u64 inode;

	if (!task || !area || !w->on || !bpf_task_storage_get(&threads, task, 0, 0))
		return 0;
	inode = take_area(area, &r);
	if (!inode)
		return 0;
	__sync_fetch_and_or(&w->inodes, trace_of(inode));
	if (take_range(&r, task->tgid))
		open_dirty(&r, task->tgid);
	return 0;
}

#endif
