//! Completed actions per thread, and waiting for them.
//!
//! Goals: a met dependency costs one load; a thread that is waited for pays for waking only if somebody sleeps, and wakes
//! nobody who would have to sleep on; no lost wake-up. Non-goals: fairness. Each counter has cache lines of its own.

use std::time::Duration;

use reprise_plan::command::Wait;

use super::sync::{self, AtomicU32, AtomicU64, Ordering};

/// How long a waiter spins while processors are idle, in nanoseconds.
const SPIN_NS: u64 = 20_000;
/// How long it spins where that was in vain so many times one after the other: other programs have the processors, or the thread
/// awaited stands in the queue of this very one. It tries as long as before after 4, 8, 16, 32 times, and then each 64th: what was in
/// the way may be gone. Before that it leaves a processor that the thread awaited was on, too: two threads that sleep in turn look to
/// the kernel like one that works, and it may leave both where they are for seconds.
const SHORT_SPIN_NS: u64 = 1_000;
const OFTEN_IN_VAIN: u32 = 4;
const TRIED_AGAIN: u32 = 64;
/// Instants of completion that are remembered of each thread.
pub(super) const REMEMBERED: u64 = 1024;
/// A thread that sleeps longer tidies up.
const LONG_SLEEP: Duration = Duration::from_secs(1);
/// `Counter::wanted` where nobody sleeps.
const NOBODY: u64 = u64::MAX;
/// In `Counters::waiting`, of a thread that does not.
const NOT_WAITING: u64 = u64::MAX;

/// One thread's.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Counter {
    /// Its thread's.
    number: u32,
    completed: AtomicU64,
    /// When its latest actions were completed, in ticks, at their number modulo [`REMEMBERED`]; if anybody asks.
    ends: Option<Box<[AtomicU64]>>,
    /// The least count that somebody sleeps for; [`NOBODY`] if nobody does.
    wanted: AtomicU64,
    /// How often this thread was woken: a futex.
    wakes: AtomicU64,
    /// The kernel's thread number while it lives, else 0.
    pub tid: AtomicU32,
    /// Whether it was ever started.
    pub started: AtomicU32,
    /// How often in a row it spun in vain; its own thread's.
    in_vain: AtomicU32,
    /// The processor that it was on when it did so last.
    processor: AtomicU32,
    /// 1 while it waits for nothing but its pace.
    pub pacing: AtomicU32,
    /// The call it is in.
    pub call: Apart,
    /// 0, then 1 when its start is done: a futex.
    pub ready: AtomicU64,
}

/// Written at every action: not where others look for what is completed.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Apart(pub AtomicU32);

impl Counter {
    fn new(number: u32, remembers: bool) -> Counter {
        Counter {
            number,
            completed: AtomicU64::new(0),
            ends: remembers.then(|| (0..REMEMBERED).map(|_| AtomicU64::new(0)).collect()),
            wanted: AtomicU64::new(NOBODY),
            wakes: AtomicU64::new(0),
            tid: AtomicU32::new(0),
            started: AtomicU32::new(0),
            in_vain: AtomicU32::new(0),
            processor: AtomicU32::new(u32::MAX),
            pacing: AtomicU32::new(0),
            call: Apart(AtomicU32::new(0)),
            ready: AtomicU64::new(0),
        }
    }

    /// How many actions are completed.
    #[inline]
    pub(super) fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    /// When an action that is completed was, in ticks: exactly if it is one of the latest, else the earliest instant
    /// that is remembered. 0 if nothing is.
    pub(super) fn ended(&self, count: u64) -> u64 {
        let Some(ends) = &self.ends else {
            return 0;
        };
        let mut count = count;
        loop {
            let end = ends[(count % REMEMBERED) as usize].load(Ordering::Acquire);
            // The place may be taken by a later action as soon as the one before that is completed.
            let earliest = (self.completed() + 2).saturating_sub(REMEMBERED);
            if count >= earliest {
                return end;
            }
            count = earliest;
        }
    }
}

/// Looks until a dependency is met, at most for so long; whether it is.
fn spins(awaited: &Counter, count: u64, at_most_ns: u64) -> bool {
    let mut begin = None;
    loop {
        // A pause takes longer than many looks, and one after the other hypervisors take for a lock that is held elsewhere.
        for _ in 0..sync::LOOKS {
            if awaited.completed() >= count {
                return true;
            }
        }
        sync::spin_loop();
        let now = sync::nanoseconds();
        if now - *begin.get_or_insert(now) > at_most_ns {
            return false;
        }
    }
}

/// Leaves the processor to the thread awaited, if that was last seen on it.
#[cold]
fn leave_to(awaited: &Counter) {
    if awaited.processor.load(Ordering::Relaxed) == sync::processor() {
        sync::leave_processor();
    }
}

/// All counters, and what waiting depends on.
#[derive(Debug)]
pub(super) struct Counters {
    all: Vec<Counter>,
    /// The encoded [`Wait`] that each thread sleeps for, or [`NOT_WAITING`]; close together, since who wakes looks at all. Who takes one
    /// out, the sleeper or who wakes it, takes it off `sleeping` too.
    waiting: Vec<AtomicU64>,
    /// Threads that live.
    pub live: AtomicU64,
    /// Threads that sleep for a counter.
    pub sleeping: AtomicU32,
    /// Set when all must end; see `Engine::stop`.
    pub stop: AtomicU32,
    processors: u64,
}

impl Counters {
    /// For so many threads; `remember` if instants of completion are asked for.
    pub(super) fn new(threads: usize, remember: bool) -> Counters {
        Counters {
            all: (0..).take(threads).map(|number| Counter::new(number, remember)).collect(),
            waiting: (0..threads).map(|_| AtomicU64::new(NOT_WAITING)).collect(),
            live: AtomicU64::new(0),
            sleeping: AtomicU32::new(0),
            stop: AtomicU32::new(0),
            processors: sync::processors(),
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

    /// Another action of that thread is completed, at this instant; only the thread itself calls this.
    #[inline]
    pub(super) fn complete(&self, mine: &Counter, count: u64, end: u64) {
        if let Some(ends) = &mine.ends {
            ends[(count % REMEMBERED) as usize].store(end, Ordering::Release);
        }
        mine.completed.store(count, Ordering::Release);
        // A barrier on both sides, see `Counters::sleep`: either the sleeper sees the new count, or this thread sees what it
        // wants.
        sync::frequent_barrier();
        if count >= mine.wanted.load(Ordering::Relaxed) {
            self.wake(mine, count);
        }
    }

    /// Wakes those whose wait is over. Who says what it wants before this thread forgets all of that is seen here; who says it after
    /// that sees the new count, and does not fall asleep.
    #[cold]
    fn wake(&self, mine: &Counter, count: u64) {
        mine.wanted.swap(NOBODY, Ordering::AcqRel);
        for (sleeper, waiting) in self.all.iter().zip(&self.waiting) {
            let word = waiting.load(Ordering::SeqCst);
            let wait = Wait::from_word(word);
            if word == NOT_WAITING || wait.thread != mine.number {
                continue;
            }
            if wait.count > count {
                mine.wanted.fetch_min(wait.count, Ordering::AcqRel);
            } else if waiting.compare_exchange(word, NOT_WAITING, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                self.sleeping.fetch_sub(1, Ordering::SeqCst);
                sleeper.wakes.fetch_add(1, Ordering::Release);
                sync::futex_wake(&sleeper.wakes);
            }
        }
    }

    /// Whether a thread sleeps until another has come far enough.
    pub(super) fn waits(&self, thread: u32) -> bool {
        self.waiting.get(thread as usize).is_some_and(|word| word.load(Ordering::SeqCst) != NOT_WAITING)
    }

    /// Waits until a dependency on `awaited` is met, which it was not when last looked at. False when all must end. If that takes
    /// longer than [`LONG_SLEEP`], `tidy` is called now and then, until it returns true.
    pub(super) fn wait(&self, me: &Counter, awaited: &Counter, wait: Wait, tidy: &mut dyn FnMut() -> bool) -> bool {
        self.spin(me, awaited, wait.count) || self.sleep(me, awaited, wait, tidy)
    }

    /// Whether every thread that does not sleep can have a processor of its own.
    pub(super) fn processors_idle(&self) -> bool {
        self.active() <= self.processors
    }

    /// Whether each processor has a thread that is at work.
    pub(super) fn processors_taken(&self) -> bool {
        self.active() >= self.processors
    }

    /// Threads that do not sleep in a wait of ours.
    fn active(&self) -> u64 {
        self.live.load(Ordering::Relaxed).saturating_sub(self.sleeping.load(Ordering::Relaxed).into())
    }

    /// Whether a thread waits for nothing but its pace.
    pub(super) fn pacing(&self) -> bool {
        self.all.iter().any(|c| c.pacing.load(Ordering::SeqCst) != 0)
    }

    fn spin(&self, me: &Counter, awaited: &Counter, count: u64) -> bool {
        // Spinning helps only if the thread awaited can run meanwhile.
        if !self.processors_idle() {
            return false;
        }
        let in_vain = me.in_vain.load(Ordering::Relaxed);
        let tries_again = in_vain.is_power_of_two() || in_vain.is_multiple_of(TRIED_AGAIN);
        let at_most_ns = match (in_vain >= OFTEN_IN_VAIN, tries_again) {
            (true, false) => SHORT_SPIN_NS,
            (true, true) => {
                leave_to(awaited);
                SPIN_NS
            }
            (false, _) => SPIN_NS,
        };
        if spins(awaited, count, at_most_ns) {
            me.in_vain.store(0, Ordering::Relaxed);
            return true;
        }
        me.in_vain.store(in_vain.wrapping_add(1), Ordering::Relaxed);
        me.processor.store(sync::processor(), Ordering::Relaxed);
        false
    }

    fn sleep(&self, me: &Counter, awaited: &Counter, wait: Wait, tidy: &mut dyn FnMut() -> bool) -> bool {
        let mut at_most = Some(LONG_SLEEP);
        let Some(waiting) = self.waiting.get(me.number as usize) else { return false };
        self.sleeping.fetch_add(1, Ordering::SeqCst);
        waiting.store(wait.to_word(), Ordering::SeqCst);
        let met = loop {
            let seen = me.wakes.load(Ordering::Acquire);
            awaited.wanted.fetch_min(wait.count, Ordering::AcqRel);
            sync::rare_barrier();
            if awaited.completed() >= wait.count {
                break true;
            }
            if self.stopping() {
                break false;
            }
            // Who ends the replay interrupts every thread again and again: no time limit is needed for that.
            sync::futex_wait(&me.wakes, seen, at_most);
            if at_most.is_some() && tidy() {
                at_most = None;
            }
        };
        if waiting.swap(NOT_WAITING, Ordering::SeqCst) != NOT_WAITING {
            self.sleeping.fetch_sub(1, Ordering::SeqCst);
        }
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
        let living = self.iter().zip(&self.waiting).filter(|((_, c), _)| c.tid.load(Ordering::SeqCst) != 0);
        for ((thread, _), waiting) in living {
            let word = waiting.load(Ordering::SeqCst);
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
            sync::futex_wait(word, 0, Some(Duration::from_millis(50)));
        }
        true
    }
}
