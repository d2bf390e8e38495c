//! From the fork to the first program: what the child does until then is ours, not the program's.

use std::io;

use reprise_calls::locking::HeldLock;
use reprise_calls::{Effect, by_number};
use reprise_trace::{Descriptor, End, Lock, Name};

use super::{Entered, Tracer};
use crate::error::CaptureError;
use crate::procfs;
use crate::sys::{self, HERE};
use crate::tracer::lives::Origin;

/// What is known until the first program runs.
#[derive(Debug)]
pub struct Launching {
    command: String,
    program: Vec<u8>,
    asked: bool,
}

impl Launching {
    /// The command as given, and the path of its program.
    pub fn new(command: String, program: Vec<u8>) -> Launching {
        Launching { command, program, asked: false }
    }

    /// The path of the program.
    pub fn program(&self) -> Name {
        Name(self.program.clone())
    }
}

impl Tracer<'_> {
    /// Books the first thread.
    pub(super) fn begin_first(&mut self) -> Result<(), CaptureError> {
        self.begin(self.first, Origin::default())
    }

    /// Whether a call is to be recorded: until the first program runs, only the call that runs it. Before that one
    /// the descriptors and places it begins with are written.
    pub(super) fn before_program(&mut self, tid: i32, number: u64) -> Result<bool, CaptureError> {
        let Some(launching) = &mut self.launching else {
            return Ok(true);
        };
        let call = u32::try_from(number).ok().and_then(by_number);
        if !call.is_some_and(|c| c.effect == Effect::Execute) {
            return Ok(false);
        }
        if !std::mem::replace(&mut launching.asked, true) {
            let ours = procfs::status(std::process::id() as i32);
            self.unprivileged = procfs::status(tid).no_new_privileges && !ours.no_new_privileges;
            self.world.connect_link(tid, "cwd", &mut self.log);
            self.inherited(tid)?;
        }
        Ok(true)
    }

    /// Whether privileges were given up to install the filter.
    pub fn is_unprivileged(&self) -> bool {
        self.unprivileged
    }

    fn inherited(&mut self, tid: i32) -> Result<(), CaptureError> {
        let mut rows: Vec<Descriptor> = Vec::new();
        for fd in procfs::descriptors(tid) {
            if let Some((mut row, locks)) = descriptor(tid, fd) {
                locks.iter().for_each(|lock| self.log.lock(Lock::of(row.process, fd, lock)));
                let shared = rows.iter().find(|known| same(tid, known, &row));
                row.description = shared.map_or(rows.len() as u64, |known| known.description);
                rows.push(row);
            }
        }
        for row in rows {
            if row.path.starts_with(b"/") {
                self.world.connect_link(tid, &format!("fd/{}", row.fd), &mut self.log);
            }
            self.log.descriptor(row);
        }
        Ok(())
    }

    /// The first program runs.
    pub(super) fn program_runs(&mut self, tid: i32) {
        if tid == self.first {
            self.launching = None;
        }
    }

    /// The call that was to run the first program has failed: true if the child will try another.
    pub(super) fn launch_failed(&mut self, tid: i32, entered: &Entered, result: i64) -> Result<bool, CaptureError> {
        let Some(launching) = &self.launching else {
            return Ok(false);
        };
        if tid != self.first || entered.call.effect != Effect::Execute {
            return Ok(false);
        }
        let (command, error) = (launching.command.clone(), -result as i32);
        let shell = entered.inputs.path.as_ref().is_some_and(|p| **p == *b"/bin/sh");
        match error {
            libc::ENOEXEC if !shell => Ok(true),
            libc::ENOENT if !shell => Err(CaptureError::NotFound { command }),
            _ => Err(CaptureError::NotExecutable { command, source: io::Error::from_raw_os_error(error) }),
        }
    }

    /// The child ended before any program ran.
    pub(super) fn launch_ended(&mut self, tid: i32, end: End) -> Result<(), CaptureError> {
        match (&self.launching, end.code) {
            (Some(_), Some(code)) if tid == self.first => Err(CaptureError::NoFilter { code }),
            _ => Ok(()),
        }
    }
}

/// The row of a descriptor, and the locks that were taken by it, unless it is one of the recorder's own, which end with the exec.
fn descriptor(tid: i32, fd: u32) -> Option<(Descriptor, Vec<HeldLock>)> {
    let info = procfs::fd_info(tid, fd.into())?;
    if info.flags & libc::O_CLOEXEC as u64 != 0 {
        return None;
    }
    let path = std::ffi::CString::new(format!("/proc/{tid}/fd/{fd}")).ok()?;
    let stat = sys::stat_at(HERE, &path, 0).ok()?;
    let row = Descriptor {
        process: 0,
        fd,
        path: procfs::link(tid, &format!("fd/{fd}")),
        kind: stat.kind(),
        flags: info.flags,
        offset: info.position,
        device: stat.id.device,
        inode: stat.id.inode,
        description: 0,
        seals: None,
    };
    Some((row, info.locks))
}

fn same(tid: i32, a: &Descriptor, b: &Descriptor) -> bool {
    let look = |d: &Descriptor| (d.device, d.inode, d.offset, d.flags);
    sys::same_description(tid, a.fd, b.fd).unwrap_or_else(|| look(a) == look(b))
}
