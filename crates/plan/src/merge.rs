//! The initial trees of several plans as one, for replaying them in one place.
//!
//! Goals: what the plans agree in is there once, what one alone knows is there too; a name that cannot be both is refused.
//! Where two plans know different things of one file, the first counts: the program that the other came from met the file at
//! another time. Non-goals: keeping the replays apart.

use std::collections::{BTreeMap, HashMap};

use crate::tree::{Extent, Node, NodeKind};

/// Two plans have different things under one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The name.
    pub path: Vec<u8>,
    /// Number of the plan that came first, and what it has there.
    pub first: (usize, NodeKind),
    /// The other.
    pub second: (usize, NodeKind),
}

/// Several trees as one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Merged {
    /// All names. Extents count through the plans' buffers, one behind the other.
    pub nodes: Vec<Node>,
    /// Names of several plans of which they know different things: those of the first count.
    pub differing: u64,
}

/// A file of the merged tree: the plan it came from, and its description.
struct File {
    plan: usize,
    node: Node,
}

#[derive(Default)]
struct Merge {
    files: Vec<File>,
    /// By path, in components so that parents come first.
    names: BTreeMap<Vec<Vec<u8>>, usize>,
    differing: u64,
}

/// Merges trees; each is given with the length of its plan's buffers.
///
/// # Errors
/// When a name is of different types.
pub fn merge(trees: &[(&[Node], u64)]) -> Result<Merged, Box<Conflict>> {
    let mut merge = Merge::default();
    let mut base = 0u64;
    for (plan, (nodes, length)) in trees.iter().enumerate() {
        let mut files: HashMap<usize, usize> = HashMap::new();
        for (index, node) in nodes.iter().enumerate() {
            let first = node.link_of.and_then(|first| files.get(&(first as usize)).copied());
            let file = merge.name(plan, node, first, base)?;
            files.insert(index, file);
        }
        base = base.saturating_add(*length);
    }
    Ok(merge.finish())
}

impl Merge {
    /// Takes in a name; returns its file.
    fn name(&mut self, plan: usize, node: &Node, link_of: Option<usize>, base: u64) -> Result<usize, Box<Conflict>> {
        let key: Vec<Vec<u8>> = node.path.split(|b| *b == b'/').filter(|c| !c.is_empty()).map(<[u8]>::to_vec).collect();
        let kind = link_of.map_or(node.kind, |file| self.files[file].node.kind);
        if let Some(&there) = self.names.get(&key) {
            let File { plan: first, node: old } = &self.files[there];
            if old.kind != kind {
                let (first, second) = ((*first, old.kind), (plan, kind));
                return Err(Box::new(Conflict { path: node.path.clone(), first, second }));
            }
            if link_of.is_none() {
                self.differing += u64::from(differs(old, node));
                self.complete(there, node, base);
            }
            return Ok(there);
        }
        let file = link_of.unwrap_or_else(|| {
            let extents = node.extents.iter().map(|e| moved(*e, base)).collect();
            self.files.push(File { plan, node: Node { extents, link_of: None, ..node.clone() } });
            self.files.len() - 1
        });
        self.names.insert(key, file);
        Ok(file)
    }

    /// Adds content that only the later plan knows, where the sizes say that it is the same file.
    fn complete(&mut self, file: usize, node: &Node, base: u64) {
        let old = &mut self.files[file].node;
        if old.size != node.size {
            return;
        }
        let mut found = Vec::new();
        for extent in &node.extents {
            found.extend(uncovered(&old.extents, *extent).into_iter().map(|e| moved(e, base)));
        }
        old.extents.extend(found);
        old.extents.sort_by_key(|e| e.offset);
    }

    fn finish(self) -> Merged {
        let mut first: HashMap<usize, u32> = HashMap::new();
        let mut nodes = Vec::with_capacity(self.names.len());
        for (key, file) in self.names {
            let path = if key.is_empty() {
                b"/".to_vec()
            } else {
                key.iter().flat_map(|c| [b"/".as_slice(), c].concat()).collect()
            };
            let node = &self.files[file].node;
            let link_of = first.get(&file).copied();
            nodes.push(match link_of {
                Some(_) => Node { path, link_of, extents: Vec::new(), ..node.clone() },
                None => Node { path, ..node.clone() },
            });
            first.entry(file).or_insert(nodes.len() as u32 - 1);
        }
        Merged { nodes, differing: self.differing }
    }
}

fn moved(extent: Extent, base: u64) -> Extent {
    Extent { buffer: extent.buffer.saturating_add(base), ..extent }
}

fn differs(a: &Node, b: &Node) -> bool {
    (a.mode, a.uid, a.gid, a.size, &a.target, &a.xattrs) != (b.mode, b.uid, b.gid, b.size, &b.target, &b.xattrs)
}

/// The parts of an extent that no other covers; the others are ascending and disjoint.
fn uncovered(others: &[Extent], extent: Extent) -> Vec<Extent> {
    let end = extent.offset.saturating_add(extent.length);
    let mut at = extent.offset;
    let mut out = Vec::new();
    let part = |from: u64, to: u64| Extent {
        offset: from,
        length: to - from,
        buffer: extent.buffer.saturating_add(from - extent.offset),
    };
    for other in others {
        let other_end = other.offset.saturating_add(other.length);
        if other_end <= at || other.offset >= end {
            continue;
        }
        if other.offset > at {
            out.push(part(at, other.offset));
        }
        at = other_end;
    }
    if at < end {
        out.push(part(at, end));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(path: &str, kind: NodeKind, size: u64, extents: &[(u64, u64, u64)]) -> Node {
        Node {
            path: path.into(),
            kind,
            mode: 0o644,
            uid: 0,
            gid: 0,
            size,
            rdev: 0,
            atime_ns: 0,
            mtime_ns: 0,
            target: Vec::new(),
            xattrs: Vec::new(),
            link_of: None,
            extents: extents.iter().map(|&(offset, length, buffer)| Extent { offset, length, buffer }).collect(),
        }
    }

    #[test]
    fn what_one_alone_knows_is_there_and_the_first_counts() {
        let root = || node("/", NodeKind::Directory, 0, &[]);
        let a = [root(), node("/f", NodeKind::File, 10, &[(2, 3, 100)]), node("/s", NodeKind::File, 1, &[])];
        let mut link = node("/z", NodeKind::File, 0, &[]);
        link.link_of = Some(1);
        let b =
            [root(), node("/f", NodeKind::File, 10, &[(0, 8, 0)]), node("/s", NodeKind::File, 2, &[(0, 2, 8)]), link];
        let merged = merge(&[(&a, 1000), (&b, 10)]).unwrap();
        let paths: Vec<&[u8]> = merged.nodes.iter().map(|n| &n.path[..]).collect();
        assert_eq!(paths, [b"/".as_slice(), b"/f", b"/s", b"/z"]);
        let extents = [(0, 2, 1000), (2, 3, 100), (5, 3, 1005)];
        assert_eq!(merged.nodes[1], node("/f", NodeKind::File, 10, &extents));
        assert_eq!(merged.nodes[2], node("/s", NodeKind::File, 1, &[]));
        assert_eq!((merged.nodes[3].link_of, merged.differing), (Some(1), 1));
    }

    #[test]
    fn a_name_of_two_types_is_refused() {
        let a = [node("/x", NodeKind::File, 0, &[])];
        let b = [node("/x", NodeKind::Directory, 0, &[])];
        let conflict = merge(&[(&a, 0), (&b, 0)]).unwrap_err();
        assert_eq!((conflict.first, conflict.second), ((0, NodeKind::File), (1, NodeKind::Directory)));
    }
}
