//! What a recording in the kernel needs of this process: its clock, its child, its threads.

use std::io;
use std::thread::{Builder, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use reprise_trace::End;

use super::check;

/// `CLOCK_MONOTONIC`, by which programs in the kernel count.
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// How far the time since the epoch is ahead of [`monotonic_ns`], as the clocks are set now.
pub fn ahead_ns() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since_epoch.as_nanos() as u64).saturating_sub(monotonic_ns())
}

/// Waits for the end of a child; `None` if a signal came first.
pub fn wait_for(pid: i32) -> io::Result<Option<End>> {
    let mut status = 0;
    // SAFETY: `status` is a valid place for the result.
    match check(unsafe { libc::waitpid(pid, &mut status, libc::__WALL) }.into()) {
        Ok(_) if libc::WIFEXITED(status) => Ok(Some(End { code: Some(libc::WEXITSTATUS(status)), signal: None })),
        Ok(_) if libc::WIFSIGNALED(status) => Ok(Some(End { code: None, signal: Some(libc::WTERMSIG(status)) })),
        Ok(_) => Ok(None),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(None),
        Err(e) => Err(e),
    }
}

/// Starts a thread that no signal reaches (they are the first thread's), and that is let run before others where this
/// process may ask for that: the program waits for it.
pub fn spawn_quiet<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // SAFETY: both sets are live; a thread inherits the mask, and ours is restored.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let spawned = Builder::new().name(name.to_owned()).spawn(move || {
            hurry();
            run()
        });
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        spawned
    }
}

fn hurry() {
    // SAFETY: no memory is involved. What is refused is done without.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, libc::gettid() as libc::id_t, -20) };
}
