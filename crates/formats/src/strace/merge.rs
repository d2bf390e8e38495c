//! The lines of one log, or of one per thread (`-ff`) put into one order by their time stamps.
//!
//! Goals: a call stands where it ended, as far as the log tells; a thread speaks only after it was made. Non-goals: order
//! where there are no time stamps.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::io;

use reprise_calls::Admission;

use super::account::Place;
use super::clock::Clock;
use super::line::{Body, Prefix, duration, prefix};
use super::names::{Known, known};
use super::reader::{Lines, Log, Read1};

/// A line with what the log says of its thread.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// Its text; `None` if it was too long to be held.
    pub text: Option<&'a [u8]>,
    /// Whether it has an end.
    pub ended: bool,
    /// The thread that the log is of.
    pub tid: Option<i32>,
    /// Where it stands.
    pub place: Place,
}

/// All lines in order.
pub enum Merged {
    /// Of one log.
    One(Source),
    /// Of several.
    Many(Many),
}

impl Merged {
    /// Opens the logs. Threads that are made in them sleep until then.
    pub fn open(logs: &[Log], born: impl Fn(i32) -> bool) -> io::Result<Merged> {
        if let [log] = logs {
            return Ok(Merged::One(Source::open(log, 0)?));
        }
        let mut many = Many::default();
        for (i, log) in logs.iter().enumerate() {
            let mut source = Source::open(log, i as u32)?;
            source.advance()?;
            many.sources.push(source);
            match log.tid {
                Some(tid) if born(tid) => drop(many.asleep.insert(tid)),
                _ => many.enter(i),
            }
        }
        Ok(Merged::Many(many))
    }

    /// The next line.
    pub fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        match self {
            Merged::One(source) => source.read(),
            Merged::Many(many) => many.next(),
        }
    }

    /// A thread was made: its log may speak.
    pub fn wake(&mut self, tid: i32) {
        if let Merged::Many(many) = self {
            many.wake(tid);
        }
    }

    /// Bytes read so far.
    pub fn taken(&self) -> u64 {
        match self {
            Merged::One(source) => source.lines.taken,
            Merged::Many(many) => many.sources.iter().map(|s| s.lines.taken).sum(),
        }
    }
}

/// One log being read.
pub struct Source {
    lines: Lines,
    tid: Option<i32>,
    place: Place,
    clock: Clock,
    /// The line to be given out next, and when it ended.
    line: Held,
    /// The one after it.
    ahead: Held,
}

#[derive(Debug, Default)]
struct Held {
    text: Option<Vec<u8>>,
    ended: bool,
    there: bool,
    begin_ns: u64,
}

impl Source {
    fn open(log: &Log, number: u32) -> io::Result<Source> {
        Ok(Source {
            lines: Lines::open(&log.path)?,
            tid: log.tid,
            place: Place { log: number, line: 0 },
            clock: Clock::default(),
            line: Held::default(),
            ahead: Held::default(),
        })
    }

    fn read(&mut self) -> io::Result<Option<Line<'_>>> {
        let (tid, place) = (self.tid, &mut self.place);
        let read = self.lines.next()?;
        place.line += u64::from(read.is_some());
        let place = *place;
        Ok(read.map(|read| match read {
            Read1::Line(text, ended) => Line { text: Some(text), ended, tid, place },
            Read1::TooLong => Line { text: None, ended: true, tid, place },
        }))
    }

    /// Reads one line ahead.
    fn advance(&mut self) -> io::Result<()> {
        let first = !self.line.there && self.place.line == 0;
        for _ in 0..if first { 2 } else { 1 } {
            std::mem::swap(&mut self.line, &mut self.ahead);
            let ahead = &mut self.ahead;
            let read = self.lines.next()?;
            ahead.there = read.is_some();
            let mut text = ahead.text.take().unwrap_or_default();
            text.clear();
            ahead.ended = true;
            if let Some(Read1::Line(bytes, ended)) = read {
                text.extend_from_slice(bytes);
                ahead.ended = ended;
                let (Prefix { stamp, .. }, _) = prefix(&text);
                // Times of several logs must have one origin: the clock counts from its first, so add that.
                ahead.begin_ns = self.clock.time(stamp, 0).saturating_add(self.clock.origin());
            }
            let too_long = read == Some(Read1::TooLong);
            ahead.text = (!too_long).then_some(text);
        }
        self.place.line += u64::from(self.line.there);
        Ok(())
    }

    /// When the line ended: by its duration; else when the next began if it is of a kind that may wait; else when it began.
    fn key(&self) -> u64 {
        let text = self.line.text.as_deref().unwrap_or_default();
        let (_, body) = super::line::parse(text);
        let begin = self.line.begin_ns;
        match (duration(text.trim_ascii_end()).1, body) {
            (Some(took), _) => begin.saturating_add(took),
            (None, Body::Call(name, _)) if may_wait(name) && self.ahead.there => self.ahead.begin_ns.max(begin),
            _ => begin,
        }
    }
}

fn may_wait(name: &[u8]) -> bool {
    use reprise_calls::Effect::{Execute, Exit, Spawn};
    match known(name) {
        Some(Known::Row(call, _)) => {
            call.admission() == Admission::Free && !matches!(call.effect, Spawn | Execute | Exit)
        }
        _ => false,
    }
}

/// Several logs.
#[derive(Default)]
pub struct Many {
    sources: Vec<Source>,
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    asleep: HashSet<i32>,
    /// The source of the line given out last.
    last: Option<usize>,
}

impl Many {
    fn enter(&mut self, source: usize) {
        if self.sources[source].line.there {
            self.queue.push(Reverse((self.sources[source].key(), source)));
        }
    }

    fn wake(&mut self, tid: i32) {
        if self.asleep.remove(&tid)
            && let Some(source) = self.sources.iter().position(|s| s.tid == Some(tid))
        {
            self.enter(source);
        }
    }

    fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        if let Some(last) = self.last.take() {
            self.sources[last].advance()?;
            self.enter(last);
        }
        if self.queue.is_empty() {
            // Whoever made these is not in the logs.
            for tid in std::mem::take(&mut self.asleep) {
                self.asleep.insert(tid);
                self.wake(tid);
            }
        }
        let Some(Reverse((_, at))) = self.queue.pop() else { return Ok(None) };
        self.last = Some(at);
        let source = &self.sources[at];
        Ok(Some(Line {
            text: source.line.text.as_deref(),
            ended: source.line.ended,
            tid: source.tid,
            place: source.place,
        }))
    }
}
