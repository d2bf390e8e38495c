//! The recorder's own threads.

use std::time::Duration;

/// The calling thread no longer interrupts others when it has something to do: the traced program goes first. It keeps
/// its share of the processors, since a recorder that cannot keep up holds the program up.
pub fn step_back() {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: asks for and changes the policy of the calling thread; that it may be refused does not matter.
    unsafe {
        if libc::sched_getscheduler(0) == libc::SCHED_OTHER {
            libc::sched_setscheduler(0, libc::SCHED_BATCH, &none);
        }
    }
}

/// Processor time that the calling thread has used.
pub fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a live structure is filled.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
