/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at pages that were stored to: a MAPPED record for each, before the call that could show or change them.
 *
 * Goals: a look costs in proportion to the suspects within its part of a file; it can be left at any page and gone on with,
 * for there may be no room. Non-goals: whether a page has changed since the last look (the finisher compares).
 */
#ifndef REPRISE_LOOKS_H
#define REPRISE_LOOKS_H

#include "spaces.h"
#include "records.h"

/* Whether a thread can wait for room. */
#ifdef WITH_TASK_WORK
#define WAITS 1
#else
#define WAITS 0
#endif
#define SPANS 4
/* A longer span is looked for in the list of all patches, a shorter one patch by patch. */
#define SHORT_PATCHES 32
#define LAST_PAGE (~0ULL)

struct look {
	struct span spans[SPANS];
	__u32 count;
	__u32 at;    /* the next span */
	__u64 next;  /* the next patch: its number in the file, or its slot */
	__u64 bits;  /* pages of the present patch that are to be looked at */
	__u64 closed; /* and those that were, and are closed to stores */
	__u64 time_ns;
	__u32 slot;  /* of the present patch */
	__u32 tid;   /* who looks, if none of its faults can be under way */
	__u8 open;   /* within a span */
	__u8 listed; /* which goes over the list of all patches */
	__u8 closes; /* the call has closed pages */
	__u8 ends;   /* the call has ended mappings */
	__u8 before; /* only at pages that were never written */
	__u8 flags;  /* of the records */
	__u8 reserved[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct look);
} looks SEC(".maps");

struct looker {
	struct look *l;
	struct cpu *cpu;
	struct watch *w;
	__u32 verdict;
	__u32 urgent;
};

static __always_inline void clear_look(struct look *l, __u64 time_ns, __u32 tid)
{
	l->count = l->at = 0;
	l->bits = l->closed = 0;
	l->open = l->closes = l->ends = l->before = l->flags = 0;
	l->time_ns = time_ns;
	l->tid = tid;
}

/* Adds a part of a file (mapping 0: all there are); what is too much is everything. */
static __always_inline void add_span(struct look *l, __u64 mapping, __u64 first, __u64 last)
{
	__u32 at = l->count;

	if (at >= SPANS) {
		at = 0;
		mapping = 0;
		l->count = 0;
	}
	l->spans[at].mapping = mapping;
	l->spans[at].first = mapping ? first : 0;
	l->spans[at].last = mapping ? last : LAST_PAGE;
	l->count++;
}

/* The same of a file of which a part may be there already: one part then, which is both and what lies between them. */
static __always_inline void widen_span(struct look *l, __u64 mapping, __u64 first, __u64 last)
{
	struct span *span;
	__u32 at;

	for (at = 0; at < SPANS && at < l->count; at++) {
		span = &l->spans[at];
		if (span->mapping != mapping)
			continue;
		span->first = first < span->first ? first : span->first;
		span->last = last > span->last ? last : span->last;
		return;
	}
	add_span(l, mapping, first, last);
}

static __always_inline __u64 below(__u64 bit)
{
	return bit >= PATCH_PAGES ? ~0ULL : (1ULL << (bit & 63)) - 1;
}

/* The pages of a patch that lie within a span. */
static __always_inline __u64 within(struct span *span, __u64 number)
{
	__u64 base = number << PATCH_SHIFT, bits = ~0ULL;

	if (span->last < base || span->first >= base + PATCH_PAGES)
		return 0;
	if (span->first > base)
		bits &= ~below(span->first - base);
	if (span->last - base < PATCH_PAGES)
		bits &= below(span->last - base + 1);
	return bits;
}

/* Done with a patch. */
static __always_inline void leave_patch(struct look *l)
{
	__u32 slot = l->slot;
	struct patch *patch = bpf_map_lookup_elem(&patches, &slot);

	if (!patch)
		return;
	/* What was opened after the instant with which the look is stamped has perhaps nobody who maps it then: it is looked at once more. */
	if (l->closes && patch->last_ns <= l->time_ns)
		absolve(patch, l->closed, l->tid, bpf_ktime_get_ns());
	if (l->ends)
		forget_unmapped(slot, bpf_get_current_pid_tgid());
}

/* Goes to the next patch; 0: there is none. */
__noinline int next_patch(struct look *l)
{
	struct watch *w = watch();
	struct which file;
	struct patch *patch;
	struct span *span;
	__u32 slot, at;

	if (!l)
		return 0;
	if (!l->open) {
		if (l->at >= l->count || l->at >= SPANS)
			return 0;
		l->at++;
		l->open = 1;
	}
	at = l->at - 1;
	if (at >= SPANS)
		return 0;
	span = &l->spans[at];
	if (l->open == 1) {
		l->open = 2;
		l->listed = (span->last >> PATCH_SHIFT) - (span->first >> PATCH_SHIFT) > SHORT_PATCHES;
		l->next = l->listed ? 0 : span->first >> PATCH_SHIFT;
	}
	if (l->listed) {
		slot = l->next++;
		if (slot >= w->patches) {
			l->open = 0;
			return 1;
		}
	} else {
		struct patch_key key = { span->mapping, l->next++ };
		__u32 *found;

		if (key.number > span->last >> PATCH_SHIFT) {
			l->open = 0;
			return 1;
		}
		found = bpf_map_lookup_elem(&patch_slots, &key);
		if (!found)
			return 1;
		slot = *found;
	}
	patch = bpf_map_lookup_elem(&patches, &slot);
	if (!patch || !patch->key.mapping || (span->mapping && patch->key.mapping != span->mapping))
		return 1;
	l->slot = slot;
	l->closed = 0;
	file = patch->file;
	l->bits = patch->suspects & within(span, patch->key.number);
	/* It is forgotten when it has been looked at, though another span may concern it, too. */
	if (l->ends && is_last_ender(&file, bpf_get_current_pid_tgid()))
		l->bits = patch->suspects;
	if (l->before)
		l->bits &= ~patch->shown;
	if (!l->bits)
		leave_patch(l);
	return 1;
}

static __always_inline void fill_mapped(struct mapped_body *body, struct patch *patch, __u64 index, __u64 size, __u32 flags)
{
	body->device = patch->file.device;
	body->inode = patch->file.inode;
	body->page = index;
	body->size = size;
	body->generation = patch->generation;
	body->tid = patch->tid;
	body->pid = patch->pid;
	body->flags = flags;
}

struct scan {
	__u64 *words;
	__u32 at;
	__u32 found;
};

static long scan_words(__u64 i, struct scan *s)
{
	__u32 at = s->at;
	__u64 *words;

	CHECKED(at);
	if (at > PAGE / 8 - 8)
		return 1;
	words = s->words + at;
	s->at = at + 8;
	s->found = !!(words[0] | words[1] | words[2] | words[3] | words[4] | words[5] | words[6] | words[7]);
	return s->found;
}

LOOPED(scan_words, struct scan)

/* Whether a page that stands in a segment is zeros. */
static __always_inline int is_zero(__u64 *words)
{
	struct watch *w = watch();
	struct scan s = { .words = words, .at = w ? w->nought : 0 };

	if (words[0])
		return 0;
	loop(PAGE / 64, scan_words, &s);
	return !s.found;
}

/* Writes a page of the present patch as it is now, if it is in the cache: a page that leaves it is looked at before. */
__noinline int show_page(struct look *l, struct cpu *cpu, int urgent, __u32 bit)
{
	const __u32 heads = sizeof(struct record_head) + sizeof(struct mapped_body);
	__u64 mapping, index, folio, size, at, from;
	struct watch *w = watch();
	struct record_head *record;
	struct mapped_body *body;
	struct patch *patch;
	__u32 slot, length, keeps, flags;
	int clean;

	if (!l || !cpu || !w)
		return VERDICT_DONE;
	slot = l->slot;
	patch = bpf_map_lookup_elem(&patches, &slot);
	if (!patch)
		return VERDICT_DONE;
	mapping = patch->key.mapping;
	index = patch->key.number << PATCH_SHIFT | bit;
	folio = mapping ? folio_at(mapping, index) : 0;
	if (!folio || !is_uptodate(folio))
		return VERDICT_DONE;
	clean = is_clean(folio);
	size = file_size(mapping);
	at = index << PAGE_SHIFT;
	if (at < size) {
		length = at_most(size - at, PAGE);
		if (!make_room(cpu, heads + PAGE, urgent))
			return VERDICT_NO_ROOM;
		record = place(cpu->segment, cpu->used);
		if (!record)
			return VERDICT_NO_ROOM;
		body = (struct mapped_body *)(record + 1);
		from = content_of(folio, index, w->offset);
		if (w->keeps && bpf_probe_read_kernel(body + 1, PAGE, (void *)from)) {
			drop(cpu, LACK_READ);
			return VERDICT_DONE;
		}
		flags = l->flags;
		keeps = !!w->keeps;
		if (l->before && is_zero((__u64 *)(body + 1))) {
			flags |= MAPPED_ZERO;
			keeps = 0;
		}
		fill_mapped(body, patch, index, size, flags);
		body->length = length;
		body->kept = keeps ? length : 0;
		commit(cpu, record, cpu->used + heads + (keeps ? PAGE : 0), RECORD_MAPPED, l->time_ns);
		w->looked++;
		__sync_fetch_and_or(&patch->shown, 1ULL << (bit & 63));
	}
	if (clean)
		l->closed |= 1ULL << (bit & 63);
	return VERDICT_DONE;
}

static long look_step(__u64 i, struct looker *k)
{
	struct look *l = k->l;

	if (!l->bits) {
		if (next_patch(l))
			return 0;
		k->verdict = VERDICT_DONE;
		return 1;
	}
	if (show_page(l, k->cpu, k->urgent, lowest(l->bits)) == VERDICT_NO_ROOM) {
		k->verdict = VERDICT_NO_ROOM;
		return 1;
	}
	l->bits &= l->bits - 1;
	if (!l->bits)
		leave_patch(l);
	return 0;
}

LOOPED(look_step, struct looker)

/* Begins a look, or goes on with it: VERDICT_GO_ON after so many steps. */
__noinline int go_on_looking(struct look *l, struct cpu *cpu, int urgent, __u32 steps)
{
	struct looker k = { .l = l, .cpu = cpu, .urgent = urgent };

	if (!l || !cpu)
		return VERDICT_DONE;
	loop(steps, look_step, &k);
	return k.verdict;
}

/* The same where nobody can wait: what finds no room is lost, and counted. */
static __always_inline void look_now(struct look *l, struct cpu *cpu)
{
	if (go_on_looking(l, cpu, 1, 1 << 20) != VERDICT_DONE)
		drop(cpu, LACK_ROOM);
}

#endif
