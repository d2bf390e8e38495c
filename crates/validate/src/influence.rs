//! Where an uncertainty comes from: origins whose size was measured, and the rest.
//!
//! The uncertainty itself is found from above, from results and references, which have all influences in them. Each influence is
//! found from below, from what runs and machine tell of it (formulas in docs/METROLOGY.md). Goals: what is missed is seen to its
//! cause; what was not measured is unknown, not zero. Non-goals: changing u_c.

use reprise_measure::metrology::trend;
use serde::{Deserialize, Serialize};

use crate::finding::{ClockQuality, RunRecord};

/// Where uncertainty comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The counter moves in steps.
    Clock,
    /// Who takes the times reads the clock, and part of that is in each of them.
    Recorder,
    /// How the instrument issues calls: the ordinary call takes longer or shorter than the program's.
    Engine,
    /// Calls during which a thread lost its processor.
    Scheduler,
    /// More or fewer calls found in the caches what they asked for.
    CacheState,
    /// How single response times of device and file system scatter.
    Device,
    /// What none of these explains.
    Rest,
}

/// One origin's part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Influence {
    /// Which.
    pub origin: Origin,
    /// Its standard uncertainty, relative to the reference; `None` where it could not be measured.
    pub u: Option<f64>,
    /// Its square by u_c²; all together may be more than 1, as some are upper limits.
    pub share: Option<f64>,
}

/// A block's run of the reference, and its run of the instrument.
pub(crate) type Records<'a> = (&'a RunRecord, &'a RunRecord);

/// All influences on the mean of a call, of which number `call` is, the greatest first and the unknown last.
pub(crate) fn influences(pairs: &[Records<'_>], call: usize, clock: &ClockQuality, u_c: f64) -> Vec<Influence> {
    let mean = |of: &dyn Fn(&Records<'_>) -> f64| pairs.iter().map(of).sum::<f64>() / pairs.len() as f64;
    let reference = mean(&|pair| pair.0.mean_ns[call]);
    let rms = |of: &dyn Fn(&Records<'_>) -> Option<f64>| -> Option<f64> {
        let all: Option<Vec<f64>> = pairs.iter().map(of).collect();
        Some((all?.iter().map(|v| v.powi(2)).sum::<f64>() / pairs.len() as f64).sqrt() / reference)
    };
    let of_mean = |run: &RunRecord| run.sd_ns[call].powi(2) / run.count[call] as f64;
    let step = rms(&|pair| Some(clock.step_ns / 6f64.sqrt() / (pair.1.count[call] as f64).sqrt()));
    let shift = mean(&|pair| pair.1.median_ns[call]) - mean(&|pair| pair.0.median_ns[call]);
    let found = [
        (Origin::Clock, step),
        (Origin::Recorder, Some(clock.read_ns / 12f64.sqrt() / reference)),
        (Origin::Engine, Some(shift.abs() / reference)),
        (Origin::Scheduler, rms(&|pair| Some(pair.1.preempted_ns[call]? - pair.0.preempted_ns[call]?))),
        (
            Origin::CacheState,
            misses(pairs, call).and_then(|by_pair| {
                let square = by_pair.iter().map(|v| v.powi(2)).sum::<f64>() / by_pair.len() as f64;
                Some(square.sqrt() / reference).filter(|u| u.is_finite())
            }),
        ),
        (Origin::Device, rms(&|pair| Some((of_mean(pair.0) + of_mean(pair.1)).sqrt()))),
    ];
    let explained: f64 = found.iter().filter_map(|(_, u)| u.map(|u| u.powi(2))).sum();
    let rest = (Origin::Rest, Some((u_c.powi(2) - explained).max(0.0).sqrt()));
    let influence = |(origin, u): (Origin, Option<f64>)| {
        let share = u.filter(|_| u_c > 0.0).map(|u| (u / u_c).powi(2));
        Influence { origin, u, share }
    };
    let mut out: Vec<Influence> = found.into_iter().chain([rest]).map(influence).collect();
    out.sort_by(|a, b| b.u.unwrap_or(-1.0).total_cmp(&a.u.unwrap_or(-1.0)));
    out
}

/// What the difference in bytes from the device came to in each block, in nanoseconds a call: by what a byte costs, which is the
/// slope of the means of all runs over it. Nothing where no such slope is seen.
fn misses(pairs: &[Records<'_>], call: usize) -> Option<Vec<f64>> {
    let bytes = |run: &RunRecord| run.device_bytes_by_call;
    let runs = pairs.iter().flat_map(|pair| [pair.0, pair.1]);
    let points: Option<Vec<(f64, f64)>> = runs.map(|run| Some((bytes(run)?, run.mean_ns[call]))).collect();
    let cost = trend(&points?).filter(|line| line.is_significant && line.slope > 0.0).map_or(0.0, |line| line.slope);
    pairs.iter().map(|pair| Some(cost * (bytes(pair.1)? - bytes(pair.0)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::Conditions;
    use crate::finding::Source;

    const CLOCK: ClockQuality = ClockQuality { step_ns: 10.0, read_ns: 20.0 };

    fn run(mean_ns: f64, median_ns: f64, preempted_ns: Option<f64>, device_bytes: Option<f64>) -> RunRecord {
        RunRecord {
            source: Source::Reference,
            block: 0,
            place: 0,
            mean_ns: vec![mean_ns],
            median_ns: vec![median_ns],
            sd_ns: vec![100.0],
            count: vec![10_000],
            preempted_ns: vec![preempted_ns],
            device_bytes_by_call: device_bytes,
            rate: None,
            conditions: Conditions::default(),
            disturbances: Vec::new(),
            unknown: Vec::new(),
            is_as_traced: true,
            changed_rules: Vec::new(),
        }
    }

    fn of(pairs: &[(RunRecord, RunRecord)], u_c: f64) -> impl Fn(Origin) -> Option<f64> + use<> {
        let pairs: Vec<Records> = pairs.iter().map(|(a, b)| (a, b)).collect();
        let found = influences(&pairs, 0, &CLOCK, u_c);
        move |origin| found.iter().find(|influence| influence.origin == origin).unwrap().u
    }

    fn near(found: Option<f64>, expected: f64) {
        let found = found.unwrap();
        assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
    }

    #[test]
    fn each_origin_is_found_by_its_formula() {
        // References of 1000 ns; replays whose ordinary call takes 30 ns longer, and that lost 40 ns a call to others.
        let pair = |_| (run(1000.0, 900.0, Some(0.0), Some(0.0)), run(1070.0, 930.0, Some(40.0), Some(0.0)));
        let u = of(&(0..5).map(pair).collect::<Vec<_>>(), 0.1);
        near(u(Origin::Clock), 10.0 / 6f64.sqrt() / 100.0 / 1000.0);
        near(u(Origin::Recorder), 20.0 / 12f64.sqrt() / 1000.0);
        near(u(Origin::Engine), 0.03);
        near(u(Origin::Scheduler), 0.04);
        near(u(Origin::CacheState), 0.0);
        near(u(Origin::Device), 2f64.sqrt() * 1.0 / 1000.0);
        let explained: f64 = [Origin::Clock, Origin::Recorder, Origin::Engine, Origin::Scheduler, Origin::Device]
            .iter()
            .map(|origin| u(*origin).unwrap().powi(2))
            .sum();
        near(u(Origin::Rest), (0.01 - explained).sqrt());
    }

    #[test]
    fn misses_count_by_what_they_cost_in_these_runs() {
        // Half a nanosecond a byte; replays have 100 bytes a call more from the device.
        let one = |bytes: f64| run(1000.0 + 0.5 * bytes, 900.0, None, Some(bytes));
        let pairs: Vec<_> = [0.0, 10.0, 20.0, 30.0].map(|b| (one(b), one(b + 100.0))).into();
        let u = of(&pairs, 0.1);
        let reference = 1000.0 + 0.5 * 15.0;
        near(u(Origin::CacheState), 50.0 / reference);
        assert_eq!(u(Origin::Scheduler), None, "a log that does not tell");
        let silent: Vec<_> = (0..4).map(|_| (one(0.0), run(1.0, 1.0, None, None))).collect();
        assert_eq!(of(&silent, 0.1)(Origin::CacheState), None);
    }
}
