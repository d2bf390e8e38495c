//! Mounts and their namespaces: what is seen where.
//!
//! A replay mounts nothing: what is bound is reached by the path that it has otherwise, and so is what happens in a file system that
//! was mounted, for which a directory stands; where none does (`/proc`), it is taken from the trace.

use reprise_calls::brought::{Brought, brings, stand_in};
use reprise_calls::mounts::{
    At, Deed, Mounting, Mounts, Named, OWN_USERS, Taking, mounting, own_users, owner_of_mounts, taking,
};
use reprise_calls::sharing::copies_mounts;
use reprise_calls::{Effect, Shown};
use reprise_trace::payload::{Side, split};

use super::names::DEEPEST;
use super::{O_PATH, Step};
use crate::descriptors::Description;
use crate::node::{Attributes, FileKind, Nature, NodeId};
use crate::processes::{Directories, Thread};
use crate::resolve::Place;
use crate::touch::Resource;
use crate::world::World;

const TOO_MANY: &str = "more mounts than are followed";
const TAKEN_FROM_THE_TRACE: &str = "a mount: what is below it is taken from the trace";

impl World {
    pub(super) fn mount(&mut self, s: &mut Step<'_>) {
        self.use_descriptors(s);
        self.enter_namespaces(s);
        if s.succeeded() {
            self.unshare(s);
            if copies_mounts(s.call, &s.action.args) {
                let own = self.thread(s.action.thread).unwrap_or(s.thread);
                self.copy_mounts(own);
            }
            if s.call.name == "setns" {
                self.enter_mounts(s);
            }
        }
        if s.call.name == "mount_setattr"
            && let Some(at) = self.place(s, 0).and_then(Place::at)
        {
            self.give_users(s, at);
        }
        let what = mounting(s.call, &s.action.args);
        if what == Mounting::Nothing {
            return;
        }
        let first = self.place(s, 0).and_then(Place::at);
        let second = (s.call.paths().count() > 1).then(|| self.place(s, 1)).flatten().and_then(Place::at);
        if !s.succeeded() {
            return;
        }
        let source = if what.has_source() { self.source(s) } else { None };
        let brought = if what == Mounting::New { self.brought_by_mount(s) } else { None };
        let named = Named { first, second, source, brought };
        match self.mounts.deed(what, named) {
            Some(Deed::New(at)) => self.mount_new(s, at),
            Some(Deed::Bind(source, at, deep)) => self.bind_mount(s, source, at, deep),
            Some(Deed::Move(source, at)) => self.move_mount(s, source, at),
            Some(Deed::Unmount(at)) => {
                self.cover(s, at);
                self.mounts.unmount(at.mount);
            }
            Some(Deed::Exchange(new, old_to)) => self.exchange_roots(s, new, old_to),
            None => {}
        }
    }

    /// A file system for which nothing stands in.
    fn mount_new(&mut self, s: &mut Step<'_>, at: At) {
        let place = self.names.node(at.node);
        let (kind, attributes) = (place.kind, place.attributes.clone());
        let root = self.unknown_root(kind, attributes, at.node);
        self.cover(s, at);
        self.hold_mount(root, at);
        s.out.surprise = Some(self.mounts.mount(root, at).map_or(TOO_MANY, |_| TAKEN_FROM_THE_TRACE));
    }

    /// It has no path in a replay.
    fn unknown_root(&mut self, kind: FileKind, attributes: Attributes, parent: NodeId) -> NodeId {
        let root = self.names.add_node(kind, attributes);
        let n = self.names.node_mut(root);
        (n.nature, n.parent) = (Nature::Pseudo, parent);
        root
    }

    fn bind_mount(&mut self, s: &mut Step<'_>, source: At, at: At, deep: bool) {
        self.cover(s, at);
        self.hold_mount(source.node, at);
        s.out.look(Resource::File(source.node));
        if self.mounts.bind(source, at, deep).is_none() {
            s.out.surprise = Some(TOO_MANY);
        }
    }

    fn move_mount(&mut self, s: &mut Step<'_>, source: At, at: At) {
        if self.mounts.is_mounted(source.mount) {
            self.cover(s, source);
        }
        self.cover(s, at);
        s.out.look(Resource::File(source.node));
        self.hold_mount(source.node, at);
        self.mounts.shift(source.mount, at);
    }

    /// The numbers of files in the table of mounts stay theirs.
    fn hold_mount(&mut self, root: u32, at: At) {
        self.names.hold(root);
        self.names.hold(at.node);
    }

    /// Something else is seen from now on where a name stands.
    fn cover(&mut self, s: &mut Step<'_>, at: At) {
        let place = self.mounts.up(at, self.directories[s.thread.directories as usize].root);
        let node = self.names.node(place.node);
        if let Some(entry) = node.stood.or(node.attached) {
            s.out.change(Resource::Entry(entry));
        }
    }

    /// What `mount` was given as its source, if that is a path that leads somewhere.
    fn source(&mut self, s: &mut Step<'_>) -> Option<At> {
        let path = split(s.call, Side::Input, &s.action.input)[0]?.to_vec();
        let beginning = self.directories[s.thread.directories as usize].beginning();
        let nature = std::mem::take(&mut s.out.nature);
        let lead = self.resolve(s, beginning, &path, true);
        let met = std::mem::replace(&mut s.out.nature, nature);
        // What the kernel shows under a name of its own (`/proc/self/exe`) has no path in a replay.
        lead?.place.at().filter(|at| met != Nature::Pseudo || self.names.node(at.node).nature == Nature::Pseudo)
    }

    /// A mount may get users of its own.
    fn give_users(&mut self, s: &mut Step<'_>, at: At) {
        let attributes = split(s.call, Side::Input, &s.action.input)[3];
        let users = own_users(s.call, &s.action.args, attributes).filter(|_| s.succeeded());
        if let Some(users) = users {
            self.mounts.give_users(at, users);
            s.out.surprise = Some(OWN_USERS).filter(|_| users.has).or(s.out.surprise);
        }
    }

    /// What stands for the file system that `mount` brings.
    fn brought_by_mount(&mut self, s: &mut Step<'_>) -> Option<At> {
        let brought = Brought::named(s.call, || split(s.call, Side::Input, &s.action.input))?;
        self.stands_in(brought).map(Mounts::first)
    }

    /// The directory of the initial tree that stands for a file system that comes.
    fn stands_in(&mut self, brought: Brought) -> Option<NodeId> {
        self.brought += 1;
        let name = stand_in(self.brought);
        let entry = *self.names.node(self.root).entries.get(&name[..]).filter(|_| brought.stands_in())?;
        self.names.target(entry).filter(|node| self.names.node(*node).kind == FileKind::Directory)
    }

    /// `fsopen`, `fsmount`: the type of a file system, and a mount of it that is not mounted yet.
    pub(super) fn configure(&mut self, s: &mut Step<'_>, description: &mut Description) {
        description.configures = Brought::named(s.call, || split(s.call, Side::Input, &s.action.input));
        if brings(s.call, &s.action.args) {
            let given = self.descriptors.get(s.thread.table, s.arg(0));
            let configures = given.and_then(|slot| self.descriptors.descriptions[slot.description as usize].configures);
            description.shown = configures.filter(|brought| *brought == Brought::Processes).map(|_| Shown::All);
            let stands_in = self.stands_in(configures.unwrap_or(Brought::State));
            let root =
                stands_in.unwrap_or_else(|| self.unknown_root(FileKind::Directory, Attributes::default(), self.root));
            let taken = self.taken(s, Mounts::first(root), false);
            self.stands_at(s, description, taken);
        }
    }

    /// A copy of what stands at a place that is mounted nowhere yet.
    fn taken(&mut self, s: &mut Step<'_>, at: At, deep: bool) -> At {
        self.names.hold(at.node);
        let mount = self.mounts.take(at, deep);
        if mount.is_none() {
            s.out.surprise = Some(TOO_MANY);
        }
        mount.map_or(at, |mount| At { mount, ..at })
    }

    /// A descriptor stands for a place and nothing more. In a replay it is opened by the path of the file, if that has one there.
    fn stands_at(&self, s: &mut Step<'_>, description: &mut Description, at: At) {
        let place = Place { node: Some(at.node), mount: at.mount, ..Place::LOST };
        s.out.paths[0] = self.replayed_path(s, place, None, b"");
        if s.out.paths[0].is_some() {
            (description.stream, description.flags) = (None, O_PATH);
        }
        (description.node, description.mount) = (Some(at.node), at.mount);
    }

    /// `open_tree`: what its descriptor stands for.
    pub(super) fn take_tree(&mut self, s: &mut Step<'_>, description: &mut Description) {
        let Some(taking) = taking(s.call, &s.action.args).filter(|_| s.succeeded()) else { return };
        let nature = s.out.nature;
        let place = self.place(s, 0);
        description.shown = place.and_then(|place| place.shown);
        if let Some(at) = place.and_then(Place::at) {
            let at = match taking {
                Taking::Place => at,
                Taking::Copy { deep } => self.taken(s, at, deep),
            };
            self.give_users(s, at);
            self.stands_at(s, description, at);
        }
        s.out.nature = nature;
    }

    /// `pivot_root`: who had the old root as its root or working directory has the new one.
    fn exchange_roots(&mut self, s: &mut Step<'_>, new: At, old_to: At) {
        let old = self.directories[s.thread.directories as usize].root;
        if !self.mounts.is_root(old) || !self.mounts.is_root(new) {
            return;
        }
        self.cover(s, new);
        self.cover(s, old_to);
        self.hold_mount(new.node, old_to);
        self.mounts.exchange(old.mount, new.mount, old_to);
        for (number, directories) in (0..).zip(self.directories.iter_mut()) {
            let Directories { cwd, root, .. } = directories;
            let mut moved = false;
            for place in [cwd, root].into_iter().filter(|place| **place == old) {
                (*place, moved) = (new, true);
            }
            if moved && directories.users > 0 {
                s.out.change(Resource::Directories(number));
            }
        }
    }

    /// A thread has a namespace of its own from now on, like the one that it was in.
    pub(super) fn copy_mounts(&mut self, thread: Thread) {
        let Directories { cwd, root, .. } = &mut self.directories[thread.directories as usize];
        let copies = self.mounts.copy_namespace(root.mount);
        for place in [cwd, root] {
            place.mount = copies.get(&place.mount).copied().unwrap_or(place.mount);
        }
    }

    /// `setns`: the mounts are those of another namespace now, or of the same, and the directories the root of these.
    fn enter_mounts(&mut self, s: &mut Step<'_>) {
        let Some(mount) = self.namespace_given(s) else { return };
        let top = self.mounts.top(mount);
        let Directories { cwd, root, shown, .. } = &mut self.directories[s.thread.directories as usize];
        (*cwd, *root, *shown) = (top, top, None);
        s.out.change(Resource::Directories(s.thread.directories));
    }

    /// One of the mounts of the namespace that `setns` enters: it was given `/proc/PID/ns/mnt`, or a handle of the process.
    fn namespace_given(&self, s: &Step<'_>) -> Option<u32> {
        const MOUNTS: u64 = 0x2_0000;
        let slot = self.descriptors.get(s.thread.table, s.arg(0))?;
        let description = &self.descriptors.descriptions[slot.description as usize];
        if let Some(process) = description.links.process {
            let of_process = |thread: &Thread| thread.process == process;
            let mut threads = self.threads.iter().filter_map(|thread| thread.as_deref().copied());
            return threads.find(of_process).filter(|_| s.arg(1) & MOUNTS != 0).map(|thread| self.namespace_of(thread));
        }
        // What was open at the beginning tells no more than its path.
        let by_path = || self.namespace_at(s.thread, &self.descriptor_path(s.action.thread, s.arg(0))?);
        description.namespace.or_else(by_path)
    }

    /// One of the mounts of the namespace that an open took hold of. The process may go on to another.
    pub(super) fn namespace_opened(&self, s: &Step<'_>) -> Option<u32> {
        if s.call.effect != Effect::Open || s.out.nature != Nature::Pseudo {
            return None;
        }
        self.namespace_at(s.thread, &self.argument_path(s.call, s.action, 0)?)
    }

    fn namespace_at(&self, thread: Thread, path: &[u8]) -> Option<u32> {
        Some(self.namespace_of(self.shown(thread, owner_of_mounts(path)?)?))
    }

    fn namespace_of(&self, thread: Thread) -> u32 {
        self.directories[thread.directories as usize].root.mount
    }

    /// Whether the path of a working directory is the same in a replay.
    pub(super) fn is_path_the_same(&self, directories: &Directories) -> bool {
        let Directories { cwd, root, .. } = *directories;
        if root.node != directories.replayed_root || cwd.node != directories.replayed_cwd {
            return false;
        }
        let mut here = cwd;
        for _ in 0..DEEPEST {
            if here == root {
                break;
            }
            if self.mounts.is_root(here) {
                return false;
            }
            here.node = self.names.node(here.node).parent;
        }
        true
    }
}
