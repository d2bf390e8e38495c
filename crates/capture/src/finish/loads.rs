//! Pages that loads brought into the memory of a process: to rows, as they were at that moment.
//!
//! Goals: a row for each page, adjacent pages in one; the file is the one that the process has mapped there, as the calls
//! tell. Non-goals: loads that made no fault.

use foldhash::{HashMap, HashSet};
use reprise_calls::Effect;
use reprise_trace::{Action, Keep, Loss};

use super::decode::Pending;
use super::lives::Lives;
use super::mappings::Called;
use crate::arguments::failed;
use crate::log::Log;
use crate::mapped::space::{Piece, Space};
use crate::spool::join::Load;

/// Name of the rows.
const CALL: &str = "mmap_pread";
/// The longest row.
const MOST: u64 = 1 << 20;
const LACKS: &str = "the page had left the memory when it could be looked at";
const UNKNOWN: &str = "loads through a mapping that was there before the recording";
const NARROW: &str = "loads through a mapping of a 32-bit program, whose calls are not followed";

/// A file: device and inode.
type File = (u64, u64);

/// A row that is being put together.
#[derive(Debug)]
struct Run {
    pid: i32,
    tid: i32,
    file: File,
    /// Where its mapping begins: a row is of one mapping, as a replay may have the next one elsewhere.
    piece: u64,
    time_ns: u64,
    address: u64,
    offset: u64,
    length: u64,
    lacks: bool,
    bytes: Vec<u8>,
}

impl Run {
    fn end(&self) -> (u64, u64) {
        (self.address + self.length, self.offset + self.length)
    }
}

/// What all processes have mapped of files.
#[derive(Debug, Default)]
pub struct Loads {
    spaces: HashMap<i32, Space<File>>,
    run: Option<Run>,
    /// Processes that made 32-bit calls.
    narrow: HashSet<i32>,
}

impl Loads {
    /// A process made a 32-bit call.
    pub fn called_narrow(&mut self, pid: i32) {
        self.narrow.insert(pid);
    }

    /// A page was loaded. Gives its file, if there will be a row of it.
    pub fn seen(&mut self, load: &Load, time_ns: u64, lives: &Lives, log: &mut Log) -> Option<File> {
        let Load { offset, address, tid, pid, lacks, .. } = *load;
        let length = u64::from(load.length);
        let piece = self.spaces.get(&pid).and_then(|space| space.around(address));
        let piece = piece.filter(|piece| piece.offset.saturating_add(address - piece.at.start) == offset);
        let Some((piece, file)) = piece.map(|piece| (piece.at.start, piece.file)) else {
            log.loss(Loss::Dropped, if self.narrow.contains(&pid) { NARROW } else { UNKNOWN }, length);
            return None;
        };
        let joins = |run: &Run| {
            (run.pid, run.tid, run.file, run.piece, run.lacks) == (pid, tid, file, piece, lacks)
                && run.end() == (address, offset)
                && run.length + length <= MOST
        };
        if !self.run.as_ref().is_some_and(joins) {
            self.flush(lives, log);
        }
        let fresh = Run { pid, tid, file, piece, time_ns, address, offset, length: 0, lacks, bytes: Vec::new() };
        let run = self.run.get_or_insert(fresh);
        run.length += length;
        if let Some(content) = &load.content {
            content.read(&mut run.bytes);
        }
        Some(file)
    }

    /// Writes the row that is being put together: something else comes after it.
    pub fn flush(&mut self, lives: &Lives, log: &mut Log) {
        let Some(run) = self.run.take() else { return };
        let its_own = lives.get(run.tid).filter(|life| life.pid == run.pid);
        let thread = its_own.or_else(|| lives.any_of(run.pid)).map_or(0, |life| life.thread);
        let data = if run.bytes.is_empty() { Vec::new() } else { log.blob(&run.bytes, Keep::ByPolicy) };
        let mut action = Action {
            thread,
            call: CALL.into(),
            begin_ns: run.time_ns,
            args: [run.address, run.address, run.length, run.offset, 0, 0],
            result: run.length as i64,
            data,
            data_bytes: run.length,
            truncated_bytes: if run.lacks { run.length } else { 0 },
            ..Action::default()
        };
        log.action_lacking(&mut action, LACKS);
    }

    /// A call on mappings has its place: what it does to those of its process.
    pub fn called(&mut self, pid: i32, pending: &Pending) {
        if failed(pending.action.result) {
            return;
        }
        match pending.call.effect {
            Effect::Map | Effect::Unmap | Effect::Remap => {
                let called = Called::of(pending);
                let file = called.file().map(|o| (o.device, o.inode));
                if file.is_some() {
                    self.spaces.entry(pid).or_default();
                }
                if let Some(space) = self.spaces.get_mut(&pid) {
                    called.change(space, file);
                    // Nobody asks.
                    space.take_touched();
                }
            }
            // Of the program that it runs now calls may have been heard already.
            Effect::Execute => drop(self.spaces.remove(&pid)),
            _ => {}
        }
    }

    /// A mapping that was there at the beginning.
    pub fn began(&mut self, pid: i32, piece: Piece<File>) {
        self.spaces.entry(pid).or_default().map(piece);
    }

    /// A process was made with a copy of another's memory.
    pub fn forked(&mut self, parent: i32, child: i32) {
        if let Some(space) = self.spaces.get(&parent).cloned() {
            self.spaces.insert(child, space);
        }
    }

    /// A process has ended.
    pub fn ended(&mut self, pid: i32) {
        self.spaces.remove(&pid);
        self.narrow.remove(&pid);
    }
}
