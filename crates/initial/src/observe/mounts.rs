//! Mounts and their namespaces: which files the paths of a sandbox mean.

use reprise_calls::brought::{Brought, TMPFS, brings, stand_in};
use reprise_calls::mounts::{At, Deed, Mounting, Mounts, Named, Taking, mounting, own_users, owner_of_mounts, taking};
use reprise_calls::{Shown, Whose};
use reprise_trace::payload::{Side, split};

use super::{Seat, Seen};
use crate::World;
use crate::names::{MOUNTED, Names};
use crate::node::{NodeId, Source, kind};

impl World {
    pub(super) fn mount(&mut self, s: &Seen<'_>) {
        self.use_descriptors(s);
        if !s.ok() {
            return;
        }
        if s.call.name == "setns" {
            self.enter_mounts(s);
        }
        if s.call.name == "mount_setattr"
            && let Some(at) = self.existing_at(s, 0, kind::DIRECTORY, false)
        {
            self.give_users(s, at);
        }
        let what = mounting(s.call, &s.decoded.args);
        if what == Mounting::Nothing {
            return;
        }
        let first = self.existing_at(s, 0, kind::DIRECTORY, false).map(|at| self.seen(at));
        let second = match s.call.paths().count() {
            2 => self.existing_at(s, 1, kind::DIRECTORY, false).map(|at| self.seen(at)),
            _ => None,
        };
        let target = first.filter(|_| what.has_source());
        let source = target.and_then(|target| self.source(s, target));
        let brought = if what == Mounting::New { self.brought_by_mount(s) } else { None };
        let named = Named { first, second, source, brought };
        match self.mounts.deed(what, named) {
            Some(Deed::New(at)) => self.mount_new(at),
            Some(Deed::Bind(source, at, deep)) => drop(self.mounts.bind(source, at, deep)),
            Some(Deed::Move(source, at)) => self.mounts.shift(source.mount, at),
            Some(Deed::Unmount(at)) => self.mounts.unmount(at.mount),
            Some(Deed::Exchange(new, old_to)) => self.exchange_roots(s, new, old_to),
            None => {}
        }
    }

    /// A place by the number that its file has now.
    fn seen(&self, at: At) -> At {
        At { node: self.names.now(at.node), ..at }
    }

    /// A file system for which nothing stands in: nothing in it was there at the beginning.
    fn mount_new(&mut self, at: At) {
        let root = self.unknown_root(self.names.node(at.node).kind, at.node);
        self.mounts.mount(root, at);
    }

    fn unknown_root(&mut self, kind: u32, parent: NodeId) -> NodeId {
        let root = self.names.add_nameless(kind);
        let n = self.names.node_mut(root);
        (n.filesystem, n.parent) = (MOUNTED, parent);
        root
    }

    /// What `mount` was given as its source, which is of the same type as its target.
    fn source(&mut self, s: &Seen<'_>, target: At) -> Option<At> {
        let path = split(s.call, Side::Input, &s.decoded.input)[0]?.to_vec();
        let from = self.places[s.seat.places as usize].beginning();
        let found = self.lead(s.seat, from, &path, true, true);
        let mount = found.mount;
        let node = self.settle(s, found, self.names.node(target.node).kind, false)?;
        Some(self.seen(At { mount, node }))
    }

    /// A mount may get users of its own: who owns what, seen through it, says nothing of the files.
    fn give_users(&mut self, s: &Seen<'_>, at: At) {
        let attributes = split(s.call, Side::Input, &s.decoded.input)[3];
        if let Some(users) = own_users(s.call, &s.decoded.args, attributes) {
            self.mounts.give_users(at, users);
        }
    }

    /// What stands for the file system that `mount` brings.
    fn brought_by_mount(&mut self, s: &Seen<'_>) -> Option<At> {
        let brought = Brought::named(s.call, || split(s.call, Side::Input, &s.decoded.input))?;
        self.stands_in(brought).map(Mounts::first)
    }

    /// A directory of the beginning stands for a file system that comes, unless that holds the kernel's state.
    fn stands_in(&mut self, brought: Brought) -> Option<NodeId> {
        self.brought += 1;
        let name = stand_in(self.brought);
        let node =
            brought.stands_in().then(|| self.names.add(Names::ROOT, &name, kind::DIRECTORY, true, Source::Initial))?;
        let n = self.names.node_mut(node);
        let is_empty = brought == Brought::Nothing;
        (n.brought, n.is_listed, n.filesystem) = (self.brought, is_empty, if is_empty { TMPFS } else { 0 });
        Some(node)
    }

    /// `fsopen`, `fsmount`: the type of a file system, and a mount of it that is not mounted yet.
    pub(super) fn configure(&mut self, s: &Seen<'_>) {
        let of = |fd: u32| self.tables[s.seat.table as usize].open.get(&fd).cloned();
        let Some(made) = of(s.result as u32) else { return };
        made.borrow_mut().configures = Brought::named(s.call, || split(s.call, Side::Input, &s.decoded.input));
        if brings(s.call, &s.decoded.args) {
            let brought = of(s.fd(0).0).and_then(|given| given.borrow().configures).unwrap_or(Brought::State);
            let root = self.stands_in(brought).unwrap_or_else(|| self.unknown_root(kind::DIRECTORY, Names::ROOT));
            let taken = self.taken(Mounts::first(root), false);
            let mut made = made.borrow_mut();
            made.shown = (brought == Brought::Processes).then_some(Shown::All);
            (made.node, made.mount) = (Some(taken.node), taken.mount);
        }
    }

    /// A copy of what stands at a place that is mounted nowhere yet.
    fn taken(&mut self, at: At, deep: bool) -> At {
        self.mounts.take(at, deep).map_or(at, |mount| At { mount, ..at })
    }

    /// `open_tree`: what its descriptor stands for.
    pub(super) fn take_tree(&mut self, s: &Seen<'_>) {
        let Some(taking) = taking(s.call, &s.decoded.args) else { return };
        let found = self.place(s, 0, true);
        self.shows(s.seat, s.result as u32, &found);
        let mount = found.mount;
        let Some(node) = self.settle(s, found.clone(), kind::DIRECTORY, false) else { return };
        let at = At { mount, node };
        let at = match taking {
            Taking::Place => at,
            Taking::Copy { deep } => self.taken(self.seen(at), deep),
        };
        self.give_users(s, at);
        self.open_file(s.seat, s.result as u32, Some(at), false);
        self.shows(s.seat, s.result as u32, &found);
    }

    /// `pivot_root`: who had the old root as its root or working directory has the new one.
    fn exchange_roots(&mut self, s: &Seen<'_>, new: At, old_to: At) {
        let old = self.places[s.seat.places as usize].root;
        if !self.mounts.is_root(old) || !self.mounts.is_root(new) {
            return;
        }
        self.mounts.exchange(old.mount, new.mount, old_to);
        for place in self.places.iter_mut().flat_map(|places| [&mut places.cwd, &mut places.root]) {
            if *place == old {
                *place = new;
            }
        }
    }

    /// Who has these directories has a namespace of its own from now on, like the one that it was in.
    pub(crate) fn copy_mounts(&mut self, places: u32) {
        let places = &mut self.places[places as usize];
        let copies = self.mounts.copy_namespace(places.root.mount);
        for place in [&mut places.cwd, &mut places.root] {
            place.mount = copies.get(&place.mount).copied().unwrap_or(place.mount);
        }
    }

    /// `setns`, given `/proc/PID/ns/mnt`: the mounts are those of another namespace now, or of the same, and the directories the root
    /// of these.
    fn enter_mounts(&mut self, s: &Seen<'_>) {
        let open = self.tables[s.seat.table as usize].open.get(&s.fd(0).0);
        // What was open at the beginning tells no more than its path.
        let by_path = || self.namespace_at(s.seat, self.peek(s.seat, s.fd(0).0)?);
        let Some(mount) = open.and_then(|open| open.borrow().namespace).or_else(by_path) else { return };
        let top = self.mounts.top(mount);
        let own = &mut self.places[s.seat.places as usize];
        (own.cwd, own.shown, own.root) = (top, None, top);
    }

    /// An open takes hold of the mounts that a process has then. It may go on to others.
    pub(super) fn open_namespace(&mut self, s: &Seen<'_>, file: NodeId) {
        let Some(mount) = self.namespace_at(s.seat, file) else { return };
        if let Some(open) = self.tables[s.seat.table as usize].open.get(&(s.result as u32)) {
            open.borrow_mut().namespace = Some(mount);
        }
    }

    /// One of the mounts of the namespace that a file stands for.
    fn namespace_at(&self, seat: Seat, file: NodeId) -> Option<u32> {
        if &*self.names.node(file).name != b"mnt" {
            return None;
        }
        let places = match owner_of_mounts(&self.names.path(file))? {
            Whose::Process | Whose::Thread | Whose::Task { process: 0, .. } => seat.places,
            Whose::Numbered(pid) | Whose::Task { process: pid, .. } => self.table_of(pid)?.places,
        };
        Some(self.places[places as usize].root.mount)
    }
}
