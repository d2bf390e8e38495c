//! Whether the sink goes before those who want a processor, or lets them go first.
//!
//! Goals: where processors are idle now and then, a recorded program that is woken does not wait for the sink; where they are not, the
//! sink does not come late, since what it has not taken yet is soon in no cache any more, and then there is no room. Non-goals: how
//! it writes (`ways`).

use std::fs;
use std::time::{Duration, Instant};

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
    /// Of all that processors had, and were idle, by then.
    times: Option<Times>,
    /// Whether it may put itself before others again.
    may: bool,
}

/// What processors have done since the machine began, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Times {
    idle: u64,
    all: u64,
}

impl Times {
    fn now() -> Option<Times> {
        Times::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Of the first line of `/proc/stat`: user, nice, system, idle, waiting for a disk, interrupts, stolen, and guests, who are in the
    /// first two.
    fn parse(text: &str) -> Option<Times> {
        let words = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        let ticks: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
        Some(Times { idle: ticks.get(3)?.saturating_add(*ticks.get(4)?), all: ticks.iter().sum() })
    }

    fn are_idle(self, before: Times) -> bool {
        let passed = self.all.saturating_sub(before.all);
        passed > 0 && self.idle.saturating_sub(before.idle) >= passed / PARTS
    }
}

impl Rank {
    /// Nothing is known of the processors yet.
    pub fn new() -> Rank {
        Rank::at(Instant::now(), sys::may_go_first())
    }

    fn at(now: Instant, may: bool) -> Rank {
        Rank { goes_first: true, first_until: now, last: LEAST, changed: now, looked: now, times: Times::now(), may }
    }

    /// The thread has found so many segments that were full; `is_pressed`: few are free.
    pub fn found(&mut self, full: usize, is_pressed: bool) {
        let now = Instant::now();
        if full >= LATE || is_pressed {
            self.came_late(now);
        }
        if now.saturating_duration_since(self.looked) >= LOOK {
            let times = Times::now();
            let idle = self.times.zip(times).is_some_and(|(before, times)| times.are_idle(before));
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
    fn what_processors_did_is_told_by_the_kernel() {
        let told = "cpu  10 1 20 100 5 0 4 2 7 0\ncpu0 5 0 10 50 2 0 2 1 0 0\n";
        let before = Times { idle: 105, all: 142 };
        assert_eq!(Times::parse(told), Some(before));
        assert_eq!([Times::parse(""), Times::parse("cpu 1 2 3"), Times::parse("intr 1")], [None; 3]);
        let after = |idle: u64, all: u64| Times { idle: 105 + idle, all: 142 + all };
        assert_eq!([after(0, 0), after(1, 16), after(2, 16)].map(|now| now.are_idle(before)), [false, false, true]);
        assert!(Times::now().is_some());
    }
}
