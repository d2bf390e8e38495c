//! A recording of a command in the kernel, from its start to its summary.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use reprise_trace::{End, SPOOL};

use super::kernel::{Kernel, Setting, least_segments};
use super::launch::{self, Launched};
use super::shared::{control, cpu};
use super::sink::Writer;
use super::{SpoolError, SpoolOptions, Summary};
use crate::sys::{self, Signals};

/// The recorder says so often that it lives.
const BEAT: Duration = Duration::from_millis(100);

/// A recording that runs.
pub struct Session {
    kernel: Arc<Kernel>,
    pid: i32,
    signals: Option<Signals>,
    over: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    sink: Option<JoinHandle<Result<(), SpoolError>>>,
    heart: Option<JoinHandle<()>>,
}

impl Session {
    /// Starts the command and its recording.
    ///
    /// # Errors
    /// The kernel cannot record here, the spool cannot be made, or the command cannot be started.
    pub fn start(options: &SpoolOptions) -> Result<Session, SpoolError> {
        let segments = options.segments.max(least_segments());
        let setting = Setting {
            data: options.data,
            segments,
            on_full: options.on_full,
            waiting: !options.plain,
            mapped: options.mapped,
        };
        let kernel = Kernel::load(setting)?;
        let spool = options.trace.join(SPOOL);
        let made = fs::create_dir_all(&spool);
        made.map_err(|source| SpoolError::Unwritten { path: spool.clone(), source })?;
        let launched = launch::launch(options)?;
        let pid = launched.child.pid;
        let prepared = prepare(&kernel, options, &launched);
        if let Err(error) = prepared {
            let _ = sys::kill(pid, libc::SIGKILL);
            let _ = sys::wait_for(pid);
            return Err(error);
        }
        let mut session = Session {
            kernel: Arc::new(kernel),
            pid,
            signals: None,
            over: Arc::default(),
            stop: Arc::default(),
            sink: None,
            heart: None,
        };
        session.serve(options)?;
        let advice = "check RLIMIT_SIGPENDING (ulimit -i)";
        session.signals = Some(Signals::install().map_err(step("install signal handlers", advice))?);
        launched.child.go().map_err(step("start the program", "it was killed before it began"))?;
        Ok(session)
    }

    /// Starts the threads that write and that say that the recorder lives.
    fn serve(&mut self, options: &SpoolOptions) -> Result<(), SpoolError> {
        let writer = Writer::new(self.kernel.clone(), &options.trace.join(SPOOL), options.sink, self.over.clone())?;
        let advice = "check the limits on processes and memory";
        let stop = self.stop.clone();
        let sink = sys::spawn_quiet("spool", move || writer.run(&stop));
        self.sink = Some(sink.map_err(step("start a thread", advice))?);
        let (kernel, stop) = (self.kernel.clone(), self.stop.clone());
        let heart = sys::spawn_quiet("heartbeat", move || {
            while !stop.load(Ordering::Relaxed) {
                kernel.beat();
                std::thread::sleep(BEAT);
            }
        });
        self.heart = Some(heart.map_err(step("start a thread", advice))?);
        Ok(())
    }

    /// Number of the command's process.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Records until the command and all that it started have ended.
    ///
    /// # Errors
    /// The spool could not be written, or the recording not be ended.
    pub fn run(self) -> Result<Summary, SpoolError> {
        let mut end = None;
        while !(self.over.load(Ordering::SeqCst) && end.is_some()) {
            match end {
                None => end = sys::wait_for(self.pid).map_err(step("wait for the program", "this is a defect"))?,
                Some(_) => std::thread::sleep(Duration::from_millis(2)),
            }
            while let Some(signal) = sys::take_signal() {
                match end {
                    // The terminal sends SIGINT to the program as well.
                    None if signal != libc::SIGINT => drop(sys::kill(self.pid, signal)),
                    None => {}
                    Some(_) => self.over.store(true, Ordering::SeqCst),
                }
            }
        }
        self.finish(end.unwrap_or(End { code: None, signal: None }))
    }

    fn finish(mut self, end: End) -> Result<Summary, SpoolError> {
        self.kernel.detach();
        self.stop.store(true, Ordering::SeqCst);
        let written = self.sink.take().map(JoinHandle::join);
        let _ = self.heart.take().map(JoinHandle::join);
        match written {
            Some(Ok(outcome)) => outcome?,
            _ => {
                let source = std::io::Error::other("its thread broke off");
                return Err(step("write the spool", "this is a defect")(source));
            }
        }
        let kernel = &self.kernel;
        let load = |offset| kernel.number(offset).load(Ordering::SeqCst);
        let missing = load(control::NESTED) + load(control::LOST_TASKS);
        let dropped = kernel.sum(cpu::DROPPED);
        Ok(Summary {
            end,
            records: kernel.sum(cpu::NEXT) - dropped,
            bytes: kernel.sum(cpu::MOVED),
            dropped: dropped + missing,
            deferred: kernel.sum(cpu::DEFERRED),
            waits: load(control::WAITS),
            waited_ns: load(control::WAITED_NS),
            abandoned: load(control::ABANDONED),
            capabilities: kernel.capabilities,
        })
    }
}

/// Whatever ends a recording, its threads end with it, and the program goes on without.
impl Drop for Session {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = self.sink.take().map(JoinHandle::join);
        let _ = self.heart.take().map(JoinHandle::join);
    }
}

fn prepare(kernel: &Kernel, options: &SpoolOptions, launched: &Launched) -> Result<(), SpoolError> {
    let spool = options.trace.join(SPOOL);
    let begin = launch::begin(options, launched, kernel.capabilities)?;
    begin.write(&spool).map_err(|source| SpoolError::Unwritten { path: spool, source })?;
    let advice = "Linux 5.11 or later is needed";
    kernel.follow(launched.child.pid).map_err(step("follow the program", advice))?;
    kernel.attach()
}

fn step(step: &'static str, advice: &'static str) -> impl FnOnce(std::io::Error) -> SpoolError {
    move |source| SpoolError::Step { step, source, advice }
}
