//! What a failed call shows of the beginning: what it met on the way, and what its error says of the last name.
//!
//! Goals: the same call fails in the same way on what is inferred. Non-goals: why permissions lacked; that is told by
//! the attributes of what was met, where anybody knows them.

use reprise_calls::Effect;

use super::{O_CREAT, Seen, errors};
use crate::World;
use crate::node::{NodeId, Slot, Source, kind};
use crate::resolve::Found;

/// Whether all directories on the way of a call that failed stood there: its error is about what is at the ends of its paths.
fn shows_the_way(s: &Seen<'_>) -> bool {
    use Effect::{Link, MakeDirectory, MakeNode, MakeSymlink, Remove, Rename};
    use errors::{EBUSY, EEXIST, EISDIR, EMLINK, ENOTEMPTY, EPERM, EXDEV};
    match s.call.effect {
        Link | Rename => [EPERM, EBUSY, EEXIST, EXDEV, EISDIR, EMLINK, ENOTEMPTY].contains(&s.result),
        MakeDirectory | MakeNode | MakeSymlink => s.result == EEXIST,
        Remove => s.result == ENOTEMPTY,
        _ => false,
    }
}

impl World {
    pub(super) fn failed(&mut self, s: &Seen<'_>) {
        let paths = s.call.paths().count();
        // What still stands where it stood is known better than any error could tell.
        self.asks = !self.outside.is_empty();
        let exists = shows_the_way(s);
        let found: Vec<Found> = (0..paths).map(|number| self.place(s, number, exists)).collect();
        self.asks = false;
        let Some((first, last)) = found.first().zip(found.last()) else { return };
        match s.result {
            errors::EEXIST | errors::ENOTEMPTY => self.stands_in_the_way(s, last),
            _ => self.refused(s, first, paths == 1),
        }
    }

    /// The last name of the call is taken.
    fn stands_in_the_way(&mut self, s: &Seen<'_>, found: &Found) {
        let Some((directory, name)) = self.unmet(found) else {
            return if s.result == errors::ENOTEMPTY {
                self.not_empty(found.node)
            };
        };
        let (kind, sure) = match (s.result, s.call.effect) {
            (errors::ENOTEMPTY, _) => (kind::DIRECTORY, true),
            (_, Effect::MakeDirectory) => (kind::DIRECTORY, false),
            (_, Effect::MakeSymlink) => (kind::SYMLINK, false),
            _ => (kind::REGULAR, false),
        };
        let node = self.discover(directory, &name, kind, sure);
        if self.names.node(node).kind == kind::SYMLINK {
            self.guess_target(node, 1);
        }
        if s.result == errors::ENOTEMPTY {
            self.not_empty(Some(node));
        }
    }

    /// The first name is not what the call needs; `only` if it has no other.
    fn refused(&mut self, s: &Seen<'_>, found: &Found, only: bool) {
        let Some((directory, name)) = found.entry.clone() else {
            match s.result {
                errors::ENOTDIR => self.not_a_directory(s),
                errors::ENOENT if only => self.nothing_there(s),
                _ => {}
            }
            return;
        };
        if s.result == errors::ENOENT && self.names.slot(directory, &name).is_none() {
            self.names.set(directory, &name, Slot::Absent);
        }
        // Which of two paths leads in a circle is not told.
        let is_link = s.result == errors::ELOOP && only && (found.is_followed || s.call.effect == Effect::Open);
        if let (true, Some(node), false) = (is_link, found.node, found.is_followed) {
            self.was_a_link(node, None, 1);
        }
        let Some((directory, name)) = self.unmet(found) else { return };
        match s.result {
            // `name/` cannot be made by opening it, whatever stands there.
            errors::EISDIR if s.open_flags() & O_CREAT != 0 && s.first_ends_with_slash() => {}
            errors::EISDIR => drop(self.discover(directory, &name, kind::DIRECTORY, true)),
            errors::ENOTDIR if only => drop(self.discover(directory, &name, kind::REGULAR, true)),
            errors::EINVAL if s.call.effect == Effect::ReadLink => {
                self.discover(directory, &name, kind::REGULAR, false);
            }
            errors::ELOOP if is_link => {
                let link = self.discover(directory, &name, kind::SYMLINK, true);
                self.guess_target(link, 1);
            }
            // Where a file could be made it is the directory that does not permit it, most likely.
            errors::EACCES if s.call.effect == Effect::Open && s.open_flags() & O_CREAT == 0 => {
                let node = self.discover(directory, &name, kind::REGULAR, false);
                let n = self.names.node_mut(node);
                (n.mode, n.owner) = (Some(0o600), Some((0, 0)));
            }
            _ => {}
        }
    }

    /// The name that was found, if nothing is known of it and it may have been there at the beginning.
    fn unmet(&self, found: &Found) -> Option<(NodeId, Vec<u8>)> {
        let (directory, name) = found.entry.clone()?;
        // Also what is no directory can be named as one, by a descriptor.
        let holds = self.names.node(directory).kind == kind::DIRECTORY && self.is_old(directory);
        (holds && self.names.slot(directory, &name).is_none()).then_some((directory, name))
    }

    /// Something on the way is no directory: most likely the last name but one.
    fn not_a_directory(&mut self, s: &Seen<'_>) {
        let path = s.decoded.path.clone().unwrap_or_default();
        let Some(end) = path.iter().rposition(|b| *b == b'/').filter(|end| *end > 0) else { return };
        let Some(found) = self.way(s, &path[..end]) else { return };
        if let Some((directory, name)) = self.unmet(&found) {
            self.discover(directory, &name, kind::REGULAR, true);
        }
    }

    /// Nothing is there, or on the way: what stands on the way, or turns out to, is a directory, for of a file the error would
    /// have been another.
    fn nothing_there(&mut self, s: &Seen<'_>) {
        let path = s.decoded.path.clone().unwrap_or_default();
        for end in (1..path.len()).filter(|at| path[*at] == b'/' && path[*at - 1] != b'/') {
            let Some(found) = self.way(s, &path[..end]) else { return };
            match (found.node, found.entry) {
                (Some(node), _) => {
                    let n = self.names.node_mut(node);
                    if n.kind == kind::REGULAR && !n.sure {
                        n.kind = kind::DIRECTORY;
                    }
                }
                (None, Some((directory, name))) => return self.names.passes(directory, &name),
                (None, None) => return,
            }
        }
    }

    /// Where the beginning of the call's first path leads.
    fn way(&mut self, s: &Seen<'_>, path: &[u8]) -> Option<Found> {
        let dirfd = s.call.paths().next().and_then(|argument| argument.dirfd);
        let start = self.beginning_of(s, dirfd, path).start?;
        let root = if s.is_rooted() { start } else { self.places[s.seat.places as usize].root };
        Some(self.resolve(start, root, path, true, false))
    }

    /// A directory that is not empty although nothing is known to be in it.
    fn not_empty(&mut self, node: Option<NodeId>) {
        const STRANGER: &[u8] = b".not-in-the-log";
        let Some(node) = node.filter(|n| self.is_old(*n)) else { return };
        let n = self.names.node(node);
        if n.kind != kind::DIRECTORY || n.is_listed || n.holds_files() {
            return;
        }
        let path = self.names.path(node);
        let known = self.outside.names_in(&path);
        if known.is_empty() {
            self.note("a directory was not empty: a name was made up for it");
            self.names.add(node, STRANGER, kind::REGULAR, false, Source::Initial);
        }
        for name in known {
            self.discover(node, &name, kind::REGULAR, false);
        }
    }
}
