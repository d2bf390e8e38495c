//! One scenario's runs, each from the state before the start.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand_distr::{Distribution, Uniform};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::ValidateError;
use crate::analysis::{Around, Run};
use crate::caches::Caches;
use crate::conditions::{Conditions, Limits, Measure};
use crate::finding::Source;
use crate::instrument::{Instrument, Places};
use crate::log::{LogFormat, trace};
use crate::observed::Observed;
use crate::procedure::{Procedure, Scenario};
use crate::rules::{self, Rules};
use crate::setting::Setting;
use crate::totals::Totals;

/// How often is looked whether a run has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
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

    /// All runs, block by block; false if it was told to stop before the end of the last block.
    pub fn runs(
        &self,
        rng: &mut Xoshiro256PlusPlus,
        out: &mut Vec<Run>,
        progress: &mut dyn FnMut(&str, usize),
    ) -> Result<bool, ValidateError> {
        for block in 0..self.procedure.runs {
            let mut order: Vec<Option<&Instrument>> =
                std::iter::once(None).chain(self.instruments.iter().map(Some)).collect();
            shuffle(&mut order, rng);
            for instrument in order {
                let name = instrument.map_or("reference".to_owned(), Instrument::name);
                progress(&name, out.len());
                match self.run(instrument, (block, out.len())) {
                    Err(_) if self.procedure.stop.load(Ordering::Relaxed) != 0 => return Ok(false),
                    run => out.push(run?),
                }
            }
        }
        Ok(true)
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
                is_limited: self.setting.memory_bytes.is_some(),
            })?,
        };
        let changed_rules = rules::changes(&self.rules, &(self.procedure.rules)());
        let before = Totals::now(&self.files);
        self.perform(&mut command, &log)?;
        let conditions = Conditions::between(before, Totals::now(&self.files));
        let around = Around { disturbances: self.limits.judge(&conditions), conditions, changed_rules };
        let format = instrument.map_or(LogFormat::Reprise, Instrument::log_format);
        let observed = format.read(&log, self.setting.calls())?;
        for call in self.setting.calls() {
            if observed.times_ns(call).is_empty() {
                return Err(ValidateError::Log { path: log, cause: format!("it has no {call}") });
            }
        }
        let source = instrument.map_or(Source::Reference, |instrument| Source::Instrument(instrument.name()));
        Ok(Run::new(source, at, self.setting.calls(), observed, around))
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
pub(crate) fn shuffle<T>(order: &mut [T], rng: &mut Xoshiro256PlusPlus) {
    for last in (1..order.len()).rev() {
        let other = Uniform::new_inclusive(0, last).map_or(0, |among| among.sample(rng));
        order.swap(last, other);
    }
}
