//! The worker's first thread: starts the others, watches them, ends them.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::failure::Failure;
use super::{Board, Ended, Engine, Outcome, clocks, issue, lock, start};

const TICK: Duration = Duration::from_millis(50);
/// How old records become before they go to the log.
const PULSE: Duration = Duration::from_millis(500);
const ENDING_TICK: Duration = Duration::from_millis(5);
/// How often it is looked whether others are ready.
const MEETING_TICK: Duration = Duration::from_micros(50);
/// How long a thread that is told to end may stay in a call.
const GRACE: Duration = Duration::from_secs(10);

impl Engine {
    /// Runs to the end. Before the first action, others are waited for as long as `awaited` says.
    pub(crate) fn run(&'static self, awaited: &dyn Fn() -> bool) -> Outcome {
        self.first_instant();
        if let Err(failure) = self.porters.start(self.reserved, self.settings.commands).and_then(|()| start::all(self))
        {
            self.stop(Ended::Failed(failure));
        }
        self.await_others(awaited);
        self.pacer.start(self.settings.tsc);
        self.gate.store(1, Ordering::SeqCst);
        issue::futex_wake(&self.gate);
        self.watch();
        self.last_instant();
        self.board.done.store(self.counters.total(), Ordering::Relaxed);
        let ended = lock(&self.ended).clone().unwrap_or(Ended::Complete);
        let notes = lock(&self.notes).iter().map(|(text, count)| (text.clone(), *count)).collect();
        let degrees = self.turns.as_ref().map(super::schedule::Turns::degrees).unwrap_or_default();
        Outcome { ended, notes, degrees }
    }

    fn await_others(&self, awaited: &dyn Fn() -> bool) {
        let begun = Instant::now();
        while awaited() && !self.counters.stopping() && begun.elapsed() < self.settings.patience {
            if self.board.stop.load(Ordering::Relaxed) != 0 {
                return;
            }
            issue::futex_wait(&self.gate, 0, Some(MEETING_TICK));
        }
    }

    fn first_instant(&self) {
        let Board { first_ticks, first_ns, .. } = &**self.board;
        let now = clocks::now(self.settings.tsc);
        first_ticks.store(now.ticks, Ordering::Relaxed);
        first_ns.store(now.ns, Ordering::Relaxed);
    }

    fn last_instant(&self) {
        let Board { last_ticks, last_ns, .. } = &**self.board;
        let now = clocks::now(self.settings.tsc);
        last_ticks.store(now.ticks, Ordering::Relaxed);
        last_ns.store(now.ns, Ordering::Relaxed);
    }

    fn watch(&self) {
        let (mut progress, mut since) = (0, Instant::now());
        let mut told: Option<Instant> = None;
        let mut beat = Instant::now();
        loop {
            if beat.elapsed() >= PULSE {
                beat = Instant::now();
                self.pulse.fetch_add(1, Ordering::Relaxed);
            }
            let live = self.counters.live.load(Ordering::SeqCst);
            if live == 0 {
                return;
            }
            let tick = if told.is_some() { ENDING_TICK } else { TICK };
            issue::futex_wait(&self.counters.live, live, Some(tick));
            if self.counters.stopping() {
                let begun = *told.get_or_insert_with(Instant::now);
                self.interrupt_all();
                if begun.elapsed() > GRACE {
                    return;
                }
                continue;
            }
            if self.board.stop.load(Ordering::Relaxed) != 0 {
                self.stop(Ended::Interrupted);
                continue;
            }
            let total = self.counters.total();
            self.board.done.store(total, Ordering::Relaxed);
            self.last_instant();
            // Who waits for the pace of the trace is not stuck, however long that takes.
            if total != progress || self.counters.pacing() {
                (progress, since) = (total, Instant::now());
            }
            if let Some((thread, wait)) = self.counters.deadlock() {
                let stuck = Failure::Stuck { thread, awaited: wait.thread, count: wait.count };
                self.stop(Ended::Failed(stuck));
            } else if since.elapsed() > self.settings.patience {
                self.stop(Ended::Failed(self.stalled(since.elapsed())));
            }
        }
    }

    fn interrupt_all(&self) {
        for (_, counter) in self.counters.iter() {
            match counter.tid.load(Ordering::SeqCst) {
                0 => {}
                tid => issue::interrupt(tid as i32),
            }
        }
    }

    fn stalled(&self, passed: Duration) -> Failure {
        let mut living = self.counters.iter().filter(|(_, counter)| counter.tid.load(Ordering::SeqCst) != 0);
        let found = living.find(|(thread, _)| !self.counters.waits(*thread));
        let (thread, number) = found.map_or((0, u32::MAX), |(thread, c)| (thread, c.call.0.load(Ordering::Relaxed)));
        let call = reprise_calls::by_number(number).map_or("a call", |c| c.name).to_owned();
        Failure::Stalled { thread, call, seconds: passed.as_secs() }
    }
}
