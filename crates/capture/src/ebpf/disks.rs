//! Whether anybody waits for a disk.
//!
//! Goals: known at a glance, for whoever may write there and need not. Non-goals: which disk, and who; writes that nobody
//! waits for.

use std::fs;
use std::time::{Duration, Instant};

use crate::environment::counters;

/// From one look to the next.
const LOOK: Duration = Duration::from_millis(100);
/// Who has waited for one may do so again for so long.
const QUIET: Duration = Duration::from_secs(1);

/// The disks of this machine.
pub struct Disks {
    looked: Option<Instant>,
    /// Requests that somebody waited for, and when that number was another one.
    waited_for: u64,
    since: Instant,
}

impl Disks {
    /// Nothing is known yet.
    pub fn new() -> Disks {
        Disks { looked: None, waited_for: 0, since: Instant::now() }
    }

    /// Nobody has waited for any.
    #[cfg(test)]
    pub fn quiet() -> Disks {
        Disks { looked: Some(Instant::now()), waited_for: 0, since: Instant::now() - 2 * QUIET }
    }

    /// Whether nobody has waited for any of late, as far as that is known.
    pub fn are_quiet(&mut self) -> bool {
        if self.looked.is_none_or(|looked| looked.elapsed() > LOOK) {
            self.looked = Some(Instant::now());
            let told = fs::read_to_string("/proc/diskstats").ok().and_then(|text| waited_for(&text));
            if told != Some(self.waited_for) {
                self.waited_for = told.unwrap_or(0);
                self.since = Instant::now();
            }
        }
        self.since.elapsed() > QUIET
    }
}

/// Reads and flushes that are complete, of all disks (`Documentation/admin-guide/iostats.rst`, fields 1 and 16); `None` where
/// flushes are not told (before Linux 5.5).
fn waited_for(diskstats: &str) -> Option<u64> {
    let of = |line: &str| {
        let (.., counters) = counters(line)?;
        Some(counters.first()?.wrapping_add(*counters.get(15)?))
    };
    diskstats.lines().map(of).try_fold(0, |all: u64, one| Some(all.wrapping_add(one?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_flushes_are_waited_for() {
        let told = " 254 0 vda 10 1 2 3 20 5 6 7 0 8 9 0 0 0 0 30 12\n 7 0 loop0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 2 0\n";
        assert_eq!(waited_for(told), Some(43));
        assert_eq!(waited_for(&told.replace(" 30 12", "")), None);
        assert_eq!(waited_for(""), Some(0));
    }

    #[test]
    fn it_takes_a_while_until_they_are_quiet() {
        assert!(!Disks::new().are_quiet());
        let mut disks = Disks::quiet();
        assert!(disks.are_quiet(), "not looked at again so soon");
        (disks.looked, disks.waited_for) = (None, u64::MAX);
        assert!(!disks.are_quiet(), "another number than before");
    }
}
