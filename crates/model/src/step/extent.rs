//! Which bytes of a file an action needs or changes, and whether it depends on the size.
//!
//! Goals: the facts that ordering by byte range needs ("between stage and sequential", ROOT section 7). Non-goals: the
//! content itself (`data.rs`).

use super::Step;
use crate::content::Source;
use crate::node::{FileKind, NodeId};
use crate::touch::Resource;
use crate::world::World;

impl World {
    /// A read that returned `length` bytes. It depends on the size if it met the end: if it got less than it asked for, or
    /// (where that is not known) everything up to the end.
    pub(super) fn read_touch(&self, s: &mut Step<'_>, node: NodeId, offset: u64, length: u64, wanted: Option<u64>) {
        if length > 0 {
            s.out.read(node, offset, length);
        }
        if self.some_is_lost {
            let read = self.names.node(node).content.range(offset, length);
            s.out.reads_lost |= read.iter().any(|piece| piece.source == Source::Lost);
        }
        let size = self.names.node(node).size;
        if wanted.map_or(offset.saturating_add(length) >= size, |wanted| length < wanted) {
            s.out.look(Resource::Size(node));
        }
    }

    /// A write of `length` bytes. One that appends must find the size it found; one that goes beyond the end makes the size
    /// larger, and the hole in between.
    pub(super) fn write_touch(&self, s: &mut Step<'_>, node: NodeId, offset: u64, length: u64, append: bool) {
        let size = self.names.node(node).size;
        let end = offset.saturating_add(length);
        let from = if end > size { offset.min(size) } else { offset };
        if append {
            s.out.change(Resource::Size(node));
        } else if end > size {
            s.out.add(Resource::Size(node));
        }
        s.out.write(node, from, end - from);
    }

    /// A new size: what is cut off, or appears, changes.
    pub(super) fn resize(&mut self, s: &mut Step<'_>, node: NodeId, size: u64) {
        s.out.change(Resource::Size(node));
        s.out.write(node, size.min(self.names.node(node).size), u64::MAX);
        self.names.truncate(node, size);
    }

    /// Content is wanted as a whole, up to the end.
    pub(super) fn whole_touch(&self, s: &mut Step<'_>, node: NodeId, from: u64) {
        if self.names.node(node).kind == FileKind::Regular {
            s.out.read(node, from, u64::MAX);
        }
        s.out.look(Resource::Size(node));
    }
}
