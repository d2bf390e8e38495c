//! Content of the initial tree that calls moved inside the kernel, and that nobody saw: it still stands where it went, until
//! a call changes that.

use foldhash::HashMap;

use super::node::NodeId;

/// A range that was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// The file of the initial tree that it came from.
    pub source: NodeId,
    /// Where it was there.
    pub from: u64,
    /// The file that it went to.
    pub target: NodeId,
    /// Device and inode of that.
    pub identity: (u64, u64),
    /// Where it went.
    pub at: u64,
    /// How long it is.
    pub length: u64,
}

/// All that were moved and still stand.
#[derive(Debug, Default)]
pub struct Copies {
    by_target: HashMap<NodeId, Vec<Copied>>,
    count: usize,
    /// Of those that do not: how many bytes they had.
    pub gone: Vec<u64>,
    /// Of the call that is being observed: bytes that stood nowhere as soon as it was over.
    pub lacking: u64,
}

/// More are not remembered.
const MOST: usize = 1 << 16;

impl Copies {
    pub fn add(&mut self, copied: Copied) {
        if self.count >= MOST {
            return self.lose(copied.length);
        }
        self.count += 1;
        self.by_target.entry(copied.target).or_default().push(copied);
    }

    /// What was moved went where nobody can look.
    pub fn lose(&mut self, length: u64) {
        self.gone.push(length);
        self.lacking += length;
    }

    /// A call changed a range of a file.
    pub fn changed(&mut self, target: NodeId, begin: u64, end: u64) {
        let Some(copies) = self.by_target.get_mut(&target) else { return };
        let overlaps = |c: &Copied| c.at < end && begin < c.at.saturating_add(c.length);
        self.gone.extend(copies.iter().filter(|c| overlaps(c)).map(|c| c.length));
        let before = copies.len();
        copies.retain(|c| !overlaps(c));
        self.count -= before - copies.len();
    }

    /// Those that still stand, in a fixed order.
    pub fn standing(&self) -> Vec<Copied> {
        let mut out: Vec<Copied> = self.by_target.values().flatten().copied().collect();
        out.sort_unstable_by_key(|c| (c.source, c.from, c.target, c.at));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_over_is_gone() {
        let one = Copied { source: 1, from: 0, target: 2, identity: (0, 9), at: 10, length: 10 };
        let mut copies = Copies::default();
        copies.add(one);
        copies.add(Copied { at: 20, from: 10, ..one });
        copies.changed(2, 0, 10);
        copies.changed(3, 0, u64::MAX);
        assert_eq!(copies.standing().len(), 2);
        copies.changed(2, 19, 20);
        assert_eq!((copies.standing().len(), copies.gone.as_slice()), (1, &[10][..]));
    }
}
