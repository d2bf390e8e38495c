//! The commands of one thread, a chunk at a time: mapped where the plan is short, else brought by porters before it is needed.
//!
//! Goals: memory that does not grow with the plan; a thread seldom waits for the plan's device. Non-goals: decoding.

use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};

use reprise_plan::{Chunk, Contents};

use super::Engine;
use super::failure::{Failure, Stop};
use super::memory::Scratch;
use super::porters::{Brought, Wanted, gone};

/// A chunk that is longer is read where it is mapped; the compiler makes none.
const LONGEST_WORDS: u64 = 1 << 19;
/// Chunks in memory: the one that is performed, and those after it.
const AHEAD: usize = 3;

/// Where a plan's commands are while it is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Commands {
    /// Mapped.
    Mapped,
    /// Threads with more than one chunk have theirs brought; offset of the section in the file.
    Brought(u64),
}

impl Commands {
    /// `mapped_bytes`: commands that are longer in all are brought.
    pub(crate) fn of(plan: &Contents, mapped_bytes: u64) -> Commands {
        let section = plan.command_section;
        if section.length > mapped_bytes { Commands::Brought(section.offset) } else { Commands::Mapped }
    }
}

/// The chunks of one thread.
pub(super) struct Stream {
    engine: &'static Engine,
    chunks: std::slice::Iter<'static, Chunk>,
    brought: Option<Box<Ahead>>,
}

#[derive(Debug)]
struct Ahead {
    section: u64,
    chunks: std::slice::Iter<'static, Chunk>,
    wanted: Sender<Wanted>,
    /// Ways back, taken in turn: one chunk may be there before another one that was asked for earlier.
    ways: [(Sender<Brought>, Receiver<Brought>); AHEAD],
    asked: usize,
    taken: usize,
    current: Scratch,
}

impl Stream {
    /// Of a thread; its first chunks are on their way.
    pub(super) fn of(engine: &'static Engine, thread: u32) -> Result<Stream, Stop> {
        let chunks = engine.threads.get(thread as usize).map_or(&[][..], |plan| &plan.chunks);
        let is_long = chunks.len() > 1 && chunks.iter().all(|chunk| chunk.words <= LONGEST_WORDS);
        let mut stream = Stream { engine, chunks: chunks.iter(), brought: None };
        let Commands::Brought(section) = engine.settings.commands else { return Ok(stream) };
        if is_long {
            let (wanted, chunks, ways) = (engine.porters.wanted(), chunks.iter(), std::array::from_fn(|_| channel()));
            let mut ahead = Ahead { section, chunks, wanted, ways, asked: 0, taken: 0, current: Scratch::default() };
            (0..AHEAD).try_for_each(|_| ahead.ask(Scratch::default()))?;
            stream.brought = Some(Box::new(ahead));
        } else if let Some(part) = chunks.first().and_then(|chunk| range(chunk, 8)) {
            engine.sections.commands.read_ahead(part.start as usize, (part.end - part.start) as usize);
        }
        Ok(stream)
    }

    /// The next chunk; none is left of the one before.
    pub(super) fn next(&mut self) -> Result<Option<&[u64]>, Stop> {
        const OUTSIDE: Stop = Stop::Damaged("its commands lie outside their section");
        let Some(chunk) = self.chunks.next() else { return Ok(None) };
        match &mut self.brought {
            Some(ahead) => ahead.next(chunk.words as usize).map(Some),
            None => {
                let range = range(chunk, 1).ok_or(OUTSIDE)?;
                let (begin, end) = (usize::try_from(range.start), usize::try_from(range.end));
                let words = self.engine.sections.commands.words();
                words.get(begin.unwrap_or(usize::MAX)..end.unwrap_or(usize::MAX)).ok_or(OUTSIDE).map(Some)
            }
        }
    }
}

/// Where it stands, in units of so many to a word.
fn range(chunk: &Chunk, units: u64) -> Option<Range<u64>> {
    let end = chunk.first.checked_add(chunk.words)?;
    Some(chunk.first.checked_mul(units)?..end.checked_mul(units)?)
}

impl Ahead {
    /// Asks for the next chunk that was not asked for.
    fn ask(&mut self, into: Scratch) -> Result<(), Stop> {
        let Some(chunk) = self.chunks.next() else { return Ok(()) };
        let moved = |at: u64| self.section.checked_add(at);
        let part = range(chunk, 8).and_then(|r| Some(moved(r.start)?..moved(r.end)?));
        let part = part.ok_or(Stop::Damaged("its commands lie outside their section"))?;
        let to = self.ways[self.asked % AHEAD].0.clone();
        self.asked += 1;
        self.wanted.send(Wanted { part, into, to }).map_err(gone)
    }

    fn next(&mut self, words: usize) -> Result<&[u64], Stop> {
        let free = std::mem::take(&mut self.current);
        // The first has nothing before it.
        if free.capacity() > 0 {
            self.ask(free)?;
        }
        let brought = self.ways[self.taken % AHEAD].1.recv().map_err(gone)?;
        self.taken += 1;
        let (pages, at) = brought.map_err(|error| Stop::from(Failure::system("read the plan", error)))?;
        self.current = pages;
        self.current.words(at, words).ok_or(Stop::Damaged("its commands lie outside their section"))
    }
}
