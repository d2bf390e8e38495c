//! One scenario's runs, each from the state before the start.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rand_distr::{Distribution, Uniform};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::ValidateError;
use crate::analysis::{Around, Run};
use crate::caches::{self, Caches};
use crate::conditions::{Conditions, Limits, Measure};
use crate::finding::Source;
use crate::instrument::{Instrument, Places, View};
use crate::log::{LogFormat, trace};
use crate::observed::Observed;
use crate::procedure::{Procedure, Scenario};
use crate::rules::{self, Rules};
use crate::setting::Setting;
use crate::totals::Totals;

/// How often is looked whether a run has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// What a command has to end in once it is asked to.
const TIME_TO_END: Duration = Duration::from_secs(2);
/// Bytes kept of what a failed command said.
const SAID_BYTES: usize = 500;

/// What the runs of one scenario share.
pub(crate) struct Bench<'a> {
    procedure: &'a Procedure<'a>,
    setting: &'a Setting,
    instruments: &'a [Instrument],
    pub limits: Limits,
    /// As they are before the first run.
    pub rules: Rules,
    files: PathBuf,
    target: PathBuf,
    scratch: PathBuf,
}

impl<'a> Bench<'a> {
    /// Makes the directories; all names of one scenario have its number.
    pub fn set_up(
        procedure: &'a Procedure<'a>,
        scenario: &'a Scenario,
        number: usize,
        limits: &Limits,
    ) -> Result<Bench<'a>, ValidateError> {
        let make = |path: PathBuf| match fs::create_dir_all(&path) {
            Ok(()) => Ok(path),
            Err(e) => Err(ValidateError::files("make", path, e)),
        };
        Ok(Bench {
            procedure,
            setting: &scenario.setting,
            instruments: &scenario.instruments,
            // Who is given little memory waits for it.
            limits: match scenario.setting.memory_bytes {
                Some(_) => limits.without(Measure::MemoryPressure),
                None => limits.clone(),
            },
            rules: (procedure.rules)(),
            files: make(procedure.directory.join(format!("files{number}")))?,
            target: make(procedure.directory.join(format!("target{number}")))?,
            scratch: make(procedure.scratch.join(format!("runs{number}")))?,
        })
    }

    fn master(&self) -> PathBuf {
        self.scratch.join("trace.reprise")
    }

    /// Performs the reference once more than it is judged: this is the trace that is replayed.
    pub fn trace(&self) -> Result<Observed, ValidateError> {
        self.restore()?;
        Caches::set(self.setting.caches, &self.files)?;
        self.perform(&mut self.reference(&self.master()), &self.master())?;
        trace(&self.master())
    }

    /// All runs of what was traced, block by block; those before one that fails are there, too.
    pub fn runs(
        &self,
        trace: &Observed,
        rng: &mut Xoshiro256PlusPlus,
        out: &mut Vec<Run>,
        progress: &mut dyn FnMut(&str, usize),
    ) -> Ended {
        for block in 0..self.procedure.runs {
            let mut order: Vec<Option<&Instrument>> =
                std::iter::once(None).chain(self.instruments.iter().map(Some)).collect();
            shuffle(&mut order, rng);
            for instrument in order {
                let name = instrument.map_or("reference".to_owned(), Instrument::name);
                progress(&name, out.len());
                match self.run(instrument, trace, (block, out.len())) {
                    Ok(run) => out.push(run),
                    Err(_) if self.procedure.stop.load(Ordering::Relaxed) != 0 => return Ended::Stopped,
                    Err(error) => return Ended::Failed(error),
                }
            }
        }
        Ended::Whole
    }

    /// One run, from the state before the start.
    fn run(&self, instrument: Option<&Instrument>, trace: &Observed, at: (usize, usize)) -> Result<Run, ValidateError> {
        let log = self.scratch.join("log");
        remove(&log);
        // All take their caches from the same memory.
        rustix::fs::sync();
        caches::forget(&self.files)?;
        caches::forget(&self.target)?;
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
                is_limited: self.setting.memory_bytes.is_some(),
            })?,
        };
        let changed_rules = rules::changes(&self.rules, &(self.procedure.rules)());
        let before = Totals::now(&self.files);
        self.perform(&mut command, &log)?;
        let conditions = Conditions::between(&before, &Totals::now(&self.files));
        let around = Around {
            disturbances: self.limits.judge(&conditions),
            unknown: self.limits.unknown(&conditions),
            conditions,
            changed_rules,
        };
        let format = instrument.map_or(LogFormat::Reprise, Instrument::log_format);
        let observed = format.read(&log, self.setting.calls(), &self.files)?;
        let believed =
            Believed { observed: &observed, trace, calls: self.setting.calls(), took_ns: conditions.elapsed_ns };
        believed.check(instrument).map_err(|cause| ValidateError::Log { path: log, cause })?;
        let source = instrument.map_or(Source::Reference, |instrument| Source::Instrument(instrument.name()));
        Ok(Run::new(source, at, self.setting.calls(), (observed, trace), around))
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

    /// Why a command that failed can have said nothing: what it says goes to a file, too.
    fn silence(&self) -> String {
        let is_full = rustix::fs::statvfs(&self.scratch).is_ok_and(|room| room.f_bavail == 0);
        match is_full {
            true => format!("no space is left in {}; choose another place (--scratch)", self.scratch.display()),
            false => "it said nothing".to_owned(),
        }
    }

    /// Runs a command to its end; it fails unless it succeeds (a replay that went differently has run, too).
    fn perform(&self, command: &mut Command, log: &Path) -> Result<(), ValidateError> {
        let shown = format!("{command:?}");
        let said = self.scratch.join("said");
        let failed = |status: String| {
            let text = fs::read_to_string(&said).unwrap_or_default();
            let tail: String =
                text.trim().chars().rev().take(SAID_BYTES).collect::<Vec<_>>().into_iter().rev().collect();
            let said = if tail.is_empty() { self.silence() } else { tail };
            ValidateError::Run { command: shown.clone(), status, said }
        };
        let out = File::create(&said).map_err(|e| ValidateError::files("write", &said, e))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(out);
        // A group of its own: what a shell started ends with it.
        let mut child = command.process_group(0).spawn().map_err(|e| failed(e.to_string()))?;
        loop {
            match child.try_wait().map_err(|e| failed(e.to_string()))? {
                Some(status)
                    if status.success() || (status.code() == Some(1) && log.join("manifest.json").exists()) =>
                {
                    return Ok(());
                }
                Some(status) => return Err(failed(status.to_string())),
                None if self.procedure.stop.load(Ordering::Relaxed) != 0 => {
                    end(&mut child);
                    return Err(failed("an interruption".into()));
                }
                None => std::thread::sleep(LOOK_EVERY),
            }
        }
    }
}

/// Files of many settings together are more than a device may hold.
impl Drop for Bench<'_> {
    fn drop(&mut self) {
        for place in [&self.files, &self.target, &self.scratch] {
            let _ = fs::remove_dir_all(place);
        }
    }
}

/// How the runs of a scenario ended.
pub(crate) enum Ended {
    /// All blocks are done.
    Whole,
    /// It was told to stop.
    Stopped,
    /// A run failed.
    Failed(ValidateError),
}

/// What a log says, beside what can be.
struct Believed<'a> {
    observed: &'a Observed,
    trace: &'a Observed,
    calls: &'a [&'static str],
    /// How long the run took.
    took_ns: u64,
}

impl Believed<'_> {
    /// Why the log is not to be believed.
    fn check(&self, instrument: Option<&Instrument>) -> Result<(), String> {
        let longest = self.observed.longest_ns();
        if longest > self.took_ns {
            let took = self.took_ns;
            return Err(format!(
                "it has a response time of {longest} ns, and the whole run took {took}; times are in nanoseconds"
            ));
        }
        for call in self.calls {
            let times = self.observed.times_ns(call);
            if times.is_empty() {
                return Err(format!("it has no {call}"));
            }
            if times.iter().all(|time| *time == 0.0) {
                return Err(format!("every {call} takes no time at all in it; times are in nanoseconds"));
            }
            let traced: usize = self.trace.counts(call).iter().sum();
            if matches!(instrument, Some(Instrument::Record { view: View::Recorder, .. })) && times.len() != traced {
                let recorded = times.len();
                return Err(format!(
                    "it has {recorded} calls of {call} on the workload's files, the program made {traced}"
                ));
            }
        }
        Ok(())
    }
}

/// Ends a command and all that it started: asked first, as a replay or recorder takes its own things away, and then made to.
fn end(child: &mut Child) {
    let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return };
    let _ = kill_process_group(group, Signal::TERM);
    let begin = Instant::now();
    while begin.elapsed() < TIME_TO_END && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(LOOK_EVERY);
    }
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
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
pub(crate) fn shuffle<T>(order: &mut [T], rng: &mut Xoshiro256PlusPlus) {
    for last in (1..order.len()).rev() {
        let other = Uniform::new_inclusive(0, last).map_or(0, |among| among.sample(rng));
        order.swap(last, other);
    }
}
