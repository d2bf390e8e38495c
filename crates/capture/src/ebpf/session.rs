//! A recording in the kernel, from its start to its summary.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use reprise_trace::{End, SPOOL};

use super::attach::Attached;
use super::kernel::{Kernel, Setting, least_segments};
use super::launch::{self, Launched};
use super::shared::{control, cpu};
use super::sink::Writer;
use super::{SpoolError, SpoolOptions, Summary};
use crate::scope::Scope;
use crate::sys::{self, Signals};

/// The recorder says so often that it lives.
const BEAT: Duration = Duration::from_millis(100);

/// How often is looked whether a recording is over that no child ends.
const LOOK: Duration = Duration::from_millis(20);
/// How often is looked whether any process is left that is recorded: one that ended when it was found may not be counted.
const COUNT: Duration = Duration::from_millis(500);

/// What ends a recording.
enum Ends {
    /// The command's process, and all that it started.
    Command(i32),
    /// Those who ran already, or a signal to the recorder.
    Attached(Box<Attached>),
    /// Nothing but a signal.
    Signal,
}

/// A recording that runs. Whatever ends it, its threads end with it, and the program goes on without.
pub struct Session {
    kernel: Arc<Kernel>,
    options: SpoolOptions,
    ends: Ends,
    until: Option<Instant>,
    signals: Option<Signals>,
    over: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    sink: Option<JoinHandle<Result<(), SpoolError>>>,
    heart: Option<JoinHandle<()>>,
}

impl Session {
    /// Starts a recording: of a command, which it starts, or of what runs already.
    ///
    /// # Errors
    /// The kernel cannot record here, the spool cannot be made, the command cannot be started, or what runs already cannot
    /// be recorded.
    pub fn start(options: &SpoolOptions) -> Result<Session, SpoolError> {
        let segments = options.segments.max(least_segments());
        let setting = Setting {
            data: options.data,
            segments,
            on_full: options.on_full,
            waiting: !options.plain,
            mapped: options.mapped,
            groups: matches!(options.scope, Scope::Group(_)),
        };
        let kernel = Kernel::load(setting)?;
        let spool = options.trace.join(SPOOL);
        let made = fs::create_dir_all(&spool);
        made.map_err(|source| SpoolError::Unwritten { path: spool.clone(), source })?;
        let mut session = match options.scope {
            Scope::Command => Session::launch(kernel, options)?,
            _ => Session::attach(kernel, options)?,
        };
        session.until = options.duration.map(|duration| Instant::now() + duration);
        Ok(session)
    }

    fn launch(kernel: Kernel, options: &SpoolOptions) -> Result<Session, SpoolError> {
        let launched = launch::launch(options)?;
        let pid = launched.child.pid;
        let prepared = prepare(&kernel, options, &launched);
        if let Err(error) = prepared {
            let _ = sys::kill(pid, libc::SIGKILL);
            let _ = sys::wait_for(pid);
            return Err(error);
        }
        let mut session = Session::new(kernel, options, Ends::Command(pid));
        session.serve()?;
        session.listen()?;
        launched.child.go().map_err(step("start the program", "it was killed before it began"))?;
        Ok(session)
    }

    /// The sink is there before the programs are: nobody is to wait for it.
    fn attach(kernel: Kernel, options: &SpoolOptions) -> Result<Session, SpoolError> {
        let mut session = Session::new(kernel, options, Ends::Signal);
        session.serve()?;
        session.listen()?;
        match Attached::attach(&session.kernel, options) {
            Ok(attached) => session.ends = Ends::Attached(Box::new(attached)),
            Err(error) => {
                session.kernel.detach();
                return Err(error);
            }
        }
        Ok(session)
    }

    fn new(kernel: Kernel, options: &SpoolOptions, ends: Ends) -> Session {
        Session {
            kernel: Arc::new(kernel),
            options: options.clone(),
            ends,
            until: None,
            signals: None,
            over: Arc::default(),
            stop: Arc::default(),
            sink: None,
            heart: None,
        }
    }

    fn listen(&mut self) -> Result<(), SpoolError> {
        let advice = "check RLIMIT_SIGPENDING (ulimit -i)";
        let mut signals = Signals::install().map_err(step("install signal handlers", advice))?;
        if self.options.duration.is_some() {
            signals.tick_every(LOOK).map_err(step("set a timer", advice))?;
        }
        self.signals = Some(signals);
        Ok(())
    }

    /// Starts the threads that write and that say that the recorder lives.
    fn serve(&mut self) -> Result<(), SpoolError> {
        let spool = self.options.trace.join(SPOOL);
        let writer = Writer::new(self.kernel.clone(), &spool, self.options.sink, self.over.clone())?;
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

    /// Number of the command's process; 0 if there is none.
    pub fn pid(&self) -> i32 {
        match self.ends {
            Ends::Command(pid) => pid,
            Ends::Attached(_) | Ends::Signal => 0,
        }
    }

    /// Records until the command and all that it started have ended; what ran already until that has, or until a signal
    /// comes; and not longer than was asked for.
    ///
    /// # Errors
    /// The spool could not be written, or the recording not be ended.
    pub fn run(mut self) -> Result<Summary, SpoolError> {
        let end = match std::mem::replace(&mut self.ends, Ends::Signal) {
            Ends::Command(pid) => self.until_the_end_of(pid)?,
            Ends::Attached(attached) => {
                self.until_told(*attached)?;
                None
            }
            Ends::Signal => None,
        };
        self.finish(end.unwrap_or(End { code: None, signal: None }))
    }

    fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    fn until_the_end_of(&self, pid: i32) -> Result<Option<End>, SpoolError> {
        let mut end = None;
        while !(self.over.load(Ordering::SeqCst) && end.is_some() || self.is_late()) {
            match end {
                None => end = sys::wait_for(pid).map_err(step("wait for the program", "this is a defect"))?,
                Some(_) => std::thread::sleep(Duration::from_millis(2)),
            }
            while let Some(signal) = sys::take_signal() {
                match end {
                    // The terminal sends SIGINT to the program as well.
                    None if signal != libc::SIGINT => drop(sys::kill(pid, signal)),
                    None => {}
                    Some(_) => self.over.store(true, Ordering::SeqCst),
                }
            }
        }
        Ok(end)
    }

    fn until_told(&self, mut attached: Attached) -> Result<(), SpoolError> {
        let mut counted = Instant::now();
        while !self.over.load(Ordering::SeqCst) && !self.is_late() && sys::take_signal().is_none() {
            std::thread::sleep(LOOK);
            attached.join(&self.kernel, &self.options)?;
            if matches!(self.options.scope, Scope::Processes { .. }) && counted.elapsed() > COUNT {
                counted = Instant::now();
                if attached.is_empty(&self.kernel)? {
                    return Ok(());
                }
            }
        }
        Ok(())
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
