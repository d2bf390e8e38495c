//! An exploring scheduler: one action at a time, in an order that is chosen, for tests.
//!
//! A plan permits many orders; a replay at full speed shows but one of them, mostly the same. Here every thread says
//! what it would do next, and when all have spoken one is chosen among those whose waits are met: any order that the
//! plan permits can come up, also those that no processor would ever show.
//!
//! Goals: the same choice gives the same order, as far as calls do not wait in the kernel; a lock that another thread
//! holds does not stop the others; costs nothing where it is not asked for. Non-goals: speed; overlapping calls.
//!
//! Actions that are not issued come as soon as they can: their place makes no difference, and fewer orders are left
//! that differ.

mod choice;

use std::str::FromStr;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use reprise_plan::command::{Command, Op, Wait};

use super::counters::Counters;
use super::failure::{Failure, Stop};
use super::{Ended, Engine, lock};
use choice::Chooser;

/// How often a thread that waits for its turn looks whether all must end.
const TICK: Duration = Duration::from_millis(20);

/// Which of the orders that a plan permits is replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schedule {
    /// Chosen by a strategy that is drawn, with all it does, from this number.
    Seed(u64),
    /// At each step the so many-th of the threads that can go on, in order of their numbers; the first beyond the end.
    Path(Vec<u32>),
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Schedule, String> {
        let wrong = |_| format!("'{text}' is no schedule; give a seed, or path:0,1,0");
        match text.strip_prefix("path:") {
            None => text.parse().map(Schedule::Seed).map_err(wrong),
            Some("") => Ok(Schedule::Path(Vec::new())),
            Some(path) => path.split(',').map(str::parse).collect::<Result<_, _>>().map(Schedule::Path).map_err(wrong),
        }
    }
}

/// What a thread would do next.
#[derive(Debug)]
struct Next {
    waits: Vec<Wait>,
    /// It is not issued: nobody can tell when it happened.
    inert: bool,
    /// It failed to get a lock when so many steps had been made.
    refused_at: Option<u64>,
}

#[derive(Debug)]
struct State {
    /// For every living thread what it would do next, or `None` while it is on its way to saying so.
    next: std::collections::BTreeMap<u32, Option<Next>>,
    chosen: Option<u32>,
    steps: u64,
    chooser: Chooser,
}

/// The turns that the threads take.
#[derive(Debug)]
pub(super) struct Turns {
    state: Mutex<State>,
    news: Condvar,
}

impl Turns {
    /// For a plan with so many actions.
    pub(super) fn new(schedule: &Schedule, actions: u64) -> Turns {
        let chooser = Chooser::new(schedule, actions);
        let state = State { next: Default::default(), chosen: None, steps: 0, chooser };
        Turns { state: Mutex::new(state), news: Condvar::new() }
    }

    /// A thread begins to live; nothing is chosen until it has spoken.
    pub(super) fn begin(&self, thread: u32) {
        lock(&self.state).next.insert(thread, None);
    }

    /// A thread lives no more.
    pub(super) fn end(&self, engine: &Engine, thread: u32) {
        let mut state = lock(&self.state);
        state.next.remove(&thread);
        self.choose(engine, &mut state);
    }

    /// Waits until it is this thread's turn to perform a command.
    pub(super) fn await_turn(&self, engine: &Engine, thread: u32, command: &Command) -> Result<(), Stop> {
        let inert = match command.op {
            Op::Simulate | Op::Skip | Op::Unsupported => true,
            Op::Exit => command.produces[0] == u32::MAX || command.produces[0] & 3 == 0,
            _ => false,
        };
        self.speak(engine, thread, Next { waits: command.waits.clone(), inert, refused_at: None }).map(drop)
    }

    /// Lets others go on while a lock is not to be had; false if nobody is left who could give it back.
    pub(super) fn await_lock(&self, engine: &Engine, thread: u32) -> Result<bool, Stop> {
        let refused_at = Some(lock(&self.state).steps);
        self.speak(engine, thread, Next { waits: Vec::new(), inert: false, refused_at })
    }

    /// Orders that could have been chosen: at each step that left a choice the number of threads that could go on.
    pub(super) fn degrees(&self) -> Vec<u32> {
        lock(&self.state).chooser.degrees().to_vec()
    }

    /// Says what the thread would do next and waits for its turn; whether anything was done since it last was refused.
    fn speak(&self, engine: &Engine, thread: u32, next: Next) -> Result<bool, Stop> {
        let refused_at = next.refused_at;
        let mut state = lock(&self.state);
        state.next.insert(thread, Some(next));
        self.choose(engine, &mut state);
        while state.chosen != Some(thread) {
            if engine.counters.stopping() {
                return Err(Stop::Told);
            }
            state = self.news.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.chosen = None;
        let hopeful = refused_at.is_none_or(|at| at != state.steps);
        state.steps += 1;
        state.next.insert(thread, None);
        Ok(hopeful)
    }

    /// If every living thread has spoken, the next one.
    fn choose(&self, engine: &Engine, state: &mut State) {
        if state.chosen.is_some() || state.next.is_empty() || state.next.values().any(Option::is_none) {
            return;
        }
        let all = || state.next.iter().filter_map(|(thread, next)| Some((*thread, next.as_ref()?)));
        let ready = all().filter(|(_, next)| next.waits.iter().all(|w| is_met(&engine.counters, *w)));
        let (refused, able): (Vec<_>, Vec<_>) = ready.partition(|(_, next)| next.refused_at == Some(state.steps));
        // If all are left without their locks, one must give up.
        let able = if able.is_empty() { refused } else { able };
        if let Some((thread, _)) = able.iter().find(|(_, next)| next.inert) {
            state.chosen = Some(*thread);
        } else if !able.is_empty() {
            let threads: Vec<u32> = able.iter().map(|(thread, _)| *thread).collect();
            state.chosen = state.chooser.choose(&threads);
        } else if let Some((thread, wait)) = all().find_map(|(thread, next)| Some((thread, *next.waits.first()?))) {
            let stuck = Failure::Stuck { thread, awaited: wait.thread, count: wait.count };
            engine.stop(Ended::Failed(stuck));
        }
        self.news.notify_all();
    }
}

/// A wait for a thread that does not exist is left to the thread itself, which knows what to say of it.
fn is_met(counters: &Counters, wait: Wait) -> bool {
    counters.get(wait.thread).is_none_or(|awaited| awaited.completed() >= wait.count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_a_seed_or_a_path() {
        assert_eq!("7".parse(), Ok(Schedule::Seed(7)));
        assert_eq!("path:".parse(), Ok(Schedule::Path(vec![])));
        assert_eq!("path:0,2,1".parse(), Ok(Schedule::Path(vec![0, 2, 1])));
        for wrong in ["", "x", "path", "path:0,,1", "-1"] {
            assert!(wrong.parse::<Schedule>().is_err(), "{wrong:?}");
        }
    }
}
