/* SPDX-License-Identifier: Apache-2.0 */
/* The little of the kernel's types that is looked at. Offsets are those of the running kernel (CO-RE). */
#ifndef REPRISE_KERNEL_H
#define REPRISE_KERNEL_H

#include <linux/bpf.h>
#include <linux/fcntl.h>
#include <linux/fs.h>
#include <linux/mman.h>
#include <linux/sched.h>
#include <linux/stat.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long di, si, dx, r10, r8, r9, orig_ax;
};

struct thread_info {
	unsigned int status;
};

struct sched_entity {
	__u64 sum_exec_runtime;
};

typedef struct {
	__u32 val;
} kuid_t;

typedef struct {
	__u32 val;
} kgid_t;

struct cred {
	kuid_t uid, suid, euid, fsuid;
	kgid_t gid, sgid, egid, fsgid;
};

struct fs_struct {
	int umask;
};

struct super_block {
	__u32 s_dev;
	unsigned long s_magic;
};

typedef struct {
	int counter;
} atomic_t;

struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	unsigned int i_nlink;
	__s64 i_size;
	__s64 i_ctime_sec; /* since 6.11 */
	__u32 i_ctime_nsec;
	__u32 i_generation;
	atomic_t i_writecount;
};

struct btrfs_root {
	__u32 anon_dev;
};

struct btrfs_inode {
	struct btrfs_root *root;
	struct inode vfs_inode;
};

struct file {
	unsigned int f_mode;
	unsigned int f_flags;
	__s64 f_pos;
	struct inode *f_inode;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
	unsigned long *open_fds;
};

struct files_struct {
	struct fdtable *fdt;
};

struct list_head {
	struct list_head *next;
};

struct signal_struct {
	atomic_t live;
	struct list_head thread_head;
};

typedef struct {
	unsigned long sig[1];
} sigset_t;

struct sigpending {
	sigset_t signal;
};

struct mm_struct;

struct task_struct {
	struct thread_info thread_info;
	unsigned int flags;
	struct mm_struct *mm;
	struct task_struct *group_leader;
	struct sched_entity se;
	int exit_code;
	int pid;
	int tgid;
	const struct cred *cred;
	char comm[16];
	struct fs_struct *fs;
	struct files_struct *files;
	struct list_head thread_node;
	struct signal_struct *signal;
	struct sigpending pending;
};

#pragma clang attribute pop

/* Threads of the kernel that live in a process: they make no calls. */
#define PF_EXITING 0x4
#define PF_IO_WORKER 0x10
#define PF_USER_WORKER 0x4000
#define PF_KTHREAD 0x200000
/* A call through a 32-bit entry is under way. */
#define TS_COMPAT 2
#define X32_CALL 0x40000000

/* A field behind a pointer that the verifier does not know the type of. */
#ifdef WITH_TASK_WORK
extern void *bpf_rdonly_cast(const void *object, __u32 type) __ksym;
#define TYPED(type, pointer) ((type *)bpf_rdonly_cast(pointer, bpf_core_type_id_kernel(type)))
#define FIELD(pointer, field) ((pointer)->field)
/* What a pointer to a pointer points to. */
#define POINTED(pointer) (*(pointer))
#else
#define TYPED(type, pointer) ((type *)(pointer))
#define FIELD(pointer, field) BPF_CORE_READ(pointer, field)
#define POINTED(pointer)                                                 \
	({                                                               \
		void *pointed = 0;                                       \
		bpf_probe_read_kernel(&pointed, sizeof(pointed), pointer); \
		pointed;                                                 \
	})
#endif

/* Of a function that needs much of the stack, where others are called behind it that need the rest: kernels before 6.13 or so, none of
 * which can wait, count it all together, later ones give each function its own. */
#ifdef WITH_TASK_WORK
#define BESIDE_OTHERS __always_inline
#else
#define BESIDE_OTHERS __noinline
#endif

/* Keeps the compiler from mixing up a checked number with its unchecked sources. */
#define CHECKED(number) asm volatile("" : "+r"(number))

/* Has the verifier forget what it knows of a number, by one that it knows nothing of: else it follows each way on which it came about to
 * the end of the program, which takes it long. */
#define FORGOTTEN(number, unknown) asm volatile("%0 ^= %1\n%0 ^= %1" : "+r"(number) : "r"(unknown))

#endif
