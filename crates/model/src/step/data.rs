//! Reading, writing, sizes and listings.

use reprise_calls::brought::is_stand_in;
use reprise_calls::memory::SHARED;
use reprise_calls::moving::ends;
use reprise_calls::{ArgKind, Effect, Shown};
use reprise_trace::payload::{Side, split, vector_lengths};

use super::{O_APPEND, Step};
use crate::content::Source;
use crate::descriptors::Slot;
use crate::initial::blob_sources;
use crate::interpretation::Listing;
use crate::listing::{ListingState, entry_names};
use crate::node::{FileKind, Nature, NodeId};
use crate::touch::Resource;
use crate::world::World;

impl World {
    /// The position of a read or write, and whether the description's offset moves with it.
    fn position(&self, s: &Step<'_>, slot: Slot) -> (u64, bool) {
        let description = &self.descriptors.descriptions[slot.description as usize];
        match s.call.offset_arg().map(|i| s.arg(i)) {
            Some(u64::MAX) | None => (description.offset, true),
            Some(offset) => (offset, false),
        }
    }

    fn advance(&mut self, slot: Slot, offset: u64) {
        self.descriptors.descriptions[slot.description as usize].offset = offset;
    }

    /// How many bytes a read asked for, where the arguments say so.
    fn wanted(s: &Step<'_>) -> Option<u64> {
        // Of a vector the length argument counts the buffers.
        if let Some(vector) = s.call.position(|k| matches!(k, ArgKind::InVector(_) | ArgKind::OutVector(_))) {
            let lengths = split(s.call, Side::Input, &s.action.input)[vector]?;
            return Some(vector_lengths(lengths).iter().fold(0, |all: u64, one| all.saturating_add(*one)));
        }
        s.call.position(|k| matches!(k, ArgKind::Length)).map(|i| s.arg(i))
    }

    /// The bytes the action moved, as far as they are in the trace.
    pub(super) fn moved(s: &Step<'_>) -> Vec<(u64, Source)> {
        let kept = s.action.data_bytes.saturating_sub(s.action.truncated_bytes);
        blob_sources(&s.action.data, kept.min(s.action.result.max(0) as u64))
    }

    /// What the action wrote, from its beginning on.
    pub(super) fn written(&mut self, s: &Step<'_>) -> Vec<(u64, Source)> {
        let mut sources = if self.detail { Self::moved(s) } else { Vec::new() };
        // Of what came out of a pipe a log of strace shows nothing.
        let is_unseen = s.action.data.is_empty() && matches!(s.call.effect, Effect::Copy | Effect::Splice);
        if s.action.truncated_bytes > 0 || is_unseen {
            self.some_is_lost = true;
            let known = sources.iter().fold(0, |sum: u64, (length, _)| sum.saturating_add(*length));
            sources.push(((s.action.result.max(0) as u64).saturating_sub(known), Source::Lost));
        }
        sources
    }

    pub(super) fn read(&mut self, s: &mut Step<'_>) {
        // Who asks for nothing takes nothing: no message of a socket either.
        if s.action.result > 0 || (s.succeeded() && Self::wanted(s) != Some(0)) {
            self.drain(s, 0, s.action.result as u64);
        }
        let Some((slot, node)) = self.file(s, 0) else {
            return;
        };
        self.go_by_flags(s, slot);
        let (offset, moves) = self.position(s, slot);
        if moves {
            s.out.change(self.offset(slot));
        }
        if s.action.result < 0 {
            return;
        }
        let length = s.action.result as u64;
        let wanted = Self::wanted(s);
        self.read_touch(s, node, offset, length, wanted);
        if length == 0 {
            return;
        }
        s.out.came_short = self.came_short(node, offset, length, wanted);
        self.learn(node, offset, &Self::moved(s));
        if moves {
            self.advance(slot, offset.saturating_add(length));
        }
        self.grow_unseen(s, node, offset.saturating_add(length));
    }

    /// Whether less was taken out of a file than was asked for, though it has more there.
    fn came_short(&self, node: NodeId, offset: u64, length: u64, wanted: Option<u64>) -> bool {
        let n = self.names.node(node);
        let has_more = n.kind == FileKind::Regular && offset.saturating_add(length) < n.size;
        has_more && wanted.is_some_and(|wanted| length < wanted)
    }

    /// A read that returned more than the file was thought to hold: somebody else wrote it, unless that is still to come.
    fn grow_unseen(&mut self, s: &mut Step<'_>, node: NodeId, end: u64) {
        let n = self.names.node_mut(node);
        let is_unseen = n.kind == FileKind::Regular && n.nature == Nature::Ordinary && n.size < end;
        if is_unseen && !s.action.is_amid() {
            n.size = end;
            s.out.surprise = Some("a file grew unseen");
        }
    }

    pub(super) fn write(&mut self, s: &mut Step<'_>) {
        // An empty buffer makes a message of a socket; an empty vector does not get as far.
        if s.action.result > 0 || (s.succeeded() && s.call.position(|k| matches!(k, ArgKind::InVector(_))).is_none()) {
            self.put_out(s, 0, s.action.result as u64, &[]);
        }
        let Some((slot, node)) = self.file(s, 0) else {
            return;
        };
        self.go_by_flags(s, slot);
        const RWF_APPEND: u64 = 0x10;
        const RWF_NOAPPEND: u64 = 0x20;
        const EFAULT: i64 = -14;
        let flags = if s.call.name == "pwritev2" { s.arg(5) } else { 0 };
        let appends = self.descriptors.descriptions[slot.description as usize].flags & O_APPEND != 0;
        let append = (appends && flags & RWF_NOAPPEND == 0) || flags & RWF_APPEND != 0;
        let (mut offset, moves) = self.position(s, slot);
        if moves {
            s.out.change(self.offset(slot));
        }
        s.out.stores_by_memory = s.action.result > 0 && !self.sees_memory && self.stores_by_memory(s, slot, offset);
        let n = self.names.node(node);
        if s.action.result == EFAULT && n.kind == FileKind::Regular && !append && offset > n.size {
            // Linux 6.18's ext4 makes it as long as the write would have had it begin.
            s.out.surprise =
                Some("a write behind the end of a file failed with EFAULT: it may have made the file longer");
        }
        if s.action.result <= 0 || self.names.node(node).kind != FileKind::Regular {
            return;
        }
        if append {
            // Also `pwrite` appends then (BUGS in its man page).
            offset = self.names.node(node).size;
        }
        let length = s.action.result as u64;
        self.write_touch(s, node, offset, length, append);
        let sources = self.written(s);
        self.names.write(node, offset, length, &sources);
        self.drop_set_id(s, node);
        if moves {
            self.advance(slot, offset.saturating_add(length));
        }
    }

    /// Whether what a descriptor is written to at an address is the memory of a process, which has a file mapped there.
    fn stores_by_memory(&self, s: &Step<'_>, slot: Slot, address: u64) -> bool {
        let description = &self.descriptors.descriptions[slot.description as usize];
        let Some(Shown::Memory(whose)) = description.shown else { return false };
        let space = self.shown(s.thread, whose).and_then(|thread| self.spaces.get(thread.space));
        space.and_then(|space| space.at(address)).is_some_and(|region| region.flags & SHARED != 0)
    }

    pub(super) fn seek(&mut self, s: &mut Step<'_>) {
        let Some(slot) = self.descriptor(s, 0) else {
            return;
        };
        s.out.change(self.offset(slot));
        let shared = self.descriptors.is_shared(slot.description);
        if let Some(node) = self.descriptors.descriptions[slot.description as usize].node {
            const END: u64 = 2;
            const DATA: u64 = 3;
            const HOLE: u64 = 4;
            match s.arg(2) {
                END => s.out.look(Resource::Size(node)),
                DATA | HOLE => self.whole_touch(s, node, s.arg(1)),
                // A shared offset is kept in order with the reads and writes that move it, which touch the file.
                _ if shared => s.out.look(Resource::File(node)),
                _ => {}
            }
            if (s.arg(1), s.arg(2)) == (0, 0) {
                self.begin_listing(s, node);
            }
        }
        let description = &mut self.descriptors.descriptions[slot.description as usize];
        if s.succeeded() {
            description.offset = s.action.result as u64;
            match (s.arg(1), s.arg(2)) {
                (0, 0) => description.listing = ListingState::default(),
                // Only asks.
                (0, 1) => {}
                _ => description.listing.lost = true,
            }
        }
    }

    pub(super) fn truncate(&mut self, s: &mut Step<'_>) {
        let node = if s.call.position(|k| matches!(k, ArgKind::Path(_))).is_some() {
            self.existing(s, 0, FileKind::Regular)
        } else {
            self.file(s, 0).map(|(_, node)| node)
        };
        if let (Some(node), true) = (node, s.succeeded()) {
            self.resize(s, node, s.arg(1));
            self.drop_set_id(s, node);
        }
    }

    pub(super) fn allocate(&mut self, s: &mut Step<'_>) {
        if let Some((_, node)) = self.file(s, 0) {
            self.allocate_range(s, node, s.arg(1), s.arg(2), s.arg(3));
        }
    }

    /// What `fallocate` does in a mode.
    pub(super) fn allocate_range(&mut self, s: &mut Step<'_>, node: NodeId, mode: u64, offset: u64, length: u64) {
        const KEEP_SIZE: u64 = 1;
        const PUNCH: u64 = 2;
        const COLLAPSE: u64 = 8;
        const ZERO: u64 = 16;
        const INSERT: u64 = 32;
        if !s.succeeded() {
            // ext4 and XFS take it away before they look whether the range suits them.
            const EINVAL: i64 = -22;
            if mode & (COLLAPSE | INSERT) != 0 && length > 0 && s.action.result == EINVAL {
                self.drop_set_id(s, node);
            }
            return;
        }
        self.drop_set_id(s, node);
        let size = self.names.node(node).size;
        let end = offset.saturating_add(length);
        if mode & (COLLAPSE | INSERT) != 0 {
            s.out.change(Resource::Size(node));
            s.out.write(node, offset, u64::MAX);
        } else if mode & KEEP_SIZE == 0 && end > size {
            self.write_touch(s, node, offset, length, false);
        } else if mode & (PUNCH | ZERO) != 0 {
            s.out.write(node, offset, length);
        } else {
            // Space is reserved before it is written.
            s.out.read(node, offset, length);
        }
        let n = self.names.node_mut(node);
        if mode & COLLAPSE != 0 {
            n.content.collapse(offset, length);
            n.size = n.size.saturating_sub(length);
        } else if mode & INSERT != 0 {
            n.content.insert(offset, length);
            n.size = n.size.saturating_add(length);
        } else {
            if mode & (PUNCH | ZERO) != 0 {
                n.content.put(offset, length, Source::Zero);
            }
            if mode & KEEP_SIZE == 0 {
                n.size = n.size.max(offset.saturating_add(length));
            }
        }
    }

    /// `sendfile`, `copy_file_range` and `splice`: from one descriptor to another, each at its offset or at the one given.
    pub(super) fn copy(&mut self, s: &mut Step<'_>) {
        let Some(ends) = ends(s.call) else { return };
        let input = split(s.call, Side::Input, &s.action.input);
        let (from_given, to_given) = (ends.source.given(&input), ends.target.given(&input));
        let source = self.descriptor(s, ends.source.fd);
        let target = self.descriptor(s, ends.target.fd);
        let node_of = |world: &World, slot: Option<Slot>| {
            slot.and_then(|slot| world.descriptors.descriptions[slot.description as usize].node)
        };
        let (source_node, target_node) = (node_of(self, source), node_of(self, target));
        let nature = source_node.map(|node| self.names.node(node).nature);
        s.out.from_random = nature == Some(Nature::RandomDevice);
        for node in [source_node, target_node].into_iter().flatten() {
            s.out.look(Resource::File(node));
        }
        for (slot, given) in [(source, from_given), (target, to_given)] {
            let Some(slot) = slot else { continue };
            self.go_by_flags(s, slot);
            if given.is_none() {
                s.out.change(self.offset(slot));
            }
        }
        if s.action.result < 0 {
            return;
        }
        let length = s.action.result as u64;
        self.drain(s, ends.source.fd, length);
        self.put_out(s, ends.target.fd, length, &[]);
        let offset_of = |world: &World, slot: Option<Slot>| {
            slot.map_or(0, |slot| world.descriptors.descriptions[slot.description as usize].offset)
        };
        let from = from_given.unwrap_or_else(|| offset_of(self, source));
        let mut to = to_given.unwrap_or_else(|| offset_of(self, target));
        let append =
            target.is_some_and(|slot| self.descriptors.descriptions[slot.description as usize].flags & O_APPEND != 0);
        if let Some(node) = target_node.filter(|_| append) {
            to = self.names.node(node).size;
        }
        if let Some(node) = source_node {
            let wanted = Self::wanted(s);
            self.read_touch(s, node, from, length, wanted);
            s.out.came_short = self.came_short(node, from, length, wanted);
        }
        if length == 0 {
            return;
        }
        if let Some(node) = target_node {
            self.write_touch(s, node, to, length, append);
        }
        if length == 0 {
            return;
        }
        let seen = Self::moved(s);
        target_node.into_iter().for_each(|node| self.drop_set_id(s, node));
        // A device holds nothing.
        let file = |node: Option<NodeId>| node.filter(|node| self.names.node(*node).kind == FileKind::Regular);
        match (file(source_node), file(target_node)) {
            (Some(source), Some(target)) if source == target => self.copy_within(source, from, to, length, &seen),
            (Some(source), Some(target)) => self.copy_range(source, from, target, to, length, &seen),
            (Some(source), None) => self.learn(source, from, &seen),
            (None, Some(target)) => {
                let sources = match nature {
                    Some(Nature::SafeDevice) => vec![(length, Source::Zero)],
                    _ => self.written(s),
                };
                self.names.write(target, to, length, &sources);
            }
            (None, None) => {}
        }
        for (slot, given, at) in [(source, from_given, from), (target, to_given, to)] {
            if let (Some(slot), None) = (slot, given) {
                self.advance(slot, at.saturating_add(length));
            }
        }
    }

    /// Copies within a file, forward and page by page as the kernel does it: what it has just written is copied again
    /// where the file is read behind its old end, or where both ranges overlap.
    fn copy_within(&mut self, node: NodeId, from: u64, to: u64, length: u64, seen: &[(u64, Source)]) {
        const PAGE: u64 = 4096;
        const MOST_STEPS: u32 = 1 << 20;
        if to.abs_diff(from) >= length {
            return self.copy_range(node, from, node, to, length, seen);
        }
        self.learn(node, from, seen);
        let (mut done, mut steps) = (0, 0);
        while done < length {
            let (source, target) = (from.saturating_add(done), to.saturating_add(done));
            let page = PAGE - source % PAGE;
            let step = match self.names.node(node).size.saturating_sub(source) {
                _ if steps == MOST_STEPS => length,
                0 => page,
                there => page.min(there),
            };
            let distance = to.checked_sub(from).filter(|d| *d > 0).unwrap_or(length);
            let step = step.min(distance).min(length - done);
            self.copy_range(node, source, node, target, step, &[]);
            (done, steps) = (done + step, steps + 1);
        }
    }

    pub(super) fn list(&mut self, s: &mut Step<'_>) {
        let Some((slot, node)) = self.file(s, 0) else {
            return;
        };
        s.out.change(self.offset(slot));
        s.out.look(Resource::Names(node));
        if !s.succeeded() {
            return;
        }
        let fresh = self.listings + 1;
        let listing = &mut self.descriptors.descriptions[slot.description as usize].listing;
        if listing.lost {
            return;
        }
        let begins = !listing.begun;
        if begins {
            *listing = ListingState { number: fresh, names: Vec::new(), begun: true, lost: false };
            self.listings = fresh;
        }
        let number = listing.number;
        let ends = (s.action.result == 0).then(|| std::mem::take(&mut listing.names));
        s.out.listing = Some(Listing { number, begins, as_opened: self.names.node(node).on_btrfs, names: ends });
    }

    /// The names that a listing returned are not in the trace: what it comes to cannot be judged.
    pub(crate) fn lose_listing(&mut self, action: &reprise_trace::Action) {
        let slot = self.thread(action.thread).and_then(|thread| self.descriptors.get(thread.table, action.args[0]));
        if let Some(slot) = slot {
            self.descriptors.descriptions[slot.description as usize].listing.lost = true;
        }
    }

    /// Tells the model the buffer that a listing returned; the contents are the caller's to fetch.
    pub(crate) fn listed(&mut self, call: &reprise_calls::Call, action: &reprise_trace::Action, buffer: &[u8]) {
        let Some(thread) = self.thread(action.thread) else {
            return;
        };
        let Some(slot) = self.descriptors.get(thread.table, action.args[0]) else {
            return;
        };
        let listing = &mut self.descriptors.descriptions[slot.description as usize].listing;
        let names = entry_names(buffer, call.name == "getdents").into_iter();
        listing.names.extend(names.filter(|name| !is_stand_in(name)));
    }
}
