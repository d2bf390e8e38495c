//! The limit on open descriptors: the recorder's own, and the one that it was given.
//!
//! Goals: a shell with a low soft limit does not keep the recorder from recording, and what it starts has the limit that the
//! shell gave. Non-goals: the hard limit, which is not ours to raise.

use std::sync::OnceLock;

/// The limit before it was raised, if it was.
static GIVEN: OnceLock<libc::rlimit> = OnceLock::new();

/// Lets this process have as many open descriptors as it may; what it starts by [`fork`](super::fork) has what it had before.
#[cfg(ebpf)]
pub fn raise_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the result.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0;
    if !known || limit.rlim_cur >= limit.rlim_max {
        return;
    }
    // Told before it is so: what is started meanwhile has the lower one in any case.
    let _ = GIVEN.set(limit);
    let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
    // SAFETY: plain data. What is refused is done without: the kernel will say what is lacking.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) };
}

/// The limit that a program is to have, if it is not that of this process.
pub(super) fn given_descriptors() -> Option<libc::rlimit> {
    GIVEN.get().copied()
}
