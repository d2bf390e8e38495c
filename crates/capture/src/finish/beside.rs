//! Reads and writes of the same bytes that were under way at once: what the read returned tells on which side of the write it
//! stands.
//!
//! Goals: a read that shows what a write left stands behind it, whichever was over first; one that shows what stood there before
//! stands before it. Non-goals: bytes that overlap in part, and reads that show a write half done.

use std::hash::{BuildHasher, Hash};

use foldhash::HashMap;
use foldhash::fast::FixedState;
use reprise_calls::Effect;

use super::decode::Pending;
use crate::arguments::failed;

/// What takes less time hardly ever meets another; what was asked for asynchronously always may.
const SHORT_NS: u64 = 10_000;
/// Passages of files that are remembered at most.
const MOST: usize = 1 << 14;
/// Of each the latest.
const LATEST: usize = 4;

/// A read or write of some passage.
#[derive(Debug, Clone, Copy)]
struct Moved {
    is_write: bool,
    content: u64,
    begin_ns: u64,
    key_ns: u64,
    end_ns: u64,
}

impl Moved {
    fn overlaps(&self, other: &Moved) -> bool {
        self.begin_ns < other.end_ns && other.begin_ns < self.end_ns
    }
}

/// The latest reads and writes, by the passage that they moved.
#[derive(Debug, Default)]
pub struct Beside {
    passages: HashMap<u64, [Option<Moved>; LATEST]>,
}

impl Beside {
    /// When a call took effect, if `key_ns` is what one can tell from itself.
    pub fn key_ns(&mut self, pending: &Pending, key_ns: u64) -> u64 {
        let Some((passage, mut moved)) = moved(pending, key_ns) else { return key_ns };
        if self.passages.len() >= MOST {
            self.passages.clear();
        }
        let latest = self.passages.entry(passage).or_default();
        moved.key_ns = placed(&moved, latest);
        latest.rotate_right(1);
        latest[0] = Some(moved);
        moved.key_ns
    }
}

fn placed(moved: &Moved, latest: &[Option<Moved>; LATEST]) -> u64 {
    let others = || latest.iter().flatten();
    let beside = || others().filter(|other| other.is_write != moved.is_write && other.overlaps(moved));
    let before = if moved.is_write {
        // Before who read what it wrote.
        beside().filter(|read| read.content == moved.content).map(|read| read.key_ns).min()
    } else {
        // Before who overwrote what it read: that stood there, and no write that may have come later wrote the same.
        let stood = |write: &Moved| {
            let earlier = others().filter(|other| other.end_ns <= write.begin_ns).max_by_key(|other| other.key_ns);
            earlier.is_some_and(|other| other.content == moved.content)
        };
        let is_again = beside().any(|write| write.content == moved.content);
        beside().filter(|write| !is_again && stood(write)).map(|write| write.key_ns).min()
    };
    let before = before.filter(|key_ns| *key_ns <= moved.key_ns).map(|key_ns| key_ns.saturating_sub(1));
    before.map_or(moved.key_ns, |key_ns| key_ns.max(moved.begin_ns))
}

/// The passage that a call moved all of which is known, by a number of its own, and how.
fn moved(pending: &Pending, key_ns: u64) -> Option<(u64, Moved)> {
    let (action, call) = (&pending.action, pending.call);
    let is_write = match call.effect {
        Effect::Read => false,
        Effect::Write => true,
        _ => return None,
    };
    let may_meet = action.request.is_some() || action.duration_ns >= SHORT_NS;
    let is_whole = !failed(action.result) && action.truncated_bytes == 0 && !action.data.is_empty();
    if !(may_meet && is_whole) || action.data_bytes != action.result as u64 {
        return None;
    }
    // -1 stands for wherever the open file is.
    let offset = call.offset_arg().map(|at| action.args[at]).filter(|offset| *offset as i64 >= 0)?;
    let file = match pending.object(action.args[0]) {
        Some(file) if file.mode & libc::S_IFMT == libc::S_IFREG => (file.device, file.inode),
        // Of a request of Linux AIO only the number of its file is known. Were it another file, it would go elsewhere in its time.
        None if action.request.is_some() => (u64::MAX, action.args[0]),
        Some(_) | None => return None,
    };
    let passage = number(&(file, offset, action.result));
    let (begin_ns, end_ns, content) = (action.begin_ns, action.end_ns(), number(&action.data));
    Some((passage, Moved { is_write, content, begin_ns, key_ns, end_ns }))
}

fn number(of: &impl Hash) -> u64 {
    FixedState::with_seed(0x7265_7072_6973_6500).hash_one(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begin, end, whether it is a write, content: in the order in which they are over.
    fn keys(calls: &[(u64, u64, bool, u64)]) -> Vec<u64> {
        let mut latest = [None; LATEST];
        let mut keys = Vec::new();
        for &(begin_ns, end_ns, is_write, content) in calls {
            let mut moved = Moved { is_write, content, begin_ns, key_ns: end_ns, end_ns };
            moved.key_ns = placed(&moved, &latest);
            keys.push(moved.key_ns);
            latest.rotate_right(1);
            latest[0] = Some(moved);
        }
        keys
    }

    #[test]
    fn content_tells_which_came_first() {
        const READ: bool = false;
        const WRITE: bool = true;
        // It read what was written, and was over before.
        assert_eq!(keys(&[(10, 50, READ, 7), (20, 60, WRITE, 7)]), [50, 49]);
        assert_eq!(keys(&[(10, 50, READ, 7), (20, 60, WRITE, 8)]), [50, 60]);
        assert_eq!(keys(&[(10, 50, READ, 7), (55, 60, WRITE, 7)]), [50, 60]);
        // It read what had stood there, and was over later.
        assert_eq!(keys(&[(1, 5, WRITE, 7), (10, 50, WRITE, 8), (20, 60, READ, 7)]), [5, 50, 49]);
        assert_eq!(keys(&[(1, 5, READ, 7), (10, 50, WRITE, 8), (20, 60, READ, 7)]), [5, 50, 49]);
        assert_eq!(keys(&[(1, 5, WRITE, 7), (10, 50, WRITE, 8), (20, 60, READ, 8)]), [5, 50, 60]);
        // What stood there is not known, or was written again.
        assert_eq!(keys(&[(10, 50, WRITE, 8), (20, 60, READ, 7)]), [50, 60]);
        assert_eq!(keys(&[(1, 5, WRITE, 7), (10, 50, WRITE, 8), (12, 55, WRITE, 7), (20, 60, READ, 7)])[3], 60);
        // None goes before it began.
        assert_eq!(keys(&[(1, 5, WRITE, 7), (10, 50, WRITE, 8), (50, 60, READ, 7)]), [5, 50, 60]);
        assert_eq!(keys(&[(10, 50, READ, 7), (49, 60, WRITE, 7)]), [50, 49]);
    }
}
