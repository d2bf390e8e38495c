//! Path resolution over the model's names, as the kernel does it (`path_resolution(7)`).

use reprise_calls::{go_on, leads_to_process};

use crate::interpretation::Interpretation;
use crate::names::Names;
use crate::node::{FileKind, Nature, NodeId};
use crate::touch::{EntryId, Resource, Touch};

/// Where a path leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The file, if there is one.
    pub node: Option<NodeId>,
    /// The entry of the last component; none for `/`, `.`, `..` and what does not resolve so far.
    pub entry: Option<EntryId>,
}

/// As many links as the kernel follows.
pub(crate) const LINKS: u32 = 40;

/// How far a path has led, and what is left to follow.
pub(crate) struct Way {
    links: u32,
    /// The same path from the first link on that leads to a part of a process (`crate::magic`): the link's target, and what
    /// follows it.
    pub detour: Option<Vec<u8>>,
}

impl Way {
    pub(crate) fn new() -> Way {
        Way { links: LINKS, detour: None }
    }
}

impl Names {
    /// Resolves a path; every entry on the way is looked at.
    pub(crate) fn resolve(
        &mut self,
        start: NodeId,
        root: NodeId,
        path: &[u8],
        follow: bool,
        out: &mut Interpretation,
    ) -> Place {
        self.walk(start, root, path, follow, &mut Way::new(), out)
    }

    /// As [`Names::resolve`]; `way` tells of a link to a part of a process.
    pub(crate) fn walk(
        &mut self,
        start: NodeId,
        root: NodeId,
        path: &[u8],
        follow: bool,
        way: &mut Way,
        out: &mut Interpretation,
    ) -> Place {
        const LOST: Place = Place { node: None, entry: None };
        // Whether a directory is alive and may be passed through belongs to its entry (`World::change_metadata`).
        if let Some(entry) = self.node(start).stood
            && !path.starts_with(b"/")
        {
            out.look(Resource::Entry(entry));
        }
        let mut here = Place { node: Some(if path.starts_with(b"/") { root } else { start }), entry: None };
        let must_be_directory = path.ends_with(b"/");
        let mut components = path.split(|b| *b == b'/').filter(|c| !c.is_empty()).peekable();
        while let Some(component) = components.next() {
            let last = components.peek().is_none();
            let Some(directory) = here.node else {
                return LOST;
            };
            let node = self.node(directory);
            out.meet(node.nature);
            if node.kind != FileKind::Directory {
                return LOST;
            }
            match component {
                b"." => here.entry = None,
                b".." => {
                    if directory != root {
                        if let Some(entry) = node.attached {
                            out.look(Resource::Entry(entry));
                        }
                        here.node = Some(node.parent);
                    }
                    here.entry = None;
                }
                name => {
                    let entry = self.spoken_of(directory, name, out);
                    out.look(Resource::Entry(entry));
                    here = Place { node: self.target(entry), entry: Some(entry) };
                    let Some(node) = here.node.map(|n| self.node(n)) else {
                        continue;
                    };
                    if node.kind == FileKind::Symlink && (!last || follow || must_be_directory) {
                        let target = node.target.clone();
                        let known = way.detour.is_some();
                        if !known && leads_to_process(&target) {
                            way.detour = Some(target.to_vec());
                        }
                        let (nature, goes_on) = (node.nature, way.links > 0 && node.nature != Nature::Pseudo);
                        if goes_on {
                            way.links -= 1;
                            here = self.walk(directory, root, &target, true, way, out);
                        }
                        if let (Some(detour), false) = (&mut way.detour, known) {
                            go_on(detour, components.clone());
                        }
                        if !goes_on {
                            out.meet(nature);
                            return LOST;
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

    /// The entry of a name; one that is not remembered may have been forgotten.
    fn spoken_of(&mut self, directory: NodeId, name: &[u8], out: &mut Interpretation) -> EntryId {
        let known = self.absent.fresh.len();
        let entry = self.entry(directory, name);
        if self.absent.fresh.len() > known {
            out.touches.extend(self.absent.forgotten().map(|all| (all, Touch::Flush)));
        }
        entry
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
