/* SPDX-License-Identifier: Apache-2.0 */
/* Maps, and what they hold. `src/ebpf/shared.rs` is the twin of what user space sees. */
#ifndef REPRISE_STATE_H
#define REPRISE_STATE_H

#include "kernel.h"
#include "layout.h"

/* Behind a segment lies room that nothing is kept in: with it one check of an offset suffices for a whole piece. */
#define STRIDE_BYTES (SEGMENT_BYTES + PIECE_BYTES + 4096)
#define ROWS 512
#define PARTS 6

enum part_kind {
	PART_NONE = 0,
	PART_BYTES = 1,    /* `size` bytes */
	PART_SIZED = 2,    /* as many bytes as argument `of` says, at most `size` */
	PART_WORDS = 3,    /* as many 32-bit words as argument `of` says, at most `size` */
	PART_STRING = 4,   /* to its end, at most `size` bytes */
	PART_STRINGS = 5,  /* an array of strings, at most `size` bytes */
	PART_DATA = 6,     /* content: as many bytes as argument `of` says */
	PART_VECTOR = 7,   /* content: as many `iovec` as argument `of` says */
	PART_FCNTL = 8,    /* as the command says */
	PART_IOCTL = 9,
	PART_MESSAGE = 10,
	PART_MESSAGES = 11, /* as many as argument `of` (given) or the result (filled) says */
	PART_BUFFERS = 12,  /* as many `iovec` as argument `of` says, without what they name */
	PART_IOCBS = 13,    /* requests of Linux AIO, as many as the result says, with what they are given */
	PART_EVENTS = 14,   /* their completions, with what they filled */
	PART_REGISTERED = 15, /* what is registered with a ring */
	PART_CLONE_ARGS = 16, /* as PART_SIZED, and the descriptor of the child that it points to */
	PART_CHILD_HANDLE = 17, /* the descriptor of the child, if argument 0 asks for one */
};

enum part_when {
	PART_AT_ENTRY = 1,
	PART_AT_EXIT = 2,
	PART_FILLED = 4,   /* at exit, after success; of content as much as was moved */
	PART_UNWANTED = 8, /* only how long it was */
};

struct part {
	__u8 kind;
	__u8 arg;
	__u8 of;
	__u8 when;
	__u32 size;
};

enum row_flag {
	ROW_RECORDED = 1,
	ROW_ENTER = 2,     /* something is kept at entry */
	ROW_ALWAYS = 4,    /* an ENTER record even if nothing is */
	ROW_EXECUTE = 8,
	ROW_ENDS = 16,     /* ends a descriptor: objects are looked at on entry */
	ROW_MORE = 32,     /* may need MORE records */
	ROW_SIMPLE = 64,   /* nothing at entry, at most one buffer and one object: see simple.h */
	ROW_MOVES = 128,   /* moves content inside the kernel, which is kept: see passed.h */
	ROW_PIPES = 256,   /* of such: to or from a pipe */
};

/* Why pages of mapped files are looked at, or what is mapped otherwise, when a call is over. */
enum row_look {
	LOOK_NOT = 0,
	LOOK_PART,        /* the part of a file that was read */
	LOOK_WRITTEN,     /* the part that is written, at the entry */
	LOOK_COPIED,      /* a file that content was moved from; at the entry the one that it goes to */
	LOOK_SYNC,        /* a file that was written back */
	LOOK_SYNC_MEMORY, /* memory that was */
	LOOK_SYNC_ALL,
	LOOK_EXECUTE,
	LOOK_MAP,
	LOOK_UNMAP,
	LOOK_REMAP,
	LOOK_PROTECT,
	LOOK_POPULATED,   /* memory was made present */
	LOOK_ASKED,       /* files that requests of Linux AIO are about, at the entry */
	LOOK_CLONED,      /* two files of which one is to have what the other has, at the entry, if an `ioctl` asks for that */
};

/* A side of a call that moves content inside the kernel: arguments. */
struct row_end {
	__u8 fd;
	__u8 cell; /* + 1, that points to where in the file it begins; 0: none */
};

struct row {
	__u16 flags;
	__u8 parts;
	__u8 objects[2];
	__u8 look;
	__u8 offset; /* LOOK_PART, LOOK_WRITTEN: the argument that tells where, + 1; LOOK_POPULATED: whether there is advice; LOOK_COPIED: the target, + 1 */
	__u8 arguments; /* so many are told in brief */
	struct row_end source, target; /* ROW_MOVES */
	__u8 reserved[4]; /* rows lie in one cache line each */
	struct part part[PARTS];
};

/* What a command of fcntl or ioctl is given and gives. */
struct command {
	__u32 size;
	__u32 when;
};

/* Where a walk over the ranges of a call stands. */
struct cursor {
	__u32 part;
	__u32 element;
	__u64 offset;
	__u64 stream; /* content so far */
};

/* Memory that is kept in pieces. */
struct area {
	__u64 address;
	__u64 length;
	__u8 string;  /* to its NUL; `length` is the limit */
	__u8 content; /* counts as content of the call */
	__u8 single;  /* the only area of its part */
	__u8 reserved[5];
};

/* A page that a thread is about to load. */
struct load {
	__u64 mapping; /* its file's `struct address_space` */
	__u64 page;
	__u64 address;
	__u64 device;
	__u64 inode;
	__u32 waits;   /* it is not written yet */
	__u32 late;    /* it is there now, or never */
};

/* A thread in scope. What a record is made from stands here and not on a stack: the verifier need not tell apart
 * all that it may hold. */
struct thread {
	__u32 nr;
	__u16 flags;      /* of its records */
	__u8 inside;      /* in a call that is recorded, or INSIDE_UNKNOWN, or INSIDE_LOADING */
	__u8 launching;   /* has not executed the command yet; user space sets it */
	__u64 begin_ns;
	__u64 end_ns;
	__u64 call;
	__u64 cpu_ns;
	__s64 result;
	__u8 pending;     /* a record waits for room or for a page */
	__u8 unread;      /* some of what a program is run with was not in memory yet */
	__u8 unlooked;    /* not all that a call copies was looked at when it began */
	__u8 lodges;      /* its process has the memory of the one that made it, and may leave it mappings */
	__u32 looking;    /* at pages, before the record is made; up to here in one cache line, that every call looks at */
	__u64 args[6];
	struct object objects[2];
	/* The record that is being made. */
	struct cursor cursor;
	struct area area; /* at the cursor */
	struct part part;
	__u64 fault_address;
	__u32 fault_bytes;
	__u32 at;
	__u32 ranges;
	__u32 lacking;
	__u32 more;
	__u32 lost;       /* ranges of MORE records that are lacking */
	__u32 length;     /* of the piece at the cursor */
	__u32 kept;       /* of it */
	__u32 found;      /* objects */
	__u8 entry;       /* the ENTER record, else the CALL record */
	__u8 inlined;     /* walking for the record itself, else for its MORE records */
	__u8 accept;      /* what cannot be read is lacking */
	__u8 asks;        /* it has submitted requests */
	__u64 serial;     /* of the thread, never used again */
	__u64 waiting_ns; /* since when it waits for room */
	__u32 wakes;
	__u32 rounds;
	__u32 verdict;    /* why its record is pending */
	__u32 fetched;    /* how far its record was when a page was brought into memory, `reached` */
	struct load load;
	__u32 quick;      /* its place among those of quick.h + 1, 0: none */
	__u32 arrival;    /* it came in from outside as this one; 0: it did not */
	__u64 vector;     /* of a request: where its vector is kept, 0: in the program's memory */
	__u64 aside;      /* so far behind its buffer stands what a call wrote */
};

/* Why something is dropped. `src/spool/lacks.rs` says it in words. */
enum lack {
	LACK_ROOM = 0,  /* no segment was free */
	LACK_WAIT,      /* a thread was to wait, and could not */
	LACK_GIVEN_UP,  /* it did, and went on or ended before it was served, or the recorder was gone */
	LACK_MEMORY,    /* what is mapped, or was stored to, could not be kept in mind */
	LACK_READ,      /* the kernel's memory could not be read */
	LACK_TURN,      /* another record was being made on the processor */
};

/* What one CPU writes. */
/* Open files that a segment may tell of in short, by their identities. */
#define TOLD 64

struct told {
	__u32 at;     /* where in the segment it is told; 0: nowhere */
	__u32 object; /* which of those that are told there, from 0 */
};

struct cpu {
	__u64 next;       /* number of the next record */
	__u64 segments;   /* opened so far */
	__u64 dropped;
	__u64 bytes;
	__u64 deferred;
	__u64 passed;     /* calls after the recording had stopped */
	__u32 segment;    /* index + 1, 0: none */
	__u32 used;
	__u32 busy;
	__u32 objects;    /* told in brief in this segment */
	__u64 linger_ns;  /* that the present call may still wait for room on this processor */
	__u64 lacks[7];   /* of what is dropped, by `enum lack` */
	struct told told[TOLD];
};

/* What both sides watch. */
struct control {
	__u64 free;         /* segments */
	__u64 reserve;      /* of them not for ordinary records */
	__u64 low;          /* below this threads wait */
	__u64 block;        /* wait for room, else drop */
	__u64 stopped;
	__u64 heartbeat_ns; /* of the recorder */
	__u64 patience_ns;  /* without a heartbeat */
	__u64 known;        /* something is known of what files hold */
	__u64 tasks;        /* alive in the scope */
	__u64 serials;
	__u64 lost_tasks;   /* threads that could not be followed */
	__u64 nested;       /* records dropped since another was being made on the CPU */
	__u64 pending;      /* records that wait in their threads */
	__u64 waits;        /* times that a thread waited */
	__u64 waited_ns;
	__u32 arrivals;     /* threads that came in from outside, so far */
	__u32 looked;       /* of them user space has looked at; it sets this */
	__u64 owed;         /* requests that threads of the kernel completed, and of which not all is kept yet */
	__u64 owed_ns;      /* when the last of them came */
	__u64 reserved[6];
};

/* What both sides know of mapped files. */
struct watch {
	__u64 on;       /* stores are followed */
	__u64 ranges;   /* addresses that are followed, in all processes */
	__u64 inodes;   /* a bit for each that is, or was, mapped, by `trace_of` */
	__u64 offset;   /* from 64 times the address of a `struct page` to the page */
	__u64 keeps;    /* content is kept, else only lengths */
	__u64 loads;    /* loads are followed */
	__u64 mappings; /* a bit for each that has, or had, patches, by `trace_of` */
	__u64 nought;   /* 0 */
	__u64 patches;  /* slots of the list that were ever used */
	__u64 looked;   /* pages looked at */
	__u64 left;     /* the last look at everything has not come to its end */
	__u64 backings; /* files that are kept as mapped */
	__u64 reserved[4];
};

enum notice_kind {
	NOTICE_FULL = 1,
	NOTICE_OVER = 2, /* the last task has ended */
	NOTICE_ARRIVED = 3, /* in a ring of its own: somebody came into the scope from outside */
};

struct notice {
	__u32 kind;
	__u32 segment;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

#define VECTOR_MOST 16

/* The vector of a request in flight: the program may use the memory that held it again. */
struct vector {
	__u64 words[2 * VECTOR_MOST]; /* addresses and lengths */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 17);
	__type(key, __u64); /* where the kernel keeps the request */
	__type(value, struct vector);
} vectors SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 64);
	__uint(key_size, 4);
	__uint(value_size, STRIDE_BYTES);
} segments SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 64);
	__uint(key_size, 0);
	__uint(value_size, 4);
} unused SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536);
} notices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} arrived SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

/* What every call looks at has an address of its own, which begins at that of a page: no number is looked up, what is to lie in
 * one line of the caches does, and all that the most frequent calls (of small numbers) look at lies in one page. */
struct common {
	struct control control;
	struct watch watch;
	struct row rows[ROWS];
};

struct common common SEC(".bss.common");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64); /* PART_FCNTL or PART_IOCTL << 32 | command */
	__type(value, struct command);
} commands SEC(".maps");

/* Of this recording: what the identities of open files are mixed with. */
const volatile __u64 scramble = 0;

static __always_inline struct control *control(void)
{
	return &common.control;
}

static __always_inline struct watch *watch(void)
{
	return &common.watch;
}

static __always_inline struct cpu *this_cpu(void)
{
	__u32 number = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &number);
}

/* The row of a call; of a number that no table knows the last one, which is recorded without ranges. */
static __always_inline struct row *row_of(__u32 nr)
{
	if (nr >= ROWS)
		nr = ROWS - 1;
	CHECKED(nr);
	return &common.rows[nr % ROWS];
}

/* Of a call whose record has these flags. */
static __always_inline struct row *row_of_record(__u32 nr, __u32 flags)
{
	return row_of(flags & RECORD_NARROW ? ROWS - 1 : nr);
}

/* Which row a call has, and whether it was made through a 32-bit entry. */
static __always_inline struct row *row_of_call(struct task_struct *task, __u32 nr, int *narrow)
{
	*narrow = (task->thread_info.status & TS_COMPAT) || ((__s32)nr >= 0 && nr & X32_CALL);
	return row_of(*narrow ? ROWS - 1 : nr);
}

#endif
