//! The recorder's loop: what each report of a traced thread means.
//!
//! Goals: every stop is answered; a call is admitted, read, let through, read again and written; the order of rows is
//! the order of effects. Non-goals: the meaning of single calls (`effects`, `arguments`, `movers`).

mod enter;
mod launching;
mod leave;
mod lives;
mod origins;
mod requests;
mod settle;
mod stores;
mod tables;

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use reprise_calls::Call;
use reprise_trace::{End, Loss};

use crate::arguments::Inputs;
use crate::cpu::CpuClock;
use crate::effects::Before;
use crate::environment::Processes;
use crate::error::CaptureError;
use crate::gate::{Gate, Ticket};
use crate::log::Log;
use crate::mapped::Mapped;
use crate::movers::Source;
use crate::requests::Requests;
use crate::sys::{self, FileId, Report, Signals, Waited};
use crate::world::World;

pub use launching::Launching;

/// A call whose thread waits before the kernel.
#[derive(Debug)]
struct Arrived {
    call: &'static Call,
    args: [u64; 6],
    /// What its descriptors name, where others could be concerned.
    objects: [Option<FileId>; 2],
    ticket: Ticket,
    /// [`Gate::endings`] when this was found.
    endings: u64,
}

/// A call in the kernel.
#[derive(Debug)]
struct Entered {
    call: &'static Call,
    args: [u64; 6],
    objects: [Option<FileId>; 2],
    free: bool,
    begin_ns: u64,
    cpu_ns: Option<u64>,
    inputs: Inputs,
    before: Before,
    source: Option<Source>,
    submission: Option<requests::Submission>,
}

/// A call that is over, but may have been caused by one that is not.
#[derive(Debug)]
struct Returned {
    entered: Box<Entered>,
    result: i64,
    end_ns: u64,
    causes: Vec<i32>,
    since: Instant,
}

#[derive(Debug)]
enum Phase {
    /// In the program's own code, or at a call that is of no interest.
    Running,
    /// Stopped before a call until the gate opens.
    Held(Arrived),
    /// In the kernel.
    Inside(Box<Entered>),
    /// Stopped after a call until what may have caused its result is written.
    Settling(Returned),
}

/// A thread's wish to end.
#[derive(Debug, Clone, Copy)]
struct Exiting {
    begin_ns: u64,
    cpu_ns: Option<u64>,
    args: [u64; 6],
}

/// A traced thread.
#[derive(Debug)]
struct Tracee {
    thread: u32,
    pid: i32,
    phase: Phase,
    /// A call that a signal interrupted and that the kernel may go on with.
    interrupted: Option<Box<Entered>>,
    /// When it asked to exit, and how.
    exit: Option<Exiting>,
    cpu: CpuClock,
}

/// The tracer of one recording.
pub struct Tracer<'a> {
    log: Log,
    world: World,
    mapped: Mapped,
    /// Whether stores to mappings of files are looked for.
    stores: bool,
    gate: Gate,
    threads: HashMap<i32, Tracee>,
    /// Processes by kernel number: their number in the trace.
    processes: HashMap<i32, u32>,
    /// The same processes, for whoever samples them.
    sampled: Processes,
    /// Threads that reported before the call that made them did.
    early: HashMap<i32, Instant>,
    /// Threads that were gone before the call that made them was reported.
    gone: HashMap<i32, Report>,
    /// Asynchronous requests of all processes.
    requests: Requests,
    /// By numbers in tables of rings: the descriptors that were put there, and their files.
    origins: HashMap<u32, (u32, FileId)>,
    next_thread: u32,
    next_process: u32,
    settling: usize,
    first: i32,
    end: Option<End>,
    launching: Option<Launching>,
    unprivileged: bool,
    /// Whether processor time is recorded.
    cpu: bool,
    ending: bool,
    warn: &'a mut dyn FnMut(&str),
}

impl<'a> Tracer<'a> {
    /// A tracer of a child that was seized and has not been let go.
    pub fn new(first: i32, launching: Launching, log: Log, world: World, warn: &'a mut dyn FnMut(&str)) -> Tracer<'a> {
        Tracer {
            log,
            world,
            mapped: Mapped::default(),
            stores: false,
            gate: Gate::default(),
            threads: HashMap::new(),
            processes: HashMap::new(),
            sampled: Processes::default(),
            early: HashMap::new(),
            gone: HashMap::new(),
            requests: Requests::default(),
            origins: HashMap::new(),
            next_thread: 0,
            next_process: 0,
            settling: 0,
            first,
            end: None,
            launching: Some(launching),
            unprivileged: false,
            cpu: false,
            ending: false,
            warn,
        }
    }

    /// Records also the processor time between calls.
    pub fn with_cpu(self, cpu: bool) -> Self {
        Tracer { cpu, ..self }
    }

    /// Keeps the traced processes in a set.
    pub fn with_sampled(self, sampled: Processes) -> Self {
        Tracer { sampled, ..self }
    }

    /// Looks also for stores to shared mappings of files.
    pub fn with_stores_recorded(self, stores: bool) -> Self {
        Tracer { stores, ..self }
    }

    /// Runs until the last traced thread is gone; ends all of them if it fails.
    pub fn run(&mut self, signals: &mut Signals) -> Result<End, CaptureError> {
        self.begin_first()?;
        let result = self.watch(signals);
        if result.is_err() {
            self.kill_all();
            self.log.flush();
        }
        result?;
        Ok(self.end.unwrap_or(End { code: None, signal: None }))
    }

    /// The log, once all is over.
    pub fn into_log(self) -> Log {
        self.log
    }

    fn watch(&mut self, signals: &mut Signals) -> Result<(), CaptureError> {
        const ALONE: Duration = Duration::from_millis(250);
        const TOGETHER: Duration = Duration::from_millis(5);
        const WATCHING: Duration = Duration::from_micros(500);
        while !self.threads.is_empty() || !self.early.is_empty() {
            let tick = match self.threads.len() {
                _ if self.gate.is_watching() || self.settling > 0 => WATCHING,
                0..=1 => ALONE,
                _ => TOGETHER,
            };
            let failed = |step| {
                move |source| CaptureError::Start {
                    step,
                    source,
                    advice: "this is a fault of the recorder or of the kernel: please report it",
                }
            };
            signals.tick_every(tick).map_err(failed("set the tick"))?;
            match sys::wait().map_err(failed("wait for the program"))? {
                Waited::Report(tid, report) => self.report(tid, report)?,
                Waited::Interrupted => self.adopt_orphans()?,
                Waited::Nobody => break,
            }
            if self.settling > 0 {
                self.settle()?;
            }
            self.admit_waiting()?;
            while let Some(signal) = sys::take_signal() {
                self.signalled(signal);
            }
            self.log.flush_if_due();
            if let Some(news) = self.log.news() {
                (self.warn)(&format!("{news}; the program goes on, but nothing more is recorded"));
            }
        }
        Ok(())
    }

    fn report(&mut self, tid: i32, report: Report) -> Result<(), CaptureError> {
        if let Report::Exited(_) | Report::Killed(_) = report {
            return self.ended(tid, report);
        }
        if !self.threads.contains_key(&tid) {
            // A new thread whose maker has not reported yet: it stays stopped until then.
            if !matches!(report, Report::Executed) {
                self.early.insert(tid, Instant::now());
                return Ok(());
            }
        }
        match report {
            Report::Entry => self.arrived(tid),
            Report::Exit => self.returned(tid),
            Report::Spawned => self.spawned(tid),
            Report::Executed => self.executed(tid),
            Report::Stopped(libc::SIGTRAP) => step("resume", tid, sys::resume(tid, 0)),
            Report::Stopped(_) => step("leave stopped", tid, sys::listen(tid)),
            Report::Signal(signal) => step("resume", tid, sys::resume(tid, signal)),
            Report::Exited(_) | Report::Killed(_) => Ok(()),
        }
    }

    /// A signal to the recorder: what is meant for the program is passed on.
    fn signalled(&mut self, signal: i32) {
        if self.end.is_none() {
            // The terminal sends SIGINT to the program as well.
            if signal != libc::SIGINT {
                let _ = sys::kill(self.first, signal);
            }
            return;
        }
        if !self.ending {
            self.ending = true;
            (self.warn)("the program has ended; ending the processes it left behind, and the recording");
            self.log.note("processes that outlived the program were ended with the recording");
            self.kill_processes();
        }
    }

    fn kill_processes(&mut self) {
        for pid in self.processes.keys().chain(self.early.keys()) {
            let _ = sys::kill(*pid, libc::SIGKILL);
        }
        let pids: std::collections::HashSet<i32> = self.threads.values().map(|t| t.pid).collect();
        for pid in pids {
            let _ = sys::kill(pid, libc::SIGKILL);
        }
    }

    /// Ends everything that is traced, without a trace of it.
    fn kill_all(&mut self) {
        self.kill_processes();
        while !self.threads.is_empty() || !self.early.is_empty() {
            match sys::wait() {
                Ok(Waited::Report(tid, Report::Exited(_) | Report::Killed(_))) => {
                    self.threads.remove(&tid);
                    self.early.remove(&tid);
                }
                Ok(Waited::Report(tid, _)) => {
                    // A thread made at the last moment.
                    if !self.threads.contains_key(&tid) {
                        self.early.insert(tid, Instant::now());
                    }
                    let _ = sys::kill(tid, libc::SIGKILL);
                    let _ = sys::resume(tid, 0);
                }
                Ok(Waited::Interrupted) => {}
                Ok(Waited::Nobody) | Err(_) => break,
            }
        }
    }

    fn unsupported(&mut self, cause: String) {
        self.log.loss(Loss::Unsupported, cause, 0);
    }
}

/// The outcome of an order to a thread: one that is gone (killed meanwhile) reports that itself.
fn step(step: &'static str, tid: i32, result: io::Result<()>) -> Result<(), CaptureError> {
    match result {
        Err(e) if e.raw_os_error() != Some(libc::ESRCH) => Err(CaptureError::Trace { step, tid, source: e }),
        _ => Ok(()),
    }
}
