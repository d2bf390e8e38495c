//! The engine's counters under every interleaving, and with every value that weak memory permits them to see.
//!
//! The engine's own source is compiled a second time here, upon loom's atomics and a futex made of them; then once more
//! upon a fence that does nothing, which must be found out.

// The same source twice is what this test is about.
#![allow(clippy::duplicate_mod)]

/// A futex of loom's parts, and loom's atomics.
mod parts {
    pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    use loom::sync::{Condvar, Mutex};

    loom::lazy_static! {
        /// Who sleeps: the address of the word, and a ticket.
        static ref SLEEPERS: Mutex<(Vec<(usize, u64)>, u64)> = Mutex::new((Vec::new(), 0));
        static ref NEWS: Condvar = Condvar::new();
    }

    fn address(word: &AtomicU64) -> usize {
        std::ptr::from_ref(word) as usize
    }

    /// As the kernel does it: compares and falls asleep under the lock that a waker takes.
    pub fn futex_wait(word: &AtomicU64, seen: u64, _: Option<std::time::Duration>) {
        let mut sleepers = SLEEPERS.lock().unwrap();
        if word.load(Ordering::SeqCst) != seen {
            return;
        }
        let me = (address(word), sleepers.1);
        sleepers.1 += 1;
        sleepers.0.push(me);
        while sleepers.0.contains(&me) {
            sleepers = NEWS.wait(sleepers).unwrap();
        }
    }

    pub fn futex_wake(word: &AtomicU64) {
        wake(|sleeper| sleeper == address(word));
    }

    /// What the signals do that end a replay.
    pub fn interrupt_all() {
        wake(|_| true);
    }

    fn wake(which: impl Fn(usize) -> bool) {
        SLEEPERS.lock().unwrap().0.retain(|(word, _)| !which(*word));
        NEWS.notify_all();
    }

    /// Time that flies: every spin is over at once.
    pub fn nanoseconds() -> u64 {
        static NOW: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        NOW.fetch_add(1 << 32, std::sync::atomic::Ordering::Relaxed)
    }

    pub fn spin_loop() {}

    /// No look is worth its while: every wait that is not met sleeps.
    pub fn processors() -> u64 {
        0
    }

    pub fn processor() -> u32 {
        0
    }

    pub fn leave_processor() {}
}

mod engine;
mod without_fences;

/// Every execution with at most so many preemptions: bugs that need more are not known to exist (and would take hours).
fn explore(case: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(case);
}

#[test]
fn nobody_who_waits_is_forgotten() {
    explore(engine::cases::two_wait_for_a_third);
}

#[test]
fn threads_that_wait_for_each_other_in_turn_come_to_their_end() {
    explore(engine::cases::in_turn);
}

#[test]
fn whoever_can_go_on_is_not_taken_for_stuck() {
    explore(engine::cases::watched);
}

#[test]
fn threads_that_wait_for_each_other_in_vain_are_found_and_ended() {
    explore(engine::cases::stuck_and_stopped);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_its_fences_a_sleeper_is_forgotten() {
    explore(without_fences::cases::two_wait_for_a_third);
}
