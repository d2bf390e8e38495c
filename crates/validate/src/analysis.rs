//! From runs to findings.

use std::collections::BTreeMap;

use reprise_measure::metrology::{
    Bias, ControlChart, Distance, Outlier, Reordering, Summary, bias, cochran, control_chart, distance, equivalence,
    further_runs, grubbs, precision, reordering, trend, uncertainty,
};

use crate::caches::Caches;
use crate::conditions::{Conditions, Disturbance, Measure};
use crate::finding::{
    ClockQuality, Correction, Distances, Finding, Linearity, RunRecord, Source, Stability, Statistic,
};
use crate::influence::{Influence, Records, influences};
use crate::instrument::{Instrument, View};
use crate::micros::Micros;
use crate::observed::Observed;
use crate::setting::{Setting, SettingName};

/// Level of the F-test.
const ALPHA: f64 = 0.05;
/// The relative bias that would not matter.
const MARGIN: f64 = 0.05;
/// To which a mean is to be known, relative.
const WANTED: f64 = 0.01;
/// Slices of the time of a trace in which requests are counted.
const SLICES: f64 = 100.0;
/// Blocks that make a finding.
pub(crate) const LEAST_BLOCKS: usize = 3;

/// A run's result for a call.
fn result(statistic: Statistic, run: &RunRecord, call: usize) -> f64 {
    match statistic {
        Statistic::Mean => run.mean_ns[call],
        Statistic::Median => run.median_ns[call],
    }
}

/// What was around a run.
#[derive(Default)]
pub(crate) struct Around {
    pub conditions: Conditions,
    pub disturbances: Vec<Disturbance>,
    pub unknown: Vec<Measure>,
    pub changed_rules: Vec<String>,
}

/// A run, with all that was observed of it.
pub(crate) struct Run {
    pub record: RunRecord,
    pub observed: Observed,
}

impl Run {
    /// Sums a run up; `trace` is what it was to do.
    pub fn new(
        source: Source,
        (block, place): (usize, usize),
        calls: &[&str],
        (observed, trace): (Observed, &Observed),
        around: Around,
    ) -> Run {
        let times: Vec<Vec<f64>> = calls.iter().map(|call| observed.times_ns(call)).collect();
        let mean = |times: &Vec<f64>| times.iter().sum::<f64>() / times.len() as f64;
        let sd = |times: &Vec<f64>| Summary::of(times).map_or(0.0, |summary| summary.sd);
        let calls_made = observed.count().max(1) as f64;
        let record = RunRecord {
            source,
            block,
            place,
            mean_ns: times.iter().map(mean).collect(),
            sd_ns: times.iter().map(sd).collect(),
            count: times.iter().map(Vec::len).collect(),
            preempted_ns: calls.iter().map(|call| observed.preempted_ns(call)).collect(),
            device_bytes_by_call: observed.device_bytes.map(|bytes| bytes as f64 / calls_made),
            median_ns: times.into_iter().map(median).collect(),
            rate: observed.rate(),
            disturbances: around.disturbances,
            unknown: around.unknown,
            is_as_traced: calls.iter().all(|call| observed.counts(call) == trace.counts(call)),
            conditions: around.conditions,
            changed_rules: around.changed_rules,
        };
        Run { record, observed }
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    if times.is_empty() {
        return f64::NAN;
    }
    times.sort_unstable_by(f64::total_cmp);
    let middle = times.len() / 2;
    if times.len() % 2 == 1 { times[middle] } else { 0.5 * (times[middle - 1] + times[middle]) }
}

/// A block's run of the reference, and its run of an instrument.
type Pair<'a> = (&'a Run, &'a Run);

/// What all findings of a scenario share.
pub(crate) struct Subject<'a> {
    pub setting: &'a Setting,
    pub started_ns: u64,
    pub clock: &'a ClockQuality,
    /// What was replayed.
    pub trace: &'a Observed,
}

/// All findings of a scenario.
pub(crate) fn findings(subject: &Subject<'_>, instruments: &[Instrument], runs: &[Run]) -> Vec<Finding> {
    let setting = subject.setting;
    let mut out = Vec::new();
    for way in instruments {
        let instrument = &way.name();
        let is_recorder = matches!(way, Instrument::Record { view: View::Recorder, .. });
        let source = Source::Instrument(instrument.clone());
        let of = |source: &Source| runs.iter().filter(|run| run.record.source == *source).collect::<Vec<&Run>>();
        let references: BTreeMap<usize, &Run> =
            of(&Source::Reference).into_iter().map(|run| (run.record.block, run)).collect();
        let pairs: Vec<Pair> =
            of(&source).into_iter().filter_map(|run| Some((*references.get(&run.record.block)?, run))).collect();
        if pairs.len() < LEAST_BLOCKS {
            continue;
        }
        for (number, call) in setting.calls().iter().enumerate() {
            for statistic in [Statistic::Mean, Statistic::Median] {
                let about = About { subject, instrument, is_recorder, call, number, statistic };
                out.push(finding(&about, &pairs));
            }
        }
    }
    out
}

/// What a finding is about.
struct About<'a> {
    subject: &'a Subject<'a>,
    instrument: &'a str,
    is_recorder: bool,
    call: &'a str,
    /// Of the call.
    number: usize,
    statistic: Statistic,
}

fn finding(about: &About<'_>, pairs: &[Pair<'_>]) -> Finding {
    let trace = about.subject.trace;
    let value = |run: &Run| result(about.statistic, &run.record, about.number);
    let reference: Vec<f64> = pairs.iter().map(|(reference, _)| value(reference)).collect();
    let measured: Vec<f64> = pairs.iter().map(|(_, measured)| value(measured)).collect();
    let calm: Vec<&Pair> = pairs.iter().filter(|pair| told(pair) == Told::Calm).collect();
    let undisturbed = (LEAST_BLOCKS..pairs.len()).contains(&calm.len()).then(|| {
        let values: Vec<f64> = calm.iter().map(|pair| value(pair.1)).collect();
        let references: Vec<f64> = calm.iter().map(|pair| value(pair.0)).collect();
        against(&values, &references)
    });
    let is_changed = |(a, b): &&Pair<'_>| !(a.record.changed_rules.is_empty() && b.record.changed_rules.is_empty());
    let found = against(&measured, &reference);
    let found_bias = bias(&measured, &reference);
    let mean = reference.iter().sum::<f64>() / reference.len() as f64;
    let rate = |of: &dyn Fn(&Pair<'_>) -> Option<f64>| {
        let rates: Option<Vec<f64>> = pairs.iter().map(of).collect();
        rates.map(|rates| rates.iter().sum::<f64>())
    };
    Finding {
        precision: precision(&measured, &reference, ALPHA),
        equivalence: found_bias.and_then(|found| equivalence(&found, MARGIN * mean)),
        correction: found_bias.filter(|_| about.is_recorder).map(|bias| correction(&bias, mean)),
        bias: found_bias,
        influences: found.as_ref().map_or(vec![], |found| origins(about, pairs, found.u_c)),
        uncertainty: found,
        floor: floor(&reference),
        undisturbed: undisturbed.flatten(),
        disturbed_blocks: pairs.iter().filter(|pair| told(pair) == Told::Disturbed).count(),
        unknown_blocks: pairs.iter().filter(|pair| told(pair) == Told::Unknown).count(),
        unlike_trace: pairs.iter().filter(|pair| !pair.1.record.is_as_traced).count(),
        changed_blocks: pairs.iter().filter(is_changed).count(),
        blocks: pairs.len(),
        distances: distances(about.call, trace, pairs),
        rate_ratio: rate(&|pair| pair.1.record.rate).zip(rate(&|pair| pair.0.record.rate)).map(|(m, r)| m / r),
        reordering: reordered(pairs.iter().map(|pair| pair.1), trace),
        reference_reordering: reordered(pairs.iter().map(|pair| pair.0), trace),
        stability: stability(pairs, &measured, &reference),
        program: about.subject.setting.words().join(" "),
        call: about.call.to_owned(),
        statistic: about.statistic,
        instrument: about.instrument.to_owned(),
        setting: about.subject.setting.name(),
        started_ns: about.subject.started_ns,
    }
}

/// What is known of the calm of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Calm,
    Disturbed,
    Unknown,
}

fn told((reference, measured): &Pair<'_>) -> Told {
    let both = [&reference.record, &measured.record];
    if both.iter().any(|run| !run.disturbances.is_empty()) {
        Told::Disturbed
    } else if both.iter().any(|run| !run.unknown.is_empty()) {
        Told::Unknown
    } else {
        Told::Calm
    }
}

/// What takes a bias away again.
fn correction(bias: &Bias, reference: f64) -> Correction {
    Correction { add_ns: -bias.bias, factor: reference / (reference + bias.bias), u_ns: bias.u, degrees: bias.degrees }
}

/// Of means: medians have no such parts.
fn origins(about: &About<'_>, pairs: &[Pair<'_>], u_c: f64) -> Vec<Influence> {
    let records: Vec<Records<'_>> = pairs.iter().map(|(a, b)| (&a.record, &b.record)).collect();
    match about.statistic {
        Statistic::Mean => influences(&records, about.number, about.subject.clock, u_c),
        Statistic::Median => Vec::new(),
    }
}

/// The uncertainty of results, each beside the reference of its block. What is not known of the references is the standard
/// uncertainty of their mean; how a single one scatters is in the biases of the blocks already.
fn against(measured: &[f64], reference: &[f64]) -> Option<reprise_measure::metrology::Uncertainty> {
    let known = Summary::of(reference)?.u_mean;
    uncertainty(measured, reference, &vec![known; reference.len()])
}

/// Each reference against the next: the error of an instrument that has none of its own.
fn floor(reference: &[f64]) -> Option<reprise_measure::metrology::Uncertainty> {
    let mut next = reference.to_vec();
    next.rotate_left(1);
    against(&next, reference)
}

fn distances(call: &str, trace: &Observed, pairs: &[Pair<'_>]) -> Distances {
    let slice_ns = trace.elapsed_ns().map_or(0.0, |elapsed_ns| elapsed_ns / SLICES);
    let pooled = |of: &dyn Fn(&Observed) -> Vec<f64>| -> Option<Distance> {
        let mut measured: Vec<f64> = pairs.iter().flat_map(|pair| of(&pair.1.observed)).collect();
        let mut reference: Vec<f64> = pairs.iter().flat_map(|pair| of(&pair.0.observed)).collect();
        distance(&mut measured, &mut reference)
    };
    Distances {
        response_ns: pooled(&|run| run.times_ns(call)),
        between_issues_ns: pooled(&Observed::between_issues_ns),
        issued_by_slice: pooled(&|run| run.issued_by_slice(slice_ns)),
        in_flight: pooled(&Observed::in_flight),
    }
}

/// Of all runs together; `None` where a run's requests cannot be found in the trace.
fn reordered<'a>(runs: impl Iterator<Item = &'a Run>, trace: &Observed) -> Option<Reordering> {
    let mut all = Reordering::default();
    for run in runs {
        let one = reordering(&run.observed.places_in(trace)?);
        all.count += one.count;
        all.reordered += one.reordered;
        all.most_extent = all.most_extent.max(one.most_extent);
    }
    all.ratio = if all.count > 0 { all.reordered as f64 / all.count as f64 } else { 0.0 };
    Some(all)
}

fn stability(pairs: &[Pair<'_>], measured: &[f64], reference: &[f64]) -> Stability {
    let outlier = |values: &[f64], place: &dyn Fn(usize) -> usize| -> Option<Outlier> {
        grubbs(values).map(|found| Outlier { index: place(found.index), ..found })
    };
    let place = |index: usize| pairs[index].1.record.place;
    let placed = |chart: ControlChart| ControlChart {
        signals: chart.signals.iter().map(|(index, signal)| (place(*index), *signal)).collect(),
        ..chart
    };
    Stability {
        outlier: outlier(measured, &place),
        reference_outlier: outlier(reference, &|index| pairs[index].0.record.place),
        chart: control_chart(measured, measured.len().div_ceil(2).max(2)).map(placed),
        further_runs: Summary::of(measured).and_then(|so_far| further_runs(&so_far, WANTED)),
    }
}

/// Precision and bias over levels, where there are three at least.
pub(crate) fn linearity(findings: &[Finding]) -> Vec<Linearity> {
    type Key<'a> = (&'a str, Micros, Caches, &'a str, &'a str, Statistic);
    // Levels, and the least number of results at one.
    type Line = (Vec<(u32, f64, f64)>, usize);
    let mut groups: BTreeMap<Key<'_>, Line> = BTreeMap::new();
    for finding in findings {
        let SettingName { workload, pause_us, level, caches, .. } = &finding.setting;
        let key = (&**workload, *pause_us, *caches, &*finding.instrument, &*finding.call, finding.statistic);
        if let (Some(precision), Some(bias)) = (&finding.precision, &finding.bias) {
            let (levels, runs) = groups.entry(key).or_insert((Vec::new(), usize::MAX));
            levels.push((*level, precision.measured.cv, bias.relative));
            // Cochran's test is about as many results at each level.
            *runs = finding.blocks.min(*runs);
        }
    }
    let over = |levels: &[(u32, f64, f64)], of: fn(&(u32, f64, f64)) -> f64| {
        trend(&levels.iter().map(|level| (f64::from(level.0), of(level))).collect::<Vec<_>>())
    };
    let groups = groups.into_iter().filter(|(_, (levels, _))| levels.len() > 1);
    groups
        .map(|((workload, pause_us, caches, instrument, call, statistic), (levels, runs))| Linearity {
            workload: workload.to_owned(),
            pause_us,
            caches,
            instrument: instrument.to_owned(),
            call: call.to_owned(),
            statistic,
            precision: over(&levels, |level| level.1),
            variance_outlier: cochran(&levels.iter().map(|level| level.1.powi(2)).collect::<Vec<_>>(), runs),
            bias: over(&levels, |level| level.2),
            levels,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use reprise_workload::Micro;

    use super::*;
    use crate::conditions::Measure;
    use crate::log::LogFormat;
    use crate::observed::Request;
    use crate::setting::Program;

    fn run(source: Source, block: usize, times: &[u64], disturbed: bool) -> Run {
        let request = |(i, ns): (usize, &u64)| Request {
            thread: Some(0),
            call: "pread64".into(),
            begin_ns: i as u64 * 10_000,
            end_ns: i as u64 * 10_000 + ns,
        };
        let observed = Observed::new(times.iter().enumerate().map(request).collect());
        let disturbance = Disturbance { measure: Measure::Steal, value: 0.5, limit: 0.01 };
        let around =
            Around { disturbances: disturbed.then_some(disturbance).into_iter().collect(), ..Around::default() };
        let trace = observed.clone();
        Run::new(source, (block, 100 + block), &["pread64"], (observed, &trace), around)
    }

    #[test]
    fn a_known_bias_is_found_and_disturbed_runs_are_counted_not_left_out() {
        let setting = Setting { program: Program::Micro(Micro::default()), caches: Caches::Warm, memory_bytes: None };
        let mut runs = Vec::new();
        for block in 0..10 {
            let time = 1000 + 10 * (block as u64 % 3);
            runs.push(run(Source::Reference, block, &[time; 5], false));
            runs.push(run(Source::Instrument("a".into()), block, &[time + 100; 5], block == 4));
        }
        let trace = Observed::default();
        let clock = ClockQuality { step_ns: 1.0, read_ns: 10.0 };
        let subject = Subject { setting: &setting, started_ns: 7, clock: &clock, trace: &trace };
        let named =
            |name: &str| Instrument::Command { name: name.into(), template: String::new(), log: LogFormat::Csv };
        let found = findings(&subject, &[named("a"), named("absent")], &runs);
        assert_eq!(found.len(), 2, "of one instrument a mean and a median");
        for finding in &found {
            let bias = finding.bias.unwrap();
            assert!((bias.bias - 100.0).abs() < 1e-9 && bias.is_significant);
            assert!(!finding.equivalence.unwrap().is_equivalent);
            assert_eq!((finding.blocks, finding.disturbed_blocks), (10, 1));
            let u = finding.uncertainty.as_ref().unwrap();
            // The bias of each block is 100 of about 1009; there is next to nothing else.
            assert!((u.u_c - 0.0995).abs() < 0.002, "{u:?}");
            assert!(finding.floor.as_ref().unwrap().u_c < 0.03);
            assert!(finding.undisturbed.is_some() && finding.correction.is_none() && finding.unlike_trace == 0);
            assert_eq!(finding.distances.response_ns.unwrap().kolmogorov_smirnov, 1.0);
            assert!((finding.distances.response_ns.unwrap().wasserstein - 100.0).abs() < 1e-6);
        }
        assert!(linearity(&found).is_empty());
    }

    fn found(instrument: &Instrument, runs: &[Run]) -> Finding {
        let setting = Setting { program: Program::Micro(Micro::default()), caches: Caches::Warm, memory_bytes: None };
        let clock = ClockQuality { step_ns: 1.0, read_ns: 10.0 };
        let subject = Subject { setting: &setting, started_ns: 7, clock: &clock, trace: &Observed::default() };
        findings(&subject, std::slice::from_ref(instrument), runs).remove(0)
    }

    #[test]
    fn what_is_not_known_to_be_calm_is_not_undisturbed() {
        let recorder = Instrument::Record { backend: "ebpf".into(), view: View::Recorder };
        let source = Source::Instrument(recorder.name());
        let mut runs = Vec::new();
        for block in 0..10 {
            let time = 1000 + 10 * (block as u64 % 3);
            runs.push(run(Source::Reference, block, &[time; 5], false));
            runs.push(run(source.clone(), block, &[time + 250; 5], block == 9));
        }
        // The last but one is far off; of the first three little is known.
        runs[17] = run(source, 8, &[9000; 5], false);
        for short in runs.iter_mut().take(6) {
            short.record.unknown = vec![Measure::OtherPrograms];
        }
        runs[17].record.is_as_traced = false;
        let of = found(&recorder, &runs);
        assert_eq!((of.blocks, of.disturbed_blocks, of.unknown_blocks, of.unlike_trace), (10, 1, 3, 1));
        assert!(of.undisturbed.is_some(), "of six blocks");
        // Runs are named by their place.
        assert_eq!(of.stability.outlier.unwrap().index, 108);
        assert!(of.stability.chart.unwrap().signals.iter().any(|(place, _)| *place == 108));
        for run in &mut runs {
            run.record.unknown = vec![Measure::Steal];
        }
        assert!(found(&recorder, &runs).undisturbed.is_none());
    }

    #[test]
    fn a_correction_takes_the_bias_of_a_recorder_away() {
        let recorder = Instrument::Record { backend: "ebpf".into(), view: View::Recorder };
        let mut runs = Vec::new();
        for block in 0..6 {
            let jitter = block as u64 % 2;
            runs.push(run(Source::Reference, block, &[1000 + jitter; 5], false));
            runs.push(run(Source::Instrument(recorder.name()), block, &[1250 - jitter; 5], false));
        }
        let of = found(&recorder, &runs);
        let (correction, bias) = (of.correction.unwrap(), of.bias.unwrap());
        assert!((correction.add_ns + 249.0).abs() < 1e-9 && correction.u_ns == bias.u, "{correction:?}");
        assert!((1249.5 * correction.factor - 1000.5).abs() < 1e-9, "{correction:?}");
    }
}
