//! A recording from its options to its outcome.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reprise_initial::Seeds;
use reprise_trace::{
    DataPolicy, End, Host, Kind, Ledger, Loss, MAPPED_STORES, MEMORY_LIMIT, Manifest, TraceWriter, WriterOptions,
    contents_elsewhere, kib_text,
};

use crate::ebpf::{OnFull, Sink, Summary};
use crate::environment::{CORE_PATTERN, Observer, Processes, Sampler, Surroundings, core_pattern, memory_limit_bytes};
use crate::error::CaptureError;
use crate::filter;
use crate::kernel_side::{self, Failure};
use crate::log::Log;
use crate::procfs;
use crate::scope::Scope;
use crate::sys::{self, Launch, Signals, Waiting};
use crate::tracer::{Launching, Tracer};
use crate::unbegun::Unbegun;
use crate::world::{World, snapshot};

/// How often the environment is sampled if nothing else is asked for.
pub const SAMPLE_EVERY: Duration = Duration::from_millis(100);

/// Samples that may wait to be written; the tracer looks after them several times a second.
const SAMPLES_WAITING: usize = 256;

/// The fact that says why a trace was recorded by its backend.
pub const WHY: &str = "backend_why";

/// How a program is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backend {
    /// By the first that is possible here.
    #[default]
    Auto,
    /// By programs in the kernel.
    Ebpf,
    /// By stopping the program at each call.
    Ptrace,
}

/// How programs in the kernel hand over what they record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelOptions {
    /// Segments of 1 MiB between the kernel and the disk.
    pub segments: u32,
    /// What happens when all of them are full.
    pub on_full: OnFull,
    /// Where they go: anything but the disk is for measurements, and leaves no trace.
    pub sink: Sink,
    /// Names around the command that are looked at before it runs, at most.
    pub survey: usize,
}

impl Default for KernelOptions {
    fn default() -> KernelOptions {
        KernelOptions { segments: 64, on_full: OnFull::Block, sink: Sink::Disk, survey: 20_000 }
    }
}

/// What to record, and how.
pub struct Options {
    /// How the program is recorded.
    pub backend: Backend,
    /// Directory of the trace; must not exist, or be empty.
    pub trace: PathBuf,
    /// How content is kept.
    pub data: DataPolicy,
    /// Directories to snapshot with contents before the start.
    pub trees: Vec<PathBuf>,
    /// Whom to record.
    pub scope: Scope,
    /// The program and its arguments, where that is recorded.
    pub command: Vec<OsString>,
    /// Recording ends after so long; what is recorded goes on.
    pub duration: Option<Duration>,
    /// Files up to this many bytes are captured whole when the program opens them.
    pub whole_file_bytes: u64,
    /// Whether the content of files beyond that size is captured when the loader maps them (`MAP_DENYWRITE`):
    /// complete, but a program that loads hundreds of megabytes of libraries starts noticeably later.
    pub libraries: bool,
    /// Whether what programs write through shared mappings of files is found by looking at their pages.
    pub mapped: bool,
    /// Whether the processor time that threads use between calls is recorded: for `replay --pace cpu`.
    pub cpu: bool,
    /// How often the environment is sampled; `None`: not at all.
    pub sample_every: Option<Duration>,
    /// Bounds on what the writer holds in memory and on disk, and where the contents go.
    pub writer: WriterOptions,
    /// What matters to recording in the kernel only.
    pub kernel: KernelOptions,
    /// Hears how much of what was recorded in the kernel has become a trace when the program has ended: bytes, and of how
    /// many.
    pub progress: Box<dyn FnMut(u64, u64)>,
    /// Hears which backend records and why, where that was left open ([`Backend::Auto`]).
    pub chosen: Box<dyn FnMut(&str)>,
    /// Hears what the user should know at once.
    pub warn: Box<dyn FnMut(&str)>,
}

impl Options {
    /// The usual options: full data, small files whole, warnings to nowhere.
    pub fn new(trace: impl Into<PathBuf>, command: Vec<OsString>) -> Options {
        Options {
            backend: Backend::default(),
            trace: trace.into(),
            data: DataPolicy::Full,
            trees: Vec::new(),
            scope: Scope::Command,
            command,
            duration: None,
            whole_file_bytes: 1 << 20,
            libraries: false,
            mapped: true,
            cpu: false,
            sample_every: Some(SAMPLE_EVERY),
            writer: WriterOptions { begin_encoder: sys::step_back, ..WriterOptions::default() },
            kernel: KernelOptions::default(),
            progress: Box::new(|_, _| {}),
            chosen: Box::new(|_| {}),
            warn: Box::new(|_| {}),
        }
    }
}

/// What a recording has become.
#[derive(Debug)]
pub struct Outcome {
    /// How the program ended: the recorder is to end likewise.
    pub end: End,
    /// Actions recorded.
    pub actions: u64,
    /// Bytes of content that they moved.
    pub bytes: u64,
    /// What is not in the trace, and what a reader should know.
    pub ledger: Ledger,
    /// The manifest as closed.
    pub manifest: Manifest,
    /// What the kernel says of a recording there.
    pub in_kernel: Option<Summary>,
}

/// Records, and writes the trace. If the program could not be started, or not be recorded, no trace remains.
pub fn record(mut options: Options) -> Result<Outcome, CaptureError> {
    const ASKED: &str = "as asked for by --backend";
    if options.command.is_empty() && options.scope == Scope::Command {
        return Err(CaptureError::NoCommand);
    }
    // The tracer stays until all that it traces have ended, and begins with a command.
    let beyond_the_tracer = match (&options.scope, options.duration) {
        (Scope::Command, None) => None,
        (Scope::Command, Some(_)) => Some("--duration".to_owned()),
        (scope, _) => Some(scope.name()),
    };
    let recorded = match (options.backend, &beyond_the_tracer) {
        (Backend::Ptrace, None) => return watch(options, ASKED),
        (Backend::Ptrace, Some(scope)) => {
            return Err(CaptureError::NotAttachable { scope: scope.clone(), cause: String::new() });
        }
        (Backend::Ebpf, _) => kernel_side::record(&mut options, ASKED),
        (Backend::Auto, Some(scope)) => kernel_side::record(&mut options, &format!("nothing else records {scope}")),
        (Backend::Auto, None) => kernel_side::record(&mut options, "kernel and rights permit it"),
    };
    match recorded {
        Ok(outcome) => Ok(outcome),
        Err(Failure::Failed(error)) => Err(error),
        Err(Failure::Unavailable(cause)) if options.backend == Backend::Ebpf => Err(CaptureError::NoBackend { cause }),
        Err(Failure::Unavailable(cause)) => match beyond_the_tracer {
            None => watch(options, &format!("not in the kernel: {cause}")),
            Some(scope) => {
                let cause = format!(", and that is not possible here: {cause}");
                Err(CaptureError::NotAttachable { scope, cause })
            }
        },
    }
}

/// Records by stopping the program at each call; `why` is why it is done this way.
fn watch(mut options: Options, why: &str) -> Result<Outcome, CaptureError> {
    if options.backend == Backend::Auto {
        (options.chosen)(&format!("recording by ptrace: {why}"));
    }
    let command = options.command.first().ok_or(CaptureError::NoCommand)?;
    let command = command.to_string_lossy().into_owned();
    let program = find(&options.command[0])?;
    let argv: Vec<CString> = options.command.iter().map(|a| c_string(a.as_bytes())).collect::<Result<_, _>>()?;
    let mut manifest = manifest(&options)?;
    manifest.facts.insert(WHY.into(), why.into());
    let unbegun = Unbegun::watch(&options.trace)?;
    let writer = unbegun.make(|| TraceWriter::create(&options.trace, manifest, options.writer.clone()))?;
    let started = start(&mut options, writer, &unbegun, (&program, &argv), command);
    if let Err(error) = &started
        && !matches!(error, CaptureError::Trace { .. } | CaptureError::Unwritten { .. })
    {
        unbegun.discard();
    }
    started
}

/// Snapshots directories with their contents into a trace that is made otherwise than by recording. Returns the names
/// written, a directory before what is in it.
///
/// # Errors
/// A directory cannot be read, or the trace not be written.
pub fn snapshot_into(writer: TraceWriter, trees: &[PathBuf]) -> Result<(TraceWriter, Seeds), CaptureError> {
    let mut log = Log::new(writer, DataPolicy::Full);
    log.remember_names();
    snapshots(&mut World::new(0, false), trees, &mut log)?;
    Ok(log.into_parts()?)
}

/// Snapshots directories with their contents.
pub(crate) fn snapshots(world: &mut World, trees: &[PathBuf], log: &mut Log) -> Result<(), CaptureError> {
    for tree in trees {
        let full = snapshot(world, tree, log)?;
        log.manifest_mut().snapshots.push(full);
    }
    Ok(())
}

/// What is known before a recording: the trace itself is no part of it.
pub(crate) fn world(options: &Options) -> World {
    let mut world = World::new(options.whole_file_bytes, options.libraries);
    world.exclude(&options.trace);
    contents_elsewhere(&options.trace).iter().for_each(|place| world.exclude(place));
    world
}

fn start(
    options: &mut Options,
    writer: TraceWriter,
    unbegun: &Unbegun,
    (program, argv): (&CString, &[CString]),
    command: String,
) -> Result<Outcome, CaptureError> {
    let mut log = Log::new(writer, options.data);
    let mut world = world(options);
    log.surroundings(Surroundings::look());
    snapshots(&mut world, &options.trees, &mut log)?;
    log.check()?;
    let sampling = sampling(options.sample_every, &mut log)?;
    let filter = filter::program();
    let launch = Launch { program, argv, filter: &filter };
    let child = sys::fork(&launch).map_err(|source| CaptureError::Start {
        step: "make a process",
        source,
        advice: "check the limits on processes and memory",
    })?;
    let pid = child.pid;
    let mut signals = match seize(child, unbegun) {
        Ok(signals) => signals,
        Err(error) => {
            let _ = sys::kill(pid, libc::SIGKILL);
            let _ = sys::wait();
            return Err(error);
        }
    };
    let launching = Launching::new(command, program.to_bytes().to_vec());
    let mut tracer = Tracer::new(pid, launching, log, world, &mut *options.warn)
        .with_cpu(options.cpu)
        .with_stores_recorded(options.mapped)
        .with_sampled(sampling.processes.clone());
    let end = tracer.run(&mut signals)?;
    let unprivileged = tracer.is_unprivileged();
    let mut log = tracer.into_log();
    sampling.finish(&mut log);
    let facts = &mut log.manifest_mut().facts;
    facts.insert("no_new_privs".into(), unprivileged.to_string());
    let (actions, bytes, ledger) = (log.finish(), log.bytes(), log.ledger().clone());
    let manifest = log.manifest_mut().clone();
    let outcome = Outcome { end, actions, bytes, ledger, manifest, in_kernel: None };
    match log.close(end) {
        Ok(manifest) => Ok(Outcome { manifest, ..outcome }),
        Err(source) => {
            let is_gone = !options.trace.is_dir();
            Err(CaptureError::Unwritten { source, is_gone, outcome: Box::new(outcome) })
        }
    }
}

/// The interval of samples, as a fact.
pub(crate) fn sampled(every: Option<Duration>) -> String {
    every.map_or("off".to_owned(), |every| format!("every {} ms", every.as_millis()))
}

/// The sampler of a recording, if there is one.
struct Sampling {
    processes: Processes,
    sampler: Option<Sampler>,
    lost: Arc<AtomicU64>,
}

/// Begins to sample.
fn sampling(every: Option<Duration>, log: &mut Log) -> Result<Sampling, CaptureError> {
    log.manifest_mut().facts.insert("samples".into(), sampled(every));
    let mut sampling = Sampling { processes: Processes::default(), sampler: None, lost: Arc::default() };
    if let Some(every) = every {
        let (to, from) = mpsc::sync_channel(SAMPLES_WAITING);
        let lost = sampling.lost.clone();
        let sink = move |seen| {
            if to.try_send(seen).is_err() {
                lost.fetch_add(1, Ordering::Relaxed);
            }
        };
        let observer = Observer::new(sampling.processes.clone());
        let sampler = Sampler::start(observer, every, log.started(), sink);
        sampling.sampler = Some(sampler.map_err(|source| CaptureError::Start {
            step: "make a thread",
            source,
            advice: "check the limits on processes and memory",
        })?);
        log.sampled_by(from);
    }
    Ok(sampling)
}

impl Sampling {
    fn finish(mut self, log: &mut Log) {
        self.sampler = None;
        for _ in 0..self.lost.load(Ordering::Relaxed) {
            log.loss(Loss::Dropped, "samples of the environment: the recorder was busy", 0);
        }
    }
}

/// Takes the child under trace, installs our signal handling, and lets it go.
fn seize(child: Waiting, unbegun: &Unbegun) -> Result<Signals, CaptureError> {
    let failed = |step, advice| move |source| CaptureError::Start { step, source, advice };
    let advice = match procfs::tracer(std::process::id() as i32) {
        Some(_) => "this process is being traced itself: a recording within strace, gdb or another recording cannot be",
        None => "see /proc/sys/kernel/yama/ptrace_scope (3 forbids tracing) and the sandbox around this process",
    };
    sys::seize(child.pid).map_err(failed("trace the program", advice))?;
    let signals =
        Signals::install().map_err(failed("install signal handlers", "check RLIMIT_SIGPENDING (ulimit -i)"))?;
    unbegun.begins();
    child.go().map_err(failed("start the program", "it was killed before it began"))?;
    // The tracer sees for itself whether the program can be executed.
    Ok(signals)
}

pub(crate) fn c_string(bytes: &[u8]) -> Result<CString, CaptureError> {
    CString::new(bytes).map_err(|e| CaptureError::NotExecutable {
        command: String::from_utf8_lossy(bytes).into_owned(),
        source: e.into(),
    })
}

/// Finds a program as a shell does.
pub(crate) fn find(command: &OsStr) -> Result<CString, CaptureError> {
    let shown = command.to_string_lossy().into_owned();
    if command.as_bytes().contains(&b'/') {
        return c_string(command.as_bytes());
    }
    let mut refused = None;
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    for dir in std::env::split_paths(&path) {
        let file = dir.join(command);
        if command.is_empty() || !file.is_file() {
            continue;
        }
        let file = c_string(&file.into_os_string().into_vec())?;
        match sys::may_execute(&file) {
            Ok(()) => return Ok(file),
            Err(e) => refused = Some(e),
        }
    }
    Err(match refused {
        Some(source) => CaptureError::NotExecutable { command: shown, source },
        None => CaptureError::NotFound { command: shown },
    })
}

fn manifest(options: &Options) -> Result<Manifest, CaptureError> {
    let mut manifest = new_manifest(options.data, &options.command)?;
    for (key, value) in [
        ("backend", "ptrace"),
        ("begin", "when the call was let into the kernel"),
        ("response_time", "includes one stop of the tracer"),
        ("completion_time", "of an asynchronous request: when its completion was seen, an upper bound"),
    ] {
        manifest.facts.insert(key.into(), value.into());
    }
    if options.mapped {
        manifest.facts.insert(MAPPED_STORES.into(), "recorded".into());
    }
    note_memory_limit("self", &mut manifest);
    Ok(manifest)
}

/// Notes the memory limit of the program, which is that of this process if it has been started by it.
pub(crate) fn note_memory_limit(process: &str, manifest: &mut Manifest) {
    let limit = memory_limit_bytes(process).map(kib_text);
    manifest.facts.extend(limit.map(|text| (MEMORY_LIMIT.to_owned(), text)));
}

/// The manifest of a recording of a command that begins now.
pub(crate) fn new_manifest(data: DataPolicy, command: &[OsString]) -> Result<Manifest, CaptureError> {
    let id = reprise_trace::random_identity().map_err(|source| CaptureError::Start {
        step: "read /dev/urandom",
        source,
        advice: "mount /dev",
    })?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut manifest = Manifest::new(
        Kind::Record,
        data,
        command.iter().map(|a| a.to_string_lossy().into_owned()).collect(),
        id,
        now.map_or(0, |t| t.as_nanos() as u64),
        Host::this(),
    );
    manifest.facts.extend(core_pattern().map(|to| (CORE_PATTERN.to_owned(), to)));
    Ok(manifest)
}
