//! Whether the sink goes before those who want a processor, or lets them go first.
//!
//! Goals: where processors are idle now and then, a recorded program that is woken does not wait for the sink; where they are not, the
//! sink does not come late, since what it has not taken yet is soon in no cache any more, and then there is no room. Non-goals: how
//! it writes (`ways`).

use std::time::{Duration, Instant};

use crate::environment::{Processors, Times};
use crate::sys::{self, FIRST};

/// From one look at the processors to the next.
const LOOK: Duration = Duration::from_millis(250);
/// Processors that are idle for one part of so many have time for everybody.
const PARTS: u64 = 8;
/// So many full segments at once say that the sink comes late.
const LATE: usize = 3;
/// For so long it then goes first, at least and at most.
const LEAST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(30);
/// The nice value of who lets others go first.
const BEHIND: i32 = 10;

/// The place of the thread that asks; it goes first to begin with.
pub struct Rank {
    goes_first: bool,
    /// It goes first until then in any case.
    first_until: Instant,
    /// How long it did, the last time that it came late.
    last: Duration,
    /// When its place was changed, and when the processors were looked at.
    changed: Instant,
    looked: Instant,
    /// What processors had done by then.
    times: Option<Times>,
    processors: Processors,
    /// Whether it may put itself before others again.
    may: bool,
}

/// Whether processors were idle now and then, from one moment to the other.
fn were_idle(before: Times, now: Times) -> bool {
    let idle = |t: Times| t.idle_ns + t.iowait_ns;
    let all = |t: Times| idle(t) + t.user_ns + t.system_ns + t.steal_ns;
    let passed = all(now).saturating_sub(all(before));
    passed > 0 && idle(now).saturating_sub(idle(before)) >= passed / PARTS
}

impl Rank {
    /// Nothing is known of the processors yet.
    pub fn new() -> Rank {
        Rank::at(Instant::now(), sys::may_go_first())
    }

    fn at(now: Instant, may: bool) -> Rank {
        let mut processors = Processors::open();
        let times = processors.times();
        Rank { goes_first: true, first_until: now, last: LEAST, changed: now, looked: now, times, processors, may }
    }

    /// The thread has found so many segments that were full; `is_pressed`: few are free.
    pub fn found(&mut self, full: usize, is_pressed: bool) {
        let now = Instant::now();
        if full >= LATE || is_pressed {
            self.came_late(now);
        }
        if now.saturating_duration_since(self.looked) >= LOOK {
            let times = self.processors.times();
            let idle = self.times.zip(times).is_some_and(|(before, now)| were_idle(before, now));
            (self.looked, self.times) = (now, times);
            self.saw(now, idle);
        }
    }

    fn came_late(&mut self, now: Instant) {
        if self.goes_first {
            return;
        }
        let again = now.saturating_duration_since(self.changed) < self.last;
        self.last = if again { MOST.min(2 * self.last) } else { LEAST };
        self.first_until = now + self.last;
        self.take(now, true);
    }

    /// Whether processors were idle now and then, since the last look.
    fn saw(&mut self, now: Instant, idle: bool) {
        let goes_first = !idle || now < self.first_until;
        if goes_first != self.goes_first {
            self.take(now, goes_first);
        }
    }

    fn take(&mut self, now: Instant, first: bool) {
        (self.goes_first, self.changed) = (first, now);
        if self.may {
            sys::set_nice(if first { FIRST } else { BEHIND });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_go_first_where_processors_are_idle() {
        let begin = Instant::now();
        let mut rank = Rank::at(begin, false);
        let mut goes_first = |idle| {
            rank.saw(begin, idle);
            rank.goes_first
        };
        assert_eq!([false, true, true, false].map(&mut goes_first), [true, false, false, true]);
    }

    #[test]
    fn who_comes_late_goes_first_for_a_while_and_then_for_longer() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut rank = Rank::at(begin, false);
        rank.saw(begin, true);
        let mut late = |seconds| {
            rank.came_late(at(seconds));
            rank.saw(at(seconds), true);
            assert!(rank.goes_first);
            let until = (rank.first_until - begin).as_secs();
            rank.saw(rank.first_until, true);
            assert!(!rank.goes_first);
            until
        };
        assert_eq!(late(10), 11, "it was not late for long");
        assert_eq!([late(11), late(14), late(23)], [13, 18, 24], "soon again, and again, and not for long");
        let mut now = 24;
        for _ in 0..10 {
            now = late(now);
        }
        assert_eq!(late(now) - now, MOST.as_secs());
    }

    #[test]
    fn who_waits_for_a_disk_is_idle_too() {
        let ticks = |text: &str| Times::parse(text).unwrap();
        let before = ticks("cpu  10 1 20 100 5 0 4 2 7 0\n");
        let after = ["cpu 10 1 20 100 5 0 4 2", "cpu 10 1 35 101 5 0 4 2", "cpu 10 1 30 101 6 0 5 5"].map(ticks);
        assert_eq!(after.map(|now| were_idle(before, now)), [false, false, true]);
    }
}
