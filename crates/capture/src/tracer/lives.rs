//! Threads and processes: how they begin, become another program, and end.

use std::time::Duration;

use reprise_calls::sharing::{SAME_PROCESS, shared};
use reprise_calls::{Effect, by_name};
use reprise_trace::payload::{Side, split};
use reprise_trace::{Action, End, Process, ThreadRow};

use super::{Phase, Tracee, Tracer, step};
use crate::cpu::CpuClock;
use crate::error::CaptureError;
use crate::procfs;
use crate::sys::{self, HERE, Report};

/// Who made a thread, and what they share.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Origin {
    parent: Option<u32>,
    maker: Option<i32>,
    parent_process: Option<u32>,
    created_by: Option<u64>,
    flags: u64,
}

impl Tracer<'_> {
    /// Takes a thread into the books: its row and, for a new process, that of the process.
    pub(super) fn begin(&mut self, tid: i32, origin: Origin) -> Result<(), CaptureError> {
        let status = procfs::status(tid);
        let pid = match origin.maker {
            Some(maker) if origin.flags & SAME_PROCESS != 0 => maker,
            Some(_) if origin.created_by.is_some() => tid,
            _ => status.process,
        };
        let process = match self.processes.get(&pid) {
            Some(number) => *number,
            None => {
                let number = self.next_process;
                self.next_process += 1;
                self.processes.insert(pid, number);
                self.sampled.add(pid);
                let executable = match &self.launching {
                    Some(launching) => launching.program(),
                    None => procfs::link(tid, "exe"),
                };
                self.log.process(Process {
                    process: number,
                    pid,
                    parent: origin.parent_process,
                    uids: status.uids,
                    gids: status.gids,
                    groups: status.groups,
                    umask: status.umask,
                    cwd: procfs::link(tid, "cwd"),
                    root: procfs::link(tid, "root"),
                    executable,
                    ..Process::default()
                });
                number
            }
        };
        let thread = self.next_thread;
        self.next_thread += 1;
        let shared = shared(origin.flags);
        let begin_ns = self.log.now();
        self.log.thread(ThreadRow {
            thread,
            process,
            tid,
            parent: origin.parent,
            created_by: origin.created_by,
            shares_descriptors: shared.descriptors.into(),
            shares_directories: shared.directories.into(),
            begin_ns,
            name: procfs::name(tid),
            lane_of: None,
        });
        let cpu = CpuClock::new(tid, self.cpu);
        let tracee = Tracee { thread, pid, phase: Phase::Running, interrupted: None, exit: None, cpu };
        self.threads.insert(tid, tracee);
        Ok(())
    }

    /// A thread has made another: the action is written before the new one does anything.
    pub(super) fn spawned(&mut self, tid: i32) -> Result<(), CaptureError> {
        let child = match sys::event_message(tid) {
            Ok(child) => child as i32,
            Err(e) => return step("ask for the child of", tid, Err(e)),
        };
        let now = self.log.now();
        let Some(tracee) = self.threads.get_mut(&tid) else {
            return step("resume", tid, sys::resume(tid, 0));
        };
        let (parent, pid) = (tracee.thread, tracee.pid);
        let mut origin = Origin {
            parent: Some(parent),
            maker: Some(pid),
            parent_process: self.processes.get(&pid).copied(),
            ..Origin::default()
        };
        match std::mem::replace(&mut tracee.phase, Phase::Running) {
            Phase::Inside(entered) if entered.call.effect == Effect::Spawn => {
                origin.flags = match entered.call.name {
                    "clone" => entered.args[0],
                    "clone3" => {
                        let args = split(entered.call, Side::Input, &entered.inputs.input)[0];
                        let flags = args.and_then(|a| a.first_chunk::<8>().copied());
                        u64::from_le_bytes(flags.unwrap_or_default())
                    }
                    "vfork" => libc::CLONE_VM as u64,
                    _ => 0,
                };
                origin.created_by = Some(self.write(tid, *entered, child.into(), now));
                self.gate.leave(tid);
            }
            other => tracee.phase = other,
        }
        self.begin(child, origin)?;
        if origin.flags & (libc::CLONE_VM as u64 | SAME_PROCESS) == 0 {
            self.mapped.forked(pid, child);
        }
        if self.early.remove(&child).is_some() {
            step("resume", child, sys::resume(child, 0))?;
        }
        if let Some(report) = self.gone.remove(&child) {
            self.ended(child, report)?;
        }
        step("resume", tid, sys::resume(tid, 0))
    }

    /// New threads whose maker was killed before it could report them.
    pub(super) fn adopt_orphans(&mut self) -> Result<(), CaptureError> {
        const PATIENCE: Duration = Duration::from_secs(1);
        let orphans: Vec<i32> =
            self.early.iter().filter(|(_, since)| since.elapsed() >= PATIENCE).map(|(tid, _)| *tid).collect();
        for tid in orphans {
            self.early.remove(&tid);
            self.log.note("a thread whose maker was killed while making it");
            self.begin(tid, Origin::default())?;
            step("resume", tid, sys::resume(tid, 0))?;
        }
        Ok(())
    }

    /// A process runs another program: all its other threads are gone.
    pub(super) fn executed(&mut self, tid: i32) -> Result<(), CaptureError> {
        let former = sys::event_message(tid).map_or(tid, |former| former as i32);
        let mut others: Vec<i32> = self
            .threads
            .iter()
            .filter(|(other, t)| t.pid == tid && **other != former)
            .map(|(other, _)| *other)
            .collect();
        others.sort_unstable();
        for other in others {
            self.end_thread(other, "exit", 0)?;
        }
        self.abandon_process(tid);
        let now = self.log.now();
        self.gate.forget(former);
        if former != tid {
            self.world.forget_thread(former);
        }
        let Some(mut tracee) = self.threads.remove(&former) else {
            return step("resume", tid, sys::resume(tid, 0));
        };
        let phase = std::mem::replace(&mut tracee.phase, Phase::Running);
        if former != tid {
            tracee.cpu = CpuClock::new(tid, self.cpu);
        }
        self.threads.insert(tid, tracee);
        if let Phase::Inside(entered) = phase
            && entered.call.effect == Effect::Execute
        {
            self.write(tid, *entered, 0, now);
        }
        self.program_runs(tid);
        if self.unprivileged {
            self.note_lost_privileges(tid);
        }
        step("resume", tid, sys::resume(tid, 0))
    }

    fn note_lost_privileges(&mut self, tid: i32) {
        let Ok(path) = std::ffi::CString::new(format!("/proc/{tid}/exe")) else {
            return;
        };
        let special = sys::stat_at(HERE, &path, 0).is_ok_and(|s| s.mode & (libc::S_ISUID | libc::S_ISGID) != 0);
        let capable = std::fs::read_link(format!("/proc/{tid}/exe")).is_ok_and(|p| {
            std::ffi::CString::new(p.into_os_string().into_encoded_bytes())
                .is_ok_and(|p| sys::get_xattr(&p, c"security.capability").is_ok())
        });
        if special || capable {
            let text = "a set-user-id, set-group-id or capable program ran without its privileges (recorded by an unprivileged user: no_new_privs)";
            self.log.note(text);
            (self.warn)(text);
        }
    }

    /// A thread is gone.
    pub(super) fn ended(&mut self, tid: i32, report: Report) -> Result<(), CaptureError> {
        let Some(pid) = self.threads.get(&tid).map(|t| t.pid) else {
            if self.early.remove(&tid).is_some() {
                self.gone.insert(tid, report);
            }
            return Ok(());
        };
        let (status, end) = match report {
            Report::Killed(status) => {
                let signal = libc::WTERMSIG(status);
                (128 + signal, End { code: None, signal: Some(signal) })
            }
            Report::Exited(code) => (code, End { code: Some(code), signal: None }),
            _ => return Ok(()),
        };
        self.launch_ended(tid, end)?;
        // The kernel reports the first thread of a process last, with the status of the process.
        if tid == pid {
            self.memory_ended(tid);
            if let Report::Killed(status) = report {
                self.log.killed(status);
            }
            self.abandon_process(pid);
            self.end_thread(tid, "exit_group", status)?;
            self.processes.remove(&pid);
            self.sampled.remove(pid);
            if pid == self.first {
                self.end = Some(end);
            }
        } else {
            self.end_thread(tid, "exit", status)?;
        }
        Ok(())
    }

    /// Writes the end of a thread and strikes it from the books.
    fn end_thread(&mut self, tid: i32, name: &'static str, status: i32) -> Result<(), CaptureError> {
        self.gate.forget(tid);
        self.world.forget_thread(tid);
        let Some(tracee) = self.threads.remove(&tid) else {
            return Ok(());
        };
        match tracee.phase {
            Phase::Inside(_) | Phase::Held(_) => {
                self.log.note("a call was cut off by the end of its thread");
            }
            Phase::Settling(r) => {
                self.settling -= 1;
                self.log.note("a call was cut off by the end of its thread");
                drop(r);
            }
            Phase::Running => {}
        }
        let now = self.log.now();
        let (begin_ns, cpu_ns) = tracee.exit.map_or((now, None), |e| (e.begin_ns, e.cpu_ns));
        let mut args = [0; 6];
        args[0] = match (name, tracee.exit) {
            ("exit", Some(exiting)) => exiting.args[0],
            _ => status as u64,
        };
        let action = Action {
            seq: 0, // set by the log
            thread: tracee.thread,
            call: by_name(name).map_or(name, |c| c.name).into(),
            begin_ns,
            duration_ns: now.saturating_sub(begin_ns),
            args,
            result: 0,
            cpu_ns,
            ..Action::default()
        };
        self.log.action(action);
        Ok(())
    }
}
