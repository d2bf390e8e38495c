//! Where paths of programs lead, also by way of what is mounted, and of parts of a process: `/proc/self/fd/N`, which the C library uses
//! where the kernel has no call of its own (`fchmodat`, `linkat` of a nameless file), `/dev/stdin`, `/proc/self/cwd` and their kin, also
//! from a descriptor of a directory of `/proc`.
//!
//! A replay has no `/proc` and mounts nothing: such a path is replaced by the present path of the file, if it has one.

use std::borrow::Cow;

use reprise_calls::mounts::{At, Mounts};
use reprise_calls::{Led, Part, ProcessPath, Shown, Whose, led, taken_for_proc};

use crate::interpretation::{ByDescriptor, Interpretation};
use crate::node::{FileKind, Nature, NodeId};
use crate::processes::{Directories, Thread};
use crate::resolve::{LINKS, Place, Way};
use crate::step::Step;
use crate::touch::{EntryId, Resource};
use crate::world::World;

/// Where a relative path begins.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Beginning {
    /// The directory, if it is known.
    pub start: Option<Start>,
    /// The directory of `/proc` that it is, if parts of processes are reached from there.
    pub shown: Option<Shown>,
}

/// A directory where a path begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    pub at: At,
    /// A replay has the same place for it.
    pub is_replayed: bool,
    /// The path does not lead out of it.
    pub is_root: bool,
}

/// Where a path leads, and its path in a replay if that is another.
pub(crate) struct Lead {
    pub place: Place,
    pub path: Option<Vec<u8>>,
}

/// What a path through a part of a process means.
enum Named {
    /// It does not go through one.
    No,
    /// It leads to a directory of `/proc` from which they are reached.
    Above(Shown),
    /// A place, and the path that is left from there.
    From(At, Option<EntryId>, Vec<u8>),
    /// The file itself has no name; it can only be reached through the descriptor.
    File(Place),
}

impl Directories {
    /// Where paths begin that are relative to the working directory.
    pub(crate) fn beginning(&self) -> Beginning {
        let start = Start { at: self.cwd, is_replayed: self.cwd.node == self.replayed_cwd, is_root: false };
        Beginning { start: Some(start), shown: self.shown }
    }
}

impl World {
    /// Where a path leads; its path in a replay is noted under its number.
    pub(crate) fn lead(
        &mut self,
        s: &mut Step<'_>,
        number: usize,
        beginning: Beginning,
        path: &[u8],
        follow: bool,
    ) -> Option<Place> {
        let by_way_of = s.out.by_way_of.take();
        let lead = self.resolve(s, beginning, path, follow);
        if number > 0 {
            s.out.by_way_of = by_way_of;
        }
        let lead = lead?;
        if lead.path.is_some() {
            s.out.paths[number.min(1)] = lead.path;
        }
        Some(lead.place)
    }

    /// Where a path leads, also by way of a part of its process, and by way of links to these.
    pub(crate) fn resolve(
        &mut self,
        s: &mut Step<'_>,
        Beginning { start, shown }: Beginning,
        path: &[u8],
        follow: bool,
    ) -> Option<Lead> {
        let directories = self.directories[s.thread.directories as usize];
        let own_root = start.filter(|start| start.is_root);
        let root = own_root.map_or(directories.root, |start| start.at);
        let other_root = own_root.map_or(root.node != directories.replayed_root, |start| !start.is_replayed);
        let (mut begin, mut entry, mut left) = (start, None, Cow::Borrowed(path));
        let mut named = match own_root {
            None => {
                let led = self.led(s, root, shown, path, follow);
                self.through_process(s, led)
            }
            Some(_) => Named::No,
        };
        let (mut place, mut broken, mut astray) = (None, None, false);
        let mut above = None;
        for _ in 0..LINKS {
            match named {
                Named::No => {}
                Named::Above(shown) => above = Some(shown),
                Named::From(at, by, rest) => {
                    (begin, entry, left) =
                        (Some(Start { at, is_replayed: false, is_root: false }), by, Cow::Owned(rest));
                    s.out.through_process = true;
                }
                Named::File(place) => return Some(Lead { place, path: None }),
            }
            let from = match begin {
                _ if left.starts_with(b"/") => Start { at: root, is_replayed: true, is_root: false },
                Some(begin) => begin,
                // Of a `/proc` of its own, which stands nowhere.
                None => {
                    above?;
                    s.out.meet(Nature::Pseudo);
                    return Some(Lead { place: Place { shown: above, ..Place::LOST }, path: None });
                }
            };
            let nature = s.out.nature;
            let mut way = Way::new(&self.mounts, other_root, !from.is_replayed, nature);
            let found = match left.is_empty() {
                true => Place { node: Some(from.at.node), entry, mount: from.at.mount, shown: None },
                false => self.names.walk(from.at, root, &left, follow, &mut way, s.out),
            };
            (place, broken, astray) = (Some(found), way.broken, way.astray);
            let detour = way.detour.filter(|_| own_root.is_none());
            named = match &detour {
                Some(to) => {
                    let led = self.led(s, root, None, &to.path, to.follows);
                    self.through_process(s, led)
                }
                None => Named::No,
            };
            match named {
                Named::No => break,
                Named::Above(shown) => {
                    above = Some(shown);
                    break;
                }
                Named::From(..) | Named::File(_) => {}
            }
            // What was met where these names stand says nothing of the file.
            s.out.nature = nature;
        }
        let place = Place { shown: above, ..place? };
        let path = if astray { self.replayed_path(s, place, broken, &left) } else { None };
        Some(Lead { place, path })
    }

    /// The path in a replay of a place that a path led to; if it has none, what the call does is taken from the trace.
    pub(crate) fn replayed_path(
        &self,
        s: &mut Step<'_>,
        place: Place,
        broken: Option<(EntryId, Vec<u8>)>,
        given: &[u8],
    ) -> Option<Vec<u8>> {
        if let Some(node) = place.node {
            s.out.meet(self.names.node(node).nature);
        }
        if s.out.nature == Nature::Pseudo {
            return None;
        }
        let path = match (place, broken) {
            (Place { entry: Some(entry), .. }, _) => {
                s.out.look(Resource::Entry(entry));
                self.look_above(s, self.names.entries[entry as usize].directory);
                self.names.path_of_entry(entry)
            }
            (Place { node: Some(node), .. }, _) => {
                if self.names.node(node).kind == FileKind::Directory {
                    self.look_above(s, node);
                }
                self.path_of(node)
            }
            (_, Some((entry, rest))) => {
                self.look_above(s, self.names.entries[entry as usize].directory);
                self.names.path_of_entry(entry).map(|path| [path, rest].concat())
            }
            (_, None) => None,
        };
        let path = path.and_then(|path| self.below_root(s.thread, path));
        let Some(mut path) = path else {
            s.out.meet(Nature::Pseudo);
            return None;
        };
        if given.ends_with(b"/") && !path.ends_with(b"/") {
            path.push(b'/');
        }
        Some(path)
    }

    /// As [`led`]; with another root than the first one, an absolute path leads to `/proc` only if that is mounted there.
    fn led<'p>(&self, s: &mut Step<'_>, root: At, shown: Option<Shown>, path: &'p [u8], follow: bool) -> Led<'p> {
        match led(shown, path, follow) {
            Led::Part(_) | Led::Directory(_)
                if taken_for_proc(path).is_some_and(|name| !self.is_the_kernels(s, root, name)) =>
            {
                Led::Elsewhere
            }
            led => led,
        }
    }

    /// Whether what stands under a name in a root directory is the kernel's. Of what the trace does not know it is, if the call was
    /// not refused.
    fn is_the_kernels(&self, s: &mut Step<'_>, root: At, name: &[u8]) -> bool {
        if root.node == self.root {
            return true;
        }
        let Some(&entry) = self.names.node(root.node).entries.get(name) else { return s.succeeded() };
        s.out.look(Resource::Entry(entry));
        let Some(node) = self.names.target(entry) else { return s.succeeded() };
        let seen = self.mounts.down(At { node, ..root });
        self.names.node(seen.node).nature == Nature::Pseudo
    }

    /// Where a path that leads through a part of a process goes on.
    fn through_process(&self, s: &mut Step<'_>, led: Led<'_>) -> Named {
        let named = match led {
            Led::Part(named) => named,
            Led::Directory(shown) => return self.by_numbers(s, shown).map_or(Named::No, Named::Above),
            Led::Elsewhere => return Named::No,
        };
        let found = self.part(s.thread, named, s.out);
        if matches!(found, Named::No) {
            // A replay shows nothing of processes.
            s.out.meet(Nature::Pseudo);
        }
        found
    }

    /// A directory of `/proc` as whoever has a descriptor of it sees it.
    pub(crate) fn by_numbers(&self, s: &Step<'_>, shown: Shown) -> Option<Shown> {
        let pid = self.processes.get(s.thread.process as usize)?.pid;
        let tid = self.thread_facts.get(s.action.thread as usize)?.tid;
        Some(shown.by_numbers(pid, tid))
    }

    fn part(&self, thread: Thread, named: ProcessPath<'_>, out: &mut Interpretation) -> Named {
        out.by_way_of = None;
        let Some(shown) = self.shown(thread, named.whose) else { return Named::No };
        let directories = &self.directories[shown.directories as usize];
        let at = match named.part {
            Part::Descriptor(fd) => return self.through_descriptor(thread, shown.table, fd, named.rest, out),
            Part::Mapped(address) => return self.mapped_at(thread, shown.space, address, named.rest, out),
            Part::Directory => directories.cwd,
            Part::Root => directories.root,
        };
        out.look(Resource::Directories(shown.directories));
        match self.visible(thread, at.node) {
            Some(_) => Named::From(at, None, below(named.rest)),
            None => Named::No,
        }
    }

    fn through_descriptor(&self, thread: Thread, table: u32, fd: u32, rest: &[u8], out: &mut Interpretation) -> Named {
        let Some(slot) = self.descriptors.get(table, fd.into()) else { return Named::No };
        let description = &self.descriptors.descriptions[slot.description as usize];
        let Some(node) = description.node.filter(|_| description.stream.is_none()) else { return Named::No };
        out.look(Resource::Descriptor(slot.generation));
        let at = At { mount: description.mount, node };
        let n = self.names.node(node);
        let stands = |entry: &EntryId| self.names.target(*entry) == Some(node);
        let entry = n.attached.or(description.opened_as.filter(stands));
        let is_named = self.visible(thread, node).is_some() || {
            let path = entry.and_then(|entry| self.names.path_of_entry(entry));
            path.and_then(|path| self.below_root(thread, path)).is_some()
        };
        // A link that is open itself is not followed further; by its path it would be.
        let is_link = n.kind == FileKind::Symlink;
        // In another table than the thread's own the same number may be another descriptor.
        let is_own = self.descriptors.binds(thread.table, slot.binding);
        let named = is_own.then_some(ByDescriptor { binding: slot.binding, flags: description.flags });
        if is_named && !is_link {
            out.by_way_of = named.map(|named| (named, below(rest)));
            return Named::From(at, entry, below(rest));
        }
        if (rest.is_empty() || is_link) && is_own {
            out.by_descriptor = named;
            return Named::File(Place { node: Some(node), mount: at.mount, ..Place::LOST });
        }
        Named::No
    }

    fn mapped_at(&self, thread: Thread, space: u32, address: u64, rest: &[u8], out: &mut Interpretation) -> Named {
        let Some(region) = self.spaces[space as usize].at(address) else { return Named::No };
        out.look(Resource::Mapping(region.mapping));
        match self.visible(thread, region.node) {
            Some(_) => Named::From(Mounts::first(region.node), self.names.node(region.node).attached, below(rest)),
            None => Named::No,
        }
    }

    /// The path of a file as a thread of a replay has to write it.
    fn visible(&self, thread: Thread, node: NodeId) -> Option<Vec<u8>> {
        self.below_root(thread, self.path_of(node)?)
    }

    /// A path from the root directory that the thread has in a replay; none if it is not below that.
    fn below_root(&self, thread: Thread, path: Vec<u8>) -> Option<Vec<u8>> {
        let root = self.path_of(self.directories[thread.directories as usize].replayed_root)?;
        if root == b"/" {
            return Some(path);
        }
        match path.strip_prefix(&root[..])? {
            b"" => Some(b"/".to_vec()),
            rest => rest.starts_with(b"/").then(|| rest.to_vec()),
        }
    }

    /// The thread whose descriptors and directories are shown.
    pub(crate) fn shown(&self, thread: Thread, whose: Whose) -> Option<Thread> {
        let pid = self.processes.get(thread.process as usize)?.pid;
        match whose {
            Whose::Thread => Some(thread),
            Whose::Numbered(number) if number != pid => self.other(number),
            Whose::Process | Whose::Numbered(_) => Some(self.first_thread(thread, pid)),
            Whose::Task { process, thread: tid } => {
                let of = if process == 0 || process == pid { thread } else { self.other(process)? };
                self.thread_numbered(of, tid)
            }
        }
    }

    /// The thread of a process, given by one of its threads, that has a number.
    fn thread_numbered(&self, of: Thread, tid: i32) -> Option<Thread> {
        let mut rows = self.thread_facts.iter().zip(&self.threads).filter(|(facts, _)| facts.tid == tid);
        rows.find_map(|(_, thread)| thread.as_deref().copied().filter(|thread| thread.process == of.process))
    }

    /// The first thread of another process that lives.
    pub(crate) fn other(&self, pid: i32) -> Option<Thread> {
        let process = self.processes_of(pid).find(|process| self.processes[*process as usize].threads > 0)?;
        let mut threads = self.threads.iter().filter_map(|thread| thread.as_deref().copied());
        Some(self.first_thread(threads.find(|thread| thread.process == process)?, pid))
    }

    /// The thread whose number is that of its process; if it is gone, this one.
    fn first_thread(&self, thread: Thread, pid: i32) -> Thread {
        // Tables are shared, and processes single-threaded, almost always.
        let users = self.directories[thread.directories as usize].users;
        let all_share = self.processes.get(thread.process as usize).is_none_or(|process| users >= process.threads);
        if all_share && !self.descriptors.tables[thread.table as usize].left {
            return thread;
        }
        self.thread_numbered(thread, pid).unwrap_or(thread)
    }
}

/// What follows a part of a process, from there.
fn below(rest: &[u8]) -> Vec<u8> {
    let slashes = rest.iter().take_while(|b| **b == b'/').count();
    match &rest[slashes..] {
        // What a slash follows must be a directory.
        [] if slashes > 0 => b"./".to_vec(),
        rest => rest.to_vec(),
    }
}
