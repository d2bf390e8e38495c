//! The counter that calls are timed by, and its instants on the clock of a trace.
//!
//! Goals: the same counter as a replay's log is kept in (the time-stamp counter where the kernel trusts it), so that both
//! pay the same for reading it. It is read in the midst of the loop, by no function: a processor that has forgotten in the kernel
//! where functions return to would make each call 10 ns longer by it. Non-goals: the time of day while the calls are made.
#![allow(unsafe_code)]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Between two readings of both clocks; with less the rate would not be exact.
const LEAST_BASELINE: Duration = Duration::from_millis(20);
/// How often both clocks are read together; the closest pair counts.
const TRIES: usize = 16;

/// The counter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counter {
    /// The time-stamp counter is the kernel's clock: it is read; else the kernel is asked, for nanoseconds.
    tsc: bool,
    /// Where those begin.
    begin: Instant,
}

/// One instant on the counter and on the kernel's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    ticks: u64,
    kernel: Instant,
}

impl Counter {
    pub fn new() -> Counter {
        let tsc = cfg!(target_arch = "x86_64")
            && std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
                .is_ok_and(|name| name.trim() == "tsc");
        Counter { tsc, begin: Instant::now() }
    }

    /// The present reading.
    #[inline(always)]
    pub fn ticks(&self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if self.tsc {
            // SAFETY: reads a counter that every x86-64 processor has.
            return unsafe { std::arch::x86_64::_rdtsc() };
        }
        self.begin.elapsed().as_nanos() as u64
    }

    /// Ticks of a nanosecond.
    pub fn rate(&self) -> f64 {
        1.0 / Scale::since(self.pair(), self).ns_by_tick
    }

    /// Both clocks now.
    pub fn pair(&self) -> Pair {
        let read = || {
            let before = self.ticks();
            let kernel = Instant::now();
            let width = self.ticks().saturating_sub(before);
            (width, Pair { ticks: before + width / 2, kernel })
        };
        (0..TRIES).map(|_| read()).min_by_key(|(width, _)| *width).unwrap_or_else(read).1
    }
}

/// Turns readings into times since the begin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    from: Pair,
    ns_by_tick: f64,
}

impl Scale {
    /// From a pair that was read before the first reading to be turned; the other is read now.
    pub fn since(from: Pair, counter: &Counter) -> Scale {
        let left = LEAST_BASELINE.saturating_sub(from.kernel.elapsed());
        std::thread::sleep(left);
        let to = counter.pair();
        let ns = to.kernel.duration_since(from.kernel).as_nanos() as f64;
        Scale { from, ns_by_tick: ns / to.ticks.saturating_sub(from.ticks).max(1) as f64 }
    }

    /// Nanoseconds since the first pair.
    pub fn ns(&self, ticks: u64) -> u64 {
        (ticks.saturating_sub(self.from.ticks) as f64 * self.ns_by_tick).round() as u64
    }

    /// The first pair on the clock of the day.
    pub fn began_ns(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (now.as_nanos() as u64).saturating_sub(self.from.kernel.elapsed().as_nanos() as u64)
    }
}

/// What the counter can tell: the least difference of two readings that differ, and what a reading takes, in nanoseconds.
pub fn clock_quality() -> (f64, f64) {
    const READINGS: usize = 20_000;
    let counter = Counter::new();
    let from = counter.pair();
    let readings: Vec<u64> = (0..READINGS).map(|_| counter.ticks()).collect();
    let scale = Scale::since(from, &counter);
    // The median: a thread that loses its processor between two readings says nothing of the counter.
    let mut steps: Vec<u64> = readings.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    steps.sort_unstable();
    let read = steps[steps.len() / 2] as f64 * scale.ns_by_tick;
    // All readings are multiples of the counter's step, however many ticks that is.
    let gcd = |a: u64, b: u64| {
        let (mut a, mut b) = (a, b);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let step = steps.iter().copied().reduce(gcd).unwrap_or(1).max(1);
    (step as f64 * scale.ns_by_tick, read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_no_longer_than_what_readings_differ_by() {
        let (step_ns, read_ns) = clock_quality();
        assert!(step_ns > 0.0 && step_ns <= read_ns.max(step_ns) && read_ns < 1e5, "{step_ns} {read_ns}");
        let counter = Counter::new();
        let from = counter.pair();
        let (a, b) = (counter.ticks(), {
            std::thread::sleep(Duration::from_millis(2));
            counter.ticks()
        });
        let scale = Scale::since(from, &counter);
        let steps = (b - a) as f64 * scale.ns_by_tick / step_ns;
        assert!((steps - steps.round()).abs() < 0.01 * steps, "{steps} steps");
    }

    #[test]
    fn times_are_those_of_the_kernels_clock() {
        let counter = Counter::new();
        let from = counter.pair();
        let (begin, ticks) = (Instant::now(), counter.ticks());
        std::thread::sleep(Duration::from_millis(50));
        let later = counter.ticks();
        let took = begin.elapsed().as_nanos() as f64;
        let scale = Scale::since(from, &counter);
        let found = (scale.ns(later) - scale.ns(ticks)) as f64;
        // Another program may have the processor between the readings: far less than a part in ten of 50 ms as a rule.
        assert!((found / took - 1.0).abs() < 0.1, "{found} {took}");
        let about = counter.rate() * found / (later - ticks) as f64;
        assert!((about - 1.0).abs() < 0.01, "{about}");
    }
}
