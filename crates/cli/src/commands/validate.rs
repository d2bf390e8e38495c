//! `reprise validate`.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use reprise_capture::environment::Surroundings;
use reprise_replay::run::{Pace, catch_signals};
use reprise_validate::{
    Caches, Instrument, Procedure, Program, Rules, Scenario, Setting, Step, Store, ValidateError, Validated,
    Validation, View,
};
use reprise_workload::{Filebench, Length, Micro, Pause};

use super::replay::{check_target, scratch};
use super::{Outcome, print, print_json, style};
use crate::args::validate::{Kind, Validate};
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::unfinished::{self, Output};

/// Runs the protocol.
pub fn run(args: Validate) -> Outcome {
    check_target(&args.dir)?;
    let scenarios = scenarios(&args)?;
    // What cannot be kept at the end is no work of hours.
    let store = store(&args)?;
    check_output(&args)?;
    let stop = catch_signals();
    let (place, logs) = directories(&args)?;
    let reprise = std::env::current_exe()?;
    let rules = || rules(place.path());
    let procedure = Procedure {
        reprise: &reprise,
        directory: place.path(),
        scratch: logs.path(),
        scenarios: &scenarios,
        runs: args.runs.unwrap_or(if args.quick { 3 } else { 10 }),
        seed: args.seed,
        series: args.series.as_deref(),
        time: args.time.map(|time| time.0),
        rules: &rules,
        stop,
    };
    let mut bar = Progress::new("validating", "runs", args.quiet);
    let mut is_estimated = args.quiet;
    let validated = reprise_validate::validate(&procedure, &mut |step: &Step| {
        is_estimated = is_estimated || estimate(step, scenarios.len());
        bar.at(step.done as u64, step.total as u64);
    });
    drop(bar);
    drop((place, logs));
    let Validated { validation, failure: failed } = validated.map_err(failure)?;
    let is_nothing = failed.is_some() && validation.findings.is_empty();
    let told = if is_nothing { Ok(()) } else { tell(&args, validation, store.as_deref()) };
    match failed {
        Some(error) => Err(failure(error)),
        None => told.map(|()| ExitCode::SUCCESS),
    }
}

/// Where findings are kept, which can be written there; a file there that cannot be understood is set aside, and that is said.
fn store(args: &Validate) -> Result<Option<PathBuf>, Failure> {
    let Some(directory) = reprise_validate::state_directory().filter(|_| !args.no_store) else { return Ok(None) };
    let store = Store::open(&directory).map_err(|e| Failure::new(Exit::System, e))?;
    if let Some(aside) = store.set_aside() {
        eprintln!("reprise: what was known of this machine could not be read, and is now in {}", aside.display());
    }
    Ok(Some(directory))
}

fn check_output(args: &Validate) -> Result<(), Failure> {
    let Some(output) = &args.output else { return Ok(()) };
    let tried = Output::create(output).map(drop);
    tried.map_err(|e| {
        let text = format!("{}: cannot be written: {e}; choose another place with -o", output.display());
        Failure::new(Exit::System, text)
    })
}

/// Says how long it will take, once that is known: after the first run, or by those of a series at once.
fn estimate(step: &Step, scenarios: usize) -> bool {
    let Some(left) = step.left.filter(|_| step.done > 0) else { return false };
    let kept = if step.kept > 0 { format!(", {} of them done before", step.kept) } else { String::new() };
    let about = reprise_report::duration(left.as_nanos() as u64);
    eprintln!("reprise: {} runs in {scenarios} scenarios{kept}; the rest takes about {about}", step.total);
    true
}

/// The disk that a device is or is part of, if it is on one.
fn disk(device: u64) -> Option<String> {
    let (major, minor) = (libc::major(device), libc::minor(device));
    let place = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let disk = if place.join("partition").exists() { place.parent()? } else { &place };
    Some(disk.file_name()?.to_string_lossy().into_owned())
}

/// What must be the same for all runs: scheduler and queue of the disk, options of the mount, write-back, governor.
fn rules(directory: &Path) -> Rules {
    /// The settings of a queue that change what a call costs.
    const QUEUE: [&str; 9] = [
        "scheduler",
        "read_ahead_kb",
        "nr_requests",
        "max_sectors_kb",
        "nomerges",
        "rq_affinity",
        "rotational",
        "write_cache",
        "wbt_lat_usec",
    ];
    let around = Surroundings::look();
    let device = std::fs::metadata(directory).map_or(0, |meta| meta.dev());
    let disk = disk(device);
    let queues = around.queues.into_iter().filter(|queue| Some(&queue.name) == disk.as_ref());
    let queues = queues.filter(|queue| QUEUE.contains(&queue.setting.as_str()));
    let mount = around.mounts.into_iter().rfind(|mount| mount.device == device);
    let options =
        mount.map(|mount| ("mount options".to_owned(), format!("{} {}", mount.options, mount.file_system_options)));
    let facts = around.facts.into_iter().filter(|(name, _)| ["cpu_governor", "write_back"].contains(&name.as_str()));
    queues.map(|queue| (format!("{} {}", queue.name, queue.setting), queue.value)).chain(options).chain(facts).collect()
}

/// What was found is told, and then kept: whatever happens to the store, it is not lost.
fn tell(args: &Validate, mut validation: Validation, store: Option<&Path>) -> Result<(), Failure> {
    let mut store = store.map(Store::open).transpose().map_err(|e| Failure::new(Exit::System, e));
    if let Ok(Some(store)) = &mut store {
        validation.drifts = reprise_validate::drifts(&store.learn(&validation));
    }
    if let Some(output) = &args.output {
        let text = serde_json::to_vec(&validation).map_err(|e| Failure::new(Exit::System, e))?;
        unfinished::write(output, &text, "-o")?;
    }
    if args.json {
        print_json(&validation)?;
    } else {
        print(&reprise_report::validation_text(&validation, style()))?;
    }
    if let Some(store) = store? {
        let path = store.keep().map_err(|e| Failure::new(Exit::System, e))?;
        if !args.json {
            print(&format!("kept for this machine in {}\n", path.display()))?;
        }
    }
    match validation.is_complete {
        true => Ok(()),
        false => Err(Failure::new(Exit::Interrupted, unfinished(args))),
    }
}

fn unfinished(args: &Validate) -> String {
    match &args.series {
        Some(series) => format!("not all is done; the same command goes on with what {} lacks", series.display()),
        None => "interrupted; what was finished is above (--series DIR keeps it, to go on with)".into(),
    }
}

/// A directory for the files, and one for the logs; both vanish.
fn directories(args: &Validate) -> Result<(tempfile::TempDir, tempfile::TempDir), Failure> {
    let place = tempfile::Builder::new().prefix("reprise-validate-").tempdir_in(&args.dir);
    let place = place.map_err(|e| Failure::new(Exit::Target, format!("cannot work in {}: {e}", args.dir.display())))?;
    let inside = args.scratch.as_ref().map(|dir| dir.join("runs"));
    Ok((place, scratch(inside.as_deref(), "traces and logs")?))
}

fn settings(args: &Validate) -> Vec<Setting> {
    let caches = if args.cold { Caches::Cold } else { Caches::Warm };
    let memory_bytes = args.memory.map(|bytes| bytes.0);
    let setting = |program| Setting { program, caches, memory_bytes };
    let levels = match (&args.level[..], args.quick) {
        ([], true) => vec![1, 2],
        ([], false) => vec![1, 2, 3, 4],
        (levels, _) => levels.to_vec(),
    };
    let mut out = Vec::new();
    for reference in &args.workload {
        let access = match reference.kind() {
            Kind::Micro(access) => access,
            Kind::Filebench(personality) => {
                let length = Length::Rounds(args.rounds.unwrap_or(if args.quick { 50 } else { 200 }));
                let bench = Filebench { length, seed: args.seed, ..Filebench::of(personality) };
                out.push(setting(Program::Filebench(bench)));
                continue;
            }
        };
        for pause in &args.pause {
            for &threads in &levels {
                out.push(setting(Program::Micro(Micro {
                    access,
                    threads,
                    requests: args.requests.unwrap_or(if args.quick { 1000 } else { 5000 }),
                    file_bytes: args.file_size.0,
                    pause: Pause { length: pause.0, by: args.pause_by.into() },
                    seed: args.seed,
                    ..Micro::default()
                })));
            }
        }
    }
    out
}

/// Each setting with its instruments: where there is a pause, replays keep the traced instants.
fn scenarios(args: &Validate) -> Result<Vec<Scenario>, Failure> {
    let is_paused = |setting: &Setting| setting.workload().pause().is_some_and(|p| p.length > Duration::ZERO);
    let scenario = |setting: Setting| {
        let pace = if is_paused(&setting) { "timestamp" } else { "afap" };
        Ok(Scenario { instruments: instruments(args, pace)?, setting })
    };
    settings(args).into_iter().map(scenario).collect()
}

fn instruments(args: &Validate, pace: &str) -> Result<Vec<Instrument>, Failure> {
    let usage = |e: String| Failure::new(Exit::Usage, e);
    let paces = if args.pace.is_empty() { vec![pace.to_owned()] } else { args.pace.clone() };
    let mut out = Vec::new();
    for order in args.order.iter().filter(|_| !args.no_replay) {
        order.parse::<reprise_plan::Order>().map_err(|e| usage(e.to_string()))?;
        for pace in &paces {
            pace.parse::<Pace>().map_err(usage)?;
            for io in &args.io {
                for &matched in if args.unmatched { &[true, false][..] } else { &[true] } {
                    let (order, pace, io) = (order.clone(), pace.clone(), io.clone());
                    out.push(Instrument::Replay { order, pace, io, matched });
                }
            }
        }
    }
    for backend in &args.capture {
        if !["ptrace", "ebpf"].contains(&backend.as_str()) {
            return Err(usage(format!("'{backend}' is no backend to be validated; choose ptrace or ebpf")));
        }
        for view in [View::Recorder, View::Program] {
            out.push(Instrument::Record { backend: backend.clone(), view });
        }
    }
    for template in &args.instrument {
        let word = template.split_whitespace().next().unwrap_or("command");
        let program =
            PathBuf::from(word).file_name().map_or(word.to_owned(), |name| name.to_string_lossy().into_owned());
        let others = out.iter().filter(|i| i.name().starts_with(&program)).count();
        let name = if others > 0 { format!("{program} {}", others + 1) } else { program };
        out.push(Instrument::Command { name, template: template.clone(), log: args.log });
    }
    Ok(out)
}

fn failure(error: ValidateError) -> Failure {
    let exit = match error {
        ValidateError::Workload(error) => return super::workload::failure(error),
        ValidateError::Trace(error) => return error.into(),
        ValidateError::Settings(_) | ValidateError::Log { .. } | ValidateError::Series { .. } => Exit::Usage,
        ValidateError::Run { .. } | ValidateError::Files { .. } => Exit::System,
    };
    Failure::new(exit, error)
}
