//! Calls whose arguments decide whether a replay issues them, and in which form.
//!
//! Goals: no command of `fcntl` or `ioctl` whose argument is not known; no signals, no descriptors that the replay did
//! not obtain, no waiting where the engine waits itself. Non-goals: places (that is `confine`), pointers (`arguments`).

use reprise_calls::{Call, Effect, IoctlEffect, Replay, ioctl_effect};
use reprise_plan::command::{Arg, Command, Op};

use crate::executor::Executor;

const SET_LOCK: u64 = libc::F_SETLK as u64;
const SET_LOCK_WAIT: u64 = libc::F_SETLKW as u64;
const OFD_SET_LOCK: u64 = libc::F_OFD_SETLK as u64;
const OFD_SET_LOCK_WAIT: u64 = libc::F_OFD_SETLKW as u64;

fn value(command: &Command, i: usize) -> u64 {
    match command.args.get(i) {
        Some(Arg::Value(v)) => *v & 0xffff_ffff,
        _ => 0,
    }
}

/// Why this command is not issued, in words for the ledger; `None` if it is.
pub(super) fn refusal(command: &Command, call: &Call) -> Option<&'static str> {
    match call.effect {
        Effect::Control => match value(command, 1) {
            // F_DUPFD to F_SETLKW, the same for open file descriptions, leases, F_DUPFD_QUERY, F_CREATED_QUERY.
            0..=7 | 36..=38 | 1024 | 1025 | 1027 | 1028 => None,
            // F_DUPFD_CLOEXEC, pipe sizes, seals, hints on the life of what is written.
            1030..=1038 => None,
            _ => Some("fcntl: signals and owners of descriptors are not replayed"),
        },
        Effect::DeviceControl => match (ioctl_effect(value(command, 1)), command.args.get(2)) {
            (IoctlEffect::Clone, Some(Arg::Fd(_))) => None,
            (IoctlEffect::CloneRange, _) if !command.list.is_empty() => None,
            (IoctlEffect::Allocate(_), Some(Arg::InOut(..) | Arg::Bytes(..))) => None,
            (IoctlEffect::Allocate(_), _) => Some("ioctl: the range is not known"),
            // What forbids writing takes a capability that no replay has.
            (IoctlEffect::SetHints, Some(Arg::InOut(..) | Arg::Bytes(..))) => None,
            (IoctlEffect::SetHints, _) => Some("ioctl: the hints are not known"),
            (
                IoctlEffect::SetCloseOnExec
                | IoctlEffect::ClearCloseOnExec
                | IoctlEffect::SetWaiting
                | IoctlEffect::Inspect,
                _,
            ) => None,
            (IoctlEffect::Clone | IoctlEffect::CloneRange, _) => Some("ioctl: the source of the clone is not known"),
            (IoctlEffect::MakeHandle | IoctlEffect::Lend | IoctlEffect::LendConfigured | IoctlEffect::Foreign, _) => {
                Some("ioctl: requests to devices are not replayed")
            }
        },
        _ => match call.replay {
            Replay::Issue => None,
            Replay::Engine if call.name == "unshare" => None,
            Replay::Engine => Some("only the engine itself issues this call"),
            Replay::Simulate => Some("the call is simulated"),
            Replay::Skip(reason) | Replay::Unsupported(reason) => Some(reason),
        },
    }
}

/// Whether the structure of an `ioctl` begins with the number of a descriptor (`struct file_clone_range`).
pub(super) fn names_descriptor(call: &Call, request: u64) -> bool {
    call.effect == Effect::DeviceControl && ioctl_effect(request) == IoctlEffect::CloneRange
}

/// Changes numbers where the replay does the same in another way.
pub(super) fn soften(words: &mut [u64; 6], command: &Command, call: &Call) {
    match (call.effect, words[1] & 0xffff_ffff) {
        // Which number comes out does not matter, and the traced bound may be beyond this process's limit.
        (Effect::Control, 0 | 1030) if command.result >= 0 => words[2] = 0,
        (Effect::Control, 4) => words[2] &= !(libc::O_ASYNC as u64),
        (Effect::Control, SET_LOCK_WAIT) if command.op == Op::Lock => words[1] = SET_LOCK,
        (Effect::Control, OFD_SET_LOCK_WAIT) if command.op == Op::Lock => words[1] = OFD_SET_LOCK,
        (Effect::Lock, _) if command.op == Op::Lock => words[1] |= libc::LOCK_NB as u64,
        _ if call.name == "unshare" => words[0] &= (libc::CLONE_FILES | libc::CLONE_FS) as u64,
        _ => {}
    }
}

/// Numbers of all calls that the worker may issue: those of traces, and those the engine and its threads need.
pub(crate) fn allowed_calls(executor: Executor) -> Vec<u32> {
    use libc::*;
    // What the engine does in its own way.
    let engine = [
        SYS_mmap,
        SYS_munmap,
        SYS_mremap,
        SYS_mprotect,
        SYS_madvise,
        SYS_msync,
        SYS_mlock,
        SYS_munlock,
        SYS_mincore,
        // Loads and stores, where they are not made by an instruction of our own.
        #[cfg(not(target_arch = "x86_64"))]
        SYS_process_vm_writev,
        SYS_dup3,
        SYS_close_range,
        SYS_unshare,
        SYS_syncfs,
        SYS_socket,
        SYS_socketpair,
        SYS_eventfd2,
        SYS_epoll_create1,
        SYS_fstatfs,
        SYS_pipe2,
        SYS_sendmsg,
        SYS_recvmsg,
        SYS_pidfd_open,
        SYS_pidfd_getfd,
    ];
    // What threads, locks, memory and clocks of this process need.
    let own = [
        SYS_write,
        SYS_futex,
        SYS_membarrier,
        SYS_clone,
        SYS_clone3,
        SYS_exit,
        SYS_exit_group,
        SYS_rt_sigaction,
        SYS_rt_sigprocmask,
        SYS_rt_sigreturn,
        SYS_sigaltstack,
        SYS_set_robust_list,
        SYS_rseq,
        SYS_sched_yield,
        SYS_nanosleep,
        SYS_clock_nanosleep,
        SYS_clock_gettime,
        SYS_gettid,
        SYS_getpid,
        SYS_tgkill,
        SYS_brk,
        SYS_getrandom,
        SYS_sched_getaffinity,
        SYS_sched_setaffinity,
        SYS_getresuid,
        SYS_getresgid,
        SYS_restart_syscall,
        SYS_prlimit64,
        SYS_getrusage,
    ];
    let traced = reprise_calls::all().filter(|c| c.replay == Replay::Issue).map(|c| c.number);
    let rings: &[_] =
        if executor.has_rings() { &[SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register] } else { &[] };
    traced.chain(engine.into_iter().chain(own).chain(rings.iter().copied()).map(|n| n as u32)).collect()
}
