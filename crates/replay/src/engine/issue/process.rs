//! Clocks, signals and limits of the process. Rules as in the parent module.

use std::sync::atomic::{AtomicU32, Ordering};

use super::super::memory::{end_copy, replace_missing_page};
use super::raw;

/// Processors that the calling thread may use.
fn permitted_processors() -> libc::cpu_set_t {
    // SAFETY: plain data that the kernel fills within its size.
    unsafe {
        let mut all: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut all);
        all
    }
}

/// Permits the calling thread only these; false if that is refused.
fn permit_processors(these: &libc::cpu_set_t) -> bool {
    // SAFETY: plain data that the kernel reads within its size.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), these) == 0 }
}

/// Processors that this process may use.
pub(in crate::engine) fn usable_processors() -> Vec<usize> {
    let all = permitted_processors();
    // SAFETY: numbers below the size of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|i| unsafe { libc::CPU_ISSET(*i, &all) }).collect()
}

/// Keeps the calling thread on one processor; false if that is refused.
pub(in crate::engine) fn stay_on_processor(number: usize) -> bool {
    // SAFETY: plain data; a number out of range panics in `CPU_SET`, and none is.
    let one = unsafe {
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(number, &mut one);
        one
    };
    permit_processors(&one)
}

/// The processor that the calling thread runs on.
pub(in crate::engine) fn processor() -> u32 {
    // SAFETY: it takes nothing.
    u32::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(u32::MAX)
}

/// Moves the calling thread to another processor, if it may use any; it may come back later.
pub(in crate::engine) fn leave_processor() {
    let (here, all) = (processor() as usize, permitted_processors());
    let mut others = all;
    if here < libc::CPU_SETSIZE as usize {
        // SAFETY: a number below the size of the set.
        unsafe { libc::CPU_CLR(here, &mut others) };
    }
    // With an empty set the kernel refuses, and the thread stays.
    if permit_processors(&others) {
        permit_processors(&all);
    }
}

/// `membarrier(2)`: asks for barriers in all threads of this process to be permitted; false where the kernel has none.
pub(in crate::engine) fn register_barriers() -> bool {
    // SAFETY: plain numbers.
    unsafe { raw(libc::SYS_membarrier, [libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED as u64, 0, 0, 0, 0, 0]) == 0 }
}

/// Each thread of this process that runs at this moment executes a full barrier before this returns.
pub(in crate::engine) fn barrier_in_all_threads() {
    // SAFETY: plain numbers.
    unsafe { raw(libc::SYS_membarrier, [libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED as u64, 0, 0, 0, 0, 0]) };
}

/// The signal that interrupts a thread blocked in a call.
const INTERRUPT: i32 = libc::SIGUSR1;

/// The processor's time-stamp counter; only for a machine whose kernel keeps time with it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn ticks() -> u64 {
    // SAFETY: reads a counter that every x86-64 processor has.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The same counter, read when all loads before it are done: [`ticks`] may overtake them, where no call of the kernel lies between.
#[cfg(target_arch = "x86_64")]
pub(crate) fn ticks_after_loads() -> u64 {
    let mut processor = 0;
    // SAFETY: as in `ticks`.
    unsafe { core::arch::x86_64::__rdtscp(&raw mut processor) }
}

/// No such counter is used on this machine.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn ticks_after_loads() -> u64 {
    nanoseconds()
}

/// No such counter is used on this machine.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn ticks() -> u64 {
    nanoseconds()
}

/// `CLOCK_MONOTONIC`.
pub(crate) fn nanoseconds() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure outlives the call, which cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// What a call takes that does next to nothing (`gettid`), in nanoseconds: of several series the least, which nothing disturbed.
pub(crate) fn least_call_ns() -> u64 {
    const SERIES: usize = 8;
    const CALLS: u64 = 256;
    let series = || {
        let begin = nanoseconds();
        for _ in 0..CALLS {
            super::thread_id();
        }
        (nanoseconds() - begin) / CALLS
    };
    (0..SERIES).map(|_| series()).min().unwrap_or_default()
}

/// Processor time of the calling thread.
pub(in crate::engine) fn processor_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure outlives the call, which cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Sleeps until `CLOCK_MONOTONIC` shows this instant, or a signal comes.
pub(crate) fn sleep_until(ns: u64) {
    let due = libc::timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
    // SAFETY: the structure outlives the call.
    unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const due, std::ptr::null_mut());
    }
}

/// From now on the sleeps of this thread, and of those it starts, end when they should, not up to 50 µs later.
pub(crate) fn exact_sleeps() {
    // SAFETY: plain numbers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

extern "C" fn nothing(_: i32) {}

static SIGNALS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_: i32) {
    SIGNALS.fetch_add(1, Ordering::SeqCst);
}

fn handle(signal: i32, handler: usize) {
    handle_with(signal, handler, 0);
}

fn handle_with(signal: i32, handler: usize, flags: i32) {
    // SAFETY: the handlers only touch atomics and call the kernel; `sigaction` is plain data. No SA_RESTART: calls are to be
    // interrupted.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_flags = flags;
        action.sa_sigaction = handler;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
}

/// Signals of a worker: those of the terminal concern its parent, those a traced call may cause are ignored, and one
/// interrupts blocked calls.
pub(crate) fn worker_signals() {
    use libc::{SIGHUP, SIGINT, SIGIO, SIGPIPE, SIGQUIT, SIGTERM, SIGTSTP, SIGXFSZ};
    for signal in [SIGHUP, SIGINT, SIGIO, SIGPIPE, SIGQUIT, SIGTERM, SIGTSTP, SIGXFSZ] {
        handle(signal, libc::SIG_IGN);
    }
    handle(INTERRUPT, nothing as extern "C" fn(i32) as usize);
    let action = on_missing_memory as extern "C" fn(i32, *const libc::siginfo_t, *mut libc::c_void);
    for signal in [libc::SIGBUS, libc::SIGSEGV] {
        handle_with(signal, action as usize, libc::SA_SIGINFO);
    }
}

/// A file that is touched has become shorter, or the memory of a traced program is not to be accessed: see
/// [`super::super::memory::replace_missing_page`] and [`super::super::memory::end_copy`]. Anything else ends the worker, as it would
/// without a handler: the instruction is repeated.
extern "C" fn on_missing_memory(signal: i32, about: *const libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes what SA_SIGINFO promises.
    let address = unsafe { (*about).si_addr() } as usize;
    if !replace_missing_page(address) && !end_copy(context) {
        handle(signal, libc::SIG_DFL);
    }
}

/// A terminal that goes away may say so several times: that asks to end, not to end at once.
extern "C" fn count_as_one(_: i32) {
    SIGNALS.fetch_max(1, Ordering::SeqCst);
}

/// From now on SIGINT, SIGTERM, SIGHUP and SIGQUIT only count in what is returned; the last two if they are not ignored.
pub(crate) fn catch_signals() -> &'static AtomicU32 {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        handle(signal, count as extern "C" fn(i32) as usize);
    }
    for signal in [libc::SIGHUP, libc::SIGQUIT].into_iter().filter(|signal| !is_ignored(*signal)) {
        handle(signal, count_as_one as extern "C" fn(i32) as usize);
    }
    &SIGNALS
}

/// Whether this process ignores a signal, as `nohup` has it.
fn is_ignored(signal: i32) -> bool {
    // SAFETY: plain data that the kernel fills.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Interrupts a call of one thread of this process.
pub(in crate::engine) fn interrupt(thread: i32) {
    // SAFETY: a signal with a handler of our own; plain numbers.
    unsafe { raw(libc::SYS_tgkill, [std::process::id().into(), thread as u64, INTERRUPT as u64, 0, 0, 0]) };
}

/// Ends another process at once.
pub(crate) fn kill(process: i32) {
    // SAFETY: plain numbers; `process` is a child that was not waited for.
    unsafe { libc::kill(process, libc::SIGKILL) };
}

/// Waits until `number` can be read or is at its end, at most `milliseconds`.
pub(crate) fn readable(number: i32, milliseconds: i32) -> bool {
    let mut wanted = libc::pollfd { fd: number, events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure that outlives the call.
    unsafe { libc::poll(&raw mut wanted, 1, milliseconds) > 0 }
}

/// Sets limits of a worker: descriptors up to `wanted`, as far as the hard limit permits or may be raised, and no core file.
/// The limit of descriptors in force.
pub(crate) fn worker_limits(wanted: u64) -> u64 {
    // SAFETY: plain data; the structures outlive the calls.
    unsafe {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        let mut limit = none;
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        let raised = libc::rlimit { rlim_cur: wanted, rlim_max: wanted.max(limit.rlim_max) };
        if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) != 0 {
            limit.rlim_cur = wanted.min(limit.rlim_max);
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leaves_a_processor_is_on_another_and_may_come_back() {
        let usable = usable_processors();
        if usable.len() < 2 {
            return;
        }
        // The kernel may move a thread at any instant, so that one try proves nothing.
        let moves = || {
            let before = processor();
            leave_processor();
            processor() != before
        };
        assert!((0..20).filter(|_| moves()).count() >= 10);
        assert_eq!(usable_processors(), usable);
    }

    #[test]
    fn who_is_kept_on_a_processor_stays() {
        let all = permitted_processors();
        let first = usable_processors()[0];
        assert!(stay_on_processor(first));
        leave_processor();
        assert_eq!((usable_processors(), processor() as usize), (vec![first], first));
        permit_processors(&all);
    }
}
