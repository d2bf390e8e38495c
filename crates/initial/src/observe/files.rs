//! Attributes and content: looked at, changed.

use reprise_calls::mounts::At;
use reprise_calls::moving::ends;
use reprise_calls::{ArgKind, Effect, FlagSet, acl};
use reprise_trace::payload::{Side, split};

use super::{Seen, errors};
use crate::World;
use crate::copies::Copied;
use crate::decoded::{Object, Stat};
use crate::node::{NodeId, kind};
use crate::touched::Touched;

impl World {
    pub(super) fn metadata(&mut self, s: &Seen<'_>) {
        if !s.ok() {
            return;
        }
        let stat = s.decoded.stat;
        let guess = stat.map_or(kind::REGULAR, |stat| stat.mode & 0o170000);
        let by_path = s.decoded.path.as_ref().is_some_and(|p| !p.is_empty());
        let fd = s.call.position(|k| matches!(k, ArgKind::Fd(_) | ArgKind::Dirfd)).map(|i| s.fd(i));
        if let (false, Some((fd, annotation))) = (by_path, fd) {
            self.met(s, fd, annotation);
            self.descriptor_is(s.seat, fd, guess);
        }
        let Some(At { mount, mut node }) = self.subject_at(s, guess, stat.is_some()) else { return };
        if let Some(mut stat) = stat {
            if self.mounts.has_own_users(mount) {
                stat.owner = None;
            }
            if guess == kind::SYMLINK {
                node = self.was_a_link(node, None, stat.size.unwrap_or(1)).unwrap_or(node);
            }
            self.learn(node, &stat);
        }
    }

    fn met(&mut self, s: &Seen<'_>, fd: u32, annotation: Option<&[u8]>) {
        self.description(s.seat, fd, annotation);
    }

    /// Takes in attributes as they are now.
    pub(crate) fn learn(&mut self, node: NodeId, stat: &Stat) {
        if let (Some(size), true) = (stat.size, stat.mode & 0o170000 == kind::REGULAR)
            && self.names.node_mut(node).size.is(size)
        {
            self.names.was_there(node);
        }
        if self.is_root(node) && stat.mode & 0o170000 != kind::DIRECTORY {
            return;
        }
        let n = self.names.node_mut(node);
        if stat.mode & 0o170000 == kind::SYMLINK && n.kind == kind::SYMLINK {
            self.guess_target(node, stat.size.unwrap_or(1));
        }
        let n = self.names.node_mut(node);
        // Of what the program mounted nobody else tells.
        let (is_first, is_brought) = (n.identity.is_none(), n.brought > 0);
        if n.may_be_initial() && (is_first || is_brought) {
            if !n.mode_changed && stat.tells_permissions() {
                n.mode.get_or_insert(stat.mode & 0o7777);
            }
            if !n.owner_changed && n.owner.is_none() {
                n.owner = stat.owner;
            }
            n.device = stat.device.unwrap_or(n.device);
            if is_first && (stat.complete || is_brought) {
                n.links = stat.links.map_or(1, |now| n.links_before(now));
            }
            if is_first && stat.complete {
                n.times = stat.times.map(|t| t.unwrap_or(0));
            }
        }
        if let (Some(identity), true) = (stat.identity, n.may_be_initial()) {
            let has_one_name = n.kind == kind::DIRECTORY || stat.has_one_name();
            let known = self.names.identities.get(&identity).copied().filter(|_| has_one_name);
            if !known.is_some_and(|known| self.is_behind_a_link(node, known)) {
                self.names.node_mut(node).identity.get_or_insert(identity);
                self.names.identities.entry(identity).or_insert(node);
            }
        }
    }

    /// Calls that look at, or change, attributes.
    pub(super) fn attributes(&mut self, s: &Seen<'_>) {
        if !s.ok() || s.call.leaves_times(s.decoded.input.get(4..).unwrap_or_default()) {
            return;
        }
        let link = s.call.effect == Effect::ReadLink;
        let guess = if link { kind::SYMLINK } else { kind::REGULAR };
        let Some(node) = self.subject(s, guess, link) else { return };
        if link {
            return self.read_link(s, node);
        }
        let text = || s.call.position(|k| matches!(k, ArgKind::Text)).and_then(|_| s.decoded.input.get(4..));
        let data = &s.decoded.data;
        let executes = self.flags(s, FlagSet::Access) & 1 != 0;
        let n = self.names.node_mut(node);
        match s.call.effect {
            Effect::ChangeMode => n.mode_changed = true,
            Effect::ChangeTimes => n.times_changed = true,
            Effect::ChangeOwner => n.owner_changed = true,
            Effect::TestAccess if executes && !n.mode_changed && n.may_be_initial() => {
                n.mode.get_or_insert(0o755);
            }
            Effect::GetXattr => {
                let name = text().map(<[u8]>::to_vec).unwrap_or_default();
                if name.starts_with(b"user.") && data.len() as i64 == s.result && s.arg(3) > 0 {
                    n.xattrs.entry(name).or_insert_with(|| Some(data.to_vec()));
                }
            }
            Effect::ListXattr => {
                for name in data.split(|b| *b == 0).filter(|name| name.starts_with(b"user.")) {
                    n.xattrs.entry(name.to_vec()).or_insert_with(|| Some(Vec::new()));
                }
            }
            Effect::SetXattr | Effect::RemoveXattr => {
                let (name, set) = (text().map(<[u8]>::to_vec).unwrap_or_default(), s.call.effect == Effect::SetXattr);
                n.mode_changed |= set && name == acl::ACCESS;
                // What is removed was there; what is set anew may have been.
                n.xattrs.entry(name).or_insert(if set { None } else { Some(Vec::new()) });
            }
            _ => {}
        }
    }

    fn read_link(&mut self, s: &Seen<'_>, node: NodeId) {
        let mut text = s.decoded.data.to_vec();
        let rest = (s.result as u64).saturating_sub(text.len() as u64);
        text.extend(std::iter::repeat_n(b'x', rest.min(4096) as usize));
        if self.names.node(node).kind == kind::SYMLINK {
            self.text_is(node, text);
        } else {
            self.was_a_link(node, Some(&text), 0);
        }
    }

    /// Where a read or write happens, and whether the description's offset moves with it.
    fn position(&mut self, s: &Seen<'_>) -> Option<(NodeId, u64, bool)> {
        let (fd, annotation) = s.fd(0);
        let description = self.description(s.seat, fd, annotation)?;
        let (node, offset, append) = {
            let d = description.borrow();
            (d.node, d.offset, d.append)
        };
        let given = s.call.offset_arg().map(|i| s.arg(i)).filter(|at| *at != u64::MAX);
        let moved = u64::try_from(s.result).unwrap_or(0);
        // The kernel knows better than the sum of the moves.
        let object = s.decoded.object(fd).filter(|_| given.is_none() && moved > 0);
        let offset = object.map_or(offset, |o| o.position.saturating_sub(moved));
        if given.is_none() {
            description.borrow_mut().offset = offset.saturating_add(moved);
        }
        Some((node?, given.unwrap_or(offset), append))
    }

    pub(super) fn read(&mut self, s: &Seen<'_>) {
        let position = self.position(s);
        self.descriptor_goes(s.seat, s.arg(0) as u32, s.ok(), false);
        let Some((node, offset, _)) = position else { return };
        if s.result == errors::EISDIR {
            let n = self.names.node_mut(node);
            (n.kind, n.sure) = (kind::DIRECTORY, true);
        }
        let Ok(got) = u64::try_from(s.result) else { return };
        let asked = match s.call.position(|k| matches!(k, ArgKind::OutData(_))) {
            Some(_) => s.arg(2),
            None => got,
        };
        let n = self.names.node(node);
        if n.kind != kind::REGULAR || n.filesystem_is_pseudo() {
            return;
        }
        self.saw(node, offset, got);
        if self.names.node_mut(node).size.read(offset, asked, got) {
            self.names.was_there(node);
        }
    }

    /// A call showed what a file holds.
    fn saw(&mut self, node: NodeId, offset: u64, length: u64) {
        let n = self.names.node_mut(node);
        if n.kind == kind::REGULAR && !n.filesystem_is_pseudo() && n.may_be_initial() {
            n.seen.add(offset, offset.saturating_add(length));
        }
    }

    pub(super) fn write(&mut self, s: &Seen<'_>) {
        let position = self.position(s);
        self.descriptor_goes(s.seat, s.arg(0) as u32, false, s.ok());
        let Some((node, offset, append)) = position else { return };
        if s.result > 0 {
            self.wrote(node, offset, s.result as u64, append);
        }
    }

    fn wrote(&mut self, node: NodeId, offset: u64, length: u64, append: bool) {
        let n = self.names.node_mut(node);
        if append {
            // Behind all that was there at the beginning.
            n.size.appended(length)
        } else {
            let end = offset.saturating_add(length);
            n.size.written(end);
            if n.may_be_initial() {
                n.touched.add(offset, end);
            }
            self.copies.changed(node, offset, end);
        }
    }

    pub(super) fn seek(&mut self, s: &Seen<'_>) {
        const CURRENT: u64 = 1;
        const END: u64 = 2;
        let (fd, annotation) = s.fd(0);
        let Some(description) = self.description(s.seat, fd, annotation) else { return };
        if s.result == errors::ESPIPE {
            return self.descriptor_is(s.seat, fd, kind::FIFO);
        }
        let Ok(offset) = u64::try_from(s.result) else { return };
        self.descriptor_is(s.seat, fd, kind::REGULAR);
        let node = description.borrow().node;
        let before = std::mem::replace(&mut description.borrow_mut().offset, offset);
        if s.arg(2) == CURRENT && before == 0 {
            // Only asks: what it was before the log began.
            self.began_at(s.seat, fd, offset.wrapping_sub(s.arg(1)));
        }
        if s.arg(2) == END
            && let Some(node) = node
            && self.names.node(node).kind == kind::REGULAR
            && self.names.node_mut(node).size.is(offset.wrapping_sub(s.arg(1)))
        {
            self.names.was_there(node);
        }
    }

    /// `sendfile`, `copy_file_range`, `splice`.
    pub(super) fn copy(&mut self, s: &Seen<'_>) {
        self.use_descriptors(s);
        let Some(moved) = u64::try_from(s.result).ok() else { return };
        let Some(ends) = ends(s.call) else { return };
        let parts = split(s.call, Side::Input, &s.decoded.input);
        let mut places = [None; 2];
        for (end, reads) in [(ends.source, true), (ends.target, false)] {
            let (number, annotation) = s.fd(end.fd);
            let given = end.given(&parts);
            let Some(description) = self.description(s.seat, number, annotation) else { continue };
            self.descriptor_goes(s.seat, number, reads, !reads);
            let (node, offset, append) = {
                let d = description.borrow();
                (d.node, given.unwrap_or(d.offset), d.append)
            };
            if given.is_none() {
                description.borrow_mut().offset = offset.saturating_add(moved);
            }
            places[usize::from(!reads)] = node.map(|node| (node, offset, s.decoded.object(number)));
            if let (Some(node), true, false) = (node, reads, s.decoded.is_unseen) {
                self.saw(node, offset, moved);
            }
            match node {
                Some(node) if reads && self.names.node_mut(node).size.read(offset, moved, moved) => {
                    self.names.was_there(node);
                }
                Some(node) if !reads && moved > 0 => self.wrote(node, offset, moved, append),
                _ => {}
            }
        }
        self.copies.lacking = 0;
        if s.decoded.is_unseen {
            self.moved_unseen(places, moved);
        }
    }

    /// Content went from one file to another, and nobody saw it.
    fn moved_unseen(&mut self, places: [Option<(NodeId, u64, Option<Object>)>; 2], length: u64) {
        let [Some((source, from, _)), target] = places else { return self.copies.lose(length) };
        // What calls made is known by what they wrote, and what was kept by itself.
        let n = self.names.node(source);
        if !self.is_old(source) || n.is_seeded {
            return;
        }
        let end = from.saturating_add(length).min(n.size.initial.unwrap_or(u64::MAX));
        let unseen: Vec<(u64, u64)> = match n.touched.is_exact() && n.seen.is_exact() {
            true => n.touched.rest(from, end).into_iter().flat_map(|(from, to)| n.seen.rest(from, to)).collect(),
            false => Touched::default().rest(from, end),
        };
        let target = target.filter(|(target, ..)| self.names.node(*target).kind == kind::REGULAR);
        let target = target.and_then(|(target, at, object)| Some((target, at, object?.identity)));
        for (begin, end) in unseen {
            let length = end - begin;
            match target {
                Some((target, at, identity)) => {
                    let at = at.saturating_add(begin - from);
                    self.copies.add(Copied { source, from: begin, target, identity, at, length });
                }
                None => self.copies.lose(length),
            }
        }
    }

    pub(super) fn truncate(&mut self, s: &Seen<'_>) {
        if !s.ok() {
            return;
        }
        if let Some(node) = self.subject(s, kind::REGULAR, true) {
            let n = self.names.node_mut(node);
            n.size.cut();
            n.touched.add(s.arg(1), u64::MAX);
            self.copies.changed(node, s.arg(1), u64::MAX);
        }
    }

    pub(super) fn allocate(&mut self, s: &Seen<'_>) {
        let (fd, annotation) = s.fd(0);
        if let (true, Some(node)) = (s.ok(), self.file(s.seat, fd, annotation)) {
            self.allocate_range(node, s.arg(1), s.arg(2), s.arg(2).saturating_add(s.arg(3)));
        }
    }

    /// What `fallocate` did in a mode.
    pub(super) fn allocate_range(&mut self, node: NodeId, mode: u64, begin: u64, end: u64) {
        const KEEP_SIZE: u64 = 1;
        const ZERO: u64 = 16;
        if mode != 0 && mode != KEEP_SIZE {
            self.copies.changed(node, 0, u64::MAX);
        }
        let n = self.names.node_mut(node);
        match mode {
            // What was there stays.
            0 => n.size.written(end),
            KEEP_SIZE => {}
            ZERO => {
                n.size.written(end);
                n.touched.add(begin, end);
            }
            mode if mode & KEEP_SIZE != 0 => n.touched.add(begin, end),
            _ => {
                n.size.cut();
                n.touched.all();
            }
        }
    }
}
