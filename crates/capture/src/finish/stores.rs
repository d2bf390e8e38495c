//! Pages that were stored to through memory: to rows, as the recorder by ptrace writes them.
//!
//! A page is in the spool whenever somebody looked at it: here it is compared with what it was. Who stored is told by the
//! last fault on the page; where its process has the file no more, by whoever has it mapped.
//!
//! Goals: every store once, adjacent pages in one row; memory of a few words for a page. Non-goals: when exactly they
//! were stored, beyond the order of looks.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use foldhash::fast::RandomState;
use reprise_calls::moving::ends;
use reprise_calls::{Effect, IoctlEffect, ioctl_effect};
use reprise_trace::{Action, Content, Keep, Loss};

use super::decode::Pending;
use super::lives::Lives;
use super::looked::{Looked, Otherwise};
use super::mappings::Called;
use crate::arguments::failed;
use crate::log::Log;
use crate::mapped::{
    self, PAGE, hash,
    space::{Piece, Space, pages},
    with_bytes,
};
use crate::spool::join::{self, Stored};
use crate::spool::record::Object;

const TRUNCATES: u64 = libc::O_TRUNC as u64;
/// The longest row.
const MOST: usize = 1 << 20;
/// Pages of a file whose content is remembered; beyond that all are forgotten, and seen as new once more.
const MOST_KNOWN: usize = 1 << 20;

/// Where neither before nor after the call is sure to be right.
const BESIDE_A_COPY: &str =
    "pages opened to stores, or stored to, while a call copied them: the copy stands before, whatever it saw";

/// So many pages wait for somebody who maps them.
const MOST_OWNERLESS: usize = 1 << 16;

/// Files that nobody maps any more whose pages are remembered.
const MOST_LEFT: usize = 64;

/// Pages that are kept whole until the call that writes to them has its place.
const MOST_WRITTEN: usize = 4096;

/// A file: device and inode.
pub type File = (u64, u64);

/// A row that is being put together.
#[derive(Debug, Default)]
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
    bytes: Vec<u8>,
}

/// What is lacking of a page until somebody is known to map it.
#[derive(Debug)]
struct Lacking {
    length: u32,
    /// Nobody maps its file at all. Else a call may have changed it that has not its place yet.
    sure: bool,
}

/// Pages that have changed, by file and where they begin, without anybody who maps them.
#[derive(Debug, Default)]
struct Ownerless(HashMap<(File, u64), Lacking, RandomState>);

impl Ownerless {
    fn add(&mut self, file: File, offset: u64, lacking: Lacking, log: &mut Log) {
        if self.0.len() >= MOST_OWNERLESS {
            self.lost(log);
        }
        self.0.insert((file, offset), lacking);
    }

    /// The trace has the page as it is.
    fn settled(&mut self, file: File, offset: u64) {
        self.0.remove(&(file, offset));
    }

    /// A call has changed the file, or one that is not known: perhaps that was what a look had seen.
    fn changed(&mut self, file: Option<File>) {
        self.0.retain(|(other, _), lacking| lacking.sure || file.is_some_and(|file| file != *other));
    }

    /// A call has written there, to which file is not known.
    fn written(&mut self, extent: &Range<u64>) {
        self.0.retain(|(_, page), lacking| lacking.sure || !extent.contains(page));
    }

    /// What is lacking to the end is lost.
    fn lost(&mut self, log: &mut Log) {
        for lacking in std::mem::take(&mut self.0).into_values() {
            let cause = "stores to a mapped file by a process that is not known to map it";
            log.loss(Loss::Dropped, cause, lacking.length.into());
        }
    }
}

/// The shared mappings of all processes, and what is known of the pages that were stored to.
#[derive(Debug, Default)]
pub struct Stores {
    spaces: HashMap<i32, Space<File>>,
    /// Hashes of pages, by file and where they begin; of files that are mapped.
    known: HashMap<File, HashMap<u64, u64, RandomState>, RandomState>,
    /// The same of files that nobody maps any more: the last look at them.
    left: HashMap<File, HashMap<u64, u64, RandomState>, RandomState>,
    /// Files that perhaps nobody maps any more, though pages of them are known.
    loose: HashSet<File>,
    /// Pages that were stored to by nobody who is known to map them.
    ownerless: Ownerless,
    /// The latest looks at pages.
    looked: Looked,
    /// Pages that a call is about to write to, as they are.
    written_to: HashMap<(File, u64), Vec<u8>>,
    run: Option<Run>,
    page: Vec<u8>,
}

/// A page of the initial tree, as it was before anything stored to it: loads may have shown it.
pub fn tell_first(content: Option<&join::Content>, file: File, (offset, length): (u64, u32), log: &mut Log) {
    let mut page = Vec::new();
    if let Some(content) = content {
        content.read(&mut page);
    }
    // What is not kept is zeros.
    let zero = page.iter().all(|byte| *byte == 0);
    let data = if zero { Vec::new() } else { log.blob(&page, Keep::ByPolicy) };
    let (device, inode) = file;
    let (length, hole, reason) = (length.into(), zero.into(), "mapped".to_owned());
    log.content(Content { seq: 0, device, inode, offset, length, data, hole, reason });
}

impl Stores {
    /// A page is as it was seen. Gives the part of its file that was stored to, if it has changed.
    pub fn seen(&mut self, stored: &Stored, time_ns: u64, lives: &Lives, log: &mut Log) -> Option<(File, u64, u64)> {
        self.page.clear();
        let mut page = std::mem::take(&mut self.page);
        if let Some(content) = &stored.content {
            content.read(&mut page);
        }
        let out = self.compared(stored, time_ns, &page, lives, log);
        self.page = page;
        out
    }

    fn compared(
        &mut self,
        stored: &Stored,
        time_ns: u64,
        page: &[u8],
        lives: &Lives,
        log: &mut Log,
    ) -> Option<(File, u64, u64)> {
        let Stored { file, offset, length, .. } = *stored;
        if stored.written && stored.content.is_some() {
            if self.written_to.len() >= MOST_WRITTEN {
                self.written_to.clear();
            }
            self.written_to.insert((file, offset), page.to_vec());
        }
        let now = stored.content.as_ref().map(|_| hash(page));
        if let Some(now) = now {
            self.looked.found(stored, time_ns, now);
        }
        if now.is_some() && self.hash_of(file, offset) == now {
            self.ownerless.settled(file, offset);
            return None;
        }
        let Some((pid, piece, address)) = self.whose(stored) else {
            self.without_owner(stored, page, log);
            return None;
        };
        self.ownerless.settled(file, offset);
        if let Some(now) = now {
            let known = self.known.entry(file).or_default();
            if known.len() >= MOST_KNOWN {
                known.clear();
            }
            known.insert(offset, now);
        }
        if stored.during && now.is_some() {
            log.note(BESIDE_A_COPY);
        }
        let tid = lives.get(stored.tid).filter(|life| life.pid == pid).map_or(pid, |_| stored.tid);
        let length = u64::from(length);
        let joins = |run: &Run| {
            (run.pid, run.tid, run.file, run.piece) == (pid, tid, file, piece)
                && run.offset + run.length == offset
                && run.address + run.length == address
                && run.length + length <= MOST as u64
        };
        if !self.run.as_ref().is_some_and(joins) {
            self.flush(lives, log);
        }
        let run =
            self.run.get_or_insert_with(|| Run { pid, tid, file, piece, time_ns, address, offset, ..Run::default() });
        run.length += length;
        run.bytes.extend_from_slice(page);
        Some((file, offset, offset + length))
    }

    /// The pages of which was seen, at an offset of their file, something else than the looks at them had found: others went on storing.
    pub fn otherwise(&self, file: File, at: u64, bytes: &[u8]) -> Vec<Otherwise> {
        let is_known = |offset, hash| self.hash_of(file, offset) == Some(hash);
        let mut pages = self.looked.otherwise(file, (at, bytes), is_known);
        pages.retain(|page| self.whose(&page.stored).is_some());
        pages
    }

    /// What was seen of such pages stands before who saw it; what the looks found stands behind, see [`Stores::again`].
    pub fn shown(&mut self, pages: &[Otherwise], lives: &Lives, log: &mut Log) {
        for page in pages {
            self.compared(&page.stored, page.time_ns, &page.seen, lives, log);
        }
        self.flush(lives, log);
    }

    /// Whether a page was looked at, so that what is seen of it may be otherwise.
    pub fn was_looked_at(&self, file: File, offset: u64) -> bool {
        self.looked.has(file, offset)
    }

    /// A page that was seen otherwise is as a look had found it.
    pub fn again(&mut self, page: &Otherwise, lives: &Lives, log: &mut Log) {
        self.compared(&page.stored, page.time_ns, &page.found, lives, log);
    }

    /// What the trace has in a page, if that is known.
    fn hash_of(&self, file: File, offset: u64) -> Option<u64> {
        self.known.get(&file)?.get(&offset).copied()
    }

    /// A page has changed that nobody maps. A look goes on after the instant with which it is stamped, and sees what was stored through
    /// mappings that begin in between: these are looked at again before they end, and the page is not known until then.
    fn without_owner(&mut self, stored: &Stored, page: &[u8], log: &mut Log) {
        let Stored { file, offset, length, .. } = *stored;
        // What a call writes to it is put upon a page that the trace does not have.
        self.written_to.remove(&(file, offset));
        // Looked at once more after the last mapping of it ended, or was closed to stores. If it is as it was then, or
        // calls have changed it since, nothing is lost.
        let same = self.left.get(&file).and_then(|left| left.get(&offset)) == Some(&hash(page));
        self.loose.insert(file);
        let sure = !self.is_mapped(file);
        if !same && (sure || self.hash_of(file, offset).is_some()) {
            self.ownerless.add(file, offset, Lacking { length, sure }, log);
        }
    }

    /// Nothing is looked at any more.
    pub fn finish(&mut self, log: &mut Log) {
        self.ownerless.lost(log);
    }

    /// A mapping that was there at the beginning.
    pub fn began(&mut self, pid: i32, piece: Piece<File>) {
        self.spaces.entry(pid).or_default().map(piece);
    }

    /// A page is known as it was before anybody stored to it.
    pub fn known_first(&mut self, stored: &Stored) {
        let mut page = Vec::new();
        match &stored.content {
            Some(content) => content.read(&mut page),
            // What is not kept is zeros.
            None => page.resize(stored.length as usize, 0),
        }
        self.known.entry(stored.file).or_default().insert(stored.offset, hash(&page));
        self.loose.insert(stored.file);
    }

    fn is_mapped(&self, file: File) -> bool {
        self.spaces.values().any(|space| space.shows(file))
    }

    /// A process that can store to the page, where its mapping begins, and where in it the page is: the one that stored last, if
    /// it still can.
    fn whose(&self, stored: &Stored) -> Option<(i32, u64, u64)> {
        let at = |space: &Space<File>| {
            let holds = |piece: &&Piece<File>| piece.writable && piece.extent().contains(&stored.offset);
            let piece = space.of_file(stored.file).find(holds)?;
            Some((piece.at.start, piece.at.start + (stored.offset - piece.offset)))
        };
        let of = |(pid, space)| at(space).map(|(piece, address)| (pid, piece, address));
        let its_own = self.spaces.get(&stored.pid).and_then(|space| of((stored.pid, space)));
        its_own.or_else(|| self.spaces.iter().filter_map(|(pid, space)| of((*pid, space))).min())
    }

    /// Writes the row that is being put together: something else comes after it.
    pub fn flush(&mut self, lives: &Lives, log: &mut Log) {
        let Some(run) = self.run.take() else { return };
        let thread = lives.get(run.tid).or_else(|| lives.any_of(run.pid)).map_or(0, |life| life.thread);
        let data = if run.bytes.is_empty() { Vec::new() } else { log.blob(&run.bytes, Keep::ByPolicy) };
        log.action(Action {
            thread,
            call: mapped::CALL.into(),
            begin_ns: run.time_ns,
            args: [run.address, run.address, run.length, run.offset, 0, 0],
            result: run.length as i64,
            data,
            data_bytes: run.length,
            ..Action::default()
        });
    }

    /// A call on mappings has its place: what it does to those of its process.
    pub fn called(&mut self, pid: i32, pending: &Pending) {
        let (call, action) = (pending.call, &pending.action);
        let (args, result) = (&action.args, action.result);
        if failed(result) {
            return;
        }
        match call.effect {
            Effect::Map | Effect::Unmap | Effect::Remap | Effect::MapAdvise => {
                let called = Called::of(pending);
                let file = called.file().filter(|_| called.is_shared()).map(|o| (o.device, o.inode));
                if file.is_some() {
                    self.spaces.entry(pid).or_default();
                }
                self.change(pid, |space| called.change(space, file));
                if call.name == "madvise" && args[2] == libc::MADV_REMOVE as u64 {
                    self.removed(pid, pages(args[0], args[1]));
                }
            }
            Effect::Execute => self.ended(pid),
            Effect::Write => self.written(pending),
            Effect::Copy | Effect::Splice => {
                let target = ends(call).map_or(0, |ends| ends.target.fd);
                self.forget(pending.object(args[target]));
            }
            Effect::Allocate => self.allocated(pending),
            Effect::DeviceControl if !matches!(ioctl_effect(args[1]), IoctlEffect::Inspect | IoctlEffect::SetHints) => {
                self.forget(pending.object(args[0]));
            }
            Effect::Truncate => self.truncated(pending),
            Effect::Open
                if call.effective_open_flags(args, action.input.get(4..).unwrap_or_default()) & TRUNCATES != 0 =>
            {
                self.forget(pending.objects.first());
            }
            _ => {}
        }
    }

    /// A call has written to a file: its pages are what they were, with the written bytes.
    fn written(&mut self, pending: &Pending) {
        let action = &pending.action;
        if pending.objects.is_empty() && action.request.is_some() && action.result > 0 {
            return self.written_somewhere(pending);
        }
        let Some(object) = pending.objects.first().filter(|_| action.result > 0 && !self.known.is_empty()) else {
            return;
        };
        let file = (object.device, object.inode);
        self.ownerless.changed(Some(file));
        let Some(known) = self.known.get_mut(&file) else { return };
        let length = action.result as u64;
        let at = pending.passage_begins(object);
        let Some(bytes) = pending.passage.as_ref().filter(|_| object.flags & libc::O_APPEND as u32 == 0) else {
            return known.clear();
        };
        for page in (at / PAGE..=at.saturating_add(length - 1) / PAGE).map(|page| page * PAGE) {
            match self.written_to.remove(&(file, page)) {
                Some(before) => {
                    let now = with_bytes(before, page, bytes, at, object.size);
                    known.insert(page, hash(&now));
                }
                None => _ = known.remove(&page),
            }
        }
    }

    /// A request has written to a file, of Linux AIO nobody tells to which: of none is known what is there.
    fn written_somewhere(&mut self, pending: &Pending) {
        let action = &pending.action;
        let at = pending.call.offset_arg().map(|i| action.args[i]).filter(|at| *at != u64::MAX);
        let Some(at) = at else { return self.forget(None) };
        let extent = at / PAGE * PAGE..at.saturating_add(action.result as u64);
        self.ownerless.written(&extent);
        self.written_to.retain(|(_, page), _| !extent.contains(page));
        // The result may be any number: the program's memory tells it.
        let pages = extent.end.saturating_sub(extent.start) / PAGE;
        for known in self.known.values_mut() {
            if pages < known.len() as u64 {
                extent.clone().step_by(PAGE as usize).for_each(|page| _ = known.remove(&page));
            } else {
                known.retain(|page, _| !extent.contains(page));
            }
        }
    }

    /// A file has another size: what is behind it is gone.
    fn truncated(&mut self, pending: &Pending) {
        self.keep(pending.objects.first(), |page| page.saturating_add(PAGE) <= pending.action.args[1]);
    }

    /// A part of a file was allocated, which leaves what is there; made zeros; or cut out or put in, which moves what is behind it.
    fn allocated(&mut self, pending: &Pending) {
        const ALONE: u64 = (libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_UNSHARE_RANGE) as u64;
        const ZEROS: u64 = (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) as u64;
        let [_, mode, begin, length, ..] = pending.action.args;
        let end = match mode & !ALONE {
            0 => begin,
            mode if mode & !ZEROS == 0 => begin.saturating_add(length),
            _ => u64::MAX,
        };
        self.keep(pending.objects.first(), |page| page.saturating_add(PAGE) <= begin || page >= end);
    }

    /// Some pages of a file are what they were.
    fn keep(&mut self, object: Option<&Object>, is_kept: impl Fn(u64) -> bool) {
        let Some(file) = object.map(|object| (object.device, object.inode)) else { return self.forget(None) };
        self.ownerless.changed(Some(file));
        if let Some(known) = self.known.get_mut(&file) {
            known.retain(|page, _| is_kept(*page));
        }
    }

    /// Pages that are mapped at these addresses have left their files.
    fn removed(&mut self, pid: i32, at: Range<u64>) {
        for piece in self.spaces.get(&pid).map(|space| space.within(at)).unwrap_or_default() {
            let gone = piece.extent();
            self.ownerless.changed(Some(piece.file));
            if let Some(known) = self.known.get_mut(&piece.file) {
                known.retain(|page, _| !gone.contains(page));
            }
        }
    }

    /// What is in a file may be something else now; which file that was is not known where its number was closed meanwhile.
    fn forget(&mut self, object: Option<&Object>) {
        let file = object.map(|object| (object.device, object.inode));
        self.ownerless.changed(file);
        match file {
            Some(file) => _ = self.known.remove(&file),
            None => self.known.clear(),
        }
    }

    fn change(&mut self, pid: i32, change: impl FnOnce(&mut Space<File>)) {
        if let Some(space) = self.spaces.get_mut(&pid) {
            change(space);
            self.loose.extend(space.take_touched());
            if space.is_empty() {
                self.spaces.remove(&pid);
            }
            self.prune();
        }
    }

    /// A file that nobody maps may change unseen, or be another one with the same number.
    fn prune(&mut self) {
        let mut gone = std::mem::take(&mut self.loose);
        gone.retain(|file| self.known.contains_key(file) && !self.is_mapped(*file));
        if self.left.len() >= MOST_LEFT && !gone.is_empty() {
            self.left.clear();
        }
        for file in gone {
            // Pages that were looked at before it was mapped once more, and not since, are as they were.
            let known = self.known.remove(&file).unwrap_or_default();
            self.left.entry(file).or_default().extend(known);
        }
    }

    /// A process was made with a copy of another's memory.
    pub fn forked(&mut self, parent: i32, child: i32) {
        if let Some(space) = self.spaces.get(&parent).cloned() {
            self.spaces.insert(child, space);
        }
    }

    /// A process has ended, or runs another program.
    pub fn ended(&mut self, pid: i32) {
        if let Some(space) = self.spaces.remove(&pid) {
            self.loose.extend(space.files());
            self.prune();
        }
    }
}
