//! A recording in the kernel, from its start to its summary.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use reprise_trace::{End, SPOOL};

use super::attach::Attached;
use super::kernel::{Comers, Kernel, Setting};
use super::launch::{self, Launched};
use super::reason::{no_thread, step};
use super::sampling;
use super::shared::{control, cpu};
use super::sink::Writer;
use super::{Reason, Sink, SpoolError, SpoolOptions, Summary, least_segments};
use crate::environment::Sampler;
use crate::error::CaptureError;
use crate::scope::Scope;
use crate::spool::layout::SEGMENT_BYTES;
use crate::spool::mark::{Cut, MARK, Mark};
use crate::sys::{self, Signals, Word};

/// The recorder says so often that it lives.
const BEAT: Duration = Duration::from_millis(100);
/// And so often it forgets what nobody maps any more.
const BEATS_TO_FORGET: u64 = 10;

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
    sink: Option<JoinHandle<Result<bool, SpoolError>>>,
    heart: Option<JoinHandle<()>>,
    sampler: Option<Sampler>,
    /// Where is said what is on the disk; `None` where nothing is kept.
    mark: Option<Arc<Mark>>,
    /// Segments that there may be on the disk.
    most_slots: Option<u64>,
    /// What the command's process may say, and the command.
    launched: Option<(Word, OsString)>,
}

/// The programs are in the kernel, and nothing has begun.
pub struct Ready {
    kernel: Kernel,
    most_slots: Option<u64>,
}

impl Ready {
    /// Loads the programs.
    ///
    /// # Errors
    /// The kernel cannot record here.
    pub fn load(options: &SpoolOptions) -> Result<Ready, Reason> {
        let most_slots = options.max_bytes.map(|most| most / 2 / SEGMENT_BYTES as u64);
        let half = most_slots.map_or(u32::MAX, |most| u32::try_from(most / 2).unwrap_or(u32::MAX));
        let segments = options.segments.min(half).max(least_segments());
        let setting = Setting {
            data: options.data,
            segments,
            on_full: options.on_full,
            waiting: !options.plain,
            mapped: options.mapped,
            comers: Comers::into(&options.scope),
        };
        Ok(Ready { kernel: Kernel::load(setting)?, most_slots })
    }

    /// What the kernel does not let the recording do that others do, and why.
    pub fn lacks(&self) -> Option<String> {
        self.kernel.lacks.clone()
    }

    /// Starts the recording; `begins` is done when signals to this process are noted and no program has begun.
    ///
    /// # Errors
    /// The programs cannot be attached, the spool cannot be made, the command cannot be started, or what runs already cannot
    /// be recorded.
    pub fn start(self, options: &SpoolOptions, begins: &mut dyn FnMut()) -> Result<Session, SpoolError> {
        let spool = options.trace.join(SPOOL);
        let made = fs::create_dir_all(&spool);
        made.map_err(|source| SpoolError::Unwritten { path: spool.clone(), source })?;
        let mut session = match options.scope {
            Scope::Command => Session::launch(self, options, begins)?,
            _ => Session::attach(self, options, begins)?,
        };
        session.until = options.duration.map(|duration| Instant::now() + duration);
        Ok(session)
    }
}

impl Session {
    /// Starts a recording: of a command, which it starts, or of what runs already.
    ///
    /// # Errors
    /// The kernel cannot record here, the spool cannot be made, the command cannot be started, or what runs already cannot
    /// be recorded.
    pub fn start(options: &SpoolOptions) -> Result<Session, SpoolError> {
        Ready::load(options)?.start(options, &mut || ())
    }

    fn launch(ready: Ready, options: &SpoolOptions, begins: &mut dyn FnMut()) -> Result<Session, SpoolError> {
        launch::look_around(options)?;
        let launched = launch::launch(options)?;
        let pid = launched.child.pid;
        let prepared = prepare(&ready.kernel, options, &launched);
        let began_ns = match prepared {
            Ok(began_ns) => began_ns,
            Err(error) => {
                let _ = sys::kill(pid, libc::SIGKILL);
                let _ = sys::wait_for(pid);
                return Err(error);
            }
        };
        let mut session = Session::new(ready, options, Ends::Command(pid));
        session.serve()?;
        session.sample(began_ns)?;
        session.listen()?;
        begins();
        let word = launched.child.go().map_err(step("start the program", "it was killed before it began"))?;
        session.launched = Some((word, options.command.first().cloned().unwrap_or_default()));
        Ok(session)
    }

    /// The sink is there before the programs are: nobody is to wait for it.
    fn attach(ready: Ready, options: &SpoolOptions, begins: &mut dyn FnMut()) -> Result<Session, SpoolError> {
        let mut session = Session::new(ready, options, Ends::Signal);
        session.serve()?;
        session.listen()?;
        begins();
        match Attached::attach(&session.kernel, options) {
            Ok(attached) => {
                let began_ns = attached.began_ns();
                session.ends = Ends::Attached(Box::new(attached));
                session.sample(began_ns)?;
            }
            Err(error) => {
                session.kernel.detach();
                return Err(error);
            }
        }
        Ok(session)
    }

    fn new(ready: Ready, options: &SpoolOptions, ends: Ends) -> Session {
        Session {
            kernel: Arc::new(ready.kernel),
            options: options.clone(),
            ends,
            until: None,
            signals: None,
            over: Arc::default(),
            stop: Arc::default(),
            sink: None,
            heart: None,
            sampler: None,
            mark: None,
            most_slots: ready.most_slots,
            launched: None,
        }
    }

    /// Keeps what is around, from now on.
    fn sample(&mut self, began_ns: u64) -> Result<(), SpoolError> {
        if self.options.sink != Sink::Null {
            let spool = self.options.trace.join(SPOOL);
            let started = sampling::start(&self.kernel, &spool, self.options.sample_every, began_ns);
            self.sampler = started.map_err(step("sample the environment", "see the limits on processes"))?;
        }
        Ok(())
    }

    fn listen(&mut self) -> Result<(), SpoolError> {
        let advice = "check RLIMIT_SIGPENDING (ulimit -i)";
        let signals = match &self.options.scope {
            Scope::Command => Signals::install(),
            _ => Signals::install_to_be_interrupted(),
        };
        let mut signals = signals.map_err(step("install signal handlers", advice))?;
        if self.options.duration.is_some() {
            signals.tick_every(LOOK).map_err(step("set a timer", advice))?;
        }
        self.signals = Some(signals);
        Ok(())
    }

    /// Starts the threads that write and that say that the recorder lives.
    fn serve(&mut self) -> Result<(), SpoolError> {
        let spool = self.options.trace.join(SPOOL);
        if self.options.sink != Sink::Null {
            let made = Mark::make(&spool);
            let made = made.map_err(|source| SpoolError::Unwritten { path: spool.join(MARK), source })?;
            self.mark = Some(Arc::new(made));
        }
        let (kernel, mark, over) = (self.kernel.clone(), self.mark.clone(), self.over.clone());
        let writer = Writer::new(kernel, &spool, self.options.sink, mark, self.most_slots, over)?;
        let stop = self.stop.clone();
        let sink = sys::spawn_quiet("spool", move || writer.run(&stop));
        self.sink = Some(sink.map_err(no_thread)?);
        let (kernel, stop) = (self.kernel.clone(), self.stop.clone());
        let heart = sys::spawn_quiet("heartbeat", move || {
            for beats in 0u64.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                kernel.beat();
                if beats % BEATS_TO_FORGET == 0 {
                    kernel.forget_unmapped();
                }
                // Woken where the recording ends.
                std::thread::park_timeout(BEAT);
            }
        });
        self.heart = Some(heart.map_err(no_thread)?);
        Ok(())
    }

    /// Number of the command's process; 0 if there is none.
    pub fn pid(&self) -> i32 {
        match self.ends {
            Ends::Command(pid) => pid,
            Ends::Attached(_) | Ends::Signal => 0,
        }
    }

    /// As [`Session::run`]; signals to this process go on to be noted until what is returned beside is dropped.
    pub(crate) fn run_guarded(mut self) -> (Result<Summary, SpoolError>, Option<Signals>) {
        let signals = self.signals.take();
        (self.run(), signals)
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
        let mut counted = Instant::now();
        while !(self.over.load(Ordering::SeqCst) && end.is_some() || self.is_late()) {
            match end {
                None => end = sys::wait_for(pid).map_err(step("wait for the program", "this is a defect"))?,
                Some(_) => std::thread::sleep(Duration::from_millis(2)),
            }
            if end.is_some() && counted.elapsed() > COUNT {
                counted = Instant::now();
                if self.is_deserted() {
                    return Ok(end);
                }
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

    /// Whether nobody is left, where the kernel may have kept an end to itself.
    fn is_deserted(&self) -> bool {
        self.kernel.untold() > 0 && self.kernel.is_deserted()
    }

    /// Whether the last thread in the scope has ended, or nothing more can be kept. While those that run already are being found, one
    /// that they make may seem to be the last.
    fn is_empty(&self) -> bool {
        let number = |offset| self.kernel.number(offset).load(Ordering::SeqCst);
        self.over.swap(false, Ordering::SeqCst) && (number(control::TASKS) == 0 || number(control::STOPPED) != 0)
    }

    fn until_told(&self, mut attached: Attached) -> Result<(), SpoolError> {
        let mut counted = Instant::now();
        let mut arrived = self.kernel.arrived().map_err(Reason::Refused)?;
        while !self.is_empty() && !self.is_late() && sys::take_signal().is_none() {
            arrived.poll(LOOK.as_millis() as i32).map_err(Reason::Refused)?;
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

    /// Whether the command could be executed.
    fn executed(&self) -> Result<(), SpoolError> {
        let refusal = self.launched.as_ref().and_then(|(word, command)| Some((word.refusal()?, command)));
        let Some((source, command)) = refusal else { return Ok(()) };
        let command = command.to_string_lossy().into_owned();
        Err(SpoolError::Start(match source.kind() {
            io::ErrorKind::NotFound => CaptureError::NotFound { command },
            _ => CaptureError::NotExecutable { command, source },
        }))
    }

    /// The program went on; how much of it was not recorded is known now.
    fn count_cut(&self, error: &io::Error) {
        if let Some(mark) = &self.mark {
            // What was said when it happened stands as long as nothing else is said.
            let _ = mark.cut(&self.kernel.cut(Cut::by(error)));
        }
    }

    /// Ends the threads; gives what became of the one that writes.
    fn join_threads(&mut self) -> Option<std::thread::Result<Result<bool, SpoolError>>> {
        self.sampler = None;
        self.stop.store(true, Ordering::SeqCst);
        let written = self.sink.take().map(JoinHandle::join);
        if let Some(heart) = self.heart.take() {
            heart.thread().unpark();
            let _ = heart.join();
        }
        written
    }

    fn finish(mut self, end: End) -> Result<Summary, SpoolError> {
        self.kernel.detach();
        let written = self.join_threads();
        self.executed()?;
        let limited = match written {
            Some(Ok(Err(SpoolError::Unwritten { path, source }))) => {
                self.count_cut(&source);
                return Err(SpoolError::Cut { path, source, end });
            }
            Some(Ok(outcome)) => outcome?,
            _ => {
                let source = io::Error::other("its thread broke off");
                return Err(step("write the spool", "this is a defect")(source));
            }
        };
        let kernel = &self.kernel;
        let load = |offset| kernel.number(offset).load(Ordering::SeqCst);
        let dropped = kernel.sum(cpu::DROPPED);
        Ok(Summary {
            untold: kernel.untold(),
            end,
            records: kernel.sum(cpu::NEXT) - dropped,
            bytes: kernel.sum(cpu::MOVED),
            lacks: kernel.lacking(),
            missed: load(control::NESTED) + load(control::LOST_TASKS),
            limited,
            passed: kernel.sum(cpu::PASSED),
            deferred: kernel.sum(cpu::DEFERRED),
            waits: load(control::WAITS),
            waited_ns: load(control::WAITED_NS),
            capabilities: kernel.capabilities,
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.join_threads());
    }
}

/// Writes down what there is, and begins; says when that was.
fn prepare(kernel: &Kernel, options: &SpoolOptions, launched: &Launched) -> Result<u64, SpoolError> {
    let spool = options.trace.join(SPOOL);
    let begin = launch::begin(options, launched, kernel.capabilities)?;
    begin.write(&spool).map_err(|source| SpoolError::Unwritten { path: spool, source })?;
    let advice = "Linux 5.11 or later is needed";
    kernel.follow(launched.child.pid).map_err(step("follow the program", advice))?;
    kernel.attach()?;
    Ok(begin.monotonic_ns)
}
