//! File mappings of address spaces.

use std::collections::BTreeMap;

use reprise_calls::memory::{SHARED, WRITE};

use crate::node::NodeId;

/// Number of a mapping; never reused.
pub type MappingId = u32;

/// A piece of a mapping that is still in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    pub length: u64,
    pub mapping: MappingId,
    /// Distance from the begin of the mapping.
    pub delta: u64,
    /// Length of the mapping when it was made.
    pub whole: u64,
    /// False in a forked child: the replay's mapping belongs to the parent.
    pub owned: bool,
    /// The file.
    pub node: NodeId,
    /// Where in the file the piece begins.
    pub offset: u64,
    /// Stores reach the file.
    pub shared: bool,
    /// As `mmap` was given it, and `mprotect` changed the whole of it.
    pub protection: u32,
    /// `MAP_SHARED` or `MAP_PRIVATE`.
    pub flags: u32,
}

impl Region {
    /// The rest of it, `by` bytes on.
    fn behind(self, by: u64) -> Region {
        let on = |n: u64| n.saturating_add(by);
        Region { length: self.length - by, delta: on(self.delta), offset: on(self.offset), ..self }
    }
}

/// The file mappings of one address space, by address.
#[derive(Debug, Clone, Default)]
pub struct Space {
    /// Threads that run in it.
    pub users: u32,
    regions: BTreeMap<u64, Region>,
}

const PAGE: u64 = 4096;

/// So many bytes in whole pages; of more than there can be, all that there can be.
pub(crate) fn whole_pages(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX - (PAGE - 1))
}

impl Space {
    /// An empty one, of so many threads.
    pub fn of(users: u32) -> Space {
        Space { users, regions: BTreeMap::new() }
    }

    fn split(&mut self, at: u64) {
        let Some((&start, &region)) = self.regions.range(..at).next_back() else {
            return;
        };
        if start.saturating_add(region.length) > at {
            let head = at - start;
            self.regions.insert(start, Region { length: head, ..region });
            self.regions.insert(at, region.behind(head));
        }
    }

    /// Removes a range of addresses.
    pub fn unmap(&mut self, address: u64, length: u64) {
        let end = address.saturating_add(whole_pages(length));
        self.split(address);
        self.split(end);
        let inside: Vec<u64> = self.regions.range(address..end).map(|(k, _)| *k).collect();
        for key in inside {
            self.regions.remove(&key);
        }
    }

    /// Adds a region.
    pub fn map(&mut self, address: u64, region: Region) {
        self.unmap(address, region.length);
        self.regions.insert(address, region);
    }

    /// Moves a range to another address, where it gets another length; what lay there ends. What is moved, if that is the
    /// whole of one mapping.
    pub fn remap(&mut self, from: u64, length: u64, to: u64, new_length: u64) -> Option<Region> {
        let new_length = whole_pages(new_length);
        let end = from.saturating_add(whole_pages(length));
        self.split(from);
        self.split(end);
        let pieces: Vec<(u64, Region)> = self.regions.range(from..end).map(|(at, region)| (*at, *region)).collect();
        self.unmap(from, length);
        self.unmap(to, new_length);
        let alone = match pieces[..] {
            [(at, region)] if at == from && region.delta == 0 && region.length == region.whole => Some(region),
            _ => None,
        };
        let last = pieces.len().saturating_sub(1);
        for (i, (at, region)) in pieces.into_iter().enumerate() {
            let begin = at - from;
            let end = if i == last { new_length } else { begin.saturating_add(region.length).min(new_length) };
            if begin < end {
                let whole = if alone.is_some() { new_length } else { region.whole };
                self.regions.insert(to.saturating_add(begin), Region { length: end - begin, whole, ..region });
            }
        }
        alone.filter(|region| region.owned)
    }

    /// All that is mapped of a range, piece by piece.
    pub fn within(&self, address: u64, length: u64) -> Vec<Region> {
        let end = address.saturating_add(whole_pages(length));
        let first = self.regions.range(..=address).next_back().map_or(address, |(start, _)| *start);
        let piece = |(&start, region): (&u64, &Region)| {
            let (from, to) = (start.max(address), start.saturating_add(region.length).min(end));
            (from < to).then(|| Region { length: to - from, ..region.behind(from - start) })
        };
        self.regions.range(first..end.max(first)).filter_map(piece).collect()
    }

    /// What is mapped at an address, from there on.
    pub fn at(&self, address: u64) -> Option<Region> {
        let (start, region) = self.regions.range(..=address).next_back()?;
        let by = address - start;
        (by < region.length).then(|| region.behind(by))
    }

    /// All that is mapped, by address.
    pub fn regions(&self) -> impl Iterator<Item = (u64, Region)> + '_ {
        self.regions.iter().map(|(at, region)| (*at, *region))
    }

    /// What lies in a range as a whole has another protection.
    pub fn protect(&mut self, address: u64, length: u64, protection: u32) {
        let end = address.saturating_add(whole_pages(length));
        let inside =
            self.regions.range_mut(address..end).filter(|(at, region)| at.saturating_add(region.length) <= end);
        inside.for_each(|(_, region)| {
            region.protection = protection;
            region.shared |= region.flags & SHARED != 0 && protection & WRITE != 0;
        });
    }

    /// Whether anything of this file is mapped.
    pub fn maps(&self, node: NodeId) -> bool {
        self.regions.values().any(|region| region.node == node)
    }

    /// Whether stores anywhere reach this file.
    pub fn shares(&self, node: NodeId) -> bool {
        self.regions.values().any(|region| region.shared && region.node == node)
    }

    /// The one mapping that a range lies in, with the distance and the length of the part that is mapped: `None` if it
    /// touches no file mapping, several, or one that belongs to another process.
    pub fn find(&self, address: u64, length: u64) -> Option<(MappingId, u64, u64)> {
        self.find_of(address, length, |region| region.owned)
    }

    /// As [`Space::find`], for what changes nothing of a mapping: whosever it is.
    pub fn find_shared(&self, address: u64, length: u64) -> Option<(MappingId, u64, u64)> {
        self.find_of(address, length, |_| true)
    }

    fn find_of(&self, address: u64, length: u64, may: impl Fn(&Region) -> bool) -> Option<(MappingId, u64, u64)> {
        let end = address.saturating_add(whole_pages(length).max(PAGE));
        let first = self.regions.range(..=address).next_back().map_or(address, |(k, _)| *k);
        let mut found: Option<(MappingId, u64, u64)> = None;
        for (&start, region) in self.regions.range(first..end) {
            let (from, to) = (start.max(address), start.saturating_add(region.length).min(end));
            if from >= to {
                continue;
            }
            if !may(region) {
                return None;
            }
            let delta = region.delta + (from - start);
            found = match found {
                None => Some((region.mapping, delta, to - from)),
                Some((mapping, at, n)) if mapping == region.mapping && at + n == delta => {
                    Some((mapping, at, n + to - from))
                }
                Some(_) => return None,
            };
        }
        found
    }

    /// The length that the mapping of this address was made with.
    pub fn whole(&self, address: u64) -> Option<u64> {
        self.regions.range(..=address).next_back().map(|(_, region)| region.whole)
    }

    /// The mappings that end with the space.
    pub fn owned(&self) -> impl Iterator<Item = MappingId> + '_ {
        self.regions.values().filter(|region| region.owned).map(|region| region.mapping)
    }

    /// The space of a forked child.
    pub fn inherited(&self) -> Space {
        let regions = self.regions.iter().map(|(k, r)| (*k, Region { owned: false, ..*r })).collect();
        Space { users: 1, regions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_beyond_all_memory() {
        let region = Region {
            length: PAGE,
            mapping: 1,
            delta: 0,
            whole: PAGE,
            owned: true,
            node: 0,
            offset: 0,
            shared: false,
            protection: 0,
            flags: 1,
        };
        let mut space = Space::of(1);
        space.map(PAGE, region);
        assert_eq!(space.find(PAGE, u64::MAX), Some((1, 0, PAGE)));
        assert_eq!(space.within(0, u64::MAX), [region]);
        space.map(u64::MAX - 5, region);
        space.split(u64::MAX);
        assert!(space.remap(PAGE, u64::MAX, 8 * PAGE, u64::MAX).is_none());
        space.unmap(0, u64::MAX);
        assert_eq!(space.at(PAGE), None);
    }
}
