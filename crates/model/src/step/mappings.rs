//! Memory mappings of files.

use super::Step;
use crate::interpretation::MappedRange;
use crate::mapping::{Region, Space};
use crate::node::FileKind;
use crate::touch::Resource;
use crate::world::World;

const SHARED: u64 = 1;
const FIXED: u64 = 0x10;
const ANONYMOUS: u64 = 0x20;
const WRITE: u64 = 2;

impl World {
    pub(super) fn map(&mut self, s: &mut Step<'_>) {
        let flags = s.arg(3);
        let length = s.arg(1);
        if flags & ANONYMOUS != 0 {
            if s.succeeded() {
                self.spaces[s.thread.space as usize].unmap(s.action.result as u64, length);
            }
            return;
        }
        let file = self.file(s, 4);
        if !s.succeeded() {
            return;
        }
        if let Some((_, node)) = file {
            s.out.look(Resource::Size(node));
        }
        let address = s.action.result as u64;
        let (Some((slot, node)), None) = (file, s.out.streams[4]) else {
            return self.spaces[s.thread.space as usize].unmap(address, length);
        };
        let writable = self.descriptors.descriptions[slot.description as usize].flags & 3 == 2;
        if flags & SHARED != 0 && writable && self.names.node(node).kind == FileKind::Regular {
            // It may be written even if it is not yet mapped so: mprotect can follow.
            self.names.node_mut(node).mapped |= s.arg(2) & WRITE != 0;
        }
        let space = &mut self.spaces[s.thread.space as usize];
        let inside = if flags & FIXED != 0 { space.find(address, length) } else { None };
        let whole = length.next_multiple_of(4096);
        let region = match inside {
            Some((mapping, delta, n)) if n == whole => {
                s.out.range = Some(MappedRange { mapping, delta, length });
                s.out.change(Resource::Mapping(mapping));
                Region { length: whole, mapping, delta, whole: space.whole(address).unwrap_or(whole), owned: true }
            }
            _ => {
                let mapping = self.mappings;
                self.mappings += 1;
                s.out.mapping = Some(mapping);
                s.out.change(Resource::Mapping(mapping));
                Region { length: whole, mapping, delta: 0, whole, owned: true }
            }
        };
        space.map(address, region);
    }

    fn range(&mut self, s: &mut Step<'_>) {
        let range = self.spaces[s.thread.space as usize].find(s.arg(0), s.arg(1));
        s.out.range = range.map(|(mapping, delta, length)| MappedRange { mapping, delta, length });
    }

    pub(super) fn unmap(&mut self, s: &mut Step<'_>) {
        self.range(s);
        self.change_mapping(s);
        if !s.succeeded() {
            return;
        }
        let space = &mut self.spaces[s.thread.space as usize];
        if let Some(range) = s.out.range
            && range.delta == 0
            && space.whole(s.arg(0)).is_some_and(|whole| whole == range.length)
        {
            s.out.dead.push(Resource::Mapping(range.mapping));
        }
        space.unmap(s.arg(0), s.arg(1));
    }

    fn change_mapping(&mut self, s: &mut Step<'_>) {
        if let Some(range) = s.out.range {
            s.out.change(Resource::Mapping(range.mapping));
        }
    }

    /// Nothing maps into an address space any more.
    pub(super) fn end_space(&mut self, s: &mut Step<'_>) {
        let here = &mut self.spaces[s.thread.space as usize];
        let users = here.users;
        let space = std::mem::replace(here, Space::of(users));
        s.out.dead.extend(space.owned().map(Resource::Mapping));
    }

    /// A moved mapping is no longer followed: the replay keeps it where it was.
    pub(super) fn remap(&mut self, s: &mut Step<'_>) {
        if s.succeeded() {
            let space = &mut self.spaces[s.thread.space as usize];
            space.unmap(s.arg(0), s.arg(1));
            space.unmap(s.action.result as u64, s.arg(2));
        }
    }

    pub(super) fn map_advise(&mut self, s: &mut Step<'_>) {
        self.range(s);
        if s.call.name == "mprotect" {
            self.change_mapping(s);
        } else if let Some(range) = s.out.range {
            s.out.look(Resource::Mapping(range.mapping));
        }
        if s.call.name == "msync" && s.out.range.is_some() {
            // Which file it is does not matter for order: mapped writes are not in the trace.
            s.out.look(Resource::Process(s.thread.process));
        }
    }
}
