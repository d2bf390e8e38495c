//! The command's process before it runs the command, and what it begins with.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

use reprise_trace::Manifest;

use super::{SpoolError, SpoolOptions};
use crate::error::CaptureError;
use crate::procfs;
use crate::record::{self, c_string};
use crate::spool::{BeganDescriptor, BeganProcess, Begin};
use crate::sys::{self, HERE, Launch, Waiting};

/// A process that waits to run the command.
pub struct Launched {
    /// It.
    pub child: Waiting,
    /// The path of the program.
    pub program: CString,
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
pub fn begin(options: &SpoolOptions, launched: &Launched) -> Result<Begin, SpoolError> {
    let monotonic_ns = sys::monotonic_ns();
    let mut manifest: Manifest = record::new_manifest(options.data, &options.command)?;
    for (key, value) in [
        ("backend", "ebpf"),
        ("begin", "when the call entered the kernel"),
        ("response_time", "without the recorder's work, which lies between calls"),
    ] {
        manifest.facts.insert(key.into(), value.into());
    }
    manifest.facts.insert("samples".into(), record::sampled(options.sample_every));
    let tid = launched.child.pid;
    let status = procfs::status(tid);
    Ok(Begin {
        version: 1,
        manifest,
        monotonic_ns,
        trace: std::path::absolute(&options.trace).unwrap_or_else(|_| options.trace.clone()).to_string_lossy().into(),
        whole_file_bytes: options.whole_file_bytes,
        libraries: options.libraries,
        cpu: options.cpu,
        contents: options.contents.as_ref().map(|place| std::path::absolute(place).unwrap_or_else(|_| place.clone())),
        max_bytes: options.max_bytes,
        processes: vec![BeganProcess {
            pid: tid,
            threads: vec![(tid, procfs::name(tid).to_text())],
            uids: status.uids,
            gids: status.gids,
            groups: status.groups,
            umask: status.umask,
            cwd: procfs::link(tid, "cwd").to_text(),
            root: procfs::link(tid, "root").to_text(),
            executable: reprise_trace::Name(launched.program.to_bytes().to_vec()).to_text(),
            descriptors: descriptors(tid),
        }],
    })
}

/// The descriptors that the command will find: those that do not end with the exec.
fn descriptors(tid: i32) -> Vec<BeganDescriptor> {
    let mut rows: Vec<BeganDescriptor> = Vec::new();
    for fd in procfs::descriptors(tid) {
        if let Some(mut row) = descriptor(tid, fd) {
            let shared = rows.iter().find(|known| sys::same_description(tid, known.fd, row.fd) == Some(true));
            row.description = shared.map_or(rows.len() as u64, |known| known.description);
            rows.push(row);
        }
    }
    rows
}

fn descriptor(tid: i32, fd: u32) -> Option<BeganDescriptor> {
    let info = procfs::fd_info(tid, fd.into())?;
    if info.flags & libc::O_CLOEXEC as u64 != 0 {
        return None;
    }
    let path = CString::new(format!("/proc/{tid}/fd/{fd}")).ok()?;
    let stat = sys::stat_at(HERE, &path, 0).ok()?;
    Some(BeganDescriptor {
        fd,
        path: procfs::link(tid, &format!("fd/{fd}")).to_text(),
        mode: stat.mode,
        flags: info.flags,
        position: info.position,
        device: stat.id.device,
        inode: stat.id.inode,
        description: 0,
    })
}
