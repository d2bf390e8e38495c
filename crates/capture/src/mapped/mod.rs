//! What programs store to shared mappings of files, found by looking.
//!
//! A store asks nobody. The recorder knows what is in the pages of every file that is mapped for writing, looks at them
//! whenever a call is about to show or change them, or the mapping ends, and writes what differs as `mmap_pwrite`.
//!
//! Goals: every store is in the trace once, before the first call that could see it; what calls write is never taken for a
//! store; cost in proportion to the pages that are present (intermediate looks), or to the data that was mapped (the end).
//! Non-goals: which thread stored, when exactly, and in how many stores; loads, which only faults tell of; private mappings.
//!
//! What is known of a file's content is kept once per file, whoever maps it. It is read through a descriptor of the
//! recorder's own: pages that were evicted, and processes that were killed, do not matter.

mod pages;
mod present;
pub(crate) mod space;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::ops::Range;
use std::rc::Rc;

use reprise_trace::{Action, Keep};

use crate::log::Log;
use crate::sys::FileId;
use pages::Pages;
pub use pages::{PAGE, hash, with_bytes};
pub use space::pages;

type Piece = space::Piece<Rc<Watched>>;
type Space = space::Space<Rc<Watched>>;

/// Name of the rows.
pub(crate) const CALL: &str = "mmap_pwrite";

/// A file that is mapped so that it can be written.
#[derive(Debug)]
pub struct Watched {
    /// Which.
    pub id: FileId,
    /// Open for looking.
    pub file: File,
}

impl space::Shown for Rc<Watched> {
    type File = FileId;

    fn file(&self) -> FileId {
        self.id
    }
}

/// Which pages to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Those that the process has touched and that were not evicted since.
    Present,
    /// All that hold data.
    All,
}

/// Whose rows are written: the thread whose call is the reason to look, and the first threads of other processes.
pub struct Writers<'a> {
    /// Process and number of the acting thread.
    pub acting: (i32, u32),
    /// The number of a process's first thread.
    pub first: &'a dyn Fn(i32) -> Option<u32>,
}

impl Writers<'_> {
    fn of(&self, process: i32) -> u32 {
        let (acting, thread) = self.acting;
        if process == acting { thread } else { (self.first)(process).unwrap_or(thread) }
    }
}

/// The mappings of all processes, and what is known of their files.
#[derive(Debug, Default)]
pub struct Mapped {
    known: HashMap<FileId, Pages>,
    spaces: HashMap<i32, Space>,
    /// Files about to be mapped, by thread.
    coming: HashMap<i32, Rc<Watched>>,
    /// Files of which threads are about to permit stores, by thread.
    permitting: HashMap<i32, Vec<FileId>>,
    /// Files that perhaps nobody can write by stores any more, though their pages are known.
    loose: HashSet<FileId>,
}

impl Mapped {
    /// Whether no file can be written by stores: there is nothing to look at.
    pub fn is_idle(&self) -> bool {
        self.known.is_empty()
    }

    /// Whether a file can be written by stores.
    pub fn watches(&self, file: FileId) -> bool {
        self.known.contains_key(&file)
    }

    /// A thread is about to map this part of a file; `writable` at once.
    pub fn prepare(&mut self, tid: i32, file: Watched, extent: &Range<u64>, writable: bool) {
        if writable {
            self.known.entry(file.id).or_default().learn(&file.file, extent);
        }
        // One descriptor is enough, however often it is mapped.
        let file = open_of(&self.spaces, file.id).cloned().unwrap_or_else(|| Rc::new(file));
        self.coming.insert(tid, file);
    }

    /// The thread has mapped something at these addresses: a file that was prepared, or something else.
    pub fn mapped(&mut self, tid: i32, process: i32, at: Range<u64>, offset: u64, writable: bool) {
        let file = self.coming.remove(&tid);
        if let Some(file) = file {
            let piece = Piece { at, offset, file, writable };
            self.spaces.entry(process).or_default();
            self.change(process, |space| space.map(piece));
        } else {
            self.change(process, |space| space.unmap(at));
        }
    }

    /// The thread's mapping came to nothing.
    pub fn refused(&mut self, tid: i32) {
        self.loose.extend(self.coming.remove(&tid).map(|file| file.id));
        self.prune();
    }

    /// The mappings of a process have changed.
    pub fn change(&mut self, process: i32, change: impl FnOnce(&mut Space)) {
        if let Some(space) = self.spaces.get_mut(&process) {
            change(space);
            self.loose.extend(space.take_touched());
            if space.is_empty() {
                self.spaces.remove(&process);
            }
            self.prune();
        }
    }

    /// The thread is about to permit stores there.
    pub fn permit(&mut self, tid: i32, process: i32, at: Range<u64>) {
        let files = self.learn(process, at, |_| true);
        self.permitting.insert(tid, files);
    }

    /// It has, or has not: stores are, or are not, permitted by now.
    pub fn permitted(&mut self, tid: i32) {
        self.loose.extend(self.permitting.remove(&tid).into_iter().flatten());
        self.prune();
    }

    /// More may be stored to than before.
    pub fn grown(&mut self, process: i32, at: Range<u64>) {
        let files = self.learn(process, at, |piece| piece.writable);
        self.loose.extend(files);
    }

    /// Takes what is in such pieces now for known; gives their files.
    fn learn(&mut self, process: i32, at: Range<u64>, such: impl Fn(&Piece) -> bool) -> Vec<FileId> {
        let Some(space) = self.spaces.get(&process) else { return Vec::new() };
        let mut files = Vec::new();
        for piece in space.within(at).iter().filter(|piece| such(piece)) {
            self.known.entry(piece.file.id).or_default().learn(&piece.file.file, &piece.extent());
            files.push(piece.file.id);
        }
        files
    }

    /// A process was made with a copy of another's memory.
    pub fn forked(&mut self, parent: i32, child: i32) {
        if let Some(space) = self.spaces.get(&parent).filter(|space| !space.is_empty()).cloned() {
            self.spaces.insert(child, space);
        }
    }

    /// A process's memory is gone. If it was `seen` to the end, only files that nobody else maps are looked at, since pages
    /// may have been evicted.
    pub fn ended(&mut self, process: i32, seen: bool, writers: &Writers<'_>, log: &mut Log) {
        let Some(space) = self.spaces.get(&process) else { return };
        let others = |file: FileId| {
            let mut others = self.spaces.iter().filter(|(other, _)| **other != process);
            others.any(|(_, space)| is_writable(space, file))
        };
        let unseen = |piece: &&Piece| piece.writable && (!seen || !others(piece.file.id));
        let unseen: Vec<Piece> = space.pieces().filter(unseen).cloned().collect();
        for piece in unseen {
            self.look_at(process, &piece, &piece.extent(), Look::All, writers, log);
        }
        self.loose.extend(self.spaces.remove(&process).iter().flat_map(Space::files));
        self.prune();
    }

    /// Forgets what is known of files that nobody can write by stores any more.
    fn prune(&mut self) {
        for file in std::mem::take(&mut self.loose) {
            let mut coming =
                self.coming.values().map(|coming| coming.id).chain(self.permitting.values().flatten().copied());
            let comes = coming.any(|coming| coming == file);
            if !comes && !self.spaces.values().any(|space| is_writable(space, file)) {
                self.known.remove(&file);
            }
        }
    }

    /// Looks at the addresses of one process.
    pub fn look(&mut self, process: i32, at: Range<u64>, look: Look, writers: &Writers<'_>, log: &mut Log) {
        let Some(space) = self.spaces.get(&process) else { return };
        for piece in space.within(at).into_iter().filter(|piece| piece.writable) {
            self.look_at(process, &piece, &piece.extent(), look, writers, log);
        }
    }

    /// Looks at a part of one file, or of all, in all processes.
    pub fn look_everywhere(&mut self, file: Option<FileId>, part: &Range<u64>, writers: &Writers<'_>, log: &mut Log) {
        let mut found: Vec<(i32, Piece)> = Vec::new();
        for (process, space) in &self.spaces {
            let pieces: Vec<&Piece> = match file {
                Some(file) => space.of_file(file).collect(),
                None => space.pieces().collect(),
            };
            let writable = pieces.into_iter().filter(|piece| piece.writable);
            found.extend(writable.map(|piece| (*process, piece.clone())));
        }
        found.sort_by_key(|(process, piece)| (*process, piece.at.start));
        for (process, piece) in found {
            let extent = piece.extent();
            let part = extent.start.max(part.start)..extent.end.min(part.end);
            if part.start < part.end {
                self.look_at(process, &piece, &part, Look::Present, writers, log);
            }
        }
    }

    /// A call saw these bytes of a file, at an offset, while others went on storing to it: that stands before it.
    pub fn shown(&mut self, file: FileId, (at, bytes): (u64, &[u8]), writers: &Writers<'_>, log: &mut Log) {
        let Some(pages) = self.known.get_mut(&file) else { return };
        for (process, space) in &self.spaces {
            let thread = writers.of(*process);
            for piece in space.of_file(file).filter(|piece| piece.writable) {
                pages.seen(&piece.file.file, &piece.extent(), (at, bytes), &mut |offset, page| {
                    write(thread, piece.at.start + offset.saturating_sub(piece.offset), offset, page, log);
                });
            }
        }
    }

    /// What lies at these addresses of a process was changed by a call.
    pub fn forget(&mut self, process: i32, at: Range<u64>) {
        let pieces = self.spaces.get(&process).map(|space| space.within(at)).unwrap_or_default();
        pieces.iter().for_each(|piece| self.written(piece.file.id, &piece.extent()));
    }

    /// A call has written to a part of a file.
    pub fn written(&mut self, file: FileId, part: &Range<u64>) {
        if let (Some(pages), Some(file)) = (self.known.get_mut(&file), open_of(&self.spaces, file)) {
            pages.learn_again(&file.file, part);
        }
    }

    /// The size of a file, or of any, may have changed.
    pub fn resized(&mut self, file: Option<FileId>) {
        let files = file.map_or_else(|| self.known.keys().copied().collect(), |file| vec![file]);
        for id in files {
            if let (Some(pages), Some(file)) = (self.known.get_mut(&id), open_of(&self.spaces, id)) {
                pages.resized(&file.file);
            }
        }
    }

    /// Looks at a part of the file through one piece, and writes what was stored.
    fn look_at(
        &mut self,
        process: i32,
        piece: &Piece,
        part: &Range<u64>,
        look: Look,
        writers: &Writers<'_>,
        log: &mut Log,
    ) {
        let Some(pages) = self.known.get_mut(&piece.file.id) else { return };
        let parts = match look {
            Look::All => vec![part.clone()],
            Look::Present => {
                let (address, offset) = (piece.at.start, piece.offset);
                let addresses = |data: Range<u64>| address + (data.start - offset)..address + (data.end - offset);
                let data = |at: Range<u64>| offset + (at.start - address)..offset + (at.end - address);
                let extents = pages.extents(&piece.file.file, part);
                let runs = extents.into_iter().flat_map(|extent| present::runs(process, addresses(extent)));
                runs.map(data).collect::<Vec<_>>()
            }
        };
        let thread = writers.of(process);
        for part in parts {
            pages.read(&piece.file.file, &part, &mut |offset, bytes| {
                let address = piece.at.start + offset.saturating_sub(piece.offset);
                write(thread, address, offset, bytes, log);
            });
        }
    }
}

/// The file, from any mapping of it.
fn open_of(spaces: &HashMap<i32, Space>, id: FileId) -> Option<&Rc<Watched>> {
    spaces.values().find_map(|space| space.of_file(id).next()).map(|piece| &piece.file)
}

fn is_writable(space: &Space, file: FileId) -> bool {
    space.of_file(file).any(|piece| piece.writable)
}

/// Writes a row: the stores to these bytes, as they are seen now.
fn write(thread: u32, address: u64, offset: u64, bytes: &[u8], log: &mut Log) {
    let length = bytes.len() as u64;
    let data = log.blob(bytes, Keep::ByPolicy);
    let row = Action {
        thread,
        call: CALL.into(),
        begin_ns: log.now(),
        args: [address, address, length, offset, 0, 0],
        result: length as i64,
        data,
        data_bytes: length,
        ..Action::default()
    };
    log.action(row);
}
