//! One replay thread: its commands one after the other.

use std::sync::atomic::Ordering;

use reprise_plan::command::{Command, CommandReader, Expect, Op, Wait};

use super::arguments::{Checked, Range};
use super::batch::Gathering;
use super::clocks::Instant;
use super::counters::Counter;
use super::failure::{Failure, Stop, error_name};
use super::memory::Scratch;
use super::pages::Pages;
use super::porters::Outbox;
use super::stream::Stream;
use super::touch::Windows;
use super::{Compared, Ended, Engine, Verify, issue};
use crate::executor::Executor;
use crate::log::{Class, Difference, Handling, Short, Times, Waiting, Writer};
use crate::pace::Pace;
use crate::resume::lacks_room_for_attributes;

/// Commands this far ahead are fetched into the processor's caches: two or three.
const FETCHED_WORDS: usize = 24;
pub(super) const UNREADABLE: Stop = Stop::Damaged("it cannot be decoded");

/// What one command did.
#[derive(Debug)]
pub(super) struct Done {
    pub handling: Handling,
    /// As it is written to the log.
    pub result: i64,
    pub difference: Difference,
    /// What the call filled, in scratch memory.
    pub filled: Range,
    /// The thread has ended.
    pub last: bool,
}

impl Done {
    /// Not issued.
    pub(super) fn not_issued(handling: Handling, command: &Command, difference: Difference) -> Done {
        Done { handling, result: command.result, difference, filled: Range::default(), last: false }
    }
}

/// A thread's own state.
pub(super) struct Worker {
    pub engine: &'static Engine,
    pub me: u32,
    pub process: u32,
    pub counter: &'static Counter,
    pub scratch: Scratch,
    /// What the present command listed, for the log.
    pub listed: Vec<u8>,
    /// When the latest of what the next command depends on was completed, in ticks.
    pub ready: u64,
    /// When both clocks were read last.
    pub known: Instant,
    /// Issue of the present command's first call and completion of its last, in ticks, once there were any.
    span: Option<(u64, u64)>,
    pub(super) log: Writer,
    outbox: Outbox,
    /// The [`Engine::pulse`] at which records were taken away last.
    taken: u64,
    /// Set where reads are to touch only.
    pub(super) windows: Option<Box<Windows>>,
    pub(super) pages: Pages,
    pub(super) gathering: Gathering,
}

impl Worker {
    /// State for a thread; the caller is that thread. `None` if there is no such thread.
    pub(super) fn new(engine: &'static Engine, me: u32) -> Option<Worker> {
        let counter = engine.counters.get(me)?;
        let process = engine.threads.get(me as usize)?.process;
        let (log, outbox) = (Writer::new(me), Outbox::new(&engine.porters, engine.reserved.log));
        let (scratch, listed) = (Scratch::default(), Vec::new());
        let settings = &engine.settings;
        let windows = (settings.executor == Executor::Touch).then(Box::default);
        let gathering = Gathering::of(settings, engine.turns.is_some());
        Some(Worker {
            engine,
            me,
            process,
            counter,
            scratch,
            listed,
            ready: 0,
            known: Instant::default(),
            span: None,
            log,
            outbox,
            taken: engine.pulse.load(Ordering::Relaxed),
            windows,
            pages: Pages::default(),
            gathering,
        })
    }

    /// Performs all commands, and says why if they end early. Whether the thread ended in the trace.
    pub(super) fn run(mut self) -> bool {
        let ended = self.commands().unwrap_or_else(|stop| {
            self.report(stop);
            true
        });
        self.pages.note(self.engine);
        self.flush();
        ended
    }

    /// Ends the replay for this reason.
    pub(super) fn report(&self, stop: Stop) {
        let command = self.counter.completed() + 1;
        match stop {
            Stop::Told => {}
            Stop::Failed(failure) => self.engine.stop(Ended::Failed(*failure)),
            Stop::Damaged(cause) => {
                let damaged = Failure::Damaged { thread: self.me, command, cause: cause.to_owned() };
                self.engine.stop(Ended::Failed(damaged));
            }
        }
    }

    /// All that was recorded is in the log then.
    fn flush(&mut self) {
        // Where nothing is left, a porter may still have what was.
        let finished = self.outbox.append(self.log.finished().unwrap_or_default());
        self.log.clear();
        if let Err(stop) = finished {
            self.report(stop);
        }
    }

    /// Lets a porter take what was recorded so far, if there is a processor for it.
    pub(super) fn write_log(&mut self) -> Result<(), Stop> {
        self.taken = self.engine.pulse.load(Ordering::Relaxed);
        let Some(finished) = self.log.finished() else { return Ok(()) };
        // At a pace there is time between calls that a slow device of the log must not take.
        if self.engine.settings.pace == Pace::Afap && self.engine.counters.processors_taken() {
            self.outbox.append(finished)?;
            self.log.clear();
            return Ok(());
        }
        let spare = self.outbox.send(self.log.take())?;
        self.log.give(spare);
        Ok(())
    }

    /// Whether records are so old that they would be missed if all processes were killed.
    #[inline]
    pub(super) fn is_overdue(&self) -> bool {
        self.engine.pulse.load(Ordering::Relaxed) != self.taken
    }

    /// What is done in a long sleep: records that are old are taken away. True when there are none left to take.
    fn tidy(&mut self) -> bool {
        if self.is_overdue()
            && let Err(stop) = self.write_log()
        {
            self.report(stop);
        }
        self.log.is_empty()
    }

    /// Room for so many bytes to be read into.
    #[inline]
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<(), Stop> {
        match self.scratch.reserve(bytes) {
            true => Ok(()),
            false => Err(Failure::system("get memory to read into", -i64::from(libc::ENOMEM)).into()),
        }
    }

    /// Whether the last of them ended the thread.
    fn commands(&mut self) -> Result<bool, Stop> {
        let engine = self.engine;
        let plan = &engine.threads[self.me as usize];
        let mut stream = Stream::of(engine, self.me)?;
        super::start::wait_at_gate(engine)?;
        self.ready = if plan.spawned { engine.ticks() } else { engine.pacer.started() };
        let mut command = Command::default();
        let (mut count, mut lanes) = (0, engine.lanes.of_thread(self.me));
        while let Some(mut rest) = stream.next()? {
            let mut reader = CommandReader::default();
            while !rest.is_empty() {
                count += 1;
                self.start_lanes(&mut lanes, count)?;
                if engine.turns.is_none()
                    && let Some(found) = reader.transfer(rest)
                {
                    let (transfer, waits, used) = found.ok_or(UNREADABLE)?;
                    rest = &rest[used..];
                    issue::fetch_ahead(rest, FETCHED_WORDS);
                    if !self.is_gathered(transfer, waits, count, &mut command)? {
                        self.transfer(transfer, waits, count, &mut command)?;
                    } else if lanes.is_empty() {
                        let run = self.gather_run(&mut reader, rest);
                        rest = &rest[run..];
                        count += run as u64;
                    }
                    continue;
                }
                self.perform_batch(&mut command)?;
                if let Some(plain) = self.plain_at(rest) {
                    let (words, after) = rest.split_at(plain.used);
                    rest = after;
                    issue::fetch_ahead(rest, FETCHED_WORDS);
                    self.perform_plain(&plain, words, count, &mut command)?;
                    continue;
                }
                let used = reader.command(rest, &mut command).filter(|used| *used > 0).ok_or(UNREADABLE)?;
                rest = &rest[used..];
                issue::fetch_ahead(rest, FETCHED_WORDS);
                if self.one(&command, count)? {
                    // What the kernel had of its requests it goes on with.
                    self.start_lanes(&mut lanes, count + 1)?;
                    return Ok(true);
                }
                self.gathering.after(&command);
            }
        }
        self.perform_batch(&mut command)?;
        // A part of a trace may have requests of a thread without the calls after them.
        self.start_lanes(&mut lanes, count + 1)?;
        Ok(false)
    }

    /// Performs one command; true if it was the last.
    pub(super) fn one(&mut self, command: &Command, count: u64) -> Result<bool, Stop> {
        let engine = self.engine;
        if let Some(turns) = &engine.turns {
            turns.await_turn(engine, self.me, command)?;
        }
        let blocked = self.dependencies(command.waits.iter().copied())?;
        self.after_dependencies(command, count, blocked)
    }

    /// What is left of that when its dependencies are met.
    pub(super) fn after_dependencies(
        &mut self,
        command: &Command,
        count: u64,
        blocked: Option<Waiting>,
    ) -> Result<bool, Stop> {
        let engine = self.engine;
        let paced = self.pace(command.timing)?;
        if engine.counters.stopping() {
            return Err(Stop::Told);
        }
        self.counter.call.0.store(command.number, Ordering::Relaxed);
        // Of a call that is issued the kernel's part alone is timed (none, if it is left out): no need to read the clock here.
        let is_timed = matches!(command.op, Op::Issue | Op::IssueFd | Op::IssuePair | Op::Through | Op::Close);
        let arrived = paced.map(|paced| paced.at).or_else(|| (!is_timed).then(|| engine.ticks()));
        self.span = None;
        let done = self.perform(command)?;
        // What the engine does itself takes from its arrival until now; a call as long as the kernel took.
        let (begin, end) = self.span.unwrap_or_else(|| {
            let now = engine.ticks();
            (arrived.unwrap_or(now), now)
        });
        self.ready = end;
        let times = Times::of(begin, end, blocked, paced);
        // A call that was interrupted because all must end says nothing about the target.
        if done.result == -i64::from(libc::EINTR) && command.result != done.result && engine.counters.stopping() {
            return Err(Stop::Told);
        }
        if command.op == Op::Exit || done.last {
            // Nothing of this thread may be left when others see that it has ended.
            self.record(command, &done, times)?;
            self.flush();
            self.engine.counters.complete(self.counter, count, end);
        } else {
            self.engine.counters.complete(self.counter, count, end);
            self.record(command, &done, times)?;
        }
        Ok(done.last)
    }

    /// Issues a traced call, and notes when.
    pub(super) fn call_kernel(&mut self, number: u32, checked: &Checked) -> i64 {
        self.timed(|| issue::call(number, checked))
    }

    /// Issues a call, and notes when.
    #[inline(always)]
    pub(super) fn timed(&mut self, call: impl FnOnce() -> i64) -> i64 {
        let begin = self.engine.ticks();
        let result = call();
        let end = self.engine.ticks();
        self.span = Some((self.span.map_or(begin, |(first, _)| first), end));
        result
    }

    /// Waits until all that must come before is completed: whether that took any time, and for what.
    pub(super) fn dependencies(&mut self, waits: impl Iterator<Item = Wait>) -> Result<Option<Waiting>, Stop> {
        let (engine, counters) = (self.engine, &self.engine.counters);
        let mut waiting: Option<Waiting> = None;
        for wait in waits {
            let Some(awaited) = counters.get(wait.thread) else {
                return Err(Stop::Damaged("it waits for a thread that does not exist"));
            };
            if awaited.completed() < wait.count {
                waiting = Some(Waiting::go_on(waiting, engine.ticks(), wait.rule));
                if !counters.wait(self.counter, awaited, wait, &mut || self.tidy()) {
                    return Err(Stop::Told);
                }
            }
            self.ready = self.ready.max(awaited.ended(wait.count));
        }
        Ok(waiting)
    }

    /// Records what has room in a short record; false if this has none.
    #[inline(always)]
    pub(super) fn record_short(&mut self, short: &Short, times: &Times) -> Result<bool, Stop> {
        let Some(full) = self.log.add_short(short, times) else { return Ok(false) };
        if full || self.is_overdue() {
            self.write_log()?;
        }
        Ok(true)
    }

    pub(super) fn record(&mut self, command: &Command, done: &Done, times: Times) -> Result<(), Stop> {
        let differs = done.difference.class != Class::Same;
        let compared = self.engine.settings.verify.of(command.origin) == Compared::All
            && match command.expect {
                Expect::Content(..)
                | Expect::Digest(..)
                | Expect::Metadata(..)
                | Expect::Names(..)
                | Expect::Flock(_) => true,
                Expect::Nothing | Expect::Outcome | Expect::Value | Expect::Listing(..) => false,
            };
        // Content that is equal is not kept twice; attributes and names are, so that others can compare them again.
        let structured =
            matches!(command.expect, Expect::Metadata(..) | Expect::Names(..) | Expect::Flock(_) | Expect::Listing(..));
        let output = match (self.listed.is_empty(), differs || structured) {
            (false, _) => &self.listed[..],
            (true, true) => self.scratch.bytes(done.filled.at, done.filled.length),
            (true, false) => &[],
        };
        let entry = crate::log::Entry {
            origin: command.origin,
            times,
            result: done.result,
            number: command.number,
            handling: done.handling,
            difference: done.difference,
            compared,
            output,
        };
        let full = self.log.add(&entry);
        self.listed.clear();
        self.scratch.trim(done.filled.length);
        if full || self.is_overdue() {
            self.write_log()?;
        }
        self.environment(command, done)?;
        if done.difference.class == Class::Diverged && self.engine.settings.verify == Verify::Abort {
            self.engine.stop(Ended::FirstDivergence);
            return Err(Stop::Told);
        }
        Ok(())
    }

    /// A disk that is full or fails is not the replay's doing: it ends, and says so.
    fn environment(&self, command: &Command, done: &Done) -> Result<(), Stop> {
        let issued = done.handling == Handling::Issued && done.result < 0 && command.result >= 0;
        let tolerated = command.tolerance != reprise_plan::command::Tolerance::None;
        if !issued || tolerated {
            return Ok(());
        }
        let row = reprise_calls::by_number(command.number);
        if lacks_room_for_attributes(row, done.result) {
            return Ok(());
        }
        let call = row.map_or("a call", |c| c.name).to_owned();
        let origin = command.origin;
        let error = error_name(done.result);
        let limit = |next: &str| {
            let what = format!("{call} (action {origin}) returned {error}");
            Failure::Limit { what, next: next.to_owned() }
        };
        let failure = match i32::try_from(-done.result).unwrap_or(0) {
            libc::ENOSPC | libc::EDQUOT => Failure::TargetFull { call, origin, error },
            libc::EIO | libc::EUCLEAN => Failure::TargetDevice { call, origin, error },
            // So says a file system whose server or daemon has ended; connections say it, too.
            libc::ENOTCONN | libc::ESTALE if self.root_fails() => Failure::TargetDevice { call, origin, error },
            // The devices of the replayed world are read-only mounts of their own.
            libc::EROFS if self.read_only() => Failure::TargetReadOnly { call, origin },
            libc::ENOENT if self.root_is_removed() => Failure::TargetGone { call, origin },
            libc::EMFILE => {
                let wanted = self.engine.slots.wanted();
                limit(&format!("permit more open files with `ulimit -n {wanted}`, or run with sudo"))
            }
            libc::ENFILE => limit("permit more open files on this machine (`sysctl -w fs.file-max=…`)"),
            _ => return Ok(()),
        };
        Err(failure.into())
    }

    fn root_fails(&self) -> bool {
        super::issue::file_system(self.engine.reserved.root).is_none()
    }

    fn root_is_removed(&self) -> bool {
        super::issue::links(self.engine.reserved.root) == Some(0)
    }

    fn read_only(&self) -> bool {
        let read_only = libc::ST_RDONLY;
        super::issue::file_system(self.engine.reserved.root).is_some_and(|(_, flags)| flags & read_only != 0)
    }
}
