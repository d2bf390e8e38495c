//! Which way what is written goes: into the page cache, or past it to the disk; and how much at once.
//!
//! Goals: a recorded program that waits for its own data to be on the disk does not wait for the recorder's, too, and one that
//! wants a processor gets it. What is written goes the way that takes less of the processors: past the page cache if memory is dear
//! (a virtual machine has to be given it first), and so little is written that it takes a small part of the disk's time; else
//! to the page cache as long as there is little in it that is not on the disk yet, a recording that is short, or tells little,
//! then taking nothing of the disk while the program runs. Beyond that it goes to the disk at once, so that neither
//! the kernel nor anybody who writes has to wait for memory; and so it does where nobody waits for a disk. Where the program waits for
//! the recorder, what is written goes the way that was quicker of late. A little at a time in any other case: many kernels
//! take no thread off its processor before the call that it is in ends, whoever waits for it. Non-goals: how it gets
//! there (`files`).

use std::fs;
use std::time::{Duration, Instant};

use super::disks::Disks;
use crate::environment::memory_limit_bytes;
use crate::spool::layout::SEGMENT_BYTES;
use crate::sys::thread_time;

/// How much goes to the page cache before the kernel is asked again what is in it.
const LOOK_BYTES: u64 = 32 << 20;
const PAGE_BYTES: u64 = 4096;
/// A piece of so much keeps others off a processor for a tenth of a millisecond, even if the memory for it is new.
const CACHED_PIECE: usize = 64 << 10;
/// A disk takes not much longer for so much than for the least.
const SPARING_PIECE: usize = 128 << 10;

/// How something goes into a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Through the page cache.
    Cached,
    /// Past it.
    Direct,
    /// Past it, a little at a time: who waits for the same disk waits for a little.
    Sparing,
}

/// Which way, and how much at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Course {
    /// Which way.
    pub way: Way,
    /// Bytes that are written at once, at most.
    pub piece: usize,
}

impl Course {
    /// `hurry`: the program waits, and is served best by all at once.
    pub fn new(way: Way, hurry: bool) -> Course {
        let piece = match way {
            Way::Cached if !hurry => CACHED_PIECE,
            Way::Sparing => SPARING_PIECE,
            Way::Cached | Way::Direct => SEGMENT_BYTES,
        };
        Course { way, piece }
    }
}

/// What decides.
pub struct Ways {
    room: Room,
    costs: Costs,
    disks: Disks,
    rate: Rate,
}

impl Ways {
    /// Nothing is known yet.
    pub fn new() -> Ways {
        Ways { room: Room::new(), costs: Costs::default(), disks: Disks::new(), rate: Rate::new() }
    }

    /// Which way so many bytes are to go; `hurry`: the program waits for them, or soon will.
    pub fn choose(&mut self, bytes: u64, hurry: bool) -> Course {
        self.rate.note(bytes);
        let past = if hurry { self.past_the_cache_in_a_hurry() } else { self.past_the_cache_at_leisure() };
        let way = past.unwrap_or_else(|| if self.room.take(bytes) { Way::Cached } else { Way::Direct });
        Course::new(way, hurry)
    }

    fn past_the_cache_in_a_hurry(&self) -> Option<Way> {
        self.costs.is_less(Way::Direct, |cost| cost.time).then_some(Way::Direct)
    }

    fn past_the_cache_at_leisure(&mut self) -> Option<Way> {
        if self.disks.are_quiet() {
            return Some(Way::Direct);
        }
        let spares = self.costs.is_less(Way::Sparing, |cost| cost.processor)
            && self.rate.is_little(self.costs.of(Way::Sparing).map(|cost| cost.time));
        spares.then_some(Way::Sparing)
    }

    /// So many bytes took so much.
    pub fn took(&mut self, way: Way, bytes: usize, cost: Cost) {
        self.costs.note(way, bytes, cost);
    }
}

/// What it took to write something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// How long it took.
    pub time: Duration,
    /// How much of a processor.
    pub processor: Duration,
}

impl Cost {
    /// What it took the calling thread.
    pub fn of<T>(work: impl FnOnce() -> T) -> (T, Cost) {
        let (began, before) = (Instant::now(), thread_time());
        let done = work();
        (done, Cost { time: began.elapsed(), processor: thread_time() - before })
    }

    fn scaled(self, by: f64) -> Cost {
        Cost { time: self.time.mul_f64(by), processor: self.processor.mul_f64(by) }
    }

    fn with(self, other: Cost) -> Cost {
        Cost { time: self.time + other.time, processor: self.processor + other.processor }
    }
}

/// What a segment costs, in each way.
#[derive(Default)]
struct Costs {
    by_way: [Mean; 3],
}

#[derive(Default, Clone, Copy)]
struct Mean {
    /// `None`: it is not known.
    cost: Option<Cost>,
    /// How many others were noted since.
    age: u32,
}

impl Costs {
    /// What is noted counts for so much of all.
    const WEIGHT: f64 = 1.0 / 8.0;
    /// After so many of other ways nothing is known of one any more.
    const MOST_IN_A_ROW: u32 = 256;
    /// What is shorter says little of how long a whole segment takes.
    const LEAST: usize = SEGMENT_BYTES / 4;

    fn note(&mut self, way: Way, bytes: usize, cost: Cost) {
        if bytes < Self::LEAST {
            return;
        }
        let segment = cost.scaled(SEGMENT_BYTES as f64 / bytes as f64);
        for mean in &mut self.by_way {
            mean.age += 1;
            mean.cost = mean.cost.filter(|_| mean.age <= Self::MOST_IN_A_ROW);
        }
        let known = &mut self.by_way[way as usize];
        let mean = |before: Cost| before.scaled(1.0 - Self::WEIGHT).with(segment.scaled(Self::WEIGHT));
        *known = Mean { cost: Some(known.cost.map_or(segment, mean)), age: 0 };
    }

    /// A segment that way; `None`: it is not known.
    fn of(&self, way: Way) -> Option<Cost> {
        self.by_way[way as usize].cost
    }

    /// Whether a way takes less than the page cache does. Of what is not known is found out.
    fn is_less(&self, way: Way, of: impl Fn(Cost) -> Duration) -> bool {
        self.of(Way::Cached).is_some_and(|cached| self.of(way).is_none_or(|other| of(other) < of(cached)))
    }
}

/// How much is written, of late.
struct Rate {
    since: Instant,
    /// Since then.
    bytes: u64,
    /// In as long a time before.
    before: u64,
}

impl Rate {
    const WINDOW: Duration = Duration::from_millis(100);
    /// Of the time of a disk that others wait for, one part of so many is little.
    const PARTS: u32 = 2;

    fn new() -> Rate {
        Rate { since: Instant::now(), bytes: 0, before: 0 }
    }

    fn note(&mut self, bytes: u64) {
        let passed = self.since.elapsed();
        if passed >= Self::WINDOW {
            self.before = (self.bytes as f64 * Self::WINDOW.div_duration_f64(passed)) as u64;
            (self.since, self.bytes) = (Instant::now(), 0);
        }
        self.bytes += bytes;
    }

    /// Whether it would take little of the disk's time, if a segment takes so much.
    fn is_little(&self, segment: Option<Duration>) -> bool {
        let segments = self.before.max(self.bytes) as f64 / SEGMENT_BYTES as f64;
        segment.is_none_or(|segment| segment.mul_f64(segments) <= Self::WINDOW / Self::PARTS)
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

    fn ways(disks: Disks) -> Ways {
        let room = Room { left_bytes: 1 << 40, limited: false, refused_bytes: 0 };
        Ways { room, costs: Costs::default(), disks, rate: Rate::new() }
    }

    /// A segment took so long, and so much of a processor.
    fn took(ways: &mut Ways, way: Way, time: Duration, processor: Duration) {
        ways.took(way, SEGMENT_BYTES, Cost { time, processor });
    }

    #[test]
    fn who_hurries_goes_the_way_that_was_quicker_of_late() {
        let mut ways = ways(Disks::new());
        let chosen = |ways: &mut Ways| ways.choose(1, true).way;
        assert_eq!(chosen(&mut ways), Way::Cached, "nothing is known");
        took(&mut ways, Way::Cached, LONG, SHORT);
        assert_eq!(chosen(&mut ways), Way::Direct, "to find out");
        took(&mut ways, Way::Direct, SHORT, LONG);
        assert_eq!(chosen(&mut ways), Way::Direct);
        for _ in 0..100 {
            took(&mut ways, Way::Direct, 2 * LONG, SHORT);
        }
        assert_eq!(chosen(&mut ways), Way::Cached);
        for _ in 0..=Costs::MOST_IN_A_ROW {
            took(&mut ways, Way::Cached, LONG, SHORT);
        }
        assert_eq!(chosen(&mut ways), Way::Direct, "that was long ago");
    }

    #[test]
    fn who_has_time_goes_the_way_that_takes_less_of_a_processor() {
        let mut ways = ways(Disks::new());
        let chosen = |ways: &mut Ways| ways.choose(1, false).way;
        assert_eq!(chosen(&mut ways), Way::Cached, "nothing is known");
        took(&mut ways, Way::Cached, SHORT, LONG);
        assert_eq!(chosen(&mut ways), Way::Sparing, "to find out");
        took(&mut ways, Way::Sparing, LONG, SHORT);
        assert_eq!(chosen(&mut ways), Way::Sparing);
        ways.took(Way::Sparing, 4096, Cost { time: LONG, processor: LONG });
        assert_eq!(chosen(&mut ways), Way::Sparing, "so little says nothing");
        for _ in 0..100 {
            took(&mut ways, Way::Sparing, LONG, 2 * LONG);
        }
        assert_eq!(chosen(&mut ways), Way::Cached);
    }

    #[test]
    fn who_writes_much_leaves_the_disk_to_others() {
        let mut ways = ways(Disks::new());
        took(&mut ways, Way::Cached, LONG, LONG);
        took(&mut ways, Way::Sparing, LONG, SHORT);
        let little = 49 * SEGMENT_BYTES as u64;
        assert_eq!(ways.choose(little, false).way, Way::Sparing);
        assert_eq!(ways.choose(little, false).way, Way::Cached, "in the same tenth of a second");
        ways.rate.since -= Rate::WINDOW;
        assert_eq!(ways.choose(1, false).way, Way::Cached, "in the one before");
        ways.rate.since -= Rate::WINDOW;
        assert_eq!(ways.choose(1, false).way, Way::Sparing);
    }

    #[test]
    fn where_nobody_waits_for_a_disk_no_copy_is_made() {
        let mut ways = ways(Disks::quiet());
        assert_eq!((ways.choose(1, false).way, ways.choose(1, true).way), (Way::Direct, Way::Cached));
        let mut ways = Ways { disks: Disks::new(), ..ways };
        assert_eq!(ways.choose(1, false).way, Way::Cached);
    }

    #[test]
    fn a_little_at_a_time_unless_the_program_waits_or_nobody_else_does() {
        let piece = |way, hurry| Course::new(way, hurry).piece;
        assert_eq!([piece(Way::Cached, false), piece(Way::Sparing, false)], [CACHED_PIECE, SPARING_PIECE]);
        assert_eq!([piece(Way::Cached, true), piece(Way::Direct, true), piece(Way::Direct, false)], [SEGMENT_BYTES; 3]);
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
