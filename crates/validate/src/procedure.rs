//! The procedure: which scenarios, in which order, and what is left of them when it ends early.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use reprise_trace::{Host, file_system_name};

use crate::ValidateError;
use crate::analysis::{self, LEAST_BLOCKS, Subject};
use crate::bench::{Bench, Ended, shuffle};
use crate::conditions::{Conditions, Limits, Measure};
use crate::finding::{ClockQuality, Examined, Validation};
use crate::instrument::Instrument;
use crate::rules::{self, Rules};
use crate::series::Series;
use crate::setting::{Setting, SettingName};
use crate::totals::{TICK_NS, Totals};

/// Intervals in which is looked how the machine is without a run, and their length at least.
const BASE_INTERVALS: usize = 5;
const BASE_INTERVAL: Duration = Duration::from_millis(300);
/// Longer than the processor time that a share needs, as ticks are counted late.
const BASE_MARGIN: f64 = 1.2;

/// A setting, with what is validated in it.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The setting.
    pub setting: Setting,
    /// The instruments.
    pub instruments: Vec<Instrument>,
}

/// What is validated, and where.
pub struct Procedure<'a> {
    /// The program that is running: references and replays are runs of it.
    pub reprise: &'a Path,
    /// A directory of its own for the files, on the file system that is measured.
    pub directory: &'a Path,
    /// A directory of its own for traces and logs; best on another device.
    pub scratch: &'a Path,
    /// What is run.
    pub scenarios: &'a [Scenario],
    /// Replications of each.
    pub runs: usize,
    /// Seed of the order of scenarios and runs.
    pub seed: u64,
    /// Where finished scenarios are kept; those that are there are not run again.
    pub series: Option<&'a Path>,
    /// No scenario is begun that would not end in this time.
    pub time: Option<Duration>,
    /// The settings of devices, mounts and processors, as they are now.
    pub rules: &'a dyn Fn() -> Rules,
    /// Not 0 to stop.
    pub stop: &'a AtomicU32,
}

/// How far a validation has come.
#[derive(Debug, Clone)]
pub struct Step {
    /// Runs done, of all scenarios, those of a series that were done before included.
    pub done: usize,
    /// Runs of all scenarios.
    pub total: usize,
    /// Scenarios that were done before.
    pub kept: usize,
    /// What is being done.
    pub what: String,
    /// How long the rest will take, as far as can be known.
    pub left: Option<Duration>,
}

/// What a validation came to: hours of it are not lost to a run that fails.
#[derive(Debug)]
pub struct Validated {
    /// What was found until its end.
    pub validation: Validation,
    /// Why that came before all was done, unless it was told to stop.
    pub failure: Option<ValidateError>,
}

/// Validates, in a random order of scenarios; one that is stopped, or in which a run fails, has those that were finished, and of the
/// last what its blocks say.
///
/// # Errors
/// When nothing can be begun; when a series was made otherwise.
pub fn validate(procedure: &Procedure<'_>, progress: &mut dyn FnMut(&Step)) -> Result<Validated, ValidateError> {
    check(procedure)?;
    let mut whole = Whole::begin(procedure)?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(procedure.seed);
    let mut order: Vec<usize> = (0..procedure.scenarios.len()).collect();
    shuffle(&mut order, &mut rng);
    for number in order {
        if whole.examined.contains_key(&number) {
            continue;
        }
        if !whole.clock.has_time_for(runs_of(procedure, &procedure.scenarios[number]), procedure.time) {
            break;
        }
        if let Err(error) = whole.scenario(number, &mut rng, progress) {
            whole.is_stopped = true;
            return Ok(Validated { validation: whole.end(), failure: Some(error) });
        }
        if whole.is_stopped {
            break;
        }
    }
    Ok(Validated { validation: whole.end(), failure: None })
}

fn check(procedure: &Procedure<'_>) -> Result<(), ValidateError> {
    let wrong = |text: String| Err(ValidateError::Settings(text));
    if procedure.runs < LEAST_BLOCKS {
        return wrong(format!("with fewer than {LEAST_BLOCKS} runs nothing can be said; give more (--runs)"));
    }
    if procedure.scenarios.is_empty() || procedure.scenarios.iter().any(|scenario| scenario.instruments.is_empty()) {
        return wrong("there is nothing to validate; name workloads and instruments".into());
    }
    if procedure.scenarios.iter().any(|scenario| scenario.setting.makes_nothing()) {
        return wrong("a program without requests takes no time; give more (--requests, --rounds)".into());
    }
    let mut names: Vec<SettingName> = procedure.scenarios.iter().map(|scenario| scenario.setting.name()).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return wrong(format!("{} of {} threads is there twice; name each once", twice[0].workload, twice[0].level));
    }
    Ok(procedure.scenarios.iter().try_for_each(|scenario| scenario.setting.workload().check())?)
}

fn runs_of(procedure: &Procedure<'_>, scenario: &Scenario) -> usize {
    procedure.runs * (scenario.instruments.len() + 1)
}

/// All that a scenario of a series must have been made with.
fn made_by(procedure: &Procedure<'_>, scenario: &Scenario, validation: &Validation) -> Vec<String> {
    let Validation { host, kernel, file_system, device, .. } = validation;
    let machine = format!("{host} {kernel} on {file_system} ({device})");
    let program = format!("reprise {}", env!("CARGO_PKG_VERSION"));
    let instruments = scenario.instruments.iter().map(Instrument::description);
    [machine, program, scenario.setting.words().join(" "), format!("{} runs", procedure.runs)]
        .into_iter()
        .chain(instruments)
        .collect()
}

/// How long runs take.
struct RunClock {
    begin: Instant,
    /// Of this validation.
    runs: usize,
    took: Duration,
    /// Of those that a series has.
    before: Option<Duration>,
}

impl RunClock {
    fn each(&self) -> Option<Duration> {
        match u32::try_from(self.runs) {
            Ok(runs @ 1..) => Some(self.took / runs),
            _ => self.before,
        }
    }

    fn has_time_for(&self, runs: usize, time: Option<Duration>) -> bool {
        let (Some(time), Some(each)) = (time, self.each()) else { return true };
        self.begin.elapsed() + each * u32::try_from(runs).unwrap_or(u32::MAX) <= time
    }
}

/// A validation that is under way.
struct Whole<'a> {
    procedure: &'a Procedure<'a>,
    validation: Validation,
    /// By the number of the scenario.
    examined: BTreeMap<usize, Examined>,
    kept: usize,
    clock: RunClock,
    is_stopped: bool,
}

impl<'a> Whole<'a> {
    fn begin(procedure: &'a Procedure<'a>) -> Result<Whole<'a>, ValidateError> {
        let validation = beginning(procedure);
        let mut examined = BTreeMap::new();
        for (number, scenario) in procedure.scenarios.iter().enumerate() {
            let Some(series) = procedure.series.map(Series) else { break };
            let made_by = made_by(procedure, scenario, &validation);
            if let Some(found) = series.get(&scenario.setting.name(), &made_by)? {
                examined.insert(number, found);
            }
        }
        let runs: usize = examined.values().map(|found: &Examined| found.runs.len()).sum();
        let took: u64 = examined.values().map(|found| found.took_ns).sum();
        let before = (runs > 0).then(|| Duration::from_nanos(took / runs as u64));
        let clock = RunClock { begin: Instant::now(), runs: 0, took: Duration::ZERO, before };
        Ok(Whole { procedure, validation, kept: examined.len(), examined, clock, is_stopped: false })
    }

    /// A scenario, which is kept if it is whole; what there is of one that fails is told, too.
    fn scenario(
        &mut self,
        number: usize,
        rng: &mut Xoshiro256PlusPlus,
        progress: &mut dyn FnMut(&Step),
    ) -> Result<(), ValidateError> {
        let (examined, ended) = self.examine(number, rng, progress)?;
        if let (Ended::Whole, Some(directory)) = (&ended, self.procedure.series) {
            let made_by = made_by(self.procedure, &self.procedure.scenarios[number], &self.validation);
            Series(directory).put(&examined, made_by)?;
        }
        self.examined.insert(number, examined);
        match ended {
            Ended::Whole => Ok(()),
            Ended::Stopped => {
                self.is_stopped = true;
                Ok(())
            }
            Ended::Failed(error) => Err(error),
        }
    }

    /// A scenario, and how its runs ended.
    fn examine(
        &mut self,
        number: usize,
        rng: &mut Xoshiro256PlusPlus,
        progress: &mut dyn FnMut(&Step),
    ) -> Result<(Examined, Ended), ValidateError> {
        let (procedure, scenario) = (self.procedure, &self.procedure.scenarios[number]);
        let (begin, started_ns) = (Instant::now(), now_ns());
        let total: usize = procedure.scenarios.iter().map(|scenario| runs_of(procedure, scenario)).sum();
        let done_before: usize = self.examined.values().map(|found| found.runs.len()).sum();
        let bench = Bench::set_up(procedure, scenario, number, &self.validation.limits)?;
        let trace = match bench.trace() {
            Err(_) if self.is_told_to_stop() => None,
            found => Some(found?),
        };
        let (runs_before, took_before) = (self.clock.runs, self.clock.took);
        let mut runs = Vec::new();
        let mut step = |what: &str, done: usize| {
            self.clock.runs = runs_before + done;
            self.clock.took = took_before + begin.elapsed();
            let setting = scenario.setting.name();
            let left = total - done_before - done;
            progress(&Step {
                done: done_before + done,
                total,
                kept: self.kept,
                what: format!("{} {}: {what}", setting.workload, setting.level),
                left: self.clock.each().map(|each| each * u32::try_from(left).unwrap_or(u32::MAX)),
            });
        };
        let ended = match &trace {
            Some(trace) => bench.runs(trace, rng, &mut runs, &mut step),
            None => Ended::Stopped,
        };
        let setting = &scenario.setting;
        let trace = trace.unwrap_or_default();
        let subject = Subject { setting, started_ns, clock: &self.validation.clock, trace: &trace };
        let examined = Examined {
            setting: setting.name(),
            started_ns,
            took_ns: begin.elapsed().as_nanos() as u64,
            limits: bench.limits.clone(),
            rules: bench.rules.clone(),
            findings: analysis::findings(&subject, &scenario.instruments, &runs),
            runs: runs.into_iter().map(|run| run.record).collect(),
        };
        Ok((examined, ended))
    }

    fn is_told_to_stop(&self) -> bool {
        self.procedure.stop.load(Ordering::Relaxed) != 0
    }

    fn end(self) -> Validation {
        let mut validation = self.validation;
        validation.is_complete = !self.is_stopped && self.examined.len() == self.procedure.scenarios.len();
        let mut first: Option<Rules> = None;
        for examined in self.examined.into_values() {
            let first = first.get_or_insert_with(|| examined.rules.clone());
            for change in rules::changes(first, &examined.rules) {
                if !validation.changed_rules.contains(&change) {
                    validation.changed_rules.push(change);
                }
            }
            validation.findings.extend(examined.findings);
            validation.runs.push((examined.setting, examined.runs));
        }
        validation.linearity = analysis::linearity(&validation.findings);
        validation
    }
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

fn beginning(procedure: &Procedure<'_>) -> Validation {
    let host = Host::this();
    let kind = rustix::fs::statfs(procedure.directory).map_or(0, |fs| fs.f_type as u64);
    let (step_ns, read_ns) = reprise_workload::clock_quality();
    Validation {
        started_ns: now_ns(),
        kernel: host.kernel,
        host: host.name,
        processors: host.processors as usize,
        directory: procedure.directory.display().to_string(),
        file_system: file_system_name(kind),
        device: device(procedure.directory),
        seed: procedure.seed,
        is_complete: false,
        clock: ClockQuality { step_ns, read_ns },
        limits: Limits::of(&base(procedure.directory)),
        changed_rules: Vec::new(),
        findings: Vec::new(),
        linearity: Vec::new(),
        runs: Vec::new(),
        drifts: Vec::new(),
    }
}

/// The device that a directory is on, by name where it has one; of a file system without one, the number that the kernel made up.
fn device(directory: &Path) -> String {
    let Ok(device) = fs::metadata(directory).map(|meta| meta.dev()) else { return "unknown".to_owned() };
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let place = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok();
    let name = place.as_ref().and_then(|place| Some(place.file_name()?.to_string_lossy().into_owned()));
    name.unwrap_or_else(|| format!("{major}:{minor}"))
}

/// How the machine is without a run.
fn base(directory: &Path) -> Vec<Conditions> {
    let processors = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
    let ticks =
        Measure::ALL.map(Measure::least_ticks).into_iter().filter(|ticks| ticks.is_finite()).fold(0.0, f64::max);
    let length = Duration::from_nanos((BASE_MARGIN * ticks * TICK_NS / processors) as u64).max(BASE_INTERVAL);
    let interval = |_| {
        let before = Totals::now(directory);
        std::thread::sleep(length);
        Conditions::between(&before, &Totals::now(directory))
    };
    (0..BASE_INTERVALS).map(interval).collect()
}
