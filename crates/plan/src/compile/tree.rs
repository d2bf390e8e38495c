//! The initial tree as the plan describes it.

use std::collections::HashMap;

use reprise_model::{FileKind, Source, World};

use super::CompileError;
use super::fill::Filler;
use super::store::Store;
use crate::tree::{Extent, Node, NodeKind};

fn kind(kind: FileKind) -> NodeKind {
    match kind {
        FileKind::Regular => NodeKind::File,
        FileKind::Directory => NodeKind::Directory,
        FileKind::Symlink => NodeKind::Symlink,
        FileKind::Fifo => NodeKind::Fifo,
        FileKind::Socket => NodeKind::Socket,
        FileKind::CharDevice => NodeKind::CharDevice,
        FileKind::BlockDevice => NodeKind::BlockDevice,
    }
}

/// All names of the initial tree; contents are placed in the plan.
pub(super) fn initial_tree(world: &World, mut filler: Filler, store: &mut Store) -> Result<Vec<Node>, CompileError> {
    let mut first: HashMap<u32, u32> = HashMap::new();
    let mut out = Vec::new();
    for name in world.initial_tree() {
        let link_of = first.get(&name.node).copied();
        if link_of.is_none() && name.kind != FileKind::Directory {
            first.insert(name.node, out.len() as u32);
        }
        let mut extents: Vec<Extent> = Vec::new();
        if link_of.is_none() {
            for piece in &name.content {
                let Source::Blob { blob, at } = piece.source else {
                    continue;
                };
                let Some(buffer) = store.blob(blob, 0)? else {
                    continue;
                };
                let length = piece.length.min(name.size.saturating_sub(piece.offset));
                if length > 0 {
                    extents.push(Extent { offset: piece.offset, length, buffer: buffer + u64::from(at) });
                }
            }
            if name.kind == FileKind::Regular {
                filler.complete(&mut extents, name.size, store)?;
            }
        }
        out.push(Node {
            path: name.path,
            kind: kind(name.kind),
            mode: name.attributes.mode,
            uid: name.attributes.uid,
            gid: name.attributes.gid,
            size: name.size,
            rdev: name.attributes.rdev,
            atime_ns: name.attributes.atime_ns,
            mtime_ns: name.attributes.mtime_ns,
            target: name.target,
            xattrs: name.attributes.xattrs.into_iter().collect(),
            link_of,
            extents,
        });
    }
    Ok(out)
}
