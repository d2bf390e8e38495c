//! The pace: waiting until an action is due.
//!
//! Goals: never early; late by tens of nanoseconds where a processor is free; no drift, however long a wait (the sleep is
//! on the kernel's clock, the time-stamp counter is only for its last stretch); at once over when the replay must end.
//! Non-goals: what is due when (the plan says that), a guarantee on a machine that is busy: the issue error is measured.
//!
//! Think time follows the dependencies: it counts from the latest of the thread's own previous completion and the
//! completions it waited for, and each thread remembers the instants of its latest ones ([`Counter::ended`]), so that
//! waking up late is not added to it.
//!
//! [`Counter::ended`]: super::counters::Counter::ended

use std::sync::atomic::{AtomicU64, Ordering};

use reprise_plan::Timing;

use super::clocks::{Instant, now};
use super::failure::Stop;
use super::thread::Worker;
use super::{Engine, issue};
use crate::log::Paced;
use crate::pace::{By, Pace};

/// Bounds of how long before it is due a thread wakes up, and then spins.
const EARLY_NS: std::ops::RangeInclusive<u64> = 20_000..=400_000;
/// Sleeps that the calibration takes, and their length.
const TRIALS: usize = 25;
const TRIAL_NS: u64 = 200_000;
/// Before a sleep that is longer, records are taken to the log.
const LONG_SLEEP_NS: u64 = 1_000_000_000;
/// A thread that does not get to read the clock for longer was interrupted.
const GAP_NS: u64 = 10_000;
/// So long after both clocks were read one of them tells the other: 5 ms of calibration are exact to a few parts in a million.
const KNOWN_NS: u64 = 1_000_000;

/// What is known of the clocks.
#[derive(Debug)]
pub(super) struct Pacer {
    ticks_per_ns: f64,
    /// How long before it is due a sleeping thread should be woken, at least and at present.
    least_early_ns: u64,
    early_ns: AtomicU64,
    /// [`GAP_NS`] in ticks, and [`KNOWN_NS`].
    gap_ticks: u64,
    known_ticks: u64,
    /// The begin of the replay, on both clocks.
    start_ticks: AtomicU64,
    start_ns: AtomicU64,
}

impl Pacer {
    /// Looks at the clocks, for about 5 ms if `pace` needs them.
    pub(super) fn calibrate(pace: Pace, tsc: bool) -> Pacer {
        let (mut ticks_per_ns, mut early_ns) = (1.0, *EARLY_NS.end());
        if pace != Pace::Afap {
            let begin = now(tsc);
            let mut late: Vec<u64> = (0..TRIALS).map(|_| lateness()).collect();
            late.sort_unstable();
            let end = now(tsc);
            ticks_per_ns = (end.ticks - begin.ticks) as f64 / (end.ns - begin.ns).max(1) as f64;
            early_ns = (2 * late[TRIALS * 9 / 10]).clamp(*EARLY_NS.start(), *EARLY_NS.end());
        }
        let ticks = |ns: u64| (ns as f64 * ticks_per_ns) as u64;
        Pacer {
            ticks_per_ns,
            least_early_ns: early_ns,
            early_ns: AtomicU64::new(early_ns),
            gap_ticks: ticks(GAP_NS),
            known_ticks: ticks(KNOWN_NS),
            start_ticks: AtomicU64::new(0),
            start_ns: AtomicU64::new(0),
        }
    }

    fn early_ns(&self) -> u64 {
        self.early_ns.load(Ordering::Relaxed)
    }

    /// A sleep that was to end `early_ns` before the instant ended so late: threads are woken earlier from now on if that was
    /// most of it, and a little later if not.
    fn learn(&self, late_ns: u64, early_ns: u64) {
        if early_ns == 0 {
            return;
        }
        let wanted = match late_ns > early_ns / 2 {
            true => (early_ns * 2).min(*EARLY_NS.end()),
            false => (early_ns - early_ns / 64).max(self.least_early_ns),
        };
        self.early_ns.store(wanted, Ordering::Relaxed);
    }

    /// The replay begins now.
    pub(super) fn start(&self, tsc: bool) {
        let Instant { ticks, ns } = now(tsc);
        self.start_ticks.store(ticks, Ordering::SeqCst);
        self.start_ns.store(ns, Ordering::SeqCst);
    }

    /// When the replay began, in ticks.
    pub(super) fn started(&self) -> u64 {
        self.start_ticks.load(Ordering::SeqCst)
    }

    /// A moment of one clock, `ns` from `instant`, on the other.
    fn ticks_at(&self, instant: Instant, ns: u64) -> u64 {
        let span = |ns: u64| (ns as f64 * self.ticks_per_ns) as u64;
        match ns.checked_sub(instant.ns) {
            Some(ahead) => instant.ticks.saturating_add(span(ahead)),
            None => instant.ticks.saturating_sub(span(instant.ns - ns)),
        }
    }

    fn ns_at(&self, instant: Instant, ticks: u64) -> u64 {
        let span = |ticks: u64| (ticks as f64 / self.ticks_per_ns) as u64;
        match ticks.checked_sub(instant.ticks) {
            Some(ahead) => instant.ns.saturating_add(span(ahead)),
            None => instant.ns.saturating_sub(span(instant.ticks - ticks)),
        }
    }
}

/// How late a sleep ends here.
fn lateness() -> u64 {
    let due = issue::nanoseconds() + TRIAL_NS;
    issue::sleep_until(due);
    issue::nanoseconds().saturating_sub(due)
}

fn times(ns: u64, factor: f64) -> u64 {
    // Beyond the range of the integer it is the greatest.
    if factor == 1.0 { ns } else { (ns as f64 * factor).ceil() as u64 }
}

impl Engine {
    /// The present instant. The kernel's clock is not read again where that was done shortly before, as `known` says.
    fn instant(&self, known: &mut Instant) -> Instant {
        let ticks = self.ticks();
        if ticks.wrapping_sub(known.ticks) < self.pacer.known_ticks {
            return Instant { ticks, ns: self.pacer.ns_at(*known, ticks) };
        }
        *known = now(self.settings.tsc);
        *known
    }

    /// Sleeps until shortly before an action is due whose dependencies were completed at `ready` (ticks).
    fn sleep_until_near(&self, worker: &mut Worker, by: By, factor: f64, timing: Timing) -> Result<Due, Stop> {
        let pacer = &self.pacer;
        let from = self.instant(&mut worker.known);
        let due_ns = match by {
            By::Natural => pacer.ns_at(from, worker.ready).saturating_add(times(timing.predelay_ns, factor)),
            By::Cpu => pacer.ns_at(from, worker.ready).saturating_add(times(timing.computing_ns(), factor)),
            By::Timestamp => pacer.start_ns.load(Ordering::SeqCst).saturating_add(times(timing.at_ns, factor)),
        };
        let (mut instant, mut overslept) = (from, false);
        loop {
            let early_ns = if self.counters.processors_idle() { pacer.early_ns() } else { 0 };
            if due_ns <= instant.ns.saturating_add(early_ns) {
                break;
            }
            if due_ns - instant.ns > LONG_SLEEP_NS {
                worker.write_log()?;
            }
            self.sleep_for_pace(worker, due_ns - early_ns)?;
            instant = now(self.settings.tsc);
            worker.known = instant;
            overslept = instant.ns >= due_ns;
            pacer.learn(instant.ns.saturating_sub(due_ns - early_ns), early_ns);
        }
        Ok(Due { from: from.ticks, at: pacer.ticks_at(instant, due_ns), overslept })
    }

    /// What became of a wait.
    fn paced(&self, due: Due, spun: Spun) -> Paced {
        let disturbed = due.overslept || spun.widest > self.pacer.gap_ticks;
        Paced { from: due.from, due: due.at, at: spun.at, disturbed }
    }

    fn sleep_for_pace(&self, worker: &Worker, until_ns: u64) -> Result<(), Stop> {
        worker.counter.pacing.store(1, Ordering::SeqCst);
        self.counters.sleeping.fetch_add(1, Ordering::SeqCst);
        // Who ends the replay interrupts every thread again and again.
        if !self.counters.stopping() {
            issue::sleep_until(until_ns);
        }
        self.counters.sleeping.fetch_sub(1, Ordering::SeqCst);
        worker.counter.pacing.store(0, Ordering::SeqCst);
        if self.counters.stopping() { Err(Stop::Told) } else { Ok(()) }
    }

    /// Reads the clock until that instant. The last reading is the instant of issue. No pauses: one takes as long as two readings, and
    /// many in a row hypervisors take for a lock that is held elsewhere.
    #[inline(always)]
    fn spin_until(&self, due: u64) -> Result<Spun, Stop> {
        let (mut at, mut widest) = (self.ticks(), 0);
        while at < due {
            if self.counters.stopping() {
                return Err(Stop::Told);
            }
            let next = self.ticks();
            widest = widest.max(next.saturating_sub(at));
            at = next;
        }
        Ok(Spun { at, widest })
    }
}

/// When an action is to be issued, in ticks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    /// When its dependencies were met.
    from: u64,
    at: u64,
    /// The sleep before it ended too late.
    overslept: bool,
}

/// How a spin went, in ticks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spun {
    /// When it ended.
    pub at: u64,
    /// Longest time between two readings.
    widest: u64,
}

impl Worker {
    /// Waits until an action is due, if the replay has a pace.
    pub(super) fn pace(&mut self, timing: Timing) -> Result<Option<Paced>, Stop> {
        let Some(due) = self.approach(timing)? else { return Ok(None) };
        let spun = self.engine.spin_until(due.at)?;
        Ok(Some(self.engine.paced(due, spun)))
    }

    /// The first part of that: what is left is [`Engine::spin`].
    #[inline]
    pub(super) fn approach(&mut self, timing: Timing) -> Result<Option<Due>, Stop> {
        let engine = self.engine;
        match engine.settings.pace {
            Pace::Afap => Ok(None),
            Pace::Paced { by, factor } => engine.sleep_until_near(self, by, factor, timing).map(Some),
        }
    }
}

impl Engine {
    /// The second part: the instant of issue, which whoever spins reads last. Part of the loop that issues, so that nothing lies between
    /// that reading and the call: after a wait code and stack elsewhere are no longer in the processor's caches.
    #[inline(always)]
    pub(super) fn spin(&self, due: Option<Due>) -> Result<Spun, Stop> {
        match due {
            None => Ok(Spun { at: self.ticks(), widest: 0 }),
            Some(due) => self.spin_until(due.at),
        }
    }

    /// What became of a wait, if there was one.
    pub(super) fn after(&self, due: Option<Due>, spun: Spun) -> Option<Paced> {
        due.map(|due| self.paced(due, spun))
    }
}
