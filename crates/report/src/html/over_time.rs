//! What happened when: calls, bytes and response times in slices of time whose width doubles as time goes on.

use serde::Serialize;

/// Most slices.
const MOST: usize = 480;
/// Width of a slice to begin with: 2^10 ns.
const FIRST_SHIFT: u32 = 10;
/// Classes of response times: powers of two of nanoseconds.
const CLASSES: usize = 44;

#[derive(Debug, Clone)]
struct Slice {
    calls: u64,
    read_bytes: u64,
    written_bytes: u64,
    times: [u32; CLASSES],
}

/// Gathers.
#[derive(Debug, Clone)]
pub struct OverTime {
    shift: u32,
    slices: Vec<Slice>,
}

/// One action for it.
#[derive(Debug, Clone, Copy)]
pub struct Happened {
    pub at_ns: u64,
    pub duration_ns: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// The course, a number a slice.
#[derive(Debug, Clone, Serialize)]
pub struct Course {
    /// Width of a slice.
    slice_ns: u64,
    calls: Vec<u64>,
    read_bytes: Vec<u64>,
    written_bytes: Vec<u64>,
    /// For each slice that is not empty: its number, a class of response times (power of two), and how many.
    heat: Vec<(u32, u8, u32)>,
}

const EMPTY: Slice = Slice { calls: 0, read_bytes: 0, written_bytes: 0, times: [0; CLASSES] };

impl Default for OverTime {
    fn default() -> Self {
        OverTime { shift: FIRST_SHIFT, slices: Vec::new() }
    }
}

impl OverTime {
    /// Takes an action in.
    pub fn add(&mut self, happened: Happened) {
        while (happened.at_ns >> self.shift) as usize >= MOST {
            self.double();
        }
        let place = (happened.at_ns >> self.shift) as usize;
        if self.slices.len() <= place {
            self.slices.resize(place + 1, EMPTY);
        }
        let slice = &mut self.slices[place];
        slice.calls += 1;
        slice.read_bytes = slice.read_bytes.saturating_add(happened.read_bytes);
        slice.written_bytes = slice.written_bytes.saturating_add(happened.written_bytes);
        let class = happened.duration_ns.checked_ilog2().unwrap_or(0) as usize;
        slice.times[class.min(CLASSES - 1)] += 1;
    }

    fn double(&mut self) {
        let pairs = self.slices.chunks(2).map(|pair| {
            let mut sum = pair[0].clone();
            if let Some(second) = pair.get(1) {
                sum.calls += second.calls;
                sum.read_bytes = sum.read_bytes.saturating_add(second.read_bytes);
                sum.written_bytes = sum.written_bytes.saturating_add(second.written_bytes);
                sum.times.iter_mut().zip(second.times).for_each(|(a, b)| *a = a.saturating_add(b));
            }
            sum
        });
        self.slices = pairs.collect();
        self.shift += 1;
    }

    /// The course so far.
    pub fn course(&self) -> Course {
        let heat = self.slices.iter().enumerate().flat_map(|(i, slice)| {
            let filled = slice.times.iter().enumerate().filter(|(_, n)| **n > 0);
            filled.map(move |(class, n)| (i as u32, class as u8, *n))
        });
        Course {
            slice_ns: 1 << self.shift,
            calls: self.slices.iter().map(|s| s.calls).collect(),
            read_bytes: self.slices.iter().map(|s| s.read_bytes).collect(),
            written_bytes: self.slices.iter().map(|s| s.written_bytes).collect(),
            heat: heat.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_stay_when_slices_double() {
        let mut all = OverTime::default();
        for i in 0..5_000u64 {
            all.add(Happened { at_ns: i * 977, duration_ns: i, read_bytes: 3, written_bytes: i % 2 });
        }
        let course = all.course();
        assert!(course.calls.len() <= MOST && course.slice_ns > 1 << FIRST_SHIFT);
        assert_eq!(course.calls.iter().sum::<u64>(), 5_000);
        assert_eq!(course.read_bytes.iter().sum::<u64>(), 15_000);
        assert_eq!(course.written_bytes.iter().sum::<u64>(), 2_500);
        assert_eq!(course.heat.iter().map(|(_, _, n)| u64::from(*n)).sum::<u64>(), 5_000);
        let first = (0..5_000u64).filter(|i| i * 977 < course.slice_ns).count() as u64;
        assert_eq!(course.calls[0], first);
    }
}
