//! The procedure: which runs, in which order, from which state.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand_distr::{Distribution, Uniform};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use reprise_trace::{Host, file_system_name};

use crate::ValidateError;
use crate::analysis::{self, Run};
use crate::caches::Caches;
use crate::conditions::Totals;
use crate::finding::{Source, Validation};
use crate::instrument::{Instrument, Places};
use crate::log::{LogFormat, trace};
use crate::observed::Observed;
use crate::setting::Setting;

/// How often is looked whether a run has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Bytes kept of what a failed command said.
const SAID_BYTES: usize = 500;

/// What is validated, and where.
pub struct Procedure<'a> {
    /// The program that is running: references and replays are runs of it.
    pub reprise: &'a Path,
    /// A directory of its own for the files, on the file system that is measured.
    pub directory: &'a Path,
    /// A directory of its own for traces and logs; best on another device.
    pub scratch: &'a Path,
    /// What is run.
    pub settings: &'a [Setting],
    /// What is validated.
    pub instruments: &'a [Instrument],
    /// Replications of each.
    pub runs: usize,
    /// Seed of the order of runs.
    pub seed: u64,
    /// Not 0 to stop.
    pub stop: &'a AtomicU32,
}

/// How far a validation has come.
#[derive(Debug, Clone)]
pub struct Step {
    /// Runs done, of all settings.
    pub done: usize,
    /// Runs of all settings.
    pub total: usize,
    /// What is being done.
    pub what: String,
}

/// Validates; a validation that is stopped has the settings that were finished.
///
/// # Errors
/// When a run fails, or its log cannot be read.
pub fn validate(procedure: &Procedure<'_>, progress: &mut dyn FnMut(&Step)) -> Result<Validation, ValidateError> {
    check(procedure)?;
    let mut validation = beginning(procedure);
    let names: Vec<String> = procedure.instruments.iter().map(Instrument::name).collect();
    let each = procedure.runs * (procedure.instruments.len() + 1);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(procedure.seed);
    for (number, setting) in procedure.settings.iter().enumerate() {
        let mut step = Step { done: number * each, total: procedure.settings.len() * each, what: String::new() };
        let bench = Bench::set_up(procedure, setting, number)?;
        let found = bench.trace().and_then(|trace| {
            let runs = bench.runs(&mut rng, &mut |what, done| {
                step.done = number * each + done;
                step.what = format!("{} {}: {what}", setting.workload().name(), setting.workload().threads());
                progress(&step);
            })?;
            Ok((trace, runs))
        });
        let (trace, runs) = match found {
            Ok(found) => found,
            Err(_) if procedure.stop.load(Ordering::Relaxed) != 0 => break,
            Err(error) => return Err(error),
        };
        validation.findings.extend(analysis::findings(setting, &names, &runs, &trace));
        validation.runs.push((setting.name(), runs.into_iter().map(|run| run.record).collect()));
    }
    validation.is_complete = validation.runs.len() == procedure.settings.len();
    validation.linearity = analysis::linearity(&validation.findings);
    Ok(validation)
}

fn check(procedure: &Procedure<'_>) -> Result<(), ValidateError> {
    let wrong = |text: &str| Err(ValidateError::Settings(text.to_owned()));
    if procedure.runs < 3 {
        return wrong("with fewer than 3 runs nothing can be said; give more (--runs)");
    }
    if procedure.instruments.is_empty() || procedure.settings.is_empty() {
        return wrong("there is nothing to validate; name workloads and instruments");
    }
    Ok(procedure.settings.iter().try_for_each(|setting| setting.workload().check())?)
}

fn beginning(procedure: &Procedure<'_>) -> Validation {
    let host = Host::this();
    let kind = rustix::fs::statfs(procedure.directory).map_or(0, |fs| fs.f_type as u64);
    Validation {
        started_ns: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64),
        kernel: host.kernel,
        host: host.name,
        processors: host.processors as usize,
        directory: procedure.directory.display().to_string(),
        file_system: file_system_name(kind),
        seed: procedure.seed,
        is_complete: false,
        findings: Vec::new(),
        linearity: Vec::new(),
        runs: Vec::new(),
    }
}

/// What the runs of one setting share.
struct Bench<'a> {
    procedure: &'a Procedure<'a>,
    setting: &'a Setting,
    files: PathBuf,
    target: PathBuf,
    scratch: PathBuf,
}

impl<'a> Bench<'a> {
    fn set_up(procedure: &'a Procedure<'a>, setting: &'a Setting, number: usize) -> Result<Bench<'a>, ValidateError> {
        let make = |path: PathBuf| match fs::create_dir_all(&path) {
            Ok(()) => Ok(path),
            Err(e) => Err(ValidateError::files("make", path, e)),
        };
        Ok(Bench {
            procedure,
            setting,
            files: make(procedure.directory.join(format!("files{number}")))?,
            target: make(procedure.directory.join(format!("target{number}")))?,
            scratch: make(procedure.scratch.join(format!("runs{number}")))?,
        })
    }

    fn master(&self) -> PathBuf {
        self.scratch.join("trace.reprise")
    }

    /// Performs the reference once more than it is judged: this is the trace that is replayed.
    fn trace(&self) -> Result<Observed, ValidateError> {
        self.restore()?;
        Caches::set(self.setting.caches, &self.files)?;
        self.perform(&mut self.reference(&self.master()), &self.master())?;
        trace(&self.master())
    }

    fn runs(
        &self,
        rng: &mut Xoshiro256PlusPlus,
        progress: &mut dyn FnMut(&str, usize),
    ) -> Result<Vec<Run>, ValidateError> {
        let mut out = Vec::new();
        for block in 0..self.procedure.runs {
            let mut order: Vec<Option<&Instrument>> =
                std::iter::once(None).chain(self.procedure.instruments.iter().map(Some)).collect();
            shuffle(&mut order, rng);
            for instrument in order {
                let name = instrument.map_or("reference".to_owned(), Instrument::name);
                progress(&name, out.len());
                let run = self.run(instrument, (block, out.len()))?;
                out.push(run);
            }
        }
        Ok(out)
    }

    /// One run, from the state before the start.
    fn run(&self, instrument: Option<&Instrument>, at: (usize, usize)) -> Result<Run, ValidateError> {
        let log = self.scratch.join("log");
        remove(&log);
        if instrument.is_none_or(Instrument::uses_files) {
            self.restore()?;
            self.setting.caches.set(&self.files)?;
        } else {
            rustix::fs::sync();
        }
        let mut command = match instrument {
            None => self.reference(&log),
            Some(instrument) => instrument.command(&Places {
                reprise: self.procedure.reprise,
                reference: self.words(),
                trace: &self.master(),
                files: &self.files,
                target: &self.target,
                log: log.clone(),
                threads: self.setting.workload().threads(),
                caches: self.setting.caches,
            })?,
        };
        let before = Totals::now();
        self.perform(&mut command, &log)?;
        let conditions = Totals::now().since(before);
        let format = instrument.map_or(LogFormat::Reprise, Instrument::log_format);
        let observed = format.read(&log, self.setting.calls())?;
        for call in self.setting.calls() {
            if observed.times_ns(call).is_empty() {
                return Err(ValidateError::Log { path: log, cause: format!("it has no {call}") });
            }
        }
        let source = instrument.map_or(Source::Reference, |instrument| Source::Instrument(instrument.name()));
        Ok(Run::new(source, at, self.setting.calls(), observed, conditions))
    }

    /// Brings the files back to what they were.
    fn restore(&self) -> Result<(), ValidateError> {
        let go_on = |_, _| self.procedure.stop.load(Ordering::Relaxed) == 0;
        reprise_workload::prepare(self.setting.workload(), &self.files, &mut { go_on })?;
        Ok(())
    }

    fn reference(&self, trace: &Path) -> Command {
        let mut command = Command::new(self.procedure.reprise);
        command.args(self.words()).arg("-o").arg(trace);
        command
    }

    /// What performs the reference, but for where its trace goes.
    fn words(&self) -> Vec<OsString> {
        let words = self.setting.words().into_iter().map(OsString::from);
        let place = ["--quiet".into(), "--dir".into(), self.files.clone().into_os_string()];
        std::iter::once("workload".into()).chain(words).chain(place).collect()
    }

    /// Runs a command to its end; it fails unless it succeeds (a replay that went differently has run, too).
    fn perform(&self, command: &mut Command, log: &Path) -> Result<(), ValidateError> {
        let shown = format!("{command:?}");
        let said = self.scratch.join("said");
        let failed = |status: String| {
            let text = fs::read_to_string(&said).unwrap_or_default();
            let tail: String =
                text.trim().chars().rev().take(SAID_BYTES).collect::<Vec<_>>().into_iter().rev().collect();
            ValidateError::Run { command: shown.clone(), status, said: tail }
        };
        let out = File::create(&said).map_err(|e| ValidateError::files("write", &said, e))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(out);
        let mut child = command.spawn().map_err(|e| failed(e.to_string()))?;
        loop {
            match child.try_wait().map_err(|e| failed(e.to_string()))? {
                Some(status)
                    if status.success() || (status.code() == Some(1) && log.join("manifest.json").exists()) =>
                {
                    return Ok(());
                }
                Some(status) => return Err(failed(status.to_string())),
                None if self.procedure.stop.load(Ordering::Relaxed) != 0 => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(failed("an interruption".into()));
                }
                None => std::thread::sleep(LOOK_EVERY),
            }
        }
    }
}

/// Whatever a run left under this name, and names that begin with it.
fn remove(log: &Path) {
    let _ = fs::remove_dir_all(log);
    let _ = fs::remove_file(log);
    let _ = fs::remove_dir_all(log.with_extension("other"));
    let (Some(parent), Some(stem)) = (log.parent(), log.file_name()) else { return };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(stem.as_encoded_bytes()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Fisher–Yates.
fn shuffle<T>(order: &mut [T], rng: &mut Xoshiro256PlusPlus) {
    for last in (1..order.len()).rev() {
        let other = Uniform::new_inclusive(0, last).map_or(0, |among| among.sample(rng));
        order.swap(last, other);
    }
}
