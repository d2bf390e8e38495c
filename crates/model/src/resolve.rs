//! Path resolution over the model's names, as the kernel does it (`path_resolution(7)`).

use reprise_calls::mounts::{At, Mounts};
use reprise_calls::{Detour, Shown, leads_to_process};

use crate::interpretation::Interpretation;
use crate::names::Names;
use crate::node::{FileKind, Nature, NodeId};
use crate::touch::{EntryId, Resource, Touch};

/// Where a path leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The file, if there is one.
    pub node: Option<NodeId>,
    /// The entry of the last component; none for `/`, `.`, `..`, where something is mounted, and what does not resolve so far.
    pub entry: Option<EntryId>,
    /// The mount that it is reached through.
    pub mount: u32,
    /// The directory of `/proc` that it is, if parts of processes are reached from there.
    pub shown: Option<Shown>,
}

impl Place {
    /// Nowhere.
    pub(crate) const LOST: Place = Place { node: None, entry: None, mount: Mounts::FIRST, shown: None };

    /// The file, as it is reached.
    pub(crate) fn at(self) -> Option<At> {
        Some(At { mount: self.mount, node: self.node? })
    }
}

/// As many links as the kernel follows.
pub(crate) const LINKS: u32 = 40;

/// How far a path has led, and what is left to follow.
pub(crate) struct Way<'a> {
    mounts: &'a Mounts,
    links: u32,
    /// The same path from the first link on that leads to a part of a process (`crate::lead`).
    pub detour: Option<Detour>,
    /// Where absolute paths begin is not where they begin in a replay.
    other_root: bool,
    /// A replay, which mounts nothing, would get elsewhere by the same path.
    pub astray: bool,
    /// The last name that was looked up, and what was left to follow where nothing stood there.
    pub broken: Option<(EntryId, Vec<u8>)>,
    /// What was met before the path.
    nature: Nature,
}

impl<'a> Way<'a> {
    pub(crate) fn new(mounts: &'a Mounts, other_root: bool, astray: bool, nature: Nature) -> Way<'a> {
        Way { mounts, links: LINKS, detour: None, other_root, astray, broken: None, nature }
    }

    /// From one mount to another: what was met on the way says nothing of the file.
    fn cross(&mut self, from: u32, to: u32, out: &mut Interpretation) {
        if from != to {
            self.astray = true;
            out.nature = self.nature;
        }
    }

    /// The way ends before the path does.
    fn ends<'p>(&mut self, entry: Option<EntryId>, left: impl Iterator<Item = &'p [u8]>) -> Place {
        if let Some(entry) = entry {
            self.broken = Some((entry, Vec::new()));
        }
        if let Some((_, rest)) = &mut self.broken {
            left.for_each(|name| rest.extend([b"/", name].concat()));
        }
        Place::LOST
    }
}

impl Names {
    /// Resolves a path; every entry on the way is looked at. `way` tells what became of it.
    pub(crate) fn walk(
        &mut self,
        start: At,
        root: At,
        path: &[u8],
        follow: bool,
        way: &mut Way<'_>,
        out: &mut Interpretation,
    ) -> Place {
        // Whether a directory is alive and may be passed through belongs to its entry (`World::change_metadata`).
        let begin = if path.starts_with(b"/") {
            way.astray |= way.other_root;
            way.cross(start.mount, root.mount, out);
            root
        } else {
            if let Some(entry) = self.node(start.node).stood {
                out.look(Resource::Entry(entry));
            }
            start
        };
        let mut here = Place { node: Some(begin.node), mount: begin.mount, ..Place::LOST };
        let must_be_directory = path.ends_with(b"/");
        let mut components = path.split(|b| *b == b'/').filter(|c| !c.is_empty()).peekable();
        while let Some(component) = components.next() {
            let last = components.peek().is_none();
            let Some(directory) = here.at() else {
                return way.ends(here.entry, std::iter::once(component).chain(components));
            };
            let node = self.node(directory.node);
            out.meet(node.nature);
            if node.kind != FileKind::Directory {
                return way.ends(here.entry, std::iter::once(component).chain(components));
            }
            match component {
                b"." => here.entry = None,
                b".." => {
                    let mut above = way.mounts.up(directory, root);
                    if above != root && !way.mounts.is_root(above) {
                        let node = self.node(above.node);
                        if let Some(entry) = node.attached {
                            out.look(Resource::Entry(entry));
                        }
                        above.node = node.parent;
                    } else {
                        // A mount that is mounted nowhere, or a root, is not left; in a replay its directory may be.
                        way.astray |= (way.other_root || above != root) && self.node(above.node).parent != above.node;
                    }
                    here = self.enter(directory, above, None, way, out);
                }
                name => {
                    let entry = self.spoken_of(directory.node, name, out);
                    out.look(Resource::Entry(entry));
                    let Some(found) = self.target(entry) else {
                        here = Place { entry: Some(entry), mount: directory.mount, ..Place::LOST };
                        continue;
                    };
                    here = self.enter(directory, At { node: found, ..directory }, Some(entry), way, out);
                    let Some(node) = here.node.map(|n| self.node(n)) else {
                        continue;
                    };
                    if node.kind == FileKind::Symlink && (!last || follow || must_be_directory) {
                        let target = node.target.clone();
                        let known = way.detour.is_some();
                        // Links that the kernel shows lead anywhere; what a link of the program's own says is known.
                        let is_known = node.nature != Nature::Pseudo || !node.initial;
                        if is_known && !known && leads_to_process(&target) {
                            way.detour = Some(Detour::by(target.to_vec()));
                        }
                        let (nature, goes_on) = (node.nature, way.links > 0 && is_known);
                        if goes_on {
                            way.links -= 1;
                            here = self.walk(directory, root, &target, true, way, out);
                        }
                        if let (Some(detour), false) = (&mut way.detour, known) {
                            detour.go_on(components.clone(), follow || must_be_directory);
                        }
                        if !goes_on {
                            out.meet(nature);
                            way.broken = None;
                            return Place::LOST;
                        }
                    }
                }
            }
        }
        if let Some(node) = here.node {
            out.meet(self.node(node).nature);
        }
        here
    }

    /// What is seen at a place that a path has come to, from another.
    fn enter(&self, from: At, to: At, entry: Option<EntryId>, way: &mut Way<'_>, out: &mut Interpretation) -> Place {
        let seen = way.mounts.down(to);
        way.cross(from.mount, seen.mount, out);
        Place { node: Some(seen.node), entry: entry.filter(|_| seen == to), mount: seen.mount, shown: None }
    }

    /// The entry of a name; one that is not remembered may have been forgotten.
    fn spoken_of(&mut self, directory: NodeId, name: &[u8], out: &mut Interpretation) -> EntryId {
        let known = self.absent.fresh.len();
        let entry = self.entry(directory, name);
        if self.absent.fresh.len() > known {
            out.touches.extend(self.absent.forgotten().map(|all| (all, Touch::Flush)));
        }
        entry
    }

    /// The path of an entry from the root of the tree, if its directory is attached.
    pub(crate) fn path_of_entry(&self, entry: EntryId) -> Option<Vec<u8>> {
        let entry = &self.entries[entry as usize];
        self.path_of(entry.directory, &entry.name)
    }

    /// The path of a directory entry from the root of the tree, if it is attached.
    pub(crate) fn path_of(&self, mut directory: NodeId, name: &[u8]) -> Option<Vec<u8>> {
        let mut parts: Vec<&[u8]> = vec![name];
        let mut depth = 0;
        while let Some(entry) = self.node(directory).attached {
            let entry = &self.entries[entry as usize];
            parts.push(&entry.name);
            directory = entry.directory;
            depth += 1;
            if depth > 4096 {
                return None;
            }
        }
        // Only a root has no entry and is its own parent.
        (self.node(directory).parent == directory).then(|| {
            let mut path = Vec::new();
            for part in parts.iter().rev() {
                path.push(b'/');
                path.extend_from_slice(part);
            }
            path
        })
    }
}
