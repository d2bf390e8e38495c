//! What the processors have done since the machine began.
//!
//! Goals: one reading for each sample. Non-goals: single processors.

use super::source::Source;

/// Unit of `/proc/stat`: the kernel shows a hundredth of a second to programs on every x86-64 machine.
const TICK_NS: u64 = 10_000_000;

/// What all of them did, together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Times {
    pub user_ns: u64,
    pub system_ns: u64,
    pub idle_ns: u64,
    /// Idle, while somebody waited for a disk.
    pub iowait_ns: u64,
    /// Taken by the host.
    pub steal_ns: u64,
}

impl Times {
    /// Of the first line: `cpu user nice system idle iowait irq softirq steal …`.
    pub fn parse(text: &str) -> Option<Times> {
        let words = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let ns = |i: usize| ticks.get(i).copied().unwrap_or(0).saturating_mul(TICK_NS);
        ticks.get(4)?;
        Some(Times {
            user_ns: ns(0) + ns(1),
            system_ns: ns(2) + ns(5) + ns(6),
            idle_ns: ns(3),
            iowait_ns: ns(4),
            steal_ns: ns(7),
        })
    }
}

/// Where the kernel tells it.
pub(super) struct Processors(Source);

impl Processors {
    /// Nothing is known yet.
    pub fn open() -> Processors {
        Processors(Source::open("/proc/stat"))
    }

    /// By now; `None`: the kernel does not tell.
    pub fn times(&mut self) -> Option<Times> {
        Times::parse(self.0.beginning())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_read() {
        let found = Times::parse("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 1 1\n").unwrap();
        let seen = [found.user_ns, found.system_ns, found.idle_ns, found.iowait_ns, found.steal_ns];
        assert_eq!(seen.map(|ns| ns / TICK_NS), [3, 16, 4, 5, 8]);
        assert_eq!([Times::parse(""), Times::parse("cpu 1 2 3"), Times::parse("intr 1")], [None; 3]);
        assert!(Processors::open().times().is_some());
    }
}
