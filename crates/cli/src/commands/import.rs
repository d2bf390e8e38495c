//! `reprise import`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use reprise_capture::Seeds;
use reprise_formats::strace::{Account, ImportError, Log, Report, Scanned, Tally, scan};
use reprise_trace::{DataPolicy, Host, Kind, Manifest, TraceWriter, WriterOptions};
use serde_json::json;

use super::{Outcome, print_json, several};
use crate::args::Import;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::unfinished::Unfinished;

/// Makes a trace from logs.
pub fn run(args: Import) -> Outcome {
    let begin = Instant::now();
    let unfinished = Unfinished::new("no trace was written; the same command begins anew", || ());
    let spool = spool(&args.logs, &unfinished)?;
    let logs: Vec<Log> = args.logs.iter().map(|path| log(path, spool.as_ref())).collect();
    let bytes: u64 = logs.iter().filter_map(|log| fs::metadata(&log.path).ok()).map(|m| m.len()).sum();
    let mut progress = Progress::new("reading", "bytes", args.quiet);
    let scanned = scan(logs, &mut |done| progress.at(done, bytes * 2)).map_err(failure)?;
    let report = write(&args, scanned, &unfinished, &mut |done| progress.at(bytes + done, bytes * 2));
    drop(progress);
    let report = report?;
    unfinished.whole(|| ());
    if args.json {
        return print_json(&summary_json(&args.output, &report, begin));
    }
    if !args.quiet {
        let _ = io::stderr().write_all(summary(&args, &report).as_bytes());
    }
    Ok(Exit::Done.into())
}

fn write(
    args: &Import,
    scanned: Scanned,
    unfinished: &Unfinished,
    progress: &mut dyn FnMut(u64),
) -> Result<Report, Failure> {
    let manifest =
        Manifest::new(Kind::Record, DataPolicy::Full, Vec::new(), reprise_trace::random_identity()?, 0, host());
    let options = WriterOptions { contents: args.blobs.clone(), ..WriterOptions::default() };
    let existed = args.output.is_dir();
    // Refuses a place where something is: what is taken away again is of this import.
    let writer = TraceWriter::create(&args.output, manifest, options)?;
    let output = args.output.clone();
    unfinished.also(move || reprise_trace::discard(&output, existed));
    let (writer, seeds) = snapshot(writer, &args.tree)?;
    scanned.write(writer, &seeds, progress).map_err(failure)
}

fn snapshot(writer: TraceWriter, trees: &[PathBuf]) -> Result<(TraceWriter, Seeds), Failure> {
    if trees.is_empty() {
        return Ok((writer, Seeds::default()));
    }
    reprise_capture::snapshot_into(writer, trees).map_err(|error| Failure::new(Exit::Usage, error))
}

/// Standard input, put into a file: logs are read twice.
fn spool(logs: &[PathBuf], unfinished: &Unfinished) -> Result<Option<tempfile::NamedTempFile>, Failure> {
    if !logs.iter().any(|path| path.as_os_str() == "-") {
        return Ok(None);
    }
    let mut file = tempfile::NamedTempFile::new()?;
    let path = file.path().to_owned();
    unfinished.also(move || drop(fs::remove_file(&path)));
    io::copy(&mut io::stdin().lock(), &mut file)?;
    Ok(Some(file))
}

fn log(path: &Path, spool: Option<&tempfile::NamedTempFile>) -> Log {
    match spool.filter(|_| path.as_os_str() == "-") {
        Some(spool) => Log { path: spool.path().to_owned(), tid: None },
        None => Log::new(path),
    }
}

/// The log does not say where it was made.
fn host() -> Host {
    let unknown = || "unknown".to_owned();
    Host { kernel: unknown(), name: unknown(), machine: "x86_64".to_owned(), processors: 0 }
}

fn failure(error: ImportError) -> Failure {
    let exit = match error {
        ImportError::Write(error) => return error.into(),
        ImportError::Log { .. } | ImportError::Read(_) => Exit::System,
        ImportError::Foreign { .. } => Exit::Trace,
        ImportError::NoOrder | ImportError::NoThread { .. } => Exit::Usage,
    };
    Failure::new(exit, error)
}

fn summary(args: &Import, report: &Report) -> String {
    let account = &report.account;
    let mut text = format!(
        "reprise: {}, {} of content, from {} in {}\n",
        several(report.actions, "action"),
        reprise_report::bytes(report.bytes),
        several(account.lines, "line"),
        args.output.display()
    );
    text += &format!(
        "reprise: {} lines understood ({} of calls that touch no storage), {} counted\n",
        account.understood,
        report.unrelated,
        account.counted()
    );
    for (reason, tally) in &account.reasons {
        text += &format!("{:>9}  {:22} {}; {}\n", tally.count, reason.name(), reason.meaning(), places(args, tally));
    }
    for statement in &report.statements {
        text += &format!("reprise: {statement}\n");
    }
    text
}

fn places(args: &Import, tally: &Tally) -> String {
    let several = args.logs.len() > 1;
    let place = |p: &reprise_formats::strace::Place| match args.logs.get(p.log as usize).filter(|_| several) {
        Some(log) => format!("{}:{}", log.display(), p.line),
        None => p.line.to_string(),
    };
    let shown: Vec<String> = tally.first.iter().map(place).collect();
    let more = if tally.count > shown.len() as u64 { ", …" } else { "" };
    format!("line {}{more}", shown.join(", "))
}

fn summary_json(trace: &Path, report: &Report, begin: Instant) -> serde_json::Value {
    let Account { lines, understood, reasons } = &report.account;
    let reasons = reasons.iter().map(|(reason, tally)| {
        let first: Vec<_> = tally.first.iter().map(|p| json!({"log": p.log, "line": p.line})).collect();
        (reason.name().to_owned(), json!({"count": tally.count, "meaning": reason.meaning(), "first": first}))
    });
    json!({
        "trace": trace,
        "id": report.manifest.id,
        "lines": lines,
        "understood": understood,
        "unrelated": report.unrelated,
        "reasons": reasons.collect::<serde_json::Map<_, _>>(),
        "actions": report.actions,
        "bytes": report.bytes,
        "statements": report.statements,
        "end": report.manifest.end,
        "import_ns": begin.elapsed().as_nanos() as u64,
    })
}
