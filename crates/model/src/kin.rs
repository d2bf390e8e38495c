//! Processes that are there at the beginning and share descriptor tables or directories: which is to begin from which.
//!
//! Goals: who starts threads one after the other (`clone(2)`: share or copy) can give every process what it shares. Since
//! the kernel only ever adds a fresh table or set of directories to what there is, processes and what they share form no
//! circle; a trace that says otherwise is damaged. Non-goals: threads of one process, which share all.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// What a process shares: equal numbers are one.
#[derive(Debug, Clone, Copy)]
pub struct Shares {
    pub process: u32,
    pub table: u32,
    pub directories: u32,
}

/// How a process begins from another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kin {
    /// The other process.
    pub of: u32,
    /// They share one descriptor table.
    pub descriptors: bool,
    /// They share one working directory, root and mask.
    pub directories: bool,
}

/// What processes can share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Common {
    Table(u32),
    Directories(u32),
}

impl Shares {
    fn both(&self) -> [Common; 2] {
        [Common::Directories(self.directories), Common::Table(self.table)]
    }
}

/// For each process that shares something and is not the first to: from which it begins. Nothing if no order of starting
/// them would do.
pub fn kin(all: &[Shares]) -> Option<BTreeMap<u32, Kin>> {
    let mut holders: HashMap<Common, Vec<&Shares>> = HashMap::new();
    for one in all {
        one.both().into_iter().for_each(|common| holders.entry(common).or_default().push(one));
    }
    let (mut out, mut families) = (BTreeMap::new(), 0);
    let (mut begun, mut visited) = (HashSet::new(), HashSet::new());
    // The first to have a table and a set of directories together; what shares both begins from it.
    let mut pairs: HashMap<[Common; 2], u32> = HashMap::new();
    for root in all {
        if !begun.insert(root.process) {
            continue;
        }
        families += 1;
        pairs.insert(root.both(), root.process);
        let mut pending = VecDeque::from([root]);
        while let Some(one) = pending.pop_front() {
            for common in one.both() {
                if !visited.insert(common) {
                    continue;
                }
                for other in &holders[&common] {
                    if !begun.insert(other.process) {
                        continue;
                    }
                    if let Some(&of) = pairs.get(&other.both()) {
                        out.insert(other.process, Kin { of, descriptors: true, directories: true });
                        continue;
                    }
                    let directories = common == Common::Directories(other.directories);
                    out.insert(other.process, Kin { of: one.process, descriptors: !directories, directories });
                    pairs.insert(other.both(), other.process);
                    pending.push_back(other);
                }
            }
        }
    }
    // Without a circle every pair beyond the first of a family brings one more table or set of directories.
    (pairs.len() + families == holders.len()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(u32, u32)]) -> Option<Vec<(u32, Kin)>> {
        let all = (0..).zip(pairs).map(|(process, &(table, directories))| Shares { process, table, directories });
        kin(&all.collect::<Vec<_>>()).map(|found| found.into_iter().collect())
    }

    fn one(process: u32, of: u32, descriptors: bool, directories: bool) -> (u32, Kin) {
        (process, Kin { of, descriptors, directories })
    }

    #[test]
    fn who_shares_begins_from_whom_it_shares_with() {
        assert_eq!(of(&[]), Some(vec![]));
        assert_eq!(of(&[(1, 1), (2, 2)]), Some(vec![]));
        assert_eq!(of(&[(1, 1), (2, 2), (2, 2)]), Some(vec![one(2, 1, true, true)]));
        assert_eq!(of(&[(1, 1), (2, 1), (1, 2)]), Some(vec![one(1, 0, false, true), one(2, 0, true, false)]));
        // The third shares with both; the second begins from it though it is earlier.
        assert_eq!(of(&[(1, 1), (2, 2), (2, 1)]), Some(vec![one(1, 2, true, false), one(2, 0, false, true)]));
        // Two who share a table with each other, and directories with the first: only one of them copies the table.
        let same = Some(vec![one(1, 0, false, true), one(2, 1, true, true), one(3, 0, true, true)]);
        assert_eq!(of(&[(1, 1), (2, 1), (2, 1), (1, 1)]), same);
    }

    #[test]
    fn what_no_kernel_lets_share_is_refused() {
        assert_eq!(of(&[(1, 1), (1, 2), (2, 1), (2, 2)]), None);
        assert_eq!(of(&[(9, 9), (1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (3, 1)]), None);
    }
}
