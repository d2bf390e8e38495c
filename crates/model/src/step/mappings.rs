//! Memory mappings of files, and what is read and written through them.

use reprise_calls::Effect;
use reprise_calls::memory::{SHARED, WRITE};

use super::Step;
use crate::interpretation::MappedRange;
use crate::mapping::{Region, Space, whole_pages};
use crate::node::{FileKind, NodeId};
use crate::touch::Resource;
use crate::world::World;

const TYPE: u64 = 3;
const FIXED: u64 = 0x10;
const ANONYMOUS: u64 = 0x20;
/// Of `mremap`: the old range stays mapped.
const DONT_UNMAP: u64 = 4;
/// Of `madvise`: the pages leave the file, too.
const REMOVE: u64 = 9;

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
        let shared = flags & u64::from(SHARED) != 0 && writable && self.names.node(node).kind == FileKind::Regular;
        let n = self.names.node_mut(node);
        n.was_mapped = true;
        n.mapped |= shared && s.arg(2) & u64::from(WRITE) != 0 && !self.stores_recorded;
        let file = Region {
            length: 0,
            mapping: 0,
            delta: 0,
            whole: 0,
            owned: true,
            node,
            offset: s.arg(5),
            shared,
            protection: s.arg(2) as u32,
            flags: (flags & TYPE) as u32,
        };
        let space = &mut self.spaces[s.thread.space as usize];
        let inside = if flags & FIXED != 0 { space.find(address, length) } else { None };
        let whole = whole_pages(length);
        let region = match inside {
            Some((mapping, delta, n)) if n == whole => {
                s.out.range = Some(MappedRange { mapping, delta, length });
                s.out.change(Resource::Mapping(mapping));
                Region { length: whole, mapping, delta, whole: space.whole(address).unwrap_or(whole), ..file }
            }
            _ => {
                let mapping = self.mappings;
                self.mappings += 1;
                s.out.mapping = Some(mapping);
                s.out.change(Resource::Mapping(mapping));
                Region { length: whole, mapping, whole, ..file }
            }
        };
        space.map(address, region);
    }

    fn range(&mut self, s: &mut Step<'_>) {
        let range = self.spaces[s.thread.space as usize].find(s.arg(0), s.arg(1));
        s.out.range = range.map(MappedRange::from);
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

    /// The replay moves whole mappings only: a part stays where it was; one that grows is mapped once more.
    pub(super) fn remap(&mut self, s: &mut Step<'_>) {
        if !s.succeeded() {
            return;
        }
        // A length of 0 asks for a second mapping of the same.
        if s.arg(3) & DONT_UNMAP != 0 || s.arg(1) == 0 {
            return self.map_once_more(s);
        }
        if self.grows_in_part(s) {
            self.map_once_more(s);
            if s.action.result as u64 != s.arg(0) {
                self.spaces[s.thread.space as usize].unmap(s.arg(0), s.arg(1));
            }
            return;
        }
        let space = &mut self.spaces[s.thread.space as usize];
        let whole = space.remap(s.arg(0), s.arg(1), s.action.result as u64, s.arg(2));
        s.out.range = whole.map(|r| MappedRange { mapping: r.mapping, delta: 0, length: r.length });
        self.change_mapping(s);
    }

    /// Whether a part of a mapping that stores reach is longer from now on.
    fn grows_in_part(&self, s: &Step<'_>) -> bool {
        let length = whole_pages(s.arg(1));
        let part = |region: Region| region.delta != 0 || region.length != region.whole || region.length != length;
        let region = self.spaces[s.thread.space as usize].at(s.arg(0));
        whole_pages(s.arg(2)) > length && region.is_some_and(|region| region.owned && region.shared && part(region))
    }

    /// What is mapped somewhere is mapped elsewhere, too: a mapping of its own; where it belongs to another process it stays that one,
    /// which the replay stores to and loads from.
    fn map_once_more(&mut self, s: &mut Step<'_>) {
        let (address, length) = (s.action.result as u64, whole_pages(s.arg(2)));
        let space = &mut self.spaces[s.thread.space as usize];
        let Some(region) = space.at(s.arg(0)) else { return space.unmap(address, length) };
        // Of several areas that are mapped once more (Linux 6.17) the replay does so with the first.
        let several = whole_pages(s.arg(1)) == length && region.length < length;
        let length = if several { region.length } else { length };
        if !region.owned {
            return space.map(address, Region { length, ..region });
        }
        let mapping = self.mappings;
        self.mappings += 1;
        space.map(address, Region { length, mapping, delta: 0, whole: length, ..region });
        s.out.range = Some(MappedRange { mapping: region.mapping, delta: region.delta, length: s.arg(1) });
        s.out.mapping = Some(mapping);
        self.change_mapping(s);
        s.out.change(Resource::Mapping(mapping));
    }

    /// The file behind the address of a load or store, which the mapping names whatever became of descriptor and name.
    fn through_mapping(&mut self, s: &mut Step<'_>) -> Option<NodeId> {
        let Some(region) = self.spaces[s.thread.space as usize].at(s.arg(0)) else {
            s.out.surprise = Some("a mapping was not met before");
            return None;
        };
        let Region { mapping, delta, node, .. } = region;
        s.out.range = Some(MappedRange { mapping, delta, length: s.arg(2) });
        s.out.look(Resource::Mapping(mapping));
        s.out.look(Resource::File(node));
        Some(node)
    }

    /// What loads from memory are to the file.
    pub(super) fn mapped_read(&mut self, s: &mut Step<'_>) {
        if let Some(node) = self.through_mapping(s)
            && s.action.result > 0
        {
            self.read_touch(s, node, s.arg(3), s.action.result as u64, Some(s.arg(2)));
            self.learn(node, s.arg(3), &Self::moved(s));
            // What others store between the look at their pages and that at this one is in no row.
            let own = s.thread.space as usize;
            s.out.mapped_file |= self.spaces_storing_to(node).any(|space| space != own);
        }
    }

    /// What stores to memory are to the file.
    pub(super) fn mapped_write(&mut self, s: &mut Step<'_>) {
        if let Some(node) = self.through_mapping(s)
            && s.action.result > 0
        {
            let (offset, length) = (s.arg(3), s.action.result as u64);
            // A store makes no file larger: it depends on the size.
            s.out.look(Resource::Size(node));
            s.out.write(node, offset, length);
            let sources = self.written(s);
            self.names.write(node, offset, length, &sources);
        }
    }

    pub(super) fn map_advise(&mut self, s: &mut Step<'_>) {
        self.range(s);
        let removes = s.call.name == "madvise" && s.arg(2) == REMOVE;
        if (s.call.effect == Effect::MapSync || removes) && s.out.range.is_none() {
            // It is about the file: a forked process does to what its parent has mapped as that does.
            let range = self.spaces[s.thread.space as usize].find_shared(s.arg(0), s.arg(1));
            s.out.range = range.map(MappedRange::from);
        }
        if s.call.name == "mprotect" {
            self.change_mapping(s);
            if s.succeeded() {
                let space = &mut self.spaces[s.thread.space as usize];
                space.protect(s.arg(0), s.arg(1), s.arg(2) as u32);
            }
        } else if let Some(range) = s.out.range {
            s.out.look(Resource::Mapping(range.mapping));
        }
        if removes {
            self.remove_pages(s);
        }
        if s.call.effect == Effect::MapSync
            && let Some(region) = self.spaces[s.thread.space as usize].at(s.arg(0))
        {
            s.out.flush(region.node);
        }
    }

    /// Holes are in the files now where pages are mapped.
    fn remove_pages(&mut self, s: &mut Step<'_>) {
        const HOLE: u64 = 1 | 2;
        for region in self.spaces[s.thread.space as usize].within(s.arg(0), s.arg(1)) {
            s.out.look(Resource::File(region.node));
            s.out.look(Resource::Size(region.node));
            self.allocate_range(s, region.node, HOLE, region.offset, region.length);
        }
    }
}
