//! What was found: runs, and what they say.

use reprise_measure::metrology::{
    Bias, ControlChart, Distance, Equivalence, Outlier, Precision, Reordering, Trend, Uncertainty,
};
use serde::{Deserialize, Serialize};

use crate::caches::Caches;
use crate::conditions::{Conditions, Disturbance, Limits, Measure};
use crate::history::Drift;
use crate::influence::Influence;
use crate::micros::Micros;
use crate::rules::Rules;
use crate::setting::SettingName;

/// Whose run it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The reference program's.
    Reference,
    /// An instrument's, by name.
    Instrument(String),
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Whose.
    pub source: Source,
    /// Its block: each has a run of the reference and of each instrument.
    pub block: usize,
    /// Its place among all runs of the setting.
    pub place: usize,
    /// Mean response time of each measured call, in nanoseconds.
    pub mean_ns: Vec<f64>,
    /// Median response time of each measured call.
    pub median_ns: Vec<f64>,
    /// Standard deviation of its single response times.
    pub sd_ns: Vec<f64>,
    /// How often each was called.
    pub count: Vec<usize>,
    /// What being preempted can have added to each mean, at most; `None` where the log does not tell how often that was.
    pub preempted_ns: Vec<Option<f64>>,
    /// Bytes that came from the device, for each call of the run, likewise.
    pub device_bytes_by_call: Option<f64>,
    /// Requests a second.
    pub rate: Option<f64>,
    /// What else happened.
    pub conditions: Conditions,
    /// Why it counts as disturbed; it is part of all results.
    pub disturbances: Vec<Disturbance>,
    /// By what it may have been disturbed without anybody knowing: it was too short to say, or the machine's own level is too high.
    pub unknown: Vec<Measure>,
    /// Whether it issued the measured calls as often as the trace says, in as many threads.
    pub is_as_traced: bool,
    /// Settings of devices, mounts and processors that were not those of the first run: `NAME: VALUE, now VALUE`.
    pub changed_rules: Vec<String>,
}

/// How far distributions are apart: all runs of the instrument together, and all of the reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Distances {
    /// Of response times, in nanoseconds.
    pub response_ns: Option<Distance>,
    /// Of times from issue to issue of a thread.
    pub between_issues_ns: Option<Distance>,
    /// Of requests issued in a slice of time: a hundredth of what the trace took.
    pub issued_by_slice: Option<Distance>,
    /// Of requests in flight at each issue.
    pub in_flight: Option<Distance>,
}

/// Results that do not belong, and how the next may come out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stability {
    /// Of the instrument's runs (Grubbs); its index is the run's `place`.
    pub outlier: Option<Outlier>,
    /// Of the reference's, likewise.
    pub reference_outlier: Option<Outlier>,
    /// The instrument's runs in the order of time; the first half makes the limits. Signals name the run's `place`.
    pub chart: Option<ControlChart>,
    /// Further runs until the mean is known to a hundredth; `None` where they cannot be named.
    pub further_runs: Option<usize>,
}

/// What to do about the bias of a recorder: a recorded response time, corrected, is what the program would have taken.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Correction {
    /// To be added to a response time, in nanoseconds.
    pub add_ns: f64,
    /// Or: by which it is to be multiplied, where the bias grows with the time.
    pub factor: f64,
    /// Standard uncertainty of what is added.
    pub u_ns: f64,
    /// Degrees of freedom of that.
    pub degrees: f64,
}

/// What is found of one instrument, in one setting, about the response time of one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The setting.
    pub setting: SettingName,
    /// All that makes the reference program what it is: the words after `reprise workload`.
    pub program: String,
    /// The instrument.
    pub instrument: String,
    /// The call.
    pub call: String,
    /// What of a run's response times is its result.
    pub statistic: Statistic,
    /// When the scenario began, nanoseconds since the epoch.
    pub started_ns: u64,
    /// Precision, with the F-test at the level of 5 %.
    pub precision: Option<Precision>,
    /// Bias.
    pub bias: Option<Bias>,
    /// What corrects it, if the instrument records.
    pub correction: Option<Correction>,
    /// Whether the bias is shown to be within the margin.
    pub equivalence: Option<Equivalence>,
    /// Combined and expanded uncertainty, with its budget.
    pub uncertainty: Option<Uncertainty>,
    /// Where it comes from, as far as it was measured; of means only.
    pub influences: Vec<Influence>,
    /// The same of the reference against itself: what an instrument without any error of its own would show here.
    pub floor: Option<Uncertainty>,
    /// The same of the blocks in which neither run was disturbed, as far as is known, if they are three at least and not all.
    pub undisturbed: Option<Uncertainty>,
    /// Blocks in which one of the two runs was disturbed.
    pub disturbed_blocks: usize,
    /// Other blocks in which it is not known of one of the two whether it was.
    pub unknown_blocks: usize,
    /// Runs of the instrument that did not issue the measured calls as the trace has them.
    pub unlike_trace: usize,
    /// Blocks in which one of the two ran under other settings than the first run of the scenario.
    pub changed_blocks: usize,
    /// Blocks.
    pub blocks: usize,
    /// Distances of distributions.
    pub distances: Distances,
    /// Requests a second by those of the reference.
    pub rate_ratio: Option<f64>,
    /// Requests issued in another order than in the trace (RFC 4737), of all runs.
    pub reordering: Option<Reordering>,
    /// The same of references: they have no order to keep.
    pub reference_reordering: Option<Reordering>,
    /// Results that do not belong.
    pub stability: Stability,
}

/// What of a run's response times is its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// Their mean.
    Mean,
    /// Their median.
    Median,
}

/// A scenario that was examined: a setting, with all its instruments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Examined {
    /// The setting.
    pub setting: SettingName,
    /// When it began, nanoseconds since the epoch.
    pub started_ns: u64,
    /// How long all its runs took, in nanoseconds.
    pub took_ns: u64,
    /// Beyond what its runs count as disturbed.
    pub limits: Limits,
    /// Settings of devices, mounts and processors at its first run.
    pub rules: Rules,
    /// Findings, by instrument, call and statistic.
    pub findings: Vec<Finding>,
    /// Every run.
    pub runs: Vec<RunRecord>,
}

/// How precision and bias change with the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Linearity {
    /// The workload and its pause, without its level.
    pub workload: String,
    /// Time between requests, in microseconds.
    pub pause_us: Micros,
    /// The state of the caches.
    pub caches: Caches,
    /// The instrument.
    pub instrument: String,
    /// The call.
    pub call: String,
    /// What of a run's response times is its result.
    pub statistic: Statistic,
    /// Levels, coefficient of variation and relative bias at each.
    pub levels: Vec<(u32, f64, f64)>,
    /// Of the coefficient of variation.
    pub precision: Option<Trend>,
    /// A level whose relative variance does not go with the others' (Cochran); its index is that in `levels`.
    pub variance_outlier: Option<Outlier>,
    /// Of the relative bias.
    pub bias: Option<Trend>,
}

/// What the counter that times the calls can tell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClockQuality {
    /// The least difference of two readings, in nanoseconds.
    pub step_ns: f64,
    /// What a reading takes, part of every response time.
    pub read_ns: f64,
}

/// A validation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Validation {
    /// When it began, nanoseconds since the epoch.
    pub started_ns: u64,
    /// Kernel and machine.
    pub kernel: String,
    /// Name of the machine.
    pub host: String,
    /// Processors.
    pub processors: usize,
    /// Where the files were.
    pub directory: String,
    /// Its file system.
    pub file_system: String,
    /// The device that it is on, or its number alone.
    pub device: String,
    /// Seed of the order of runs.
    pub seed: u64,
    /// Whether all runs were done.
    pub is_complete: bool,
    /// The counter that times the calls.
    pub clock: ClockQuality,
    /// How the machine was before the runs, and the limits that follow.
    pub limits: Limits,
    /// Settings that differ between scenarios, which were examined at different times.
    pub changed_rules: Vec<String>,
    /// Findings, by setting, instrument, call and statistic.
    pub findings: Vec<Finding>,
    /// Over levels.
    pub linearity: Vec<Linearity>,
    /// Every run, by setting.
    pub runs: Vec<(SettingName, Vec<RunRecord>)>,
    /// What does not go with the validations of the same before.
    pub drifts: Vec<Drift>,
}
