//! `reprise validate`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use reprise_replay::run::{Pace, catch_signals};
use reprise_validate::{Caches, Instrument, Procedure, Program, Setting, Step, ValidateError, Validation, View};
use reprise_workload::{Access, Fileserver, Length, Micro, Pause};

use super::replay::{check_target, scratch};
use super::{Outcome, print, print_json, style};
use crate::args::validate::{Reference, Validate};
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::unfinished;

/// Runs the protocol.
pub fn run(args: Validate) -> Outcome {
    check_target(&args.dir)?;
    let settings = settings(&args);
    let stop = catch_signals();
    let (place, logs) = directories(&args)?;
    let reprise = std::env::current_exe()?;
    let mut validation: Option<Validation> = None;
    // Replays with a pace of their own belong to settings with a pause: these are procedures of their own.
    for (settings, instruments) in groups(&args, settings)? {
        let procedure = Procedure {
            reprise: &reprise,
            directory: place.path(),
            scratch: logs.path(),
            settings: &settings,
            instruments: &instruments,
            runs: args.runs.unwrap_or(if args.quick { 3 } else { 10 }),
            seed: args.seed,
            stop,
        };
        let mut bar =
            Progress::new("validating", "runs", args.quiet).or_line("validating; this takes a while", args.quiet);
        let part =
            reprise_validate::validate(&procedure, &mut |step: &Step| bar.at(step.done as u64, step.total as u64));
        drop(bar);
        validation = Some(joined(validation, part.map_err(failure)?));
        if validation.as_ref().is_some_and(|v| !v.is_complete) {
            break;
        }
    }
    let Some(validation) = validation else { return Err(Failure::new(Exit::Usage, "there is nothing to validate")) };
    drop((place, logs));
    end(&args, &validation)
}

/// What is found is kept and told.
fn end(args: &Validate, validation: &Validation) -> Outcome {
    let said = |e: &dyn ToString| Failure::new(Exit::System, e.to_string());
    let kept = match reprise_validate::state_directory().filter(|_| !args.no_store) {
        Some(directory) => Some(reprise_validate::store(validation, &directory).map_err(|e| said(&e))?),
        None => None,
    };
    if let Some(output) = &args.output {
        let text = serde_json::to_vec(validation).map_err(|e| said(&e))?;
        unfinished::write(output, &text, "-o")?;
    }
    if args.json {
        print_json(validation)?;
    } else {
        let mut text = reprise_report::validation_text(validation, style());
        if let Some(path) = kept {
            let known = path.parent().map(reprise_validate::stored).transpose().map_err(|e| said(&e))?;
            text += &reprise_report::drifts_text(&reprise_validate::drifts(&known.unwrap_or_default()), style());
            text += &format!("kept for this machine in {}\n", path.display());
        }
        print(&text)?;
    }
    match validation.is_complete {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Failure::new(Exit::Interrupted, "interrupted; what was finished is above")),
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
    let levels = match (&args.level[..], args.quick) {
        ([], true) => vec![1, 2],
        ([], false) => vec![1, 2, 3, 4],
        (levels, _) => levels.to_vec(),
    };
    let mut out = Vec::new();
    for reference in &args.workload {
        let access = match reference {
            Reference::RandomRead => Access::RandomRead,
            Reference::RandomWrite => Access::RandomWrite,
            Reference::SequentialRead => Access::SequentialRead,
            Reference::SequentialWrite => Access::SequentialWrite,
            Reference::Fileserver => {
                let rounds = args.rounds.unwrap_or(if args.quick { 50 } else { 200 });
                let server = Fileserver { length: Length::Rounds(rounds), seed: args.seed, ..Fileserver::default() };
                out.push(Setting { program: Program::Fileserver(server), caches });
                continue;
            }
        };
        for pause in &args.pause {
            for &threads in &levels {
                let micro = Micro {
                    access,
                    threads,
                    requests: args.requests.unwrap_or(if args.quick { 1000 } else { 5000 }),
                    file_bytes: args.file_size.0,
                    pause: Pause { length: pause.0, ..Pause::default() },
                    seed: args.seed,
                    ..Micro::default()
                };
                out.push(Setting { program: Program::Micro(micro), caches });
            }
        }
    }
    out
}

type Group = (Vec<Setting>, Vec<Instrument>);

/// Settings without and with a pause, with the instruments of each.
fn groups(args: &Validate, settings: Vec<Setting>) -> Result<Vec<Group>, Failure> {
    let is_paused = |setting: &Setting| setting.workload().pause().is_some_and(|p| p.length > Duration::ZERO);
    let (paused, steady): (Vec<Setting>, Vec<Setting>) = settings.into_iter().partition(is_paused);
    let mut out = Vec::new();
    for (settings, pace) in [(steady, "afap"), (paused, "timestamp")] {
        if !settings.is_empty() {
            out.push((settings, instruments(args, pace)?));
        }
    }
    Ok(out)
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
                out.push(Instrument::Replay { order: order.clone(), pace: pace.clone(), io: io.clone() });
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

/// Two procedures of one validation.
fn joined(first: Option<Validation>, mut second: Validation) -> Validation {
    if let Some(mut first) = first {
        first.findings.append(&mut second.findings);
        first.linearity.append(&mut second.linearity);
        first.runs.append(&mut second.runs);
        first.is_complete &= second.is_complete;
        return first;
    }
    second
}

fn failure(error: ValidateError) -> Failure {
    let exit = match error {
        ValidateError::Workload(error) => return super::workload::failure(error),
        ValidateError::Trace(error) => return error.into(),
        ValidateError::Settings(_) | ValidateError::Log { .. } => Exit::Usage,
        ValidateError::Run { .. } | ValidateError::Files { .. } => Exit::System,
    };
    Failure::new(exit, error)
}
