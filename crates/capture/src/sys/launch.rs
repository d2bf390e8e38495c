//! Starting the program: a child that waits until it is traced, installs the filter and executes.

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::check;

/// Exit code of a child that could not install the filter.
pub const NO_FILTER: i32 = 125;

/// What the child needs; all of it is made before the fork.
pub struct Launch<'a> {
    /// Path of the program.
    pub program: &'a CStr,
    /// Arguments, from the program's name on.
    pub argv: &'a [CString],
    /// The filter; empty: none is installed.
    pub filter: &'a [libc::sock_filter],
}

/// A child that waits for [`Waiting::go`].
pub struct Waiting {
    /// Its number.
    pub pid: i32,
    gate: OwnedFd,
}

impl Waiting {
    /// Lets it go on. Whether a signal has ended it meanwhile shows who waits for it.
    pub fn go(self) -> io::Result<Word> {
        // SAFETY: one byte is sent from a live buffer.
        let sent = unsafe { libc::send(self.gate.as_raw_fd(), b"g".as_ptr().cast(), 1, libc::MSG_NOSIGNAL) };
        match check(sent as i64) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(Word(self.gate)),
        }
    }
}

/// What a child without a filter says when it cannot execute its program.
pub struct Word(OwnedFd);

impl Word {
    /// Why it could not, once it has ended.
    #[cfg_attr(not(ebpf), allow(dead_code))] // for recording in the kernel alone
    pub fn refusal(&self) -> Option<io::Error> {
        let mut errno = [0u8; 4];
        // SAFETY: the buffer is live and as long as is said.
        let got = unsafe { libc::recv(self.0.as_raw_fd(), errno.as_mut_ptr().cast(), 4, libc::MSG_DONTWAIT) };
        (got == 4).then(|| io::Error::from_raw_os_error(i32::from_ne_bytes(errno)))
    }
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    let ends = std::iter::once(std::ptr::null());
    strings.iter().map(|s| s.as_ptr()).chain(ends).collect()
}

/// Forks the child.
pub fn fork(launch: &Launch<'_>) -> io::Result<Waiting> {
    let mut ends = [0i32; 2];
    // SAFETY: `socketpair` fills two numbers, which are then owned here.
    let (door, gate) = unsafe {
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        check(libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()).into())?;
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    };
    let argv = pointers(launch.argv);
    // A script without an interpreter line is given to the shell, as `execvp` does.
    let shell = c"/bin/sh";
    let mut script = vec![shell.as_ptr(), launch.program.as_ptr()];
    script.extend(argv.iter().skip(1));
    let descriptors = super::limits::given_descriptors();
    let program = libc::sock_fprog { len: launch.filter.len() as u16, filter: launch.filter.as_ptr().cast_mut() };
    // SAFETY: the child calls only functions that are safe between fork and exec; all memory was made before.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: as above; every pointer outlives the call, and the child never returns from here.
        unsafe {
            child(&door, &gate, descriptors.as_ref(), &program);
            libc::execve(launch.program.as_ptr(), argv.as_ptr(), environ());
            if *libc::__errno_location() == libc::ENOEXEC {
                libc::execve(shell.as_ptr(), script.as_ptr(), environ());
            }
            let errno = *libc::__errno_location();
            if program.len == 0 {
                libc::send(door.as_raw_fd(), (&raw const errno).cast(), 4, libc::MSG_NOSIGNAL);
            }
            libc::_exit(126);
        }
    }
    check(pid.into())?;
    Ok(Waiting { pid, gate })
}

unsafe fn environ() -> *const *const c_char {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: the variable belongs to the C library and is valid from its start.
    unsafe { environ }
}

/// The child until it executes.
///
/// # Safety
/// To be called in the forked child only.
unsafe fn child(door: &OwnedFd, gate: &OwnedFd, descriptors: Option<&libc::rlimit>, program: &libc::sock_fprog) {
    let mut byte = 0u8;
    // SAFETY: only system calls on live buffers.
    unsafe {
        super::signals::note_no_more();
        libc::close(gate.as_raw_fd());
        loop {
            match libc::read(door.as_raw_fd(), (&raw mut byte).cast(), 1) {
                1 => break,
                -1 if *libc::__errno_location() == libc::EINTR => {}
                _ => libc::_exit(NO_FILTER),
            }
        }
        // Rust's start-up code ignores SIGPIPE; the program must not inherit that.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        if let Some(limit) = descriptors {
            libc::setrlimit(libc::RLIMIT_NOFILE, limit);
        }
        if program.len == 0 {
            return;
        }
        let install = || libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, program);
        if install() != 0 {
            let unprivileged = *libc::__errno_location() == libc::EACCES;
            if !unprivileged || libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || install() != 0 {
                libc::_exit(NO_FILTER);
            }
        }
    }
}
