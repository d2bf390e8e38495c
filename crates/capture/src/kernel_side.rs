//! A recording in the kernel, from its options to its trace.
//!
//! Goals: the same outcome as that of the tracer, so that nobody else needs to know who recorded. Non-goals: the programs
//! in the kernel and their spool (`ebpf`), what becomes of it (`finish`).

use reprise_trace::{Loss, TraceWriter, discard};

use crate::ebpf::{Session, SpoolError, SpoolOptions, Summary};
use crate::error::CaptureError;
use crate::finish::{self, SPOOL};
use crate::log::Log;
use crate::record::{Options, Outcome, new_manifest, snapshots, world};
use crate::spool::Begin;

/// Records a command, or what runs already.
pub fn record(mut options: Options) -> Result<Outcome, CaptureError> {
    let existed = options.trace.is_dir();
    let mut log = begun(&options)?;
    let seeds = log.take_names();
    let mut session = SpoolOptions::new(&options.trace, options.command.clone());
    session.scope = options.scope.clone();
    session.duration = options.duration;
    session.data = options.data;
    session.whole_file_bytes = options.whole_file_bytes;
    session.libraries = options.libraries;
    session.cpu = options.cpu;
    session.mapped = options.mapped;
    let summary = match Session::start(&session).and_then(Session::run) {
        Ok(summary) => summary,
        Err(SpoolError::Unwritten { path, source }) => return Err(CaptureError::Spool { path, source }),
        Err(error) => {
            drop(log);
            discard(&options.trace, existed);
            return Err(failure(error));
        }
    };
    let spool = options.trace.join(SPOOL);
    let begin = Begin::read(&spool).map_err(|source| CaptureError::NoSpool { path: spool, source })?;
    let snapshots = std::mem::take(&mut log.manifest_mut().snapshots);
    *log.manifest_mut() = reprise_trace::Manifest { snapshots, ..begin.manifest.clone() };
    account(&summary, &mut log, &mut *options.warn);
    let known = finish::Known { until_ns: u64::MAX, end: Some(summary.end) };
    finish::finish(log, &begin, &options.trace, &seeds, known, &mut |_, _| {})
}

/// The trace with what is snapshot before the start.
fn begun(options: &Options) -> Result<Log, CaptureError> {
    let manifest = new_manifest(options.data, &options.command)?;
    let writer = TraceWriter::create(&options.trace, manifest, options.writer.clone())?;
    let mut log = Log::new(writer, options.data);
    log.remember_names();
    snapshots(&mut world(options), &options.trees, &mut log)?;
    log.check()?;
    Ok(log)
}

/// What the kernel says of the recording.
fn account(summary: &Summary, log: &mut Log, warn: &mut dyn FnMut(&str)) {
    if !summary.capabilities.waiting && summary.dropped > 0 {
        warn("this kernel cannot let a program wait for the recorder (Linux 6.18 can): records were dropped");
    }
    log.loss_several(Loss::Dropped, "records that the kernel could not make, or had no room for", summary.dropped);
    log.note_several("times that a thread waited for the recorder", summary.waits);
}

fn failure(error: SpoolError) -> CaptureError {
    match error {
        SpoolError::Start(error) => error,
        SpoolError::Unavailable(reason) => CaptureError::NoBackend { cause: reason.to_string() },
        SpoolError::Step { step, source, advice } => CaptureError::Start { step, source, advice },
        SpoolError::Unwritten { path, source } => CaptureError::Spool { path, source },
    }
}
