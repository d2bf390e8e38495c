//! Signals to the recorder itself, and the tick that ends a wait.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::check;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static TERMINATED: AtomicBool = AtomicBool::new(false);
static HUNG_UP: AtomicBool = AtomicBool::new(false);

extern "C" fn arrived(signal: i32) {
    match signal {
        libc::SIGINT => INTERRUPTED.store(true, Ordering::Relaxed),
        libc::SIGTERM => TERMINATED.store(true, Ordering::Relaxed),
        libc::SIGHUP => HUNG_UP.store(true, Ordering::Relaxed),
        _ => {}
    }
}

/// A signal that the recorder was sent since the last question.
pub fn take_signal() -> Option<i32> {
    [(&INTERRUPTED, libc::SIGINT), (&TERMINATED, libc::SIGTERM), (&HUNG_UP, libc::SIGHUP)]
        .into_iter()
        .find_map(|(flag, signal)| flag.swap(false, Ordering::Relaxed).then_some(signal))
}

/// Handlers and tick of one recording; undone when dropped.
pub struct Signals {
    before: Vec<(i32, libc::sigaction)>,
    timer: libc::timer_t,
    interval: Duration,
}

impl Signals {
    /// Installs the handlers (signals that are ignored stay ignored) and starts the tick for the calling thread.
    pub fn install() -> io::Result<Signals> {
        Signals::heeding(&[])
    }

    /// The same; SIGINT is heeded though it be ignored, as it is in what a shell without job control starts in the background: a
    /// recording of what runs already ends by it.
    #[cfg(ebpf)]
    pub fn install_to_be_interrupted() -> io::Result<Signals> {
        Signals::heeding(&[libc::SIGINT])
    }

    fn heeding(always: &[i32]) -> io::Result<Signals> {
        let tick = libc::SIGRTMIN() + 3;
        let mut before = Vec::new();
        while take_signal().is_some() {}
        for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, tick] {
            // SAFETY: both structures are live; zero bytes are a valid `sigaction`.
            unsafe {
                let mut old: libc::sigaction = std::mem::zeroed();
                check(libc::sigaction(signal, std::ptr::null(), &mut old).into())?;
                if old.sa_sigaction == libc::SIG_IGN && !always.contains(&signal) {
                    continue;
                }
                let mut new: libc::sigaction = std::mem::zeroed();
                new.sa_sigaction = arrived as *const () as usize;
                check(libc::sigaction(signal, &new, std::ptr::null_mut()).into())?;
                before.push((signal, old));
            }
        }
        // A trace that meets the limit on file sizes is an error to report, not the end of the recorder.
        // SAFETY: as above.
        unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            let mut ignore: libc::sigaction = std::mem::zeroed();
            ignore.sa_sigaction = libc::SIG_IGN;
            check(libc::sigaction(libc::SIGXFSZ, &ignore, &mut old).into())?;
            before.push((libc::SIGXFSZ, old));
        }
        // SAFETY: `event` is fully set for a timer that signals this thread; `timer` is filled on success.
        let timer = unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = tick;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer: libc::timer_t = std::ptr::null_mut();
            check(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer).into())?;
            timer
        };
        let mut signals = Signals { before, timer, interval: Duration::ZERO };
        signals.tick_every(Duration::from_millis(250))?;
        Ok(signals)
    }

    /// Sets the interval at which waits end.
    pub fn tick_every(&mut self, interval: Duration) -> io::Result<()> {
        if self.interval == interval {
            return Ok(());
        }
        self.interval = interval;
        let time = libc::timespec { tv_sec: interval.as_secs() as i64, tv_nsec: interval.subsec_nanos().into() };
        let setting = libc::itimerspec { it_interval: time, it_value: time };
        // SAFETY: the timer is live and the setting complete.
        check(unsafe { libc::timer_settime(self.timer, 0, &setting, std::ptr::null_mut()) }.into()).map(drop)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: the timer is live until here; the actions are those found at the start.
        unsafe {
            libc::timer_delete(self.timer);
            for (signal, old) in &self.before {
                // A tick that is still on its way must not meet the default action, which kills.
                if *signal < libc::SIGRTMIN() {
                    libc::sigaction(*signal, old, std::ptr::null_mut());
                }
            }
        }
    }
}

/// Ends this process by a signal, as a recorded program ended; without leaving a core of our own. Returns only if the
/// signal does not end processes.
pub fn die_by_signal(signal: i32) {
    // SAFETY: a default handler and an empty mask are valid; raising a signal has no preconditions.
    unsafe {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &none);
        libc::signal(signal, libc::SIG_DFL);
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut mask);
        libc::sigaddset(&mut mask, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &mask, std::ptr::null_mut());
        libc::raise(signal);
    }
}
