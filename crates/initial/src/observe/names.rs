//! Names: opened, made, moved, removed, listed.

use reprise_calls::mounts::{At, Mounts};
use reprise_calls::{ArgKind, FlagSet, makes_nameless};

use super::{O_CREAT, O_EXCL, Seen};
use crate::World;
use crate::decoded::{Object, Stat};
use crate::node::{NodeId, Slot, Source, kind};
use crate::resolve::{Beginning, Found};

const O_PATH: u64 = 0o10000000;
const O_TRUNC: u64 = 0o1000;
const O_APPEND: u64 = 0o2000;
const O_DIRECTORY: u64 = 0o200000;

impl World {
    pub(super) fn open(&mut self, s: &Seen<'_>) {
        if !s.ok() {
            return;
        }
        let flags = s.open_flags();
        let mut found = Found::default();
        let at = if makes_nameless(flags) {
            let directory = self.existing_at(s, 0, kind::DIRECTORY, true);
            let mount = directory.map_or(Mounts::FIRST, |at| at.mount);
            Some(At { mount, node: self.names.add_nameless(kind::REGULAR) })
        } else {
            found = self.place(s, 0, true);
            self.opened(s, flags, found.clone())
        };
        if let Some(At { node, .. }) = at {
            self.opened_object(s, node, flags);
            let n = self.names.node_mut(node);
            if flags & O_TRUNC != 0 && n.kind == kind::REGULAR {
                n.is_emptied |= n.may_be_initial() && n.touched.is_empty();
                n.size.cut();
                n.touched.all();
                self.copies.changed(node, 0, u64::MAX);
            }
            let n = self.names.node_mut(node);
            // Only a directory can be opened so, and no directory can be opened to be written.
            if flags & O_DIRECTORY != 0 && !n.sure {
                (n.kind, n.sure) = (kind::DIRECTORY, true);
            }
        }
        self.open_file(s.seat, s.result as u32, at, flags & O_APPEND != 0);
        self.shows(s.seat, s.result as u32, &found);
        if let Some(at) = at {
            self.open_namespace(s, at.node);
        }
    }

    fn opened(&mut self, s: &Seen<'_>, flags: u64, found: Found) -> Option<At> {
        let (is_followed, mount) = (found.is_followed, found.mount);
        let node = match found.node {
            Some(node) => node,
            None => self.opened_first(s, flags, found)?,
        };
        self.names.node_mut(node).is_followed |= is_followed;
        Some(At { mount, node })
    }

    /// A name that no call met yet was opened.
    fn opened_first(&mut self, s: &Seen<'_>, flags: u64, found: Found) -> Option<NodeId> {
        let path = s.decoded.path.as_deref().unwrap_or_default();
        let (directory, name) = found.entry?;
        if flags & O_CREAT == 0 {
            let is_directory = flags & O_DIRECTORY != 0 || path.ends_with(b"/");
            let guess = if is_directory { kind::DIRECTORY } else { kind::REGULAR };
            return Some(self.discover(directory, &name, guess, is_directory));
        }
        let object = s.decoded.object(s.result as u32);
        let absent = self.names.slot(directory, &name) == Some(Slot::Absent);
        let fresh = flags & O_EXCL != 0 || absent || self.names.node(directory).source == Source::Made;
        if !fresh && self.stood_there(directory, &name, object) {
            return Some(self.discover(directory, &name, kind::REGULAR, true));
        }
        let fresh = fresh || object.and_then(|o| o.made) == Some(true);
        let source = if fresh { Source::Made } else { Source::Perhaps };
        Some(self.names.add(directory, &name, kind::REGULAR, true, source))
    }

    /// Whether what a call opened, and would have made, is known to have been there before.
    fn stood_there(&mut self, directory: NodeId, name: &[u8], object: Option<Object>) -> bool {
        let made = object.and_then(|o| o.made);
        let identity = object.map(|o| o.identity);
        match made {
            Some(made) => !made,
            None => {
                self.names.device(directory, name).is_some()
                    || self.look(directory, name).is_some()
                    || self.was_born_before(directory, name, identity) == Some(true)
            }
        }
    }

    /// What the kernel knows of a file that was just opened.
    fn opened_object(&mut self, s: &Seen<'_>, node: NodeId, flags: u64) {
        let Some(object) = s.decoded.object(s.result as u32) else { return };
        let emptied = flags & O_TRUNC != 0;
        let size = Some(object.size).filter(|_| !emptied);
        self.learn(node, &Stat { size, ..object.stat() });
        self.names.made_as(node, object.identity);
        let n = self.names.node_mut(node);
        if !n.sure && object.mode != 0 {
            (n.kind, n.sure) = (object.mode & 0o170000, true);
        }
        if flags & O_PATH == 0 && !emptied && n.kind == kind::REGULAR && n.may_be_initial() {
            self.becomes_visible(node, 0, u64::MAX, "opened");
        }
    }

    /// `mkdir` and `symlink`.
    pub(super) fn make(&mut self, s: &Seen<'_>, kind: u32) {
        if !s.ok() {
            return;
        }
        let Some((directory, name)) = self.place(s, 0, true).entry else { return };
        let node = self.names.add(directory, &name, kind, true, Source::Made);
        // A new directory is empty.
        self.names.node_mut(node).is_listed = kind == kind::DIRECTORY;
        if kind == kind::SYMLINK {
            self.names.node_mut(node).target = s.decoded.input.get(4..).unwrap_or_default().to_vec();
        }
    }

    pub(super) fn make_node(&mut self, s: &Seen<'_>) {
        let mode = s.call.position(|k| matches!(k, ArgKind::Mode)).map_or(0, |i| s.arg(i)) as u32;
        let kind = if mode & 0o170000 == 0 { kind::REGULAR } else { mode & 0o170000 };
        self.make(s, kind);
    }

    pub(super) fn link(&mut self, s: &Seen<'_>) {
        if !s.ok() {
            return;
        }
        let old = self.existing(s, 0, kind::REGULAR, false);
        let Some((directory, name)) = self.place(s, 1, true).entry else { return };
        match old {
            Some(old) => {
                self.names.node_mut(old).links_since += 1;
                self.names.set(directory, &name, Slot::File(old));
            }
            // Of a file that came by another way than its name: the name is new in any case.
            None => drop(self.names.add(directory, &name, kind::REGULAR, false, Source::Made)),
        }
    }

    pub(super) fn remove(&mut self, s: &Seen<'_>) {
        if !s.ok() {
            return;
        }
        const REMOVE_DIRECTORY: u64 = 0x200;
        let directory = s.call.name == "rmdir" || self.flags(s, FlagSet::Unlink) & REMOVE_DIRECTORY != 0;
        let guess = if directory { kind::DIRECTORY } else { kind::REGULAR };
        let found = self.place(s, 0, true);
        let entry = found.entry.clone();
        if let Some(mut node) = self.settle(s, found, guess, directory) {
            self.taken_away(s, node);
            // No directory goes like this: calls went through a link.
            if !directory && self.names.node(node).kind == kind::DIRECTORY {
                node = self.was_a_link(node, None, 1).unwrap_or(node);
            }
            // What it was at the beginning is settled: its number may come back.
            if let Some(identity) = self.names.node(node).identity
                && self.names.identities.get(&identity) == Some(&node)
                && self.names.node(node).has_one_name()
            {
                self.names.identities.remove(&identity);
            }
            self.names.node_mut(node).links_since -= 1;
        }
        if let Some((parent, name)) = entry {
            self.names.set(parent, &name, Slot::Absent);
        }
    }

    pub(super) fn rename(&mut self, s: &Seen<'_>) {
        if !s.ok() {
            return;
        }
        const EXCHANGE: u64 = 2;
        const WHITEOUT: u64 = 4;
        let found = self.place(s, 0, true);
        let old = found.entry.clone();
        let moved = self.settle(s, found, kind::REGULAR, false);
        moved.into_iter().for_each(|moved| self.taken_away(s, moved));
        let target = self.place(s, 1, true);
        let (Some((from, from_name)), Some((to, to_name)), Some(moved)) = (old, target.entry.clone(), moved) else {
            return;
        };
        if self.flags(s, FlagSet::Rename) & EXCHANGE != 0 {
            if let Some(other) = self.settle(s, target, kind::REGULAR, false) {
                self.names.set(from, &from_name, Slot::File(other));
                self.moved(other, from, &from_name);
            }
        } else if target.node != Some(moved) {
            target.node.into_iter().for_each(|replaced| self.names.node_mut(replaced).links_since -= 1);
            self.names.set(from, &from_name, Slot::Absent);
            if self.flags(s, FlagSet::Rename) & WHITEOUT != 0 {
                self.names.add(from, &from_name, kind::CHARACTER, true, Source::Made);
            }
        }
        self.names.set(to, &to_name, Slot::File(moved));
        self.moved(moved, to, &to_name);
    }

    fn moved(&mut self, node: NodeId, directory: NodeId, name: &[u8]) {
        // Where it was at the beginning must be settled before it moves.
        let n = self.names.node_mut(node);
        if n.source == Source::Perhaps {
            n.source = Source::Made;
        }
        let left = (n.parent, std::mem::replace(&mut n.name, name.into()));
        n.parent = directory;
        n.first_place.get_or_insert(left);
    }

    pub(super) fn list(&mut self, s: &Seen<'_>) {
        let (fd, annotation) = s.fd(0);
        let Some(directory) = self.file(s.seat, fd, annotation) else { return };
        if !s.ok() {
            return;
        }
        let n = self.names.node_mut(directory);
        if !n.sure {
            (n.kind, n.sure) = (kind::DIRECTORY, true);
        }
        for entry in &s.decoded.entries {
            let known = matches!(entry.name.as_slice(), b"." | b"..");
            if known || self.names.slot(directory, &entry.name).is_some() || !self.is_old(directory) {
                continue;
            }
            // DT_* are the type bits of the mode, moved.
            let kind = u32::from(entry.kind) << 12;
            let node = match kind {
                0 => self.discover(directory, &entry.name, kind::REGULAR, false),
                kind => self.discover(directory, &entry.name, kind, true),
            };
            if kind == kind::SYMLINK {
                self.guess_target(node, 1);
            }
        }
    }

    pub(super) fn change_directory(&mut self, s: &Seen<'_>) {
        if !s.ok() {
            return;
        }
        let (at, shown) = match s.call.paths().count() {
            0 => {
                let (fd, annotation) = s.fd(0);
                let open = self.description(s.seat, fd, annotation);
                let Beginning { start, shown } = open.map(|open| open.borrow().beginning()).unwrap_or_default();
                (start, shown)
            }
            _ => {
                let found = self.place(s, 0, true);
                let (mount, shown) = (found.mount, found.shown);
                (self.settle(s, found, kind::DIRECTORY, true).map(|node| At { mount, node }), shown)
            }
        };
        if let Some(at) = at {
            let places = &mut self.places[s.seat.places as usize];
            (places.cwd, places.shown) = (at, shown);
        }
    }

    pub(super) fn change_root(&mut self, s: &Seen<'_>) {
        if !s.ok() {
            return;
        }
        if let Some(at) = self.subject_at(s, kind::DIRECTORY, true) {
            self.places[s.seat.places as usize].root = at;
        }
    }

    pub(super) fn execute(&mut self, s: &Seen<'_>) {
        if !s.ok() {
            return;
        }
        if let Some(node) = self.existing(s, 0, kind::REGULAR, true) {
            let n = self.names.node_mut(node);
            if !n.mode_changed {
                n.mode.get_or_insert(0o755);
            }
        }
    }
}
