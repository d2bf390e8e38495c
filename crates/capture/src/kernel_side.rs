//! A recording in the kernel, from its options to its trace.
//!
//! Goals: the same outcome as that of the tracer, so that nobody else needs to know who recorded. Non-goals: the programs
//! in the kernel and their spool (`ebpf`), what becomes of it (`finish`).

use std::io;

use reprise_trace::{Ledger, Loss, Manifest, TraceWriter};

use crate::ebpf::{Ready, Sink, SpoolError, SpoolOptions, Summary};
use crate::error::CaptureError;
use crate::finish::{self, SPOOL};
use crate::log::Log;
use crate::record::{Backend, Options, Outcome, WHY, new_manifest, snapshots, world};
use crate::spool::Begin;
use crate::unbegun::Unbegun;

/// Why a program is not recorded in the kernel: it was not started, or it is over.
pub enum Failure {
    /// Nothing has begun: another way can be tried.
    Unavailable(String),
    /// Something else.
    Failed(CaptureError),
}

impl From<CaptureError> for Failure {
    fn from(error: CaptureError) -> Failure {
        Failure::Failed(error)
    }
}

/// Records a command, or what runs already; `why` is why it is done this way.
pub fn record(options: &mut Options, why: &str) -> Result<Outcome, Failure> {
    let ended = options.scope.leave_out_ended();
    let session = session(options);
    let ready = Ready::load(&session).map_err(|reason| Failure::Unavailable(reason.to_string()))?;
    let lacks = ready.lacks();
    let unbegun = Unbegun::watch(&options.trace)?;
    let mut log = begun(options, &unbegun)?;
    without(&ended, options, &mut log);
    let seeds = log.take_names();
    // The program may share the file that this is written to: said before it is looked at, so that its size is what it finds.
    if options.backend == Backend::Auto {
        (options.chosen)(&format!("recording in the kernel (ebpf): {why}"));
    }
    lacks.iter().for_each(|lacks| (options.warn)(lacks));
    // Until the end of this function a signal ends what is done, not this process: also between the recording and the
    // making of the trace.
    let (recorded, signals) = match ready.start(&session, &mut || unbegun.begins()) {
        Ok(session) => session.run_guarded(),
        Err(error) => (Err(error), None),
    };
    let summary = match recorded {
        Ok(summary) => summary,
        Err(SpoolError::Cut { path, source, end }) => {
            return Err(CaptureError::NoRoom { path, source, trace: options.trace.clone(), end }.into());
        }
        Err(error) => {
            drop(log);
            unbegun.discard();
            return Err(failure(error));
        }
    };
    let spool = options.trace.join(SPOOL);
    let begin = Begin::read(&spool).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => CaptureError::Gone { path: spool, source },
        _ => CaptureError::NoSpool { path: spool, source },
    })?;
    let begun = log.manifest_mut();
    let (snapshots, id) = (std::mem::take(&mut begun.snapshots), std::mem::take(&mut begun.id));
    *begun = Manifest { snapshots, id, ..begin.manifest.clone() };
    log.manifest_mut().facts.extend(facts(why, lacks));
    account(&summary, options, &mut log);
    if session.sink == Sink::Null {
        let measured = measured(summary, &mut log);
        drop(log);
        unbegun.discard();
        return Ok(measured);
    }
    let known = finish::Known {
        until_ns: u64::MAX,
        end: Some(summary.end),
        passed: if summary.limited { summary.passed } else { 0 },
        lacks: summary.lacks,
        cut: None,
    };
    let mut progress = finish::heed_signals(&mut *options.progress);
    let finished = finish::finish(log, &begin, &options.trace, &seeds, known, &mut progress);
    if let Err(CaptureError::Interrupted { .. }) = finished {
        // Who is to end, and to say so, does not end otherwise when it is told once more.
        std::mem::forget((signals, unbegun));
    }
    Ok(Outcome { in_kernel: Some(summary), ..finished? })
}

/// Says who of those that were to be recorded has ended.
fn without(ended: &[i32], options: &mut Options, log: &mut Log) {
    for pid in ended {
        log.note(format!("--pid {pid}: there is no such process any more; the others were recorded"));
    }
    if !ended.is_empty() {
        let list: Vec<String> = ended.iter().map(i32::to_string).collect();
        (options.warn)(&format!(
            "--pid {}: there is no such process any more; the others are recorded",
            list.join(",")
        ));
    }
}

fn session(options: &Options) -> SpoolOptions {
    SpoolOptions {
        scope: options.scope.clone(),
        duration: options.duration,
        data: options.data,
        whole_file_bytes: options.whole_file_bytes,
        libraries: options.libraries,
        cpu: options.cpu,
        mapped: options.mapped,
        survey: options.kernel.survey,
        sample_every: options.sample_every,
        max_bytes: options.writer.max_bytes,
        contents: options.writer.contents.clone(),
        segments: options.kernel.segments,
        on_full: options.kernel.on_full,
        sink: options.kernel.sink,
        ..SpoolOptions::new(&options.trace, options.command.clone())
    }
}

fn facts(why: &str, lacks: Option<String>) -> [(String, String); 2] {
    let waiting = lacks.unwrap_or_else(|| "yes".to_owned());
    [(WHY.into(), why.into()), ("waiting_for_room".into(), waiting)]
}

/// The trace with what is snapshot before the start.
fn begun(options: &Options, unbegun: &Unbegun) -> Result<Log, CaptureError> {
    let manifest = new_manifest(options.data, &options.command)?;
    let writer = unbegun.make(|| TraceWriter::create(&options.trace, manifest, options.writer.clone()))?;
    let mut log = Log::new(writer, options.data);
    log.remember_names();
    let taken = snapshots(&mut world(options), &options.trees, &mut log);
    if let Err(error) = taken.and_then(|()| Ok(log.check()?)) {
        drop(log);
        unbegun.discard();
        return Err(error);
    }
    Ok(log)
}

/// Since Linux 7.0 a thread may be taken off its processor while the kernel tells of its call; of others there nothing is told then.
const UNTOLD: &str = "calls of any program of which the kernel told nothing, since it was telling of another one's";

/// What the kernel says of the recording. What it dropped is told with the spool.
fn account(summary: &Summary, options: &mut Options, log: &mut Log) {
    if summary.limited {
        (options.warn)("the trace has reached the size it may have; the program goes on");
    }
    log.loss_several(Loss::Dropped, "records that the kernel could not make", summary.missed);
    log.loss_several(Loss::Dropped, UNTOLD, summary.untold);
    log.note_several("times that a thread waited for the recorder", summary.waits);
}

/// What a recording was that nothing was kept of.
fn measured(summary: Summary, log: &mut Log) -> Outcome {
    summary.lacks.causes(0).for_each(|(cause, count)| log.loss_several(Loss::Dropped, cause, count));
    let (ledger, manifest): (Ledger, Manifest) = (log.ledger().clone(), log.manifest_mut().clone());
    Outcome { end: summary.end, actions: 0, bytes: summary.bytes, ledger, manifest, in_kernel: Some(summary) }
}

fn failure(error: SpoolError) -> Failure {
    Failure::Failed(match error {
        SpoolError::Unavailable(reason) => return Failure::Unavailable(reason.to_string()),
        SpoolError::Start(error) => error,
        SpoolError::Step { step, source, advice } => CaptureError::Start { step, source, advice },
        SpoolError::Unwritten { path, source } | SpoolError::Cut { path, source, .. } => {
            CaptureError::Unspooled { path, source }
        }
    })
}
