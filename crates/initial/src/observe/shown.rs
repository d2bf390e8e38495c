//! Content that becomes visible, or changes, without a call that carries it: mappings and clones.

use reprise_calls::{ArgKind, IoctlEffect, SpaceRange, ioctl_effect};
use reprise_trace::payload::{Side, split};

use super::Seen;
use crate::World;
use crate::node::NodeId;

/// More ranges of one file are one.
const MOST: usize = 1024;

impl World {
    /// A range of a file can be seen from now on.
    pub(crate) fn becomes_visible(&mut self, node: NodeId, begin: u64, end: u64, why: &'static str) {
        let shown = &mut self.names.node_mut(node).shown;
        if shown.iter().any(|(from, to, known)| *known == why && *from <= begin && end <= *to) {
            return;
        }
        let full = shown.len() >= MOST;
        match shown.iter_mut().find(|(.., known)| full && *known == why) {
            Some(range) => *range = (range.0.min(begin), range.1.max(end), why),
            None => shown.push((begin, end, why)),
        }
    }

    pub(super) fn map(&mut self, s: &Seen<'_>) {
        const SHARED: u64 = 1;
        const ANONYMOUS: u64 = 0x20;
        const WRITE: u64 = 2;
        const LOADER: u64 = 0x800;
        self.use_descriptors(s);
        // Errors are the last page of the addresses.
        if (-4095..0).contains(&s.result) || s.arg(3) & ANONYMOUS != 0 {
            return;
        }
        let Some(fd) = s.call.position(|k| matches!(k, ArgKind::Fd(_))) else { return };
        let (fd, annotation) = s.fd(fd);
        let Some(node) = self.file(s.seat, fd, annotation) else { return };
        if s.arg(3) & SHARED != 0 && s.arg(2) & WRITE != 0 && !self.stores_are_told {
            self.names.node_mut(node).touched.all();
            self.copies.changed(node, 0, u64::MAX);
        }
        let why = if s.arg(3) & LOADER != 0 { "loaded" } else { "mapped" };
        if self.is_old(node) {
            self.becomes_visible(node, s.arg(5), s.arg(5).saturating_add(s.arg(1)), why);
        }
    }

    /// Content of a range is told beside the calls: whether it is that of the beginning, and was not told before.
    pub fn shows_first(&mut self, identity: (u64, u64), begin: u64, end: u64) -> bool {
        let Some(&node) = self.names.identities.get(&identity) else { return false };
        let is_old = self.is_old(node);
        let n = self.names.node_mut(node);
        let whole = [(begin, end)];
        let first = is_old && n.touched.rest(begin, end) == whole && n.told.rest(begin, end) == whole;
        if first {
            n.told.add(begin, end);
        }
        first
    }

    /// A range of a file was loaded through memory, which the trace shows.
    pub fn loaded(&mut self, identity: (u64, u64), begin: u64, end: u64) {
        let Some(&node) = self.names.identities.get(&identity) else { return };
        if self.is_old(node) {
            let n = self.names.node_mut(node);
            for (from, to) in n.touched.rest(begin, end) {
                n.seen.add(from, to);
                n.told.add(from, to);
            }
        }
    }

    /// A range of a file was stored to through memory.
    pub fn stored(&mut self, identity: (u64, u64), begin: u64, end: u64) {
        let Some(&node) = self.names.identities.get(&identity) else { return };
        self.names.node_mut(node).touched.add(begin, end);
        self.copies.changed(node, begin, end);
    }

    /// `FICLONE`, `FICLONERANGE` and other requests.
    pub(super) fn device_control(&mut self, s: &Seen<'_>) {
        self.use_descriptors(s);
        if !s.ok() {
            return;
        }
        let parts = split(s.call, Side::Input, &s.decoded.input);
        let word = |i: usize| {
            let bytes = parts[2].and_then(|b| b.get(8 * i..8 * i + 8)).and_then(|b| b.first_chunk::<8>());
            bytes.map_or(0, |b| u64::from_le_bytes(*b))
        };
        let (source, begin, length, to) = match ioctl_effect(s.arg(1)) {
            IoctlEffect::Clone => (s.arg(2), 0, 0, 0),
            IoctlEffect::CloneRange => (word(0), word(1), word(2), word(3)),
            IoctlEffect::Allocate(mode) => return self.allocate_by_request(s, mode, parts[2].and_then(SpaceRange::of)),
            IoctlEffect::MakeHandle => return self.open_file(s.seat, s.result as u32, None, false),
            IoctlEffect::SetCloseOnExec
            | IoctlEffect::ClearCloseOnExec
            | IoctlEffect::SetWaiting
            | IoctlEffect::Inspect
            | IoctlEffect::SetHints
            | IoctlEffect::Lend
            | IoctlEffect::LendConfigured
            | IoctlEffect::Foreign => return,
        };
        // A length of 0 means up to the end.
        let length = if length == 0 { u64::MAX } else { length };
        if let Some(node) = self.file(s.seat, source as u32, None).filter(|n| self.is_old(*n)) {
            self.becomes_visible(node, begin, begin.saturating_add(length), "cloned");
        }
        if let Some(node) = self.file(s.seat, s.arg(0) as u32, None) {
            self.copies.changed(node, to, to.saturating_add(length));
            let n = self.names.node_mut(node);
            n.size.cut();
            n.touched.add(to, to.saturating_add(length));
        }
    }

    /// Where it counts from the position or the end of a file of which these are not known, all of the file may have changed.
    fn allocate_by_request(&mut self, s: &Seen<'_>, mode: u64, range: Option<SpaceRange>) {
        const FROM_BEGIN: u16 = 0;
        // Neither is changed by the request.
        let stands = s.decoded.object(s.arg(0) as u32).map(|object| (object.position, object.size));
        let stands = stands.or(range.filter(|range| range.whence == FROM_BEGIN).map(|_| (0, 0)));
        let within = stands.zip(range).and_then(|((position, size), range)| range.within(position, size));
        if let Some(node) = self.file(s.seat, s.arg(0) as u32, None) {
            let (begin, end) = within.unwrap_or((0, u64::MAX));
            self.allocate_range(node, mode, begin, end);
        }
    }
}
