//! The system-call layer: an allow list for all threads of the worker.

use libc::sock_filter;

use super::ConfineError;
use crate::sys;

/// Calls allowed whatever the list says: without them a thread could not even end. Numbers of x86-64: `exit`,
/// `exit_group`, `futex`, `restart_syscall`, `rt_sigreturn`, and `munmap`, `madvise`, `sigaltstack` of ending threads.
pub const REMAINING: &[u32] = &[60, 231, 202, 219, 15, 11, 28, 131];

const MOST_CALLS: usize = 2_000;
const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
const X32_BIT: u32 = 0x4000_0000;

/// Limits all threads of this process to the x86-64 system calls with the numbers `allowed` and [`REMAINING`]. Any other
/// call fails with `EPERM`; a call of another architecture (i386, x32) kills the process. It cannot be undone. The
/// kernel caches the answers, so an allowed call costs next to nothing.
///
/// # Errors
/// When the list is not sensible, a thread has a filter of its own, or the kernel refuses. Nothing is limited then.
pub fn restrict_calls(allowed: &[u32]) -> Result<(), ConfineError> {
    if !cfg!(target_arch = "x86_64") {
        return Err(ConfineError::Architecture);
    }
    let program = program(allowed)?;
    let failed = |action| move |e| ConfineError::system(action, "this process", e);
    sys::no_new_privileges().map_err(failed("set no_new_privs"))?;
    match sys::seccomp_filter_all_threads(&program).map_err(failed("limit system calls"))? {
        None => Ok(()),
        Some(thread) => Err(ConfineError::ThreadFilter(thread)),
    }
}

fn program(allowed: &[u32]) -> Result<Vec<sock_filter>, ConfineError> {
    if let Some(&number) = allowed.iter().find(|number| **number >= X32_BIT) {
        return Err(ConfineError::InvalidCall(number));
    }
    let mut calls = [allowed, REMAINING].concat();
    calls.sort_unstable();
    calls.dedup();
    if calls.len() > MOST_CALLS {
        return Err(ConfineError::TooManyCalls(calls.len()));
    }
    let load = |offset| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset);
    let answer = |action| statement(libc::BPF_RET | libc::BPF_K, action);
    let skip_if =
        |test, k, yes, no| sock_filter { code: (libc::BPF_JMP | libc::BPF_K | test) as u16, jt: yes, jf: no, k };
    let mut program = vec![
        load(4), // seccomp_data.arch
        skip_if(libc::BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0),
        answer(libc::SECCOMP_RET_KILL_PROCESS),
        load(0), // seccomp_data.nr
        skip_if(libc::BPF_JGE, X32_BIT, 0, 1),
        answer(libc::SECCOMP_RET_KILL_PROCESS),
    ];
    for call in calls {
        program.extend([skip_if(libc::BPF_JEQ, call, 0, 1), answer(libc::SECCOMP_RET_ALLOW)]);
    }
    program.push(answer(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32));
    Ok(program)
}

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}
