//! The recorder's own threads.

use std::time::Duration;

/// The calling thread gives way to the traced program where both want a processor.
pub fn step_back() {
    const NICE: i32 = 5;
    // SAFETY: changes a number of the calling thread; that it may be refused does not matter.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, libc::gettid() as libc::id_t, NICE);
    }
}

/// Processor time that the calling thread has used.
pub fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a live structure is filled.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
