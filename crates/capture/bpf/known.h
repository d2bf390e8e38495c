/* SPDX-License-Identifier: Apache-2.0 */
/* What files hold that the spool holds, too: whoever reads it again is told by where it stands there.
 *
 * Goals: content that a file still holds is neither copied nor looked at again. It is the same as it was if nobody had the file open
 * for writing then, and the file's time of change is still the same: these file systems set it before they change anything, and memory
 * that is written to a file takes an open one. The recorder fills the table, when it has seen the same content at the
 * same place twice; a look at it is one line of the caches. Non-goals: files that somebody writes to, reads that do not say where.
 */
#ifndef REPRISE_KNOWN_H
#define REPRISE_KNOWN_H

#include "objects.h"

/* Before Linux 5.16 no element of a map is greater than 4 MiB. */
#ifdef WITHOUT_LOOP
#define KNOWN_PAGES 1024
#else
#define KNOWN_PAGES 2048
#endif
#define KNOWN_LINES 64
#define KNOWN_WAYS 4
/* Shorter content is copied sooner than it is looked up. */
#define KNOWN_LEAST 512u

#define EXT4_MAGIC 0xef53
#define XFS_MAGIC 0x58465342

/* The kernel notes in the bits above whether somebody has asked for the time. */
#define NANOSECONDS 0x3fffffff

/* Passages of files, by their digests (0: none), and where what they hold stands, as RANGE_SAID tells it. A digest is taken away before
 * its place is changed; one of a passage never means anything else, so that any place that is found beside it is right. */
struct known {
	__u64 digest[KNOWN_WAYS];
	__u32 offset[KNOWN_WAYS];
	__u16 file[KNOWN_WAYS];
	__u64 wanted; /* of no meaning */
};

/* Neighbours in a file are neighbours here, so that what is read at random from much of it needs few lines and pages. */
struct known knowns[KNOWN_PAGES * KNOWN_LINES] SEC(".bss.knowns");

/* When a file was changed last, if its file system sets that time before it changes anything; else 0. */
static __always_inline __u64 changed_ns(struct inode *inode)
{
	struct super_block *super;
	__u64 magic;

	if (!inode || !bpf_core_field_exists(inode->i_ctime_sec) || !S_ISREG(FIELD(inode, i_mode)))
		return 0;
	super = FIELD(inode, i_sb);
	magic = super ? FIELD(super, s_magic) : 0;
	if (magic != EXT4_MAGIC && magic != XFS_MAGIC && magic != BTRFS_MAGIC)
		return 0;
	return FIELD(inode, i_ctime_sec) * 1000000000ULL + (FIELD(inode, i_ctime_nsec) & NANOSECONDS);
}

/* Whether nobody has it open for writing. */
static __always_inline int is_at_rest(struct inode *inode)
{
	return FIELD(inode, i_writecount.counter) <= 0;
}

static __always_inline __u64 mix(__u64 digest, __u64 word)
{
	digest = (digest ^ word) * 0x9e3779b97f4a7c15ULL;
	return digest ^ digest >> 32;
}

/* What is read of a file, as of a time of change. */
struct passage {
	__u64 inode;
	__u64 device;
	__u32 generation;
	__u64 size;   /* of the file */
	__u64 changed;
	__u64 offset;
	__u32 length;
};

static __always_inline __u64 digest_of_file(struct passage *of)
{
	return mix(mix(scramble, of->inode), of->device << 32 | of->generation);
}

/* Where in the table a passage is looked for: pages and somewhat less share a line by four. */
static __always_inline __u32 line_of(struct passage *of, __u64 file)
{
	__u64 group = of->offset >> (of->length <= 1024 ? 12 : of->length <= 6144 ? 14 : 16);
	__u32 page = mix(file, group / KNOWN_LINES) >> 32;

	return page % KNOWN_PAGES * KNOWN_LINES + group % KNOWN_LINES;
}

/* Two passages that differ in one number have different digests. */
static __always_inline __u64 digest_of(struct passage *of, __u64 file)
{
	return mix(mix(mix(file, of->changed), of->offset), of->length) ?: 1;
}

/* Whether a call reads content, so much of it, of which it says where in the file it is. */
static __always_inline int reads_passage(struct row *row, __u64 length)
{
	return row->look == LOOK_PART && row->offset && length >= KNOWN_LEAST;
}

static __always_inline struct known volatile *known_of(__u32 line)
{
	CHECKED(line);
	return &knowns[line % (KNOWN_PAGES * KNOWN_LINES)];
}

/* A call begins that reads a passage: its line may be far away. A store is not waited for, and brings it. */
static __always_inline void bring_line(struct task_struct *task, __s32 fd, __u64 offset, __u32 length)
{
	struct file *found = file_of(task, fd), *file;
	struct passage of = { .offset = offset, .length = length };
	struct inode *inode;

	if (!found)
		return;
	file = TYPED(struct file, found);
	inode = FIELD(file, f_inode);
	if (!inode)
		return;
	of.inode = FIELD(inode, i_ino);
	of.generation = FIELD(inode, i_generation);
	of.device = device_of(inode);
	known_of(line_of(&of, digest_of_file(&of)))->wanted = 1;
}

/* Where it stands what a passage holds; 0: that is not known. */
static __always_inline __u64 place_of(struct passage *of)
{
	__u64 file = digest_of_file(of), digest = digest_of(of, file), place;
	struct known volatile *known = known_of(line_of(of, file));
	__u32 way;

	/* What a file is cut by changes its size first. */
	if (of->offset + of->length > of->size)
		return 0;
#pragma unroll
	for (way = 0; way < KNOWN_WAYS; way++) {
		if (known->digest[way] != digest)
			continue;
		place = (__u64)known->file[way] << 32 | known->offset[way];
		barrier();
		return known->digest[way] == digest ? place : 0;
	}
	return 0;
}

#endif
