//! Paths over the names met, as the kernel resolves them.

use reprise_calls::mounts::{At, Mounts};
use reprise_calls::{Detour, Led, Part, ProcessPath, Shown, Whose, leads_to_process, led, taken_for_proc};

use super::names::Names;
use super::node::{NodeId, Slot, Source, kind};
use super::outside::{Before, Looked};
use super::{Seat, World};

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The directory of the last component, and the component; none for `/`, `.`, `..`, where something is mounted, and what leads
    /// nowhere.
    pub entry: Option<(NodeId, Vec<u8>)>,
    /// The file, if one is known.
    pub node: Option<NodeId>,
    /// The mount that it is reached through.
    pub mount: u32,
    /// Whether a link under the last name would have been followed.
    pub is_followed: bool,
    /// The directory of `/proc` that it is, if parts of processes are reached from there.
    pub shown: Option<Shown>,
}

impl Found {
    /// The file at a place.
    pub fn at(at: At) -> Found {
        Found { node: Some(at.node), mount: at.mount, ..Found::default() }
    }
}

/// Where a path begins.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beginning {
    /// The directory, if it is known.
    pub start: Option<At>,
    /// The directory of `/proc` that it is, if parts of processes are reached from there.
    pub shown: Option<Shown>,
}

/// As many links as the kernel follows.
const LINKS: u32 = 40;

/// How a path is followed.
struct Way {
    /// Links that may still be followed.
    links: u32,
    /// Stops at a link that leads to a part of a process.
    stops: bool,
    /// The same path from that link on.
    detour: Option<Detour>,
}

impl Way {
    fn new(stops: bool) -> Way {
        Way { links: LINKS, stops, detour: None }
    }
}

impl World {
    /// Resolves a path. If it is known to have led somewhere (`exists`), the directories on its way did exist too.
    pub(super) fn resolve(&mut self, start: At, root: At, path: &[u8], follow: bool, exists: bool) -> Found {
        self.walk(start, root, path, follow, exists, &mut Way::new(false))
    }

    /// As [`World::resolve`], for a thread: a path may go through a part of its process (`/proc/self/fd/N`), or a link to one.
    pub(super) fn lead(&mut self, seat: Seat, from: Beginning, path: &[u8], follow: bool, exists: bool) -> Found {
        let root = self.places[seat.places as usize].root;
        let first = self.led(root, from.shown, path, follow, exists);
        if let Some(found) = self.through_process(seat, first, follow, exists) {
            return found;
        }
        let shown = self.by_numbers(seat, first);
        let Some(start) = from.start else { return Found { shown, ..Found::default() } };
        let mut way = Way::new(true);
        let found = self.walk(start, root, path, follow, exists, &mut way);
        let Some(detour) = way.detour else { return Found { shown, ..found } };
        let then = self.led(root, None, &detour.path, detour.follows, exists);
        match self.through_process(seat, then, detour.follows, exists) {
            Some(found) => found,
            None => {
                let found = self.resolve(start, root, path, follow, exists);
                Found { shown: self.by_numbers(seat, then), ..found }
            }
        }
    }

    /// As [`led`]; with another root than the first one, an absolute path leads to `/proc` only if that is mounted there.
    fn led<'p>(&mut self, root: At, shown: Option<Shown>, path: &'p [u8], follow: bool, exists: bool) -> Led<'p> {
        match led(shown, path, follow) {
            Led::Part(_) | Led::Directory(_)
                if taken_for_proc(path).is_some_and(|name| !self.is_the_kernels(root, name, exists)) =>
            {
                Led::Elsewhere
            }
            led => led,
        }
    }

    /// Whether what stands under a name in a root directory is the kernel's. Of what nothing is known it is, if it led somewhere.
    fn is_the_kernels(&mut self, root: At, name: &[u8], exists: bool) -> bool {
        let directory = self.names.now(root.node);
        if directory == Names::ROOT {
            return true;
        }
        let node = match self.recalled(directory, name) {
            Some(Slot::File(node)) => node,
            None if self.may_hold(directory) && self.look(directory, name).is_some() => {
                self.discover(directory, name, kind::DIRECTORY, false)
            }
            Some(Slot::Absent) | None => return exists,
        };
        let seen = self.mounts.down(At { node: self.names.now(node), ..root });
        self.names.node(seen.node).filesystem_is_pseudo()
    }

    /// A directory of `/proc` as whoever has a descriptor of it sees it. Threads of a process are taken for one.
    fn by_numbers(&self, seat: Seat, led: Led<'_>) -> Option<Shown> {
        match (led, self.tables[seat.table as usize].pid) {
            (Led::Directory(shown), Some(pid)) => Some(shown.by_numbers(pid, pid)),
            (Led::Directory(shown), None) => Some(shown),
            (Led::Part(_) | Led::Elsewhere, _) => None,
        }
    }

    /// Where a path leads through a part of its process; nowhere if that part is not known.
    fn through_process(&mut self, seat: Seat, led: Led<'_>, follow: bool, exists: bool) -> Option<Found> {
        match led {
            Led::Part(named) => self.part(seat, named, follow, exists),
            Led::Directory(_) | Led::Elsewhere => None,
        }
    }

    fn part(&mut self, seat: Seat, named: ProcessPath<'_>, follow: bool, exists: bool) -> Option<Found> {
        let places = self.places[seat.places as usize];
        let own = &self.tables[seat.table as usize];
        let table = match named.whose {
            Whose::Thread => own,
            // Of a thread that left the others it is another's table.
            Whose::Process | Whose::Task { process: 0, .. } if own.pid.is_none() => return None,
            Whose::Process | Whose::Task { process: 0, .. } => own,
            Whose::Numbered(pid) | Whose::Task { process: pid, .. } if own.pid != Some(pid) => self.table_of(pid)?,
            Whose::Numbered(_) | Whose::Task { .. } => own,
        };
        let at = match named.part {
            Part::Descriptor(fd) => table.at(fd)?,
            // Where other processes work is not asked for.
            // What is mapped has been met where it was opened.
            Part::Mapped(_) => return None,
            Part::Directory | Part::Root if !std::ptr::eq(table, own) => return None,
            Part::Directory => places.cwd,
            Part::Root => places.root,
        };
        let slashes = named.rest.iter().take_while(|b| **b == b'/').count();
        match &named.rest[slashes..] {
            b"" => Some(Found::at(at)),
            rest => Some(self.resolve(at, places.root, rest, follow, exists)),
        }
    }

    fn walk(&mut self, start: At, root: At, path: &[u8], follow: bool, exists: bool, way: &mut Way) -> Found {
        let begin = if path.starts_with(b"/") { root } else { start };
        let mut here = At { node: self.names.now(begin.node), ..begin };
        let directory_wanted = path.ends_with(b"/");
        if !path.is_empty() && !self.is_directory(here.node, exists) {
            return Found::default();
        }
        let mut found = Found::at(here);
        let mut components = path.split(|b| *b == b'/').filter(|c| !c.is_empty()).peekable();
        while let Some(name) = components.next() {
            let last = components.peek().is_none();
            match name {
                b"." => found = Found { is_followed: found.is_followed, ..Found::at(here) },
                b".." => {
                    let above = self.mounts.up(here, root);
                    here = match above == root || self.mounts.is_root(above) {
                        true => self.mounts.down(above),
                        false => self.mounts.down(At { node: self.names.node(above.node).parent, ..above }),
                    };
                    found = Found { is_followed: found.is_followed, ..Found::at(here) };
                }
                _ => {
                    let passed = !last || follow || directory_wanted;
                    let node = self.component(here.node, name, last, passed, exists);
                    let entry = Some((here.node, name.to_vec()));
                    found = Found { entry, node, mount: here.mount, is_followed: passed, shown: None };
                    let Some(node) = node else { return if last { found } else { Found::default() } };
                    let seen = self.mounts.down(At { node: self.names.now(node), ..here });
                    let node = if seen.mount == here.mount { node } else { seen.node };
                    if seen.mount != here.mount {
                        found = Found { is_followed: passed, ..Found::at(seen) };
                    }
                    let is_link = self.names.node(node).kind == kind::SYMLINK;
                    if is_link && passed {
                        let target = self.names.node(node).target.clone();
                        if way.links == 0 || self.names.node(node).leads_by_itself() {
                            return Found::default();
                        }
                        way.links -= 1;
                        if way.stops && leads_to_process(&target) {
                            way.detour = Some(Detour::by(target));
                        } else {
                            found = self.walk(here, root, &target, true, exists, way);
                        }
                        if let Some(detour) = &mut way.detour {
                            detour.go_on(components, follow || directory_wanted);
                            return Found::default();
                        }
                        if !last {
                            let Some(entered) = self.entered(&found, exists) else { return Found::default() };
                            here = At { mount: found.mount, node: entered };
                        }
                    } else if !last {
                        here = At { mount: found.mount, node };
                    }
                }
            }
            if !last && !self.is_directory(here.node, exists) {
                return Found::default();
            }
        }
        found
    }

    /// What stands under a name on the way; directories are assumed where something must stand.
    fn component(&mut self, directory: NodeId, name: &[u8], last: bool, passed: bool, exists: bool) -> Option<NodeId> {
        if let Some(trail) = &mut self.trail {
            trail.push((directory, name.to_vec()));
        }
        match self.recalled(directory, name) {
            Some(Slot::File(node)) => Some(node),
            None if exists && !last => Some(self.discover_way(directory, name)),
            None if exists && passed && self.link_text(directory, name).is_some() => {
                Some(self.discover(directory, name, kind::DIRECTORY, false))
            }
            None if self.asks && self.may_hold(directory) && self.look(directory, name).is_some() => {
                Some(self.discover(directory, name, kind::REGULAR, false))
            }
            Some(Slot::Absent) if exists && !last => {
                self.note("a name that was absent appeared: something outside of the log made it");
                Some(self.discover_way(directory, name))
            }
            Some(Slot::Absent) | None => None,
        }
    }

    /// What stands under a name; of one that no call has met yet, what is known of it from before the beginning.
    pub(super) fn recalled(&mut self, directory: NodeId, name: &[u8]) -> Option<Slot> {
        let slot = self.names.slot(directory, name);
        if slot.is_some() || !self.may_hold(directory) {
            return slot;
        }
        match self.before(directory, name) {
            Before::Unknown => return None,
            Before::Nothing => self.names.set(directory, name, Slot::Absent),
            Before::Stood(_) => drop(self.discover(directory, name, kind::REGULAR, false)),
        }
        self.names.slot(directory, name)
    }

    /// What somebody saw under a name who looked before the beginning.
    fn before(&mut self, directory: NodeId, name: &[u8]) -> Before {
        if self.outside.is_empty() {
            return Before::Unknown;
        }
        self.outside.before(&self.names.first_path_in(directory, name))
    }

    /// A directory on the way of a call that found it, or a link to one. Where something else is known to have stood at the
    /// beginning, what the call passed came later: from outside, or by a call that overlapped.
    fn discover_way(&mut self, directory: NodeId, name: &[u8]) -> NodeId {
        let found = self.discover(directory, name, kind::DIRECTORY, false);
        if matches!(self.names.node(found).kind, kind::DIRECTORY | kind::SYMLINK) {
            return found;
        }
        self.note("a directory came where something else had stood");
        self.names.add(directory, name, kind::DIRECTORY, true, Source::Made)
    }

    /// The directory that a link on the way leads to.
    fn entered(&mut self, found: &Found, exists: bool) -> Option<NodeId> {
        match (found.node, &found.entry) {
            (Some(node), _) => Some(node),
            (None, Some((directory, name))) if exists => Some(self.discover(*directory, name, kind::DIRECTORY, true)),
            (None, _) => None,
        }
    }

    fn is_directory(&mut self, node: NodeId, exists: bool) -> bool {
        let n = self.names.node_mut(node);
        if exists && !n.sure && n.kind != kind::DIRECTORY {
            n.kind = kind::DIRECTORY;
        }
        n.is_followed |= exists;
        n.kind == kind::DIRECTORY
    }

    /// Whether names may stand in a directory that no call made.
    fn may_hold(&self, directory: NodeId) -> bool {
        let n = self.names.node(directory);
        n.kind == kind::DIRECTORY && self.is_old(directory) && !n.is_listed && !n.filesystem_is_pseudo()
    }

    /// The text of the link under a name, if something stood there at the beginning.
    fn link_text(&mut self, directory: NodeId, name: &[u8]) -> Option<Vec<u8>> {
        if self.outside.is_empty() {
            return None;
        }
        match self.before(directory, name) {
            Before::Stood(looked) => return looked.target,
            Before::Nothing => return None,
            Before::Unknown => {}
        }
        let path = self.names.path_in(directory, name);
        self.outside.link_text(&path)
    }

    /// What is known beside the calls of what stood under a name.
    pub(super) fn look(&mut self, directory: NodeId, name: &[u8]) -> Option<Looked> {
        if self.outside.is_empty() {
            return None;
        }
        match self.before(directory, name) {
            Before::Stood(looked) => return Some(looked),
            Before::Nothing => return None,
            Before::Unknown => {}
        }
        let path = self.names.path_in(directory, name);
        self.outside.look(&path)
    }

    /// Whether the file that a call opened, and that may be its own, was there at the beginning.
    pub(super) fn was_born_before(
        &mut self,
        directory: NodeId,
        name: &[u8],
        identity: Option<(u64, u64)>,
    ) -> Option<bool> {
        let path = self.names.path_in(directory, name);
        self.outside.was_born_before(&path, identity?)
    }

    /// Something stands under a name that no call made: it was there at the beginning, unless its directory was not.
    pub(super) fn discover(&mut self, directory: NodeId, name: &[u8], kind: u32, sure: bool) -> NodeId {
        let source = match (self.names.node(directory).source, self.names.slot(directory, name)) {
            (Source::Initial, None) => Source::Initial,
            (Source::Perhaps, None) => {
                self.names.was_there(directory);
                Source::Initial
            }
            _ => {
                if !self.names.node(directory).filesystem_is_pseudo() {
                    self.note("a file came from outside of the log");
                }
                Source::Made
            }
        };
        let looked = match source {
            Source::Initial => self.look(directory, name).or_else(|| {
                let target = Some(self.link_text(directory, name)?);
                Some(Looked { target, ..Looked::default() })
            }),
            Source::Perhaps | Source::Made => None,
        };
        if let Some(known) = self.met_otherwise(directory, name, looked.as_ref()) {
            return known;
        }
        let is_guess = !sure && kind == kind::REGULAR;
        let kind = if is_guess && self.names.was_passed(directory, name) { kind::DIRECTORY } else { kind };
        let node = self.names.add(directory, name, kind, sure, source);
        if let Some(looked) = looked {
            self.apply(node, looked);
        }
        node
    }

    /// A further name of a file that was met under another.
    fn met_otherwise(&mut self, directory: NodeId, name: &[u8], looked: Option<&Looked>) -> Option<NodeId> {
        let stat = looked?.stat.filter(|s| s.mode & 0o170000 != kind::DIRECTORY && s.links.is_some_and(|n| n > 1))?;
        let node = *self.names.identities.get(&stat.identity?)?;
        self.names.node(node).may_be_initial().then(|| self.names.add_name(directory, name, node))
    }

    /// Takes in what is known of a file that was there at the beginning.
    fn apply(&mut self, node: NodeId, looked: Looked) {
        let n = self.names.node_mut(node);
        let told = looked.stat.map_or(kind::SYMLINK, |stat| stat.mode & 0o170000);
        // The call knows better what it met.
        if n.sure && n.kind != told {
            return;
        }
        if let Some(target) = looked.target {
            (n.kind, n.sure, n.target) = (kind::SYMLINK, true, target);
        }
        let Some(stat) = looked.stat else { return };
        (n.kind, n.sure, n.mode, n.owner) = (told, true, Some(stat.mode & 0o7777), stat.owner);
        n.links = stat.links.unwrap_or(1);
        n.device = stat.device.unwrap_or(0);
        n.times = stat.times.map(|time| time.unwrap_or(0));
        n.identity = stat.identity;
        n.size.initial = stat.size;
        if looked.filesystem != 0 && !n.filesystem_is_pseudo() {
            n.filesystem = looked.filesystem;
        }
        n.xattrs = looked.xattrs.into_iter().map(|(name, value)| (name, Some(value))).collect();
        n.is_looked_at = true;
        if let Some(identity) = stat.identity {
            self.names.identities.entry(identity).or_insert(node);
        }
    }

    /// The directory at an absolute path, which existed.
    pub(super) fn directory(&mut self, path: &[u8]) -> NodeId {
        let found = self.resolve(Mounts::first(Names::ROOT), Mounts::first(Names::ROOT), path, true, true);
        let node = match (found.node, found.entry) {
            (Some(node), _) => node,
            (None, Some((directory, name))) => self.discover(directory, &name, kind::DIRECTORY, true),
            (None, None) => Names::ROOT,
        };
        self.is_directory(node, true);
        node
    }
}
