//! Which way what is written goes: into the page cache, or past it to the disk.
//!
//! Goals: a recorded program that waits for its own data to be on the disk does not wait for the recorder's, too. What is written
//! goes to the page cache as long as there is little in it that is not on the disk yet; a recording that is short, or tells
//! little, then takes nothing of the disk while the program runs. Beyond that it goes to the disk at once, without a copy, so
//! that neither the kernel nor anybody who writes has to wait for memory; and so it does where nobody waits for a disk, for a copy
//! takes the program's processors. Where the program waits for the recorder, what is written goes the way that was quicker of
//! late: on a virtual machine that has to be given memory first, the page cache may be slower than the disk. Non-goals: how it
//! gets there (`files`).

use std::fs;
use std::time::Duration;

use super::disks::Disks;
use crate::environment::memory_limit_bytes;

/// How much goes to the page cache before the kernel is asked again what is in it.
const LOOK_BYTES: u64 = 32 << 20;
const PAGE_BYTES: u64 = 4096;

/// How something goes into a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Through the page cache.
    Cached,
    /// Past it.
    Direct,
}

/// What decides.
pub struct Ways {
    room: Room,
    speed: Speed,
    disks: Disks,
}

impl Ways {
    /// Nothing is known yet.
    pub fn new() -> Ways {
        Ways { room: Room::new(), speed: Speed::default(), disks: Disks::new() }
    }

    /// Which way so many bytes are to go; `hurry`: the program waits for them, or soon will.
    pub fn choose(&mut self, bytes: u64, hurry: bool) -> Way {
        let past = if hurry { self.speed.is_quicker_past_the_cache() } else { self.disks.are_quiet() };
        if !past && self.room.take(bytes) { Way::Cached } else { Way::Direct }
    }

    /// A whole segment took so long.
    pub fn took(&mut self, way: Way, time: Duration) {
        self.speed.note(way, time);
    }
}

/// How long a segment takes, in each way.
#[derive(Default)]
struct Speed {
    cached: Option<Duration>,
    direct: Option<Duration>,
    /// Segments of one way since the last of the other.
    in_a_row: u32,
    last: Option<Way>,
}

impl Speed {
    /// What is noted counts for so much less than all before.
    const WEIGHT: u32 = 8;
    /// After so many segments of one way nothing is known of the other any more.
    const MOST_IN_A_ROW: u32 = 256;

    fn note(&mut self, way: Way, time: Duration) {
        let (mean, other) = match way {
            Way::Cached => (&mut self.cached, &mut self.direct),
            Way::Direct => (&mut self.direct, &mut self.cached),
        };
        *mean = Some(mean.map_or(time, |mean| (mean * (Self::WEIGHT - 1) + time) / Self::WEIGHT));
        self.in_a_row = if self.last == Some(way) { self.in_a_row + 1 } else { 0 };
        self.last = Some(way);
        if self.in_a_row >= Self::MOST_IN_A_ROW {
            *other = None;
            self.in_a_row = 0;
        }
    }

    /// Of what is not known is found out.
    fn is_quicker_past_the_cache(&self) -> bool {
        self.cached.is_some_and(|cached| self.direct.is_none_or(|direct| direct < cached))
    }
}

/// How much may still go to the page cache.
///
/// The kernel begins to write by itself when what waits in the page cache is over a threshold, and lets those who write
/// wait halfway to another one (`Documentation/admin-guide/sysctl/vm.rst`). A quarter of the first is left to everybody else.
struct Room {
    left_bytes: u64,
    /// The recorder lives under a memory limit, perhaps together with what it records: the page cache is not its to fill.
    limited: bool,
    /// What to write before the kernel is asked again, if there was no room.
    refused_bytes: u64,
}

impl Room {
    fn new() -> Room {
        Room { left_bytes: 0, limited: memory_limit_bytes("self").is_some(), refused_bytes: 0 }
    }

    /// Whether so many bytes may go to the page cache.
    fn take(&mut self, bytes: u64) -> bool {
        if self.limited {
            return false;
        }
        if self.left_bytes < bytes && self.refused_bytes == 0 {
            let free = fs::read_to_string("/proc/vmstat").ok().and_then(|text| free_bytes(&text)).unwrap_or(0);
            self.left_bytes = free.min(LOOK_BYTES);
            self.refused_bytes = if self.left_bytes < bytes { LOOK_BYTES } else { 0 };
        }
        let taken = self.left_bytes >= bytes;
        self.left_bytes -= if taken { bytes } else { 0 };
        self.refused_bytes = self.refused_bytes.saturating_sub(if taken { 0 } else { bytes });
        taken
    }
}

/// Of what the kernel tells of its memory: bytes to three quarters of the threshold.
fn free_bytes(vmstat: &str) -> Option<u64> {
    let pages = |name: &str| -> Option<u64> {
        vmstat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
    };
    let waiting = pages("nr_dirty")? + pages("nr_writeback")?;
    Some((pages("nr_dirty_background_threshold")? / 4 * 3).saturating_sub(waiting) * PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_micros(100);
    const LONG: Duration = Duration::from_millis(1);

    #[test]
    fn who_hurries_goes_the_way_that_was_quicker_of_late() {
        let room = Room { left_bytes: 1 << 40, limited: false, refused_bytes: 0 };
        let mut ways = Ways { room, speed: Speed::default(), disks: Disks::new() };
        assert_eq!(ways.choose(1, true), Way::Cached, "nothing is known");
        ways.took(Way::Cached, LONG);
        assert_eq!((ways.choose(1, true), ways.choose(1, false)), (Way::Direct, Way::Cached), "to find out");
        ways.took(Way::Direct, SHORT);
        assert_eq!((ways.choose(1, true), ways.choose(1, false)), (Way::Direct, Way::Cached));
        for _ in 0..100 {
            ways.took(Way::Direct, 2 * LONG);
        }
        assert_eq!(ways.choose(1, true), Way::Cached);
        for _ in 0..=Speed::MOST_IN_A_ROW {
            ways.took(Way::Cached, LONG);
        }
        assert_eq!(ways.choose(1, true), Way::Direct, "that was long ago");
    }

    #[test]
    fn where_nobody_waits_for_a_disk_no_copy_is_made() {
        let room = Room { left_bytes: 1 << 40, limited: false, refused_bytes: 0 };
        let mut ways = Ways { room, speed: Speed::default(), disks: Disks::quiet() };
        assert_eq!((ways.choose(1, false), ways.choose(1, true)), (Way::Direct, Way::Cached));
        let mut ways = Ways { disks: Disks::new(), ..ways };
        assert_eq!(ways.choose(1, false), Way::Cached);
    }

    #[test]
    fn a_quarter_of_the_threshold_is_left_to_others() {
        let told = "nr_dirty 100\nnr_writeback 20\nnr_writeback_temp 7\nnr_dirty_threshold 4000\nnr_dirty_background_threshold 1000\n";
        assert_eq!(free_bytes(told), Some(630 * PAGE_BYTES));
        assert_eq!(free_bytes(&told.replace("nr_dirty 100", "nr_dirty 800")), Some(0));
        assert_eq!(free_bytes("nr_dirty 1\n"), None);
    }

    #[test]
    fn under_a_memory_limit_nothing_goes_to_the_page_cache() {
        let mut room = Room { left_bytes: 1 << 30, limited: true, refused_bytes: 0 };
        assert!(!room.take(1));
    }

    #[test]
    fn who_was_refused_asks_again_after_a_while() {
        let mut room = Room { left_bytes: 5, limited: false, refused_bytes: 10 };
        assert!(!room.take(10));
        assert_eq!((room.left_bytes, room.refused_bytes), (5, 0));
        assert!(room.take(5));
    }
}
