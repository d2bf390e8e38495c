//! Completed actions per thread, and waiting for them.
//!
//! Goals: a met dependency costs one load; a thread that is waited for pays for waking only if somebody sleeps; no
//! lost wake-up. Non-goals: fairness. Each counter has cache lines of its own.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use reprise_plan::command::Wait;

use super::issue;

/// How long a waiter spins while processors are idle, in nanoseconds.
const SPIN_NS: u64 = 20_000;
/// `Counter::waiting` of a thread that does not.
pub(super) const NOT_WAITING: u64 = u64::MAX;

/// One thread's.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Counter {
    completed: AtomicU64,
    sleepers: AtomicU32,
    /// The kernel's thread number while it lives, else 0.
    pub tid: AtomicU32,
    /// Whether it was ever started.
    pub started: AtomicU32,
    /// The encoded [`Wait`] it sleeps for.
    pub waiting: AtomicU64,
    /// The call it is in.
    pub call: AtomicU32,
    /// 0, then 1 when its start is done: a futex.
    pub ready: AtomicU64,
}

impl Counter {
    pub(super) fn new() -> Counter {
        Counter {
            completed: AtomicU64::new(0),
            sleepers: AtomicU32::new(0),
            tid: AtomicU32::new(0),
            started: AtomicU32::new(0),
            waiting: AtomicU64::new(NOT_WAITING),
            call: AtomicU32::new(0),
            ready: AtomicU64::new(0),
        }
    }

    /// How many actions are completed.
    pub(super) fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    /// One more is completed; only its own thread calls this.
    pub(super) fn complete(&self, count: u64) {
        // Sequentially consistent on both sides: either the sleeper sees the new count, or this thread sees the sleeper.
        self.completed.store(count, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            issue::futex_wake(&self.completed);
        }
    }
}

/// All counters, and what waiting depends on.
#[derive(Debug)]
pub(super) struct Counters {
    all: Vec<Counter>,
    /// Threads that live.
    pub live: AtomicU64,
    /// Threads that sleep for a counter.
    pub sleeping: AtomicU32,
    /// Set when all must end; see `Engine::stop`.
    pub stop: AtomicU32,
    processors: u64,
}

impl Counters {
    pub(super) fn new(threads: usize) -> Counters {
        Counters {
            all: (0..threads).map(|_| Counter::new()).collect(),
            live: AtomicU64::new(0),
            sleeping: AtomicU32::new(0),
            stop: AtomicU32::new(0),
            processors: std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
        }
    }

    /// A thread's; `None` if there is no such thread.
    pub(super) fn get(&self, thread: u32) -> Option<&Counter> {
        self.all.get(thread as usize)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Counter)> {
        self.all.iter().enumerate().map(|(i, c)| (i as u32, c))
    }

    /// Actions completed by all threads.
    pub(super) fn total(&self) -> u64 {
        self.all.iter().map(Counter::completed).sum()
    }

    pub(super) fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed) != 0
    }

    /// Waits until a dependency is met. False when all must end, or when the thread awaited does not exist.
    pub(super) fn wait(&self, me: &Counter, wait: Wait) -> bool {
        let Some(awaited) = self.get(wait.thread) else {
            return false;
        };
        awaited.completed() >= wait.count || self.spin(awaited, wait.count) || self.sleep(me, awaited, wait)
    }

    fn spin(&self, awaited: &Counter, count: u64) -> bool {
        // Spinning helps only if the thread awaited can run meanwhile.
        let active = self.live.load(Ordering::Relaxed).saturating_sub(self.sleeping.load(Ordering::Relaxed).into());
        if active > self.processors {
            return false;
        }
        let begin = issue::nanoseconds();
        loop {
            for _ in 0..32 {
                if awaited.completed() >= count {
                    return true;
                }
                std::hint::spin_loop();
            }
            if issue::nanoseconds() - begin > SPIN_NS {
                return false;
            }
        }
    }

    fn sleep(&self, me: &Counter, awaited: &Counter, wait: Wait) -> bool {
        me.waiting.store(wait.to_word(), Ordering::SeqCst);
        self.sleeping.fetch_add(1, Ordering::SeqCst);
        awaited.sleepers.fetch_add(1, Ordering::SeqCst);
        let met = loop {
            let seen = awaited.completed.load(Ordering::SeqCst);
            if seen >= wait.count {
                break true;
            }
            if self.stopping() {
                break false;
            }
            // Who ends the replay interrupts every thread again and again: no time limit is needed.
            issue::futex_wait(&awaited.completed, seen, None);
        };
        awaited.sleepers.fetch_sub(1, Ordering::SeqCst);
        self.sleeping.fetch_sub(1, Ordering::SeqCst);
        me.waiting.store(NOT_WAITING, Ordering::SeqCst);
        met
    }

    /// The thread that waits in vain, if every living thread does.
    pub(super) fn deadlock(&self) -> Option<(u32, Wait)> {
        let live = self.live.load(Ordering::SeqCst);
        if live == 0 || u64::from(self.sleeping.load(Ordering::SeqCst)) < live {
            return None;
        }
        let before = self.total();
        let mut found = None;
        let mut seen = 0;
        for (thread, counter) in self.iter().filter(|(_, c)| c.tid.load(Ordering::SeqCst) != 0) {
            let word = counter.waiting.load(Ordering::SeqCst);
            let wait = Wait::from_word(word);
            let awaited = self.get(wait.thread)?;
            if word == NOT_WAITING || awaited.completed() >= wait.count {
                return None;
            }
            seen += 1;
            found = found.or(Some((thread, wait)));
        }
        // Counts only grow. If none has, every wait that was unmet when looked at is unmet still: nobody can run.
        let same = seen == live && self.live.load(Ordering::SeqCst) == live && self.total() == before;
        found.filter(|_| same)
    }

    /// Sleeps until `word` leaves 0, at most for `limit` at a time; false when all must end.
    pub(super) fn await_nonzero(&self, word: &AtomicU64) -> bool {
        while word.load(Ordering::SeqCst) == 0 {
            if self.stopping() {
                return false;
            }
            issue::futex_wait(word, 0, Some(Duration::from_millis(50)));
        }
        true
    }
}
