//! Making, moving and removing names.

use reprise_calls::mounts::{At, Mounts};
use reprise_calls::{ArgKind, FlagSet};
use reprise_trace::payload::{Side, split};

use super::Step;
use super::opening::NameChange;
use crate::interpretation::SocketFile;
use crate::lead::{Beginning, Lead};
use crate::names::Names;
use crate::node::{FileKind, Nature, NodeId};
use crate::resolve::Place;
use crate::streams::Address;
use crate::touch::{EntryId, Resource};
use crate::world::World;

/// No path is deeper.
pub(super) const DEEPEST: usize = 4096;

impl World {
    fn mode_arg(s: &Step<'_>) -> u32 {
        s.call.position(|k| matches!(k, ArgKind::Mode)).map_or(0, |i| s.arg(i) as u32)
    }

    /// `mkdir` and `symlink`.
    pub(super) fn make(&mut self, s: &mut Step<'_>, kind: FileKind) {
        let Some(place) = self.place(s, 0) else {
            return;
        };
        let (true, Some(entry)) = (s.succeeded(), place.entry) else {
            return;
        };
        if place.node.is_some() {
            s.out.surprise = Some("a file vanished unseen");
            self.names.detach(entry);
        }
        // Directories inherit set-group-id, and never have set-user-id from the start.
        let mode = Self::mode_arg(s) & 0o1777;
        let node = self.create(s, entry, kind, mode);
        if kind == FileKind::Symlink {
            let text = split(s.call, Side::Input, &s.action.input)[0].unwrap_or_default().to_vec();
            self.names.node_mut(node).target = text;
        }
    }

    pub(super) fn make_node(&mut self, s: &mut Step<'_>) {
        let Some(place) = self.place(s, 0) else {
            return;
        };
        let (true, Some(entry), None) = (s.succeeded(), place.entry, place.node) else {
            return;
        };
        let mode = Self::mode_arg(s);
        let kind = FileKind::from_mode(mode);
        let node = self.create(s, entry, kind, mode);
        let n = self.names.node_mut(node);
        let device = s.call.position(|k| matches!(k, ArgKind::Device)).map_or(0, |i| s.arg(i));
        n.attributes.rdev = device;
        n.nature = match kind {
            _ if n.nature == Nature::Pseudo => Nature::Pseudo,
            // A whiteout.
            FileKind::CharDevice if device == 0 => Nature::Ordinary,
            FileKind::CharDevice | FileKind::BlockDevice => Nature::Device,
            FileKind::Fifo | FileKind::Socket => Nature::Stream,
            FileKind::Regular | FileKind::Directory | FileKind::Symlink => Nature::Ordinary,
        };
    }

    pub(super) fn link(&mut self, s: &mut Step<'_>) {
        let Some(old) = self.place(s, 0).and_then(|p| p.node) else {
            return;
        };
        s.out.look(Resource::File(old));
        s.out.change(Resource::Attributes(old));
        let Some(Place { entry: Some(entry), .. }) = self.place(s, 1) else {
            return;
        };
        // No system links directories: a damaged trace must not make a loop of them.
        if s.succeeded() && self.names.node(old).kind != FileKind::Directory {
            self.note_name_change(s, entry, NameChange::Make);
            self.names.detach(entry);
            self.names.attach(entry, old);
        }
    }

    pub(super) fn remove(&mut self, s: &mut Step<'_>) {
        const REMOVE_DIRECTORY: u64 = 0x200;
        let Some(place) = self.place(s, 0) else {
            return;
        };
        let flags = s.call.flags_arg(FlagSet::Unlink).map_or(0, |i| s.arg(i));
        let directory = s.call.name == "rmdir" || flags & REMOVE_DIRECTORY != 0;
        if let Some(node) = place.node {
            self.unlinked(s, node);
            if directory {
                s.out.look(Resource::Names(node));
            }
        }
        let (true, Some(entry)) = (s.succeeded(), place.entry) else {
            return;
        };
        self.note_name_change(s, entry, NameChange::Remove);
        if let Some(node) = self.names.detach(entry)
            && directory
        {
            s.out.add(Resource::Names(node));
        }
    }

    /// A file loses a name, or would have: its link count changes, and with the last name its life ends.
    fn unlinked(&mut self, s: &mut Step<'_>, node: NodeId) {
        let last = self.names.node(node).links <= 1;
        if s.succeeded() && last {
            s.out.destroy(Resource::File(node));
        } else {
            s.out.look(Resource::File(node));
        }
        s.out.change(Resource::Attributes(node));
    }

    pub(super) fn rename(&mut self, s: &mut Step<'_>) {
        const EXCHANGE: u64 = 2;
        const WHITEOUT: u64 = 4;
        let flags = s.call.flags_arg(FlagSet::Rename).map_or(0, |i| s.arg(i));
        let old = self.place(s, 0);
        let new = self.place(s, 1);
        let (Some(Place { entry: Some(old), .. }), Some(Place { entry: Some(new), .. })) = (old, new) else {
            return;
        };
        let (moved, replaced) = (self.names.target(old), self.names.target(new));
        let is_directory = |names: &Names, n: &NodeId| names.node(*n).kind == FileKind::Directory;
        if let Some(replaced) = replaced {
            // An exchange takes no name away.
            if flags & EXCHANGE == 0 && moved != Some(replaced) {
                self.unlinked(s, replaced);
            }
            if is_directory(&self.names, &replaced) {
                s.out.look(Resource::Names(replaced));
            }
        }
        // Who owns a file decides whether it may leave a sticky directory.
        for node in [moved, replaced].into_iter().flatten() {
            s.out.look(Resource::File(node));
            s.out.look(Resource::Attributes(node));
        }
        if [moved, replaced].iter().flatten().any(|n| is_directory(&self.names, n)) {
            // A directory cannot move below itself: what lies above both places counts.
            for entry in [old, new] {
                self.look_above(s, self.names.entries[entry as usize].directory);
            }
        }
        if !s.succeeded() {
            return;
        }
        let Some(moved) = self.moved_node(s, old) else {
            return;
        };
        if flags & EXCHANGE == 0 && self.names.target(new) == Some(moved) {
            // Two names of one file: rename does nothing.
            return;
        }
        let stays = flags & (EXCHANGE | WHITEOUT) != 0;
        self.note_name_change(s, old, if stays { NameChange::Replace } else { NameChange::Remove });
        let stood = self.names.target(new).is_some();
        self.note_name_change(s, new, if stood { NameChange::Replace } else { NameChange::Make });
        self.names.detach(old);
        let replaced = self.names.detach(new);
        self.names.attach(new, moved);
        if flags & EXCHANGE != 0 {
            if let Some(replaced) = replaced {
                self.names.attach(old, replaced);
            }
        } else if flags & WHITEOUT != 0 {
            self.create(s, old, FileKind::CharDevice, 0);
        }
    }

    fn moved_node(&mut self, s: &mut Step<'_>, entry: EntryId) -> Option<NodeId> {
        if let Some(node) = self.names.target(entry) {
            return Some(node);
        }
        let e = &self.names.entries[entry as usize];
        if e.changed {
            s.out.surprise = Some("a file came from elsewhere");
            return None;
        }
        s.out.surprise = Some("a file was not met before");
        let (directory, name) = (e.directory, e.name.clone());
        Some(self.assume(directory, &name, FileKind::Regular, 0))
    }

    pub(super) fn change_directory(&mut self, s: &mut Step<'_>) {
        let (at, shown) = if s.call.name == "fchdir" {
            let slot = self.file(s, 0).map(|(slot, _)| slot);
            let slot = slot.or_else(|| self.descriptors.get(s.thread.table, s.arg(0)));
            let open = slot.map(|slot| self.descriptors.descriptions[slot.description as usize].beginning());
            let Beginning { start, shown } = open.unwrap_or_default();
            (start.map(|start| start.at), shown)
        } else {
            let place = self.place(s, 0);
            (self.existing_there(s, place, FileKind::Directory), place.and_then(|place| place.shown))
        };
        // Where links that the kernel shows led to a directory of `/proc`, no more is known of it than that.
        let at = at.or_else(|| shown.and_then(|_| self.proc()));
        let shared = self.directories[s.thread.directories as usize].shared;
        if shared {
            s.out.change(Resource::Directories(s.thread.directories));
        }
        if let (Some(at), true) = (at, s.succeeded()) {
            let directories = &mut self.directories[s.thread.directories as usize];
            (directories.cwd, directories.shown) = (at, shown);
            if s.is_replayed() {
                directories.replayed_cwd = at.node;
            }
        }
    }

    fn proc(&self) -> Option<At> {
        let entry = *self.names.node(self.root).entries.get(b"proc".as_slice())?;
        let node = self.names.target(entry).filter(|node| self.names.node(*node).nature == Nature::Pseudo)?;
        Some(Mounts::first(node))
    }

    pub(super) fn change_root(&mut self, s: &mut Step<'_>) {
        let at = self.existing_at(s, 0, FileKind::Directory);
        if let (Some(at), true) = (at, s.succeeded()) {
            s.out.change(Resource::Directories(s.thread.directories));
            if self.mounts.is_used(at.mount) {
                // What is bound below the root may stand outside of it in a replay, which would not get there.
                s.out.meet(Nature::Pseudo);
            }
            let directories = &mut self.directories[s.thread.directories as usize];
            directories.root = at;
            if s.is_replayed() {
                directories.replayed_root = at.node;
            }
        }
    }

    pub(super) fn get_directory(&mut self, s: &mut Step<'_>) {
        s.out.look(Resource::Directories(s.thread.directories));
        let directories = self.directories[s.thread.directories as usize];
        let node = directories.cwd.node;
        s.out.meet(self.names.node(node).nature);
        if !self.is_path_the_same(&directories) {
            s.out.meet(Nature::Pseudo);
        }
        // The answer is a path: every name on it counts.
        self.look_above(s, node);
    }

    /// Looks at the entry of a directory and at those of all directories above it.
    pub(crate) fn look_above(&self, s: &mut Step<'_>, mut directory: NodeId) {
        for _ in 0..DEEPEST {
            let Some(entry) = self.names.node(directory).stood else {
                break;
            };
            s.out.look(Resource::Entry(entry));
            directory = self.names.node(directory).parent;
        }
    }

    /// Tells the model the address of a successful `bind`; a name in the file system becomes a socket file. Returns the
    /// path if so.
    pub(crate) fn bound(&mut self, action: &reprise_trace::Action, address: &[u8], out: &mut crate::Interpretation) {
        let (true, Some(path)) = (action.result >= 0, reprise_calls::socket_path(address)) else {
            return;
        };
        let Some(thread) = self.thread(action.thread) else { return };
        let beginning = self.directories[thread.directories as usize].beginning();
        let Some(call) = reprise_calls::by_name("mknod") else {
            return;
        };
        let mut s = Step { call, action, thread, out };
        let Some(Lead { place, path: replayed }) = self.resolve(&mut s, beginning, path, false) else { return };
        if let (Some(entry), None) = (place.entry, place.node) {
            // The mask is taken off before a default access list has its say (`unix_bind_bsd`).
            let mode = 0o777 & !self.directories[thread.directories as usize].umask;
            let node = self.create(&mut s, entry, FileKind::Socket, mode);
            self.names.node_mut(node).nature = Nature::Stream;
            s.out.binds = Some(SocketFile { path: replayed.unwrap_or_else(|| path.to_vec()), mode });
            self.name_socket(&s, Address::File(node));
        }
    }
}
