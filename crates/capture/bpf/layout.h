/* SPDX-License-Identifier: Apache-2.0 */
/* The spool: what the programs in the kernel write, and the finisher reads.
 *
 * A spool file is a sequence of segments of SEGMENT_BYTES; a segment is a head and records; everything is little
 * endian and aligned to 8 bytes. `src/spool/layout.rs` is the twin of this file; a test compiles both and compares.
 */
#ifndef REPRISE_LAYOUT_H
#define REPRISE_LAYOUT_H

#define SEGMENT_MAGIC 0x3147455353525052ULL /* "RPRSSEG1" */
#define SEGMENT_BYTES (1u << 20)
/* A range longer than this is several. */
#define PIECE_BYTES (1u << 16)
/* Content of one call beyond this goes into MORE records. */
#define INLINE_BYTES (1u << 15)

struct segment_head {
	__u64 magic;
	__u32 cpu;
	__u32 used;	/* bytes, this head included */
	__u64 number;	/* among the segments of this CPU, from 0 */
	__u64 first;	/* number of its first record */
	__u64 dropped;	/* records of this CPU that were dropped until it was closed */
	__u64 reserved[3];
};

enum record_kind {
	RECORD_CALL = 1,
	RECORD_MORE = 2,
	RECORD_ENTER = 3,
	RECORD_TASK = 4,
	RECORD_EXEC = 5,
	RECORD_END = 6,
};

enum record_flag {
	RECORD_NARROW = 1,   /* made through a 32-bit entry (i386, x32): no ranges, its number is of another table */
	RECORD_DEFERRED = 2, /* written when there was room again, before the thread returned to the program */
};

struct record_head {
	__u32 bytes;
	__u16 kind;
	__u16 flags;
	__u64 number;
	__u64 time_ns;
	__u32 tid;
	__u32 pid;
};

/* An open file that a call names or has made. */
struct object {
	__u64 id;
	__u64 device;
	__u64 inode;
	__u64 size;
	__s64 position;
	__u32 generation;
	__u32 mode;
	__u32 flags;
	__s32 fd;
	__u32 links;
	__u32 reserved;
};

struct call_body {
	__u64 begin_ns;
	__u64 call;
	__u64 cpu_ns;
	__s64 result;
	__u64 args[6];
	__u32 nr;
	__u16 ranges;
	__u16 objects; /* that follow, before the ranges */
	__u32 more;
	__u32 lacking;
};

struct enter_body {
	__u64 begin_ns;
	__u64 call;
	__u64 cpu_ns;
	__u64 args[6];
	__u32 nr;
	__u16 ranges;
	__u16 objects; /* none */
	__u32 more;
	__u32 lacking;
};

struct more_body {
	__u64 call;
};

enum range_when {
	WHEN_ENTRY = 0,
	WHEN_EXIT = 1,
};

enum range_flag {
	RANGE_LACKING = 1,  /* not all of it could be read */
	RANGE_UNWANTED = 2, /* content that was not asked for: its length only */
};

struct range_head {
	__u64 address;
	__u32 length;
	__u32 kept;
	__u16 when;
	__u16 flags;
	__u32 reserved;
};

struct identity {
	__u32 uid, euid, suid, fsuid;
	__u32 gid, egid, sgid, fsgid;
};

struct task_body {
	__u32 parent_tid;
	__u32 parent_pid;
	__u64 clone_flags;
	struct identity identity;
	__u32 umask;
	__u32 reserved;
	char comm[16];
};

struct exec_body {
	__u32 old_tid;
	__u32 reserved;
	struct identity identity;
	char comm[16];
};

struct end_body {
	__s32 exit_code; /* as wait(2) tells it */
	__u32 last;      /* 1: the last thread of its process */
};

#endif
