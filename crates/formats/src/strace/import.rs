//! The second pass: from lines to a trace.
//!
//! Goals: one line at a time, state only for what lives and for names met; actions in the order in which calls returned.
//! Non-goals: parsing.

use reprise_calls::sharing::{SAME_PROCESS, SHARE_BOTH, shared};
use reprise_calls::{Call, Effect};
use reprise_initial::{Decoded, Described, Links, Looked, Outside, Seen, World};
use reprise_trace::{Action, End as Ending, Keep, Loss, Manifest, Name, TraceWriter};

use super::account::{Account, Reason};
use super::clock::{Clock, Timing};
use super::decode::{annotated_path, decode};
use super::error::ImportError;
use super::facts::Facts;
use super::join::{Event, Joiner, Places, Returned, behind_output};
use super::lexer::{End, split};
use super::line::{Body, parse};
use super::merge::{Line, Merged};
use super::names::{Known, Layout, known};
use super::outcome::outcome;
use super::scan::{Birth, Hints};
use super::threads::{Making, Threads};

/// What a log says of the beginning beside its calls.
struct Log(Links);

impl Outside for Log {
    fn look(&mut self, path: &[u8]) -> Option<Looked> {
        self.0.look(path)
    }

    fn knows_links(&self) -> bool {
        self.0.knows_links()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn descriptor(&self, annotation: &[u8]) -> Described {
        match annotated_path(annotation) {
            Some(path) => Described::Path { path, device: annotation.ends_with(b">") },
            None => Described::Nameless(annotation.to_vec()),
        }
    }
}

/// The thread of a log that does not name it.
const NAMELESS: i32 = 0;
/// What a thread without a known number gets.
const SOME_TID: i32 = 1;

/// Writes the trace of a log.
pub(super) struct Importer {
    writer: TraceWriter,
    hints: Hints,
    account: Account,
    clock: Clock,
    threads: Threads,
    world: World,
    facts: Facts,
    seq: u64,
    /// The thread that lines without a prefix are of.
    main: i32,
    /// Threads to come of a process that strace took hold of, and its number.
    attaching: (u32, Option<u32>),
    /// Threads whose maker's call was written before it returned.
    early: std::collections::HashSet<i32>,
    ended: Option<Ending>,
    /// Threads that are awake from now on.
    woken: Vec<i32>,
}

/// What an import has become.
#[derive(Debug)]
pub struct Report {
    /// Every line, understood or counted.
    pub account: Account,
    /// Actions written.
    pub actions: u64,
    /// Bytes of content that they moved.
    pub bytes: u64,
    /// Calls that touch nothing that is replayed.
    pub unrelated: u64,
    /// What the log does not say, and what a replay therefore cannot verify.
    pub statements: Vec<String>,
    /// The manifest as closed.
    pub manifest: Manifest,
}

impl Importer {
    pub(super) fn new(writer: TraceWriter, mut hints: Hints) -> Importer {
        let world = World::new(Box::new(Log(Links(std::mem::take(&mut hints.links)))));
        Importer {
            writer,
            hints,
            account: Account::default(),
            clock: Clock::default(),
            threads: Threads::default(),
            world,
            facts: Facts::default(),
            seq: 0,
            main: NAMELESS,
            attaching: (0, None),
            early: Default::default(),
            ended: None,
            woken: Vec::new(),
        }
    }

    pub(super) fn world_mut(&mut self) -> &mut World {
        &mut self.world
    }

    /// Reads all lines.
    pub(super) fn run(&mut self, lines: &mut Merged, progress: &mut dyn FnMut(u64)) -> Result<(), ImportError> {
        let mut joiner = Joiner::default();
        while let Some(line) = lines.next().map_err(ImportError::read)? {
            self.line(&mut joiner, line)?;
            for tid in self.woken.drain(..) {
                lines.wake(tid);
            }
            if self.account.lines.is_multiple_of(4096) {
                progress(lines.taken());
            }
        }
        joiner.finish(&mut self.account);
        for tid in self.threads.all() {
            let exited = self.threads.get(tid).is_some_and(|t| t.exit.is_some());
            if exited {
                self.end(tid, None)?;
            }
        }
        Ok(())
    }

    fn line(&mut self, joiner: &mut Joiner, line: Line<'_>) -> Result<(), ImportError> {
        self.account.lines += 1;
        let Some(text) = line.text else {
            self.account.count(Reason::TooLong, line.place);
            return Ok(());
        };
        let (mut prefix, mut body) = parse(text);
        let bare = prefix.tid.is_none() && prefix.stamp.is_none();
        if joiner.is_torn() && bare {
            let mut account = std::mem::take(&mut self.account);
            let event = joiner.continue_torn(text, line.place, &mut account);
            self.account = account;
            if let Some(event) = event {
                return self.event(event);
            }
        }
        let strange = match body {
            Body::Other(_) => true,
            Body::Call(name, _) => known(name).is_none() && !is_number(name),
            _ => false,
        };
        if strange && let Some(found) = behind_output(text) {
            (prefix.tid, prefix.stamp) = (prefix.tid.or(found.0.tid), prefix.stamp.or(found.0.stamp));
            body = found.1;
            self.facts.spliced += 1;
        }
        let now = self.clock.time(prefix.stamp, self.account.lines);
        let tid = self.speaker(joiner, prefix.tid.or(line.tid), &body, now)?;
        let event = joiner.line(tid, body, (line.place, now, line.ended), &mut self.account);
        self.event(event)
    }

    /// Whose line it is; a thread that speaks for the first time begins.
    fn speaker(&mut self, joiner: &Joiner, tid: Option<i32>, body: &Body<'_>, now: u64) -> Result<i32, ImportError> {
        let tid = match tid {
            Some(tid) => tid,
            None => self.threads.only().unwrap_or(self.main),
        };
        let speaks = matches!(body, Body::Call(name, _) if known(name).is_some() || is_number(name))
            || matches!(body, Body::Resumed(..) | Body::Signal(_));
        if !speaks || self.threads.get(tid).is_some() {
            return Ok(tid);
        }
        let birth = self.hints.births.get_mut(&tid).and_then(|b| b.pop_front());
        match birth {
            Some(birth) => self.early_birth(joiner, tid, birth, now)?,
            // The thread that had no number so far is this one.
            None if self.main == NAMELESS && tid != NAMELESS && self.threads.get(NAMELESS).is_some() => {
                self.threads.learn_number(NAMELESS, tid);
                self.main = tid;
            }
            None => self.adopt(tid, now),
        }
        Ok(tid)
    }

    /// A thread that nothing in the log made.
    fn adopt(&mut self, tid: i32, now: u64) {
        if self.threads.count() == 0 {
            self.main = tid;
        }
        let first = self.threads.rows.is_empty();
        let attached = self.attaching.1.filter(|_| self.attaching.0 > 0);
        self.attaching.0 = self.attaching.0.saturating_sub(1);
        let shared = match attached {
            Some(process) => Some(process),
            None if first || self.hints.processes.contains(&tid) => None,
            None => self.threads.get(self.main).map(|t| t.process),
        };
        let seat = shared.and_then(|process| {
            let mates = self.threads.others(process, tid);
            mates.first().and_then(|mate| self.threads.get(*mate)).map(|mate| mate.seat)
        });
        match seat.filter(|_| shared.is_some()) {
            Some(mate) => {
                let seat = self.world.fork(mate, SHARE_BOTH);
                self.threads.begin(tid, shared, seat, now);
            }
            None => {
                let process = self.threads.next_process();
                let cwd = self.hints.directories.get(&tid).or_else(|| self.hints.directories.get(&NAMELESS));
                let cwd = cwd.cloned();
                let seat = self.world.begin(process, cwd.as_deref());
                self.world.numbered(seat, tid);
                self.threads.begin(tid, None, seat, now);
            }
        }
        if !first {
            self.facts.unborn += 1;
        }
    }

    /// A thread speaks before the call that made it has returned: the call is written now.
    fn early_birth(&mut self, joiner: &Joiner, tid: i32, birth: Birth, now: u64) -> Result<(), ImportError> {
        let parent = if self.threads.get(birth.parent).is_some() { birth.parent } else { self.main };
        if self.threads.get(parent).is_none() {
            self.adopt(tid, now);
            return Ok(());
        }
        let begun = joiner.inside(parent).filter(|b| b.name == *birth.name && birth.resumed);
        let begin_ns = begun.map_or(now, |b| b.begin_ns);
        let mut text = begun.map(|b| b.text.clone()).unwrap_or_default();
        text.extend_from_slice(&birth.text);
        let (args, end) = split(&text);
        let End::Closed(at) = end else {
            self.adopt(tid, now);
            return Ok(());
        };
        let Some(outcome) = outcome(&text[at..]) else {
            self.adopt(tid, now);
            return Ok(());
        };
        let name: &[u8] =
            if begun.is_none() && birth.resumed && args.named(b"flags").is_none() { b"fork" } else { &birth.name };
        let returned = Returned { name, args, outcome, begin_ns, end_ns: now, places: Places::default() };
        self.returned(parent, returned)?;
        self.early.insert(tid);
        Ok(())
    }

    fn event(&mut self, event: Event<'_>) -> Result<(), ImportError> {
        match event {
            Event::Nothing => Ok(()),
            Event::Call(tid, returned) => self.returned(tid, returned),
            Event::Ended(tid, code, signal) => {
                let status = code.or(signal.map(|s| 128 + s)).unwrap_or(0);
                if let Some(thread) = self.threads.get(tid)
                    && self.threads.rows.get(thread.number as usize).is_some_and(|row| row.created_by.is_none())
                {
                    self.ended = Some(Ending { code, signal });
                }
                self.end(tid, Some(status as u64))
            }
            Event::Superseded(leader, by) => {
                self.end(leader, Some(0))?;
                self.threads.rename(by, leader);
                Ok(())
            }
            Event::Attached(tid, threads) => {
                if threads > 1 && self.threads.get(tid).is_none() && !self.hints.births.contains_key(&tid) {
                    let now = self.clock.time(None, self.account.lines);
                    self.adopt(tid, now);
                    self.attaching = (threads - 1, self.threads.get(tid).map(|t| t.process));
                }
                Ok(())
            }
            Event::Detached(tid) => match self.threads.get(tid).is_some_and(|t| t.exit.is_some()) {
                true => self.end(tid, None),
                false => Ok(()),
            },
        }
    }

    fn returned(&mut self, tid: i32, r: Returned<'_>) -> Result<(), ImportError> {
        let (call, layout) = match known(r.name) {
            Some(Known::Row(call, layout)) => (call, layout),
            Some(Known::Unrelated) => {
                r.places.understood(&mut self.account);
                self.facts.unrelated += 1;
                self.unrelated(tid, &r);
                return Ok(());
            }
            None => {
                let name = String::from_utf8_lossy(r.name).into_owned();
                self.lose(Loss::Unsupported, format!("{name}: a call that is not known"));
                r.places.counted(&mut self.account, Reason::UnknownCall);
                return Ok(());
            }
        };
        self.facts.injected += u64::from(r.outcome.injected);
        if r.outcome.restarts {
            r.places.understood(&mut self.account);
            self.facts.interrupted += 1;
            return Ok(());
        }
        let result = match (r.outcome.result, call.effect) {
            (Some(result), _) if layout == Layout::LongSeek && result >= 0 => {
                long_seek(r.args.get(2)).unwrap_or(result)
            }
            (Some(result), _) => result,
            (None, Effect::Exit) => 0,
            (None, _) => {
                r.places.counted(&mut self.account, Reason::Result);
                return Ok(());
            }
        };
        let Some(_) = self.threads.get(tid) else {
            r.places.counted(&mut self.account, Reason::Thread);
            return Ok(());
        };
        let Ok((decoded, lacks)) = decode(call, layout, &r.args, result) else {
            r.places.counted(&mut self.account, Reason::Arguments);
            return Ok(());
        };
        r.places.understood(&mut self.account);
        let times = (r.begin_ns, r.outcome.duration_ns.unwrap_or(r.end_ns.saturating_sub(r.begin_ns)));
        self.facts.timed |= r.outcome.duration_ns.is_some();
        self.facts.lacks(call, lacks, result);
        match call.effect {
            Effect::Exit => self.exits(tid, call, &decoded, times.0),
            Effect::Spawn if result > 0 => self.spawns(tid, call, decoded, result, times),
            _ => self.action(tid, call, decoded, result, times),
        }
    }

    /// A call that is not written, but tells something.
    fn unrelated(&mut self, tid: i32, r: &Returned<'_>) {
        let Some(result) = r.outcome.result.and_then(|n| u32::try_from(n).ok()) else { return };
        match r.name {
            b"set_tid_address" | b"gettid" if tid == NAMELESS && self.main == NAMELESS => {
                self.threads.learn_number(NAMELESS, result as i32);
                self.main = result as i32;
            }
            b"getuid" | b"geteuid" | b"getuid32" | b"geteuid32" => {
                self.identity(tid, |o| o.uids.get_or_insert([result; 3]))
            }
            b"getgid" | b"getegid" | b"getgid32" | b"getegid32" => {
                self.identity(tid, |o| o.gids.get_or_insert([result; 3]))
            }
            _ => {}
        }
    }

    fn identity(&mut self, tid: i32, note: impl FnOnce(&mut reprise_initial::Origin) -> &mut [u32; 3]) {
        if let Some(thread) = self.threads.get(tid) {
            note(self.world.origin(thread.seat));
        }
    }

    /// An exit is written when the thread has ended.
    fn exits(&mut self, tid: i32, call: &Call, decoded: &Decoded<'_>, begin_ns: u64) -> Result<(), ImportError> {
        if let Some(thread) = self.threads.get_mut(tid) {
            thread.exit = Some((begin_ns, decoded.args[0], call.name == "exit_group"));
        }
        Ok(())
    }

    /// A thread has ended: as the recorder does it, with `exit_group` for the first of a process, after all others.
    fn end(&mut self, tid: i32, status: Option<u64>) -> Result<(), ImportError> {
        let Some(thread) = self.threads.get(tid) else { return Ok(()) };
        let row = self.threads.rows.get(thread.number as usize);
        let leads = row.is_some_and(|r| self.threads.processes.get(r.process as usize).is_some_and(|p| p.pid == r.tid));
        if leads {
            for other in self.threads.others(thread.process, tid) {
                self.end_one(other, "exit", Some(0))?;
            }
        }
        self.end_one(tid, if leads { "exit_group" } else { "exit" }, status)
    }

    fn end_one(&mut self, tid: i32, name: &'static str, status: Option<u64>) -> Result<(), ImportError> {
        let Some(thread) = self.threads.end(tid) else { return Ok(()) };
        let now = self.clock.time(None, self.account.lines);
        let (begin_ns, asked, _) = thread.exit.unwrap_or((now, status.unwrap_or(0), false));
        let mut args = [0; 6];
        args[0] = if thread.exit.is_some() { asked } else { status.unwrap_or(0) };
        self.world.end(thread.seat);
        self.write(Action {
            thread: thread.number,
            call: name.to_owned().into(),
            begin_ns,
            duration_ns: now.saturating_sub(begin_ns),
            args,
            ..Action::default()
        })
    }

    fn spawns(
        &mut self,
        tid: i32,
        call: &Call,
        decoded: Decoded<'_>,
        result: i64,
        times: (u64, u64),
    ) -> Result<(), ImportError> {
        let child = result as i32;
        if self.early.remove(&child) {
            return Ok(());
        }
        if let Some(births) = self.hints.births.get_mut(&child)
            && births.front().is_some_and(|b| b.parent == tid || b.parent == NAMELESS)
        {
            births.pop_front();
        }
        // Its number was used before, by one whose end is not in the log.
        self.end(child, None)?;
        let flags = match call.name {
            "clone" => decoded.args[0],
            "clone3" => decoded.input.get(4..12).map_or(0, |b| u64::from_le_bytes(std::array::from_fn(|i| b[i]))),
            _ => 0,
        };
        let seq = self.seq;
        self.action(tid, call, decoded, result, times)?;
        if let Some(parent) = self.threads.get(tid) {
            let seat = self.world.fork(parent.seat, flags);
            if !shared(flags).descriptors && flags & SAME_PROCESS == 0 {
                self.world.numbered(seat, child);
            }
            let now = times.0.saturating_add(times.1);
            self.threads.make(tid, child, seat, Making { seq, flags, now });
            self.woken.push(child);
        }
        Ok(())
    }

    fn action(
        &mut self,
        tid: i32,
        call: &Call,
        decoded: Decoded<'_>,
        result: i64,
        (begin_ns, duration_ns): (u64, u64),
    ) -> Result<(), ImportError> {
        let Some(thread) = self.threads.get(tid) else { return Ok(()) };
        let seat = self.world.observe(&Seen { seat: thread.seat, call, decoded: &decoded, result });
        if seat != thread.seat
            && let Some(live) = self.threads.get_mut(tid)
        {
            live.seat = seat;
        }
        if call.effect == Effect::Execute && result >= 0 {
            if let Some(path) = &decoded.path {
                self.threads.program(thread.process, path);
            }
            if self.facts.command.is_empty() {
                let argv = decoded.input.get(4..).unwrap_or_default().split_inclusive(|b| *b == 0);
                let argv = argv.map(|a| String::from_utf8_lossy(a.strip_suffix(&[0]).unwrap_or(a)).into_owned());
                self.facts.command = argv.collect();
            }
        }
        let kept = decoded.data.len() as u64;
        let data = if kept > 0 { self.writer.blob(&decoded.data, keep(call))? } else { Vec::new() };
        let truncated_bytes = decoded.data_bytes.saturating_sub(kept);
        self.facts.moved += decoded.data_bytes;
        if truncated_bytes > 0 {
            let seq = self.seq;
            let cause = if kept > 0 { "content shortened in the log (-s)" } else { "content not printed in the log" };
            self.writer.ledger().count(Loss::Truncated, cause, truncated_bytes, Some(seq));
        }
        self.write(Action {
            thread: thread.number,
            call: call.name.into(),
            begin_ns,
            duration_ns,
            args: decoded.args,
            result,
            path: decoded.path.map(|path| Name(path.into_owned())),
            path2: decoded.path2.map(|path| Name(path.into_owned())),
            input: decoded.input.into_owned(),
            output: decoded.output.into_owned(),
            data,
            data_bytes: decoded.data_bytes,
            truncated_bytes,
            ..Action::default()
        })
    }

    fn write(&mut self, mut action: Action) -> Result<(), ImportError> {
        action.seq = self.seq;
        self.seq += 1;
        Ok(self.writer.action(action)?)
    }

    fn lose(&mut self, word: Loss, cause: String) {
        let seq = self.seq;
        self.writer.ledger().count(word, cause, 0, Some(seq));
    }

    /// Writes what was inferred, and closes the trace.
    pub(super) fn finish(mut self) -> Result<Report, ImportError> {
        let first = self.world.origins().values().next().cloned().unwrap_or_default();
        let owner = (first.uids.map_or(0, |u| u[0]), first.gids.map_or(0, |g| g[0]));
        for row in self.world.tree(owner) {
            self.writer.node(row)?;
        }
        for row in self.world.descriptors() {
            self.writer.descriptor(row)?;
        }
        self.write_processes()?;
        for row in std::mem::take(&mut self.threads.rows) {
            let tid = if row.tid == NAMELESS { SOME_TID } else { row.tid };
            self.writer.thread(reprise_trace::ThreadRow { tid, ..row })?;
        }
        for (reason, tally) in &self.account.reasons {
            let word = if reason.loses_a_call() { Loss::Unsupported } else { Loss::Dropped };
            let lines: Vec<String> = tally.first.iter().map(|p| p.line.to_string()).collect();
            let cause = format!("{reason}: {} (lines {}{})", reason.meaning(), lines.join(", "), more(tally));
            for _ in 0..tally.count {
                self.writer.ledger().count(word, cause.clone(), 0, None);
            }
        }
        let timing = self.clock.timing();
        let statements = self.facts.statements(&self.world, timing, first);
        for statement in &statements {
            self.writer.ledger().note(statement.clone());
        }
        for (note, count) in std::mem::take(&mut self.world.notes) {
            (0..count).for_each(|_| self.writer.ledger().note(note));
        }
        let manifest = self.writer.manifest_mut();
        manifest.command = std::mem::take(&mut self.facts.command);
        manifest.started_ns = self.clock.started();
        let facts = [
            ("imported_from", "a log of strace".to_owned()),
            ("lines", format!("{}, of them understood {}", self.account.lines, self.account.understood)),
            ("time_stamps", timing_word(timing).to_owned()),
        ];
        manifest.facts.extend(facts.map(|(name, value)| (name.to_owned(), value)));
        let manifest = self.writer.close(self.ended)?;
        Ok(Report {
            account: self.account,
            actions: self.seq,
            bytes: self.facts.moved,
            unrelated: self.facts.unrelated,
            statements,
            manifest,
        })
    }

    fn write_processes(&mut self) -> Result<(), ImportError> {
        let mut last = (vec![0; 4], vec![0; 4], 0o022, Name::from("/"));
        for mut row in std::mem::take(&mut self.threads.processes) {
            if let Some(origin) = self.world.origins().get(&row.process) {
                let four = |ids: Option<[u32; 3]>| ids.map_or(vec![0; 4], |[a, b, c]| vec![a, b, c, b]);
                let umask = origin.umask.unwrap_or(0o022);
                last = (four(origin.uids), four(origin.gids), umask, Name::from(origin.cwd.as_slice()));
            }
            (row.uids, row.gids, row.umask, row.cwd) = last.clone();
            row.root = Name::from("/");
            if row.pid == NAMELESS {
                row.pid = SOME_TID;
            }
            self.writer.process(row)?;
        }
        Ok(())
    }
}

fn more(tally: &super::account::Tally) -> &'static str {
    if tally.count > tally.first.len() as u64 { ", …" } else { "" }
}

fn timing_word(timing: Timing) -> &'static str {
    match timing {
        Timing::None => "none: a line counts as a microsecond",
        Timing::OfDay => "time of day, without date",
        Timing::Unix => "since 1970",
        Timing::Relative => "relative",
    }
}

/// `[123]`, the result of `_llseek`.
fn long_seek(text: &[u8]) -> Option<i64> {
    let inside = text.strip_prefix(b"[")?.strip_suffix(b"]")?;
    super::value::exact(inside).map(|n| n as i64)
}

/// `syscall_0x1b3`, `syscall_435`: a call that strace did not know.
fn is_number(name: &[u8]) -> bool {
    name.starts_with(b"syscall_")
}

fn keep(call: &Call) -> Keep {
    use Effect::*;
    match call.effect {
        ReadLink | List | GetDirectory | ListXattr | GetXattr | SetXattr | Message => Keep::Always,
        _ => Keep::ByPolicy,
    }
}
