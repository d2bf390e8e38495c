//! Time stamps of any kind as nanoseconds since the first.

use super::line::Stamp;

const DAY: u64 = 86_400 * 1_000_000_000;
/// Without time stamps a line is a microsecond.
pub const LINE: u64 = 1_000;

/// What the time stamps of a log are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timing {
    /// There are none.
    #[default]
    None,
    /// Time of day without a date (`-t`, `-tt`).
    OfDay,
    /// Since the epoch (`-ttt`).
    Unix,
    /// Since the line before (`-r`).
    Relative,
}

/// Follows the time stamps of a log.
#[derive(Debug, Default)]
pub struct Clock {
    timing: Timing,
    origin: u64,
    now: u64,
    days: u64,
    last: u64,
}

impl Clock {
    /// The time of a line: of its stamp, or where there are none of its number.
    pub fn time(&mut self, stamp: Option<Stamp>, line: u64) -> u64 {
        match stamp {
            Some(Stamp::Unix(time)) => {
                self.first(Timing::Unix, time);
                self.now = time.saturating_sub(self.origin);
            }
            Some(Stamp::OfDay(time)) => {
                self.first(Timing::OfDay, time);
                // Past midnight. Lines of several threads may be a little out of order.
                if time + DAY / 2 < self.last {
                    self.days += 1;
                }
                self.last = time;
                self.now = (self.days * DAY + time).saturating_sub(self.origin);
            }
            Some(Stamp::Since(time)) => {
                self.first(Timing::Relative, 0);
                self.now = self.now.saturating_add(time);
            }
            None if self.timing == Timing::None => self.now = line * LINE,
            None => {}
        }
        self.now
    }

    fn first(&mut self, timing: Timing, origin: u64) {
        if self.timing == Timing::None {
            *self = Clock { timing, origin, ..Clock::default() };
        }
    }

    /// What the first stamp was.
    pub fn origin(&self) -> u64 {
        self.origin
    }

    /// What the stamps are, as far as they were seen.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// The first, nanoseconds since the epoch; 0 if the log does not say.
    pub fn started(&self) -> u64 {
        if self.timing == Timing::Unix { self.origin } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn midnight_is_passed() {
        let mut clock = Clock::default();
        assert_eq!(clock.time(Some(Stamp::OfDay(DAY - 5)), 1), 0);
        assert_eq!(clock.time(Some(Stamp::OfDay(5)), 2), 10);
        assert_eq!(clock.time(None, 3), 10);
    }

    #[test]
    fn relative_times_add_up() {
        let mut clock = Clock::default();
        assert_eq!([7, 8].map(|n| clock.time(Some(Stamp::Since(n)), 1)), [7, 15]);
    }

    #[test]
    fn without_stamps_lines_count() {
        assert_eq!(Clock::default().time(None, 9), 9 * LINE);
    }
}
