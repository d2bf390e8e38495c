//! The command's process before it runs the command, and what it begins with.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use reprise_trace::{DataPolicy, MAPPED_STORES, Manifest};

use super::present::Present;
use super::survey::survey;
use super::{Capabilities, Sink, SpoolError, SpoolOptions};
use crate::error::CaptureError;
use crate::finish::SPOOL;
use crate::record::{self, c_string};
use crate::scope::Scope;
use crate::spool::{BeganProcess, Begin, VERSION};
use crate::sys::{self, Launch, Waiting};

/// A process that waits to run the command.
pub struct Launched {
    /// It.
    pub child: Waiting,
    /// The path of the program.
    pub program: CString,
}

/// Of contents that stand around the command so much is kept at most.
const MOST_KEPT_BYTES: u64 = 8 << 20;

/// Keeps what stands around the command before it runs.
pub fn look_around(options: &SpoolOptions) -> Result<(), SpoolError> {
    if options.survey == 0 || options.sink == Sink::Null {
        return Ok(());
    }
    // Who has no working directory any more sees nothing there.
    let Ok(cwd) = std::env::current_dir() else { return Ok(()) };
    let spool = options.trace.join(SPOOL);
    let own = [std::path::absolute(&options.trace).ok(), options.contents_place()];
    let left_out: Vec<PathBuf> = own.into_iter().flatten().collect();
    // Of a trace that is limited it takes a small part.
    let room = options.max_bytes.map_or(usize::MAX, |bytes| (bytes >> 13) as usize);
    let most_bytes = match options.data {
        DataPolicy::None => 0,
        _ => options.max_bytes.map_or(MOST_KEPT_BYTES, |bytes| (bytes >> 6).min(MOST_KEPT_BYTES)),
    };
    let stood = survey(&cwd, &options.command, &left_out, options.survey.min(room), most_bytes);
    stood.write(&spool).map_err(|source| SpoolError::Unwritten { path: spool, source })
}

/// Makes the process; it waits.
pub fn launch(options: &SpoolOptions) -> Result<Launched, SpoolError> {
    let command = options.command.first().ok_or(CaptureError::NoCommand)?;
    let program = record::find(command)?;
    let argv: Vec<CString> =
        options.command.iter().map(|a| c_string(a.as_bytes())).collect::<Result<_, CaptureError>>()?;
    let launch = Launch { program: &program, argv: &argv, filter: &[] };
    let child = sys::fork(&launch).map_err(|source| CaptureError::Start {
        step: "make a process",
        source,
        advice: "check the limits on processes and memory",
    })?;
    Ok(Launched { child, program })
}

/// What the finisher must know beside the records.
pub fn begin(options: &SpoolOptions, launched: &Launched, can: Capabilities) -> Result<Begin, SpoolError> {
    let monotonic_ns = sys::monotonic_ns();
    let manifest = manifest(options, can)?;
    let tid = launched.child.pid;
    let executable = reprise_trace::Name(launched.program.to_bytes().to_vec()).to_text();
    let process = Present::default().process(tid, &[tid], true).unwrap_or_default();
    Ok(Begin {
        version: VERSION,
        manifest,
        monotonic_ns,
        trace: std::path::absolute(&options.trace).unwrap_or_else(|_| options.trace.clone()).to_string_lossy().into(),
        whole_file_bytes: options.whole_file_bytes,
        libraries: options.libraries,
        cpu: options.cpu,
        mapped: can.pages,
        contents: options.contents_place(),
        max_bytes: options.max_bytes,
        attached: false,
        mounted_at: None,
        leave_idle_out: false,
        processes: vec![BeganProcess { pid: tid, executable, ..process }],
        joined: Vec::new(),
    })
}

/// The manifest of a recording in the kernel that begins now.
pub fn manifest(options: &SpoolOptions, can: Capabilities) -> Result<Manifest, CaptureError> {
    let mut manifest: Manifest = record::new_manifest(options.data, &options.command)?;
    if options.scope != Scope::Command {
        manifest.command = options.scope.name().split(' ').map(str::to_owned).collect();
    }
    for (key, value) in [
        ("backend", "ebpf"),
        ("begin", "when the call entered the kernel"),
        ("response_time", "without the recorder's work, which lies between calls"),
    ] {
        manifest.facts.insert(key.into(), value.into());
    }
    if can.pages {
        manifest.facts.insert(MAPPED_STORES.into(), "recorded".into());
    }
    if can.loads {
        manifest.facts.insert("mapped_loads".into(), "first touches".into());
    }
    match &options.scope {
        Scope::Command => record::note_memory_limit("self", &mut manifest),
        Scope::Processes { pids, .. } => {
            pids.iter().take(1).for_each(|pid| record::note_memory_limit(&pid.to_string(), &mut manifest));
        }
        Scope::Group(_) | Scope::System => {}
    }
    manifest.facts.insert("samples".into(), record::sampled(options.sample_every));
    Ok(manifest)
}
