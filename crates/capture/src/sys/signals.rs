//! Signals to the recorder itself, and the tick that ends a wait.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::check;

/// What ends a program that does not mind, and whether it came.
static CAME: [(i32, AtomicBool); 4] = [
    (libc::SIGINT, AtomicBool::new(false)),
    (libc::SIGTERM, AtomicBool::new(false)),
    (libc::SIGHUP, AtomicBool::new(false)),
    (libc::SIGQUIT, AtomicBool::new(false)),
];

extern "C" fn arrived(signal: i32) {
    CAME.iter().filter(|(known, _)| *known == signal).for_each(|(_, came)| came.store(true, Ordering::Relaxed));
}

/// A signal that the recorder was sent since the last question. SIGQUIT is the program's alone.
pub fn take_signal() -> Option<i32> {
    let heeded = CAME.iter().filter(|(signal, _)| *signal != libc::SIGQUIT);
    heeded.into_iter().find_map(|(signal, came)| came.swap(false, Ordering::Relaxed).then_some(*signal))
}

/// A signal that came, and that nobody has taken.
pub fn waiting_signal() -> Option<i32> {
    CAME.iter().find_map(|(signal, came)| came.load(Ordering::Relaxed).then_some(*signal))
}

/// Handlers that note signals; undone when dropped.
pub struct Noted(Vec<(i32, libc::sigaction)>);

impl Noted {
    /// From now on signals are noted, and what came before is forgotten. Those that are ignored stay ignored.
    pub fn begin() -> io::Result<Noted> {
        CAME.iter().for_each(|(_, came)| came.store(false, Ordering::Relaxed));
        let mut noted = Noted(Vec::new());
        CAME.iter().try_for_each(|(signal, _)| noted.note(*signal, false))?;
        Ok(noted)
    }

    /// Notes a signal, unless that is done already, or it is ignored and not to be heeded all the same.
    fn note(&mut self, signal: i32, always: bool) -> io::Result<()> {
        // SAFETY: both structures are live; zero bytes are a valid `sigaction`.
        unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            check(libc::sigaction(signal, std::ptr::null(), &mut old).into())?;
            if is_noted(&old) || old.sa_sigaction == libc::SIG_IGN && !always {
                return Ok(());
            }
            let mut new: libc::sigaction = std::mem::zeroed();
            new.sa_sigaction = arrived as *const () as usize;
            check(libc::sigaction(signal, &new, std::ptr::null_mut()).into())?;
            self.0.push((signal, old));
        }
        Ok(())
    }

    fn ignore(&mut self, signal: i32) -> io::Result<()> {
        // SAFETY: as above.
        unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            let mut ignore: libc::sigaction = std::mem::zeroed();
            ignore.sa_sigaction = libc::SIG_IGN;
            check(libc::sigaction(signal, &ignore, &mut old).into())?;
            self.0.push((signal, old));
        }
        Ok(())
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        for (signal, old) in &self.0 {
            // A tick that is still on its way must not meet the default action, which kills.
            if *signal < libc::SIGRTMIN() {
                // SAFETY: the actions are those found at the start.
                unsafe { libc::sigaction(*signal, old, std::ptr::null_mut()) };
            }
        }
    }
}

fn is_noted(action: &libc::sigaction) -> bool {
    action.sa_sigaction == arrived as *const () as usize
}

/// In a forked child: what this process notes ends the child, as it would end the program.
///
/// # Safety
/// To be called in a process of one thread; calls only functions that are safe between fork and exec.
pub(super) unsafe fn note_no_more() {
    for (signal, _) in &CAME {
        // SAFETY: as in [`Noted::note`].
        unsafe {
            let mut now: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(*signal, std::ptr::null(), &mut now) == 0 && is_noted(&now) {
                libc::signal(*signal, libc::SIG_DFL);
            }
        }
    }
}

/// Handlers and tick of one recording; undone when dropped.
pub struct Signals {
    _noted: Noted,
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
        let mut noted = Noted(Vec::new());
        for signal in CAME.iter().map(|(signal, _)| *signal).chain([tick]) {
            noted.note(signal, always.contains(&signal))?;
        }
        // A trace that meets the limit on file sizes is an error to report, not the end of the recorder.
        noted.ignore(libc::SIGXFSZ)?;
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
        let mut signals = Signals { _noted: noted, timer, interval: Duration::ZERO };
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
        // SAFETY: the timer is live until here.
        unsafe { libc::timer_delete(self.timer) };
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
