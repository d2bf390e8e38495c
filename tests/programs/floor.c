/* What a recorder by tracepoints cannot do without: two programs in the kernel, at the entry and the exit of every call.
 *
 * `floor empty|clock|copy COMMAND …` attaches them, runs the command, takes them out again and ends as the command did. They keep
 * nothing, look for no thread, and see the calls of all threads.
 *
 * empty: they return at once.
 * clock: each reads the clock first.
 * copy:  as clock; and what read, write, pread64 or pwrite64 moved, at most 64 KiB of it, is copied over what was copied before on the
 *        processor, so that it stays in its caches.
 *
 * By the bpf system call alone, in the kernel's own instructions: no library and no compiler for it has a part in the figures.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef __x86_64__
#error "registers are those of x86-64"
#endif

#define COPIED_BYTES 65536
/* Places in the kernel's `struct pt_regs`. */
#define REGS_SI 104
#define REGS_ORIG_AX 120

#define INSTRUCTION(CODE, TO, FROM, OFFSET, NUMBER) \
    ((struct bpf_insn){.code = (CODE), .dst_reg = (TO), .src_reg = (FROM), .off = (OFFSET), .imm = (NUMBER)})
#define SET(TO, NUMBER) INSTRUCTION(BPF_ALU64 | BPF_MOV | BPF_K, TO, 0, 0, NUMBER)
#define MOVE(TO, FROM) INSTRUCTION(BPF_ALU64 | BPF_MOV | BPF_X, TO, FROM, 0, 0)
#define ADD(TO, NUMBER) INSTRUCTION(BPF_ALU64 | BPF_ADD | BPF_K, TO, 0, 0, NUMBER)
#define LOAD(TO, FROM, OFFSET) INSTRUCTION(BPF_LDX | BPF_DW | BPF_MEM, TO, FROM, OFFSET, 0)
#define STORE_WORD(TO, OFFSET, FROM) INSTRUCTION(BPF_STX | BPF_W | BPF_MEM, TO, FROM, OFFSET, 0)
#define CALL(HELPER) INSTRUCTION(BPF_JMP | BPF_CALL, 0, 0, 0, HELPER)
/* Over so many instructions, if the condition holds. */
#define SKIP_IF(CONDITION, LEFT, NUMBER, OVER) INSTRUCTION(BPF_JMP | CONDITION | BPF_K, LEFT, 0, OVER, NUMBER)
#define MAP(TO, FD) INSTRUCTION(BPF_LD | BPF_DW | BPF_IMM, TO, BPF_PSEUDO_MAP_FD, 0, FD), INSTRUCTION(0, 0, 0, 0, 0)
#define END SET(0, 0), INSTRUCTION(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
#define COUNT(ARRAY) (sizeof(ARRAY) / sizeof *(ARRAY))

static void fail(const char *what)
{
    fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
    exit(125);
}

static int bpf(int command, union bpf_attr *attributes)
{
    return syscall(SYS_bpf, command, attributes, sizeof *attributes);
}

static char *types_of_kernel(void)
{
    static const char path[] = "/sys/kernel/btf/vmlinux";
    size_t held = 0, room = 1 << 20;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *types = malloc(room);
    ssize_t got;

    if (fd < 0 || !types)
        fail(path);
    while ((got = read(fd, types + held, room - held)) > 0) {
        held += got;
        if (held == room && !(types = realloc(types, room *= 2)))
            fail(path);
    }
    if (got < 0 || held < sizeof(struct btf_header))
        fail(path);
    close(fd);
    return types;
}

/* What follows the head of a type. */
static size_t rest_bytes(const struct btf_type *type)
{
    size_t count = BTF_INFO_VLEN(type->info);

    switch (BTF_INFO_KIND(type->info)) {
    case BTF_KIND_INT:
    case BTF_KIND_VAR:
    case BTF_KIND_DECL_TAG:
        return 4;
    case BTF_KIND_ARRAY:
        return sizeof(struct btf_array);
    case BTF_KIND_STRUCT:
    case BTF_KIND_UNION:
        return count * sizeof(struct btf_member);
    case BTF_KIND_ENUM:
    case BTF_KIND_FUNC_PROTO:
        return count * 8;
    case BTF_KIND_DATASEC:
    case BTF_KIND_ENUM64:
        return count * 12;
    default:
        return 0;
    }
}

/* The number of the kernel's type of this name. */
static uint32_t type_called(const char *name)
{
    char *types = types_of_kernel();
    const struct btf_header *head = (const struct btf_header *)types;
    const char *names = types + head->hdr_len + head->str_off, *at = types + head->hdr_len + head->type_off, *end = at + head->type_len;

    for (uint32_t number = 1; at < end; number++) {
        const struct btf_type *type = (const struct btf_type *)at;

        if (BTF_INFO_KIND(type->info) == BTF_KIND_TYPEDEF && !strcmp(names + type->name_off, name)) {
            free(types);
            return number;
        }
        at += sizeof *type + rest_bytes(type);
    }
    errno = ENOENT;
    fail(name);
    return 0;
}

static void attach(const char *tracepoint, const struct bpf_insn *instructions, size_t count)
{
    static char log[16384];
    union bpf_attr program = {.prog_type = BPF_PROG_TYPE_TRACING, .expected_attach_type = BPF_TRACE_RAW_TP};
    union bpf_attr link = {0};

    program.attach_btf_id = type_called(tracepoint);
    program.insns = (uintptr_t)instructions;
    program.insn_cnt = count;
    program.license = (uintptr_t) "GPL";
    program.log_buf = (uintptr_t)log;
    program.log_size = sizeof log;
    program.log_level = 1;
    link.raw_tracepoint.prog_fd = bpf(BPF_PROG_LOAD, &program);
    if ((int)link.raw_tracepoint.prog_fd < 0) {
        fputs(log, stderr);
        fail("the kernel does not take the program");
    }
    if (bpf(BPF_RAW_TRACEPOINT_OPEN, &link) < 0)
        fail(tracepoint);
}

/* Room for one copy on each processor. */
static int copies(void)
{
    union bpf_attr map = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = COPIED_BYTES};
    int fd;

    map.max_entries = sysconf(_SC_NPROCESSORS_CONF);
    fd = bpf(BPF_MAP_CREATE, &map);
    if (fd < 0)
        fail("room for copies");
    return fd;
}

static void attach_empty(void)
{
    const struct bpf_insn nothing[] = {END};

    attach("btf_trace_sys_enter", nothing, COUNT(nothing));
    attach("btf_trace_sys_exit", nothing, COUNT(nothing));
}

static void attach_clock(void)
{
    const struct bpf_insn clock[] = {CALL(BPF_FUNC_ktime_get_ns), END};

    attach("btf_trace_sys_enter", clock, COUNT(clock));
    attach("btf_trace_sys_exit", clock, COUNT(clock));
}

static void attach_copy(void)
{
    const struct bpf_insn enter[] = {CALL(BPF_FUNC_ktime_get_ns), END};
    const struct bpf_insn leave[] = {
        MOVE(6, 1),
        CALL(BPF_FUNC_ktime_get_ns),
        LOAD(7, 6, 8), /* the result */
        SKIP_IF(BPF_JSLT, 7, 1, 20),
        LOAD(6, 6, 0), /* the registers */
        LOAD(1, 6, REGS_ORIG_AX),
        SKIP_IF(BPF_JEQ, 1, SYS_read, 3),
        SKIP_IF(BPF_JEQ, 1, SYS_write, 2),
        SKIP_IF(BPF_JEQ, 1, SYS_pread64, 1),
        SKIP_IF(BPF_JNE, 1, SYS_pwrite64, 14),
        SKIP_IF(BPF_JLT, 7, COPIED_BYTES, 1),
        SET(7, COPIED_BYTES),
        CALL(BPF_FUNC_get_smp_processor_id),
        STORE_WORD(10, -4, 0),
        MAP(1, copies()),
        MOVE(2, 10),
        ADD(2, -4),
        CALL(BPF_FUNC_map_lookup_elem),
        SKIP_IF(BPF_JEQ, 0, 0, 4),
        MOVE(1, 0),
        MOVE(2, 7),
        LOAD(3, 6, REGS_SI),
        CALL(BPF_FUNC_probe_read_user),
        END,
    };

    attach("btf_trace_sys_enter", enter, COUNT(enter));
    attach("btf_trace_sys_exit", leave, COUNT(leave));
}

/* Its exit status; of a command that a signal ended, as a shell tells it. */
static int run(char **command)
{
    pid_t child = fork();
    int status;

    if (child < 0)
        fail("fork");
    if (!child) {
        execvp(*command, command);
        fail(*command);
    }
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            fail("waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*attach)(void);
    } levels[] = {{"empty", attach_empty}, {"clock", attach_clock}, {"copy", attach_copy}};

    for (size_t i = 0; argc > 2 && i < COUNT(levels); i++)
        if (!strcmp(argv[1], levels[i].name)) {
            levels[i].attach();
            return run(argv + 2);
        }
    return fprintf(stderr, "usage: floor empty|clock|copy COMMAND …\n"), 2;
}
