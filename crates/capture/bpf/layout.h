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
	RECORD_RING = 7,       /* a ring of io_uring was made */
	RECORD_REQUEST = 8,    /* a request was submitted to it */
	RECORD_COMPLETION = 9, /* and is complete */
	RECORD_MAPPED = 10,    /* a page that was stored to through memory */
	RECORD_LOADED = 11,    /* a page that came into a process's memory by a load */
	RECORD_BRIEF = 12,     /* a call whose numbers are small, with one open file and one range at most */
	RECORD_UNLOCKED = 13,  /* locks of a thread that ends are free */
};

/* Where an object of a call is found. */
enum object_source {
	OBJECT_NONE = 0,
	OBJECT_ARG = 1,     /* + index */
	OBJECT_RESULT = 16,
	OBJECT_PAIR = 32,   /* + index: the first of two numbers in memory */
	OBJECT_PAIR_2 = 48,
	OBJECT_AGAIN = 128, /* in brief, beside where it is found: this segment has told of it already */
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
	__u32 file_mode; /* what the kernel notes of the open file itself */
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

/* The most frequent calls in less room: the body, the open file, the arguments that the call has, a range. */
struct brief_body {
	__u64 cpu_ns;
	__u32 took_ns;  /* from its begin until the time of its record */
	__u32 call;
	__s32 result;
	__u16 nr;
	__u8 arguments; /* that follow, 8 bytes each */
	__u8 object;    /* where the descriptor of the open file that follows is named, see `enum object_source`; 0: none does */
};

struct brief_object {
	__u64 id;
	__u64 inode;
	__u64 size;
	__s64 position;
	__u32 device;
	__u32 flags;
	__u32 links;
	__u32 file_mode;
	__u32 generation;
	__u16 mode;
	__u16 reserved;
};

/* In place of an open file of which the segment has told: all but size and position are as they were. */
struct brief_again {
	__u32 object; /* among those that were told in brief, from 0 */
	__u32 moved;  /* 1: a `struct brief_moved` follows; 0: these are as they were, too */
};

struct brief_moved {
	__u64 size;
	__s64 position;
};

/* Kept at the exit, and whole if at all. There is one if the record goes on behind the arguments. */
struct brief_range {
	__u32 length;
	__u16 flags;
	__u8 argument; /* its address */
	__u8 lead;
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

/* Of a request, or of its completion, `call` is REQUEST_MORE. */
struct more_body {
	__u64 call;
};

#define REQUEST_MORE(request, complete) (1ULL << 63 | (__u64)(request) << 1 | !!(complete))

struct ring_body {
	__u64 ring; /* identity of the ring */
	__s32 fd;
	__u32 flags;
};

enum request_state {
	REQUEST_POLLED = 1,   /* taken by a thread of the kernel's own (SQPOLL) */
	REQUEST_FOLLOWS = 2,  /* linked to the one before it */
	REQUEST_UNREAD = 4,   /* what it asks for could not be read */
	REQUEST_UNTOLD = 8,   /* too many in flight: its completion will not be told */
	REQUEST_NO_ROOM = 16, /* there was no room for the memory that belongs to it */
	REQUEST_GIVEN = 32,   /* not complete yet; what it is given, since a success will not be told */
	REQUEST_FOREIGN = 64, /* complete where the memory of the program is not at hand */
	REQUEST_CHOSEN = 128, /* the kernel chose the buffer */
	REQUEST_MOVED = 256,  /* content that was moved inside the kernel stands at `address` of the file */
	REQUEST_REFUSED = 512, /* refused as it was taken, before it did anything */
	REQUEST_LATER = 1024,  /* complete, and there was no room: what it moved comes in another record */
	REQUEST_SETTLED = 2048, /* that record */
	REQUEST_STALE = 4096,  /* the program had taken the completion by then, and may have used its memory again */
};

/* Content of a file has the address of its offset behind this, where no program has memory. */
#define MOVED_AT (1ULL << 62)

struct request_body {
	__u64 request;   /* its number, from 0 */
	__u64 ring;
	__u64 slot;      /* another one in the same: this one is over */
	__u64 sqe[8];    /* as the program wrote it */
	__u32 state;
	__u32 ranges;
	__u32 more;
	__u32 lacking;
};

struct completion_body {
	__u64 request;
	__u64 ring;
	__u64 mark;
	__s64 result;
	__u64 address;   /* of the buffer that was chosen, or of what was moved */
	__u32 length;
	__u32 flags;     /* of the completion */
	__u32 place;     /* among the completions of the ring */
	__u32 taken;     /* so many the program had taken */
	__u32 state;
	__u32 ranges;
	__u32 more;
	__u32 lacking;
	struct object objects[2]; /* the file, and what was opened */
};

enum range_when {
	WHEN_ENTRY = 0,
	WHEN_EXIT = 1,
};

enum range_flag {
	RANGE_LACKING = 1,  /* not all of it could be read */
	RANGE_UNWANTED = 2, /* content that was not asked for: its length only */
	RANGE_SAID = 4,     /* in place of the `kept` bytes a number says where they stand already, file << 32 | offset */
	RANGE_STEADY = 8,   /* content of a file that nobody writes to: the bytes before it begin with a `struct steady` */
};

/* What tells whether a file still holds the content that was read. */
struct steady {
	__u64 changed_ns; /* its time of change, since the epoch */
	__u64 offset;
};

struct range_head {
	__u64 address;
	__u32 length;
	__u32 kept;
	__u16 when;
	__u16 flags;
	__u32 lead; /* bytes between this head and what was kept */
};

struct identity {
	__u32 uid, euid, suid, fsuid;
	__u32 gid, egid, sgid, fsgid;
};

/* Numbers of descriptors that a task body tells of. */
#define OPEN_WORDS 4

struct task_body {
	__u32 parent_tid;
	__u32 parent_pid;
	__u64 clone_flags;
	struct identity identity;
	__u32 umask;
	__u32 open_words; /* of `open` that hold: 0 where it shares its descriptors, and in older spools, which end before them */
	char comm[16];
	__u64 open[OPEN_WORDS]; /* bit by bit, which descriptors it was given */
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

enum mapped_flag {
	MAPPED_BEFORE = 1,  /* as it was before it was stored to for the first time */
	MAPPED_WRITTEN = 2, /* as it was when a call began that writes to it */
	MAPPED_ZERO = 4,    /* nothing is kept: it is zeros */
	MAPPED_DURING = 8,  /* as it was when a call had copied it that found it as it was looked at last */
};

/* A page of a file that was stored to through memory, as it was seen; its content follows. */
struct mapped_body {
	__u64 device;
	__u64 inode;
	__u64 page;
	__u64 size;     /* of the file */
	__u32 generation;
	__u32 length;   /* as far as the file reaches */
	__u32 kept;
	__u32 tid, pid; /* whose the last fault was */
	__u32 flags;
};

enum loaded_flag {
	LOADED_LACKING = 1, /* it was not in the page cache when it could be looked at */
};

/* A page of a file that a load of the thread brought into the memory of its process; its content follows. */
struct loaded_body {
	__u64 device;
	__u64 inode;
	__u64 page;
	__u64 address;
	__u32 length;   /* as far as the file reaches */
	__u32 kept;
	__u32 flags;
	__u32 reserved;
};

#endif
