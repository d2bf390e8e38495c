//! ptrace, waiting, and the memory of a traced thread.

use std::io;

use super::check;

const GET_SYSCALL_INFO: libc::c_uint = 0x420e;
const INFO_BYTES: usize = 88;

/// What a traced thread reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// It is about to issue a call that the filter wants traced.
    Entry,
    /// The call is over.
    Exit,
    /// It has made a thread or process.
    Spawned,
    /// It runs another program.
    Executed,
    /// It stops with its group by this signal, or (`SIGTRAP`) begins, or is awake again.
    Stopped(i32),
    /// A signal is about to be delivered.
    Signal(i32),
    /// It has exited with this code.
    Exited(i32),
    /// A signal has killed it: the status that `wait` gives.
    Killed(i32),
}

/// The outcome of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// A thread reports.
    Report(i32, Report),
    /// A signal arrived here (the tick, or one from outside).
    Interrupted,
    /// There is nobody to wait for.
    Nobody,
}

/// Waits for a report of any thread that this thread traces.
pub fn wait() -> io::Result<Waited> {
    let mut status = 0;
    // SAFETY: `status` is a valid place for the result.
    let tid = unsafe { libc::waitpid(-1, &mut status, libc::__WALL | libc::__WNOTHREAD) };
    if tid < 0 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::EINTR) => Ok(Waited::Interrupted),
            Some(libc::ECHILD) => Ok(Waited::Nobody),
            _ => Err(error),
        };
    }
    Ok(Waited::Report(tid, decode(status)))
}

fn decode(status: i32) -> Report {
    if libc::WIFEXITED(status) {
        return Report::Exited(libc::WEXITSTATUS(status));
    }
    if libc::WIFSIGNALED(status) {
        return Report::Killed(status);
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        libc::PTRACE_EVENT_SECCOMP => Report::Entry,
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => Report::Spawned,
        libc::PTRACE_EVENT_EXEC => Report::Executed,
        libc::PTRACE_EVENT_STOP => Report::Stopped(signal),
        _ if signal == libc::SIGTRAP | 0x80 => Report::Exit,
        _ => Report::Signal(signal),
    }
}

fn ptrace(request: libc::c_uint, tid: i32, addr: usize, data: usize) -> io::Result<i64> {
    // SAFETY: requests used here take numbers, or a pointer to a live buffer of the stated size.
    check(unsafe { libc::ptrace(request, tid, addr, data) })
}

/// Takes a thread under trace with the options the recorder needs.
pub fn seize(tid: i32) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACESECCOMP
        | libc::PTRACE_O_EXITKILL;
    ptrace(libc::PTRACE_SEIZE, tid, 0, options as usize).map(drop)
}

/// Lets a stopped thread run, delivering a signal (0: none).
pub fn resume(tid: i32, signal: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_CONT, tid, 0, signal as usize).map(drop)
}

/// Lets a thread run until its call is over.
pub fn resume_to_exit(tid: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_SYSCALL, tid, 0, 0).map(drop)
}

/// Leaves a thread stopped with its group, but hears of its waking.
pub fn listen(tid: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_LISTEN, tid, 0, 0).map(drop)
}

/// The number that belongs to the event a thread stopped for.
pub fn event_message(tid: i32) -> io::Result<u64> {
    let mut message: u64 = 0;
    ptrace(libc::PTRACE_GETEVENTMSG, tid, 0, &raw mut message as usize)?;
    Ok(message)
}

/// Overwrites the first argument register of a thread that is about to issue a call.
pub fn set_first_argument(tid: i32, value: u64) -> io::Result<()> {
    let offset = std::mem::offset_of!(libc::user_regs_struct, rdi);
    ptrace(libc::PTRACE_POKEUSER, tid, offset, value as usize).map(drop)
}

/// What the kernel says of the call at which a thread stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallInfo {
    /// Before the call.
    Entry {
        /// Its number.
        number: u64,
        /// Its arguments.
        args: [u64; 6],
        /// The value that the filter attached.
        mark: u32,
    },
    /// After it.
    Exit {
        /// Its result.
        result: i64,
    },
    /// Not at a call.
    None,
}

/// Asks for the call at which a thread stopped.
pub fn call_info(tid: i32) -> io::Result<CallInfo> {
    let mut words = [0u64; INFO_BYTES / 8];
    ptrace(GET_SYSCALL_INFO, tid, INFO_BYTES, words.as_mut_ptr() as usize)?;
    let args = [words[4], words[5], words[6], words[7], words[8], words[9]];
    Ok(match words[0] & 0xff {
        1 => CallInfo::Entry { number: words[3], args, mark: 0 },
        2 => CallInfo::Exit { result: words[3] as i64 },
        3 => CallInfo::Entry { number: words[3], args, mark: words[10] as u32 },
        _ => CallInfo::None,
    })
}

/// Reads memory of another process; may return less than asked.
pub fn read_memory(tid: i32, addr: u64, into: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: addr as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: `local` covers exactly `into`; the remote side is checked by the kernel.
    let n = unsafe { libc::process_vm_readv(tid, &local, 1, &remote, 1, 0) };
    check(n as i64).map(|n| n as usize)
}

/// Reads one word of a stopped thread's memory, by the means that a debugger always has.
pub fn peek(tid: i32, addr: u64) -> io::Result<[u8; 8]> {
    // The wrapper of libc returns the word itself and tells errors by errno; the system call stores it.
    let mut word = [0u8; 8];
    // SAFETY: the kernel writes one word to `word`.
    check(unsafe { libc::syscall(libc::SYS_ptrace, libc::PTRACE_PEEKDATA, tid, addr, word.as_mut_ptr()) })?;
    Ok(word)
}

/// Sends a signal to a process.
pub fn kill(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::kill(pid, signal) }.into()).map(drop)
}
