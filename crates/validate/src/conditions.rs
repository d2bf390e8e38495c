//! What else happened on the machine during a run.
//!
//! Goals: disturbances told by what others did, not by what the run itself does (which may well keep processors busy and
//! storage waiting); each with its measure and the limit that it is beyond, which follows from how the machine is without any
//! run. Non-goals: leaving runs out.

use serde::{Deserialize, Serialize};

use crate::totals::Totals;

/// Bytes that were written for each byte of the run, at most: what is beyond a journal and metadata is others'.
const WRITTEN_BY_OWN: f64 = 2.0;
/// Standard deviations above the base level that are no chance.
const BEYOND: f64 = 3.0;

/// A measure of disturbance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Processor time that other programs took, by that of the machine.
    OtherPrograms,
    /// Processor time that the host gave to others, likewise.
    Steal,
    /// Share of the time in which some thread waited for memory (PSI).
    MemoryPressure,
    /// Bytes a second that others had read from the device.
    OtherReads,
    /// Bytes a second that others had written to it.
    OtherWrites,
    /// Events a second in which a processor was slowed down because it was too hot.
    Throttling,
}

impl Measure {
    /// All of them.
    pub const ALL: [Measure; 6] = [
        Measure::OtherPrograms,
        Measure::Steal,
        Measure::MemoryPressure,
        Measure::OtherReads,
        Measure::OtherWrites,
        Measure::Throttling,
    ];

    /// What does not matter even on a machine that has none of it.
    fn least_limit(self) -> f64 {
        match self {
            Measure::OtherPrograms => 0.05,
            Measure::Steal | Measure::MemoryPressure => 0.01,
            Measure::OtherReads | Measure::OtherWrites => 1e6,
            Measure::Throttling => 0.0,
        }
    }

    /// Whether it is a part of a whole.
    fn is_share(self) -> bool {
        matches!(self, Measure::OtherPrograms | Measure::Steal | Measure::MemoryPressure)
    }

    /// Processor time, in ticks, in which one of its ticks is no more than what does not matter: with less, its share says nothing.
    pub(crate) fn least_ticks(self) -> f64 {
        1.0 / self.least_limit()
    }
}

/// What happened during a run; `None` is what the machine does not tell, or of a run too short to tell.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Conditions {
    /// How long it was watched, in nanoseconds.
    pub elapsed_ns: u64,
    /// Processor time that other programs took, by that of the machine; the kernel's own threads count as nobody's.
    pub others_share: Option<f64>,
    /// Processor time that the host gave to others.
    pub steal_share: Option<f64>,
    /// Context switches of the machine.
    pub context_switches: u64,
    /// Time in which some thread waited for storage, the run's own included (PSI).
    pub io_some_ns: u64,
    /// Time in which some thread waited for memory, likewise.
    pub memory_some_ns: u64,
    /// Time in which some thread waited for a processor, likewise.
    pub cpu_some_ns: u64,
    /// Bytes that others had read from the device of the files.
    pub other_read_bytes: Option<u64>,
    /// Bytes that were written to it beyond what the run can have caused.
    pub other_written_bytes: Option<u64>,
    /// How often processors were slowed down because they were too hot.
    pub throttled: Option<u64>,
}

impl Conditions {
    /// What happened between two looks.
    pub(crate) fn between(before: &Totals, after: &Totals) -> Conditions {
        let ticks = after.all - before.all;
        let share = |measure: Measure, of: f64| (ticks >= measure.least_ticks()).then(|| (of / ticks).clamp(0.0, 1.0));
        let count = |of: fn(&Totals) -> f64| (of(after) - of(before)).max(0.0);
        let bytes = |of: fn(&Totals) -> Option<f64>, own: f64| {
            let moved = of(after)? - of(before)?;
            Some((moved - own).max(0.0) as u64)
        };
        Conditions {
            elapsed_ns: after.at.duration_since(before.at).as_nanos() as u64,
            others_share: share(Measure::OtherPrograms, after.programs_since(before) - count(|t| t.own)),
            steal_share: share(Measure::Steal, count(|t| t.steal)),
            context_switches: count(|t| t.switches) as u64,
            io_some_ns: count(|t| t.io_some_ns) as u64,
            memory_some_ns: count(|t| t.memory_some_ns) as u64,
            cpu_some_ns: count(|t| t.cpu_some_ns) as u64,
            other_read_bytes: bytes(|t| t.device_read, count(|t| t.own_read)),
            other_written_bytes: bytes(|t| t.device_written, WRITTEN_BY_OWN * count(|t| t.own_written)),
            throttled: after.throttled.zip(before.throttled).map(|(a, b)| a.saturating_sub(b)),
        }
    }

    /// A measure's value.
    pub fn value(&self, measure: Measure) -> Option<f64> {
        let seconds = Some(self.elapsed_ns as f64 / 1e9).filter(|seconds| *seconds > 0.0);
        let rate = |count: u64| Some(count as f64 / seconds?);
        match measure {
            Measure::OtherPrograms => self.others_share,
            Measure::Steal => self.steal_share,
            Measure::MemoryPressure => rate(self.memory_some_ns).map(|ns| ns / 1e9),
            Measure::OtherReads => rate(self.other_read_bytes?),
            Measure::OtherWrites => rate(self.other_written_bytes?),
            Measure::Throttling => rate(self.throttled?),
        }
    }
}

/// Beyond which value of a measure a run counts as disturbed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Of what.
    pub measure: Measure,
    /// Mean without any run.
    pub base: f64,
    /// Its standard deviation.
    pub base_sd: f64,
    /// Three of these above the mean, but never less than what does not matter.
    pub limit: f64,
}

impl Limit {
    /// Whether any run could be beyond it: no share is more than all.
    pub fn can_be_judged(&self) -> bool {
        !self.measure.is_share() || self.limit < 1.0
    }
}

/// The limits of all measures that the machine tells.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Limits(pub Vec<Limit>);

impl Limits {
    /// From how the machine was in some intervals without a run.
    pub(crate) fn of(base: &[Conditions]) -> Limits {
        let limit = |measure: Measure| {
            let values: Vec<f64> = base.iter().filter_map(|interval| interval.value(measure)).collect();
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let sd = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0)).sqrt();
            let limit = (mean + BEYOND * sd).max(measure.least_limit());
            (n > 0.0).then_some(Limit { measure, base: mean, base_sd: sd, limit })
        };
        Limits(Measure::ALL.into_iter().filter_map(limit).collect())
    }

    /// Without those of a measure that runs themselves are beyond.
    pub(crate) fn without(&self, measure: Measure) -> Limits {
        Limits(self.0.iter().filter(|limit| limit.measure != measure).copied().collect())
    }

    /// What cannot be said of a run: it was too short, or the machine's own level leaves no room above it.
    pub fn unknown(&self, conditions: &Conditions) -> Vec<Measure> {
        let is_unknown = |limit: &&Limit| !limit.can_be_judged() || conditions.value(limit.measure).is_none();
        self.0.iter().filter(is_unknown).map(|limit| limit.measure).collect()
    }

    /// Why a run counts as disturbed; empty if it does not.
    pub fn judge(&self, conditions: &Conditions) -> Vec<Disturbance> {
        let beyond = |limit: &Limit| {
            let value =
                conditions.value(limit.measure).filter(|value| limit.can_be_judged() && *value > limit.limit)?;
            Some(Disturbance { measure: limit.measure, value, limit: limit.limit })
        };
        self.0.iter().filter_map(beyond).collect()
    }
}

/// Why a run counts as disturbed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// By what.
    pub measure: Measure,
    /// How much of it there was.
    pub value: f64,
    /// How much makes no difference.
    pub limit: f64,
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn totals(at: Instant, programs: f64, own: f64, all: f64) -> Totals {
        Totals { processes: programs, own, all, ..Totals::at(at) }
    }

    fn words(limits: &Limits, conditions: &Conditions) -> Vec<Measure> {
        limits.judge(conditions).into_iter().map(|disturbance| disturbance.measure).collect()
    }

    fn quiet() -> Limits {
        let none = Conditions { others_share: Some(0.0), steal_share: Some(0.0), ..Conditions::default() };
        let told = Conditions { other_read_bytes: Some(0), other_written_bytes: Some(0), throttled: Some(0), ..none };
        Limits::of(&[Conditions { elapsed_ns: 1_000_000_000, ..told }; 5])
    }

    #[test]
    fn own_work_is_no_disturbance_and_that_of_others_is() {
        let begin = Instant::now();
        let end = begin + Duration::from_secs(1);
        let before = totals(begin, 1000.0, 500.0, 9000.0);
        let alone = Conditions::between(&before, &totals(end, 1100.0, 600.0, 9200.0));
        assert_eq!((alone.others_share, words(&quiet(), &alone)), (Some(0.0), vec![]));
        let disturbed = Conditions::between(&before, &totals(end, 1120.0, 600.0, 9200.0));
        assert_eq!(words(&quiet(), &disturbed), [Measure::OtherPrograms]);
        // In 190 ms of processor time one tick is more than the limit: nothing is known, which is not the same as calm.
        let short = Conditions::between(&before, &totals(end, 1000.0, 500.0, 9019.0));
        assert_eq!((short.others_share, words(&quiet(), &short)), (None, vec![]));
        assert_eq!(quiet().unknown(&short)[..2], [Measure::OtherPrograms, Measure::Steal]);
        // In 200 ms the time of programs can be told, and what the host kept cannot.
        assert_eq!(Conditions::between(&before, &totals(end, 1000.0, 500.0, 9020.0)).others_share, Some(0.0));
        let stolen = Totals { steal: 10.0, ..totals(end, 1100.0, 600.0, 9200.0) };
        assert_eq!(words(&quiet(), &Conditions::between(&before, &stolen)), [Measure::Steal]);
    }

    #[test]
    fn what_the_run_moves_itself_is_no_disturbance() {
        let begin = Instant::now();
        let moved = |read: f64, own_read: f64, written: f64, own_written: f64| {
            let end = totals(begin + Duration::from_secs(1), 0.0, 0.0, 200.0);
            let before = Totals { device_read: Some(0.0), device_written: Some(0.0), ..totals(begin, 0.0, 0.0, 0.0) };
            let (device_read, device_written) = (Some(read), Some(written));
            let conditions =
                Conditions::between(&before, &Totals { device_read, own_read, device_written, own_written, ..end });
            words(&quiet(), &conditions)
        };
        assert_eq!(moved(50e6, 50e6, 80e6, 50e6), []);
        assert_eq!(moved(60e6, 50e6, 80e6, 50e6), [Measure::OtherReads]);
        assert_eq!(moved(50e6, 50e6, 180e6, 50e6), [Measure::OtherWrites]);
    }

    #[test]
    fn limits_follow_from_how_the_machine_is_without_a_run() {
        let interval = |share: f64| Conditions { others_share: Some(share), elapsed_ns: 1, ..Conditions::default() };
        let limits = Limits::of(&[0.2, 0.3, 0.4].map(interval));
        let programs = limits.0.iter().find(|limit| limit.measure == Measure::OtherPrograms).unwrap();
        assert!((programs.limit - 0.6).abs() < 1e-12, "{programs:?}");
        assert_eq!(words(&limits, &interval(0.59)), []);
        assert_eq!(words(&limits, &interval(0.61)), [Measure::OtherPrograms]);
        // What is not told has no limit; what is always there in some scenario is not judged.
        assert!(limits.0.iter().all(|limit| limit.measure != Measure::Throttling));
        assert_eq!(words(&limits.without(Measure::OtherPrograms), &interval(0.9)), []);
        // A limit that no share can reach marks nothing, and says so.
        let wild = Limits::of(&[0.1, 0.9, 0.1, 0.9].map(interval));
        let all = interval(1.0);
        assert_eq!((words(&wild, &all), wild.unknown(&all)), (vec![], vec![Measure::OtherPrograms]));
        let hot = Conditions { throttled: Some(1), elapsed_ns: 1_000_000_000, ..Conditions::default() };
        assert_eq!(words(&quiet(), &hot), [Measure::Throttling]);
    }
}
