//! Which processes are traced, and what memory they hold.

use std::collections::HashSet;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

/// Size of a page on this machine (x86-64).
const PAGE_BYTES: u64 = 4096;

/// Says which processes are traced now.
pub trait Traced: Send {
    /// Adds their numbers, as `/proc` names them here.
    fn processes(&self, into: &mut Vec<i32>);
}

/// A set of processes that whoever traces them keeps: clones are the same set.
#[derive(Debug, Clone, Default)]
pub struct Processes {
    set: Arc<Mutex<HashSet<i32>>>,
}

impl Processes {
    /// A process is traced from now on.
    pub fn add(&self, pid: i32) {
        self.set.lock().unwrap_or_else(PoisonError::into_inner).insert(pid);
    }

    /// A process is gone.
    pub fn remove(&self, pid: i32) {
        self.set.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
    }
}

impl Traced for Processes {
    fn processes(&self, into: &mut Vec<i32>) {
        into.extend(self.set.lock().unwrap_or_else(PoisonError::into_inner).iter());
    }
}

/// The children of this process, and theirs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Children;

impl Traced for Children {
    fn processes(&self, into: &mut Vec<i32>) {
        let mut next = into.len();
        children("self", into);
        while let Some(pid) = into.get(next).copied() {
            children(&pid.to_string(), into);
            next += 1;
        }
    }
}

fn children(pid: &str, into: &mut Vec<i32>) {
    for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        into.extend(text.split_whitespace().filter_map(|word| word.parse::<i32>().ok()));
    }
}

/// Resident memory of a process in bytes; of one that is gone, none.
pub(super) fn resident_bytes(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages.saturating_mul(PAGE_BYTES))
}
