//! Calls about locks on files: what their arguments say, and what a holder has who got its wishes (`fcntl(2)`, `flock(2)`,
//! `fs/locks.c`).
//!
//! Non-goals: who is in whose way.

use crate::vocabulary::{Call, Effect};

/// What somebody wants of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// A lock beside others of its kind.
    Shared,
    /// A lock beside none.
    Exclusive,
    /// None any more.
    Free,
}

impl Wish {
    /// Of a `struct flock`.
    pub fn of(lock: &[u8]) -> Option<Wish> {
        match i16::from_le_bytes(*lock.first_chunk()?) {
            // `F_RDLCK`, `F_WRLCK`, `F_UNLCK`.
            0 => Some(Wish::Shared),
            1 => Some(Wish::Exclusive),
            2 => Some(Wish::Free),
            _ => None,
        }
    }

    /// Of the operation of `flock`.
    pub fn of_operation(operation: u64) -> Option<Wish> {
        const WITHOUT_WAITING: u32 = 4;
        match operation as u32 & !WITHOUT_WAITING {
            // `LOCK_SH`, `LOCK_EX`, `LOCK_UN`.
            1 => Some(Wish::Shared),
            2 => Some(Wish::Exclusive),
            8 => Some(Wish::Free),
            _ => None,
        }
    }
}

/// Whose a lock is. The numbers are those of a trace's table of locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockKind {
    /// The process's, on a range (`F_SETLK`).
    Process = 1,
    /// The open file's, on a range (`F_OFD_SETLK`).
    Range = 2,
    /// The open file's, on all of the file (`flock`).
    Whole = 3,
}

impl LockKind {
    /// By its number.
    pub fn from_number(number: u32) -> Option<LockKind> {
        [LockKind::Process, LockKind::Range, LockKind::Whole].into_iter().find(|kind| *kind as u32 == number)
    }
}

/// A command of `fcntl` that is about a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockCommand {
    /// Whose the lock is.
    pub kind: LockKind,
    /// Only asks.
    pub asks: bool,
    /// Waits until the lock can be had.
    pub waits: bool,
}

/// The command, if a call is `fcntl` and about a lock.
pub fn lock_command(call: &Call, args: &[u64; 6]) -> Option<LockCommand> {
    let (kind, asks, waits) = match args[1] as u32 {
        _ if call.effect != Effect::Control => return None,
        // `F_GETLK`, `F_SETLK` and `F_SETLKW`; the same with `OFD` in their names.
        5 => (LockKind::Process, true, false),
        command @ (6 | 7) => (LockKind::Process, false, command == 7),
        36 => (LockKind::Range, true, false),
        command @ (37 | 38) => (LockKind::Range, false, command == 38),
        _ => return None,
    };
    Some(LockCommand { kind, asks, waits })
}

fn number(lock: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_le_bytes(*lock.get(at..)?.first_chunk()?))
}

/// First byte, and the one behind the last, of a `struct flock`; the open file stands at `position`, and has `size` bytes. What has no end
/// ends at `i64::MAX`.
pub fn locked_range(lock: &[u8], position: i64, size: u64) -> Option<(u64, u64)> {
    let base = match i16::from_le_bytes(*lock.get(2..)?.first_chunk()?) {
        // `SEEK_SET`, `SEEK_CUR`, `SEEK_END`.
        0 => 0,
        1 => position,
        2 => i64::try_from(size).ok()?,
        _ => return None,
    };
    let (start, length) = (base.checked_add(number(lock, 8)?)?, number(lock, 16)?);
    let (begin, end) = match length {
        0 => (start, i64::MAX),
        1.. => (start, start.checked_add(length)?),
        _ => (start.checked_add(length)?, start),
    };
    Some((u64::try_from(begin).ok()?, u64::try_from(end).ok()?))
}

/// A lock that somebody holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldLock {
    /// Whose it is.
    pub kind: LockKind,
    /// Whether it stands beside no other.
    pub exclusive: bool,
    /// The first byte.
    pub begin: u64,
    /// The byte behind the last; `i64::MAX`: it ends with the file.
    pub end: u64,
}

impl HeldLock {
    /// What has no end ends here.
    pub const END: u64 = i64::MAX as u64;

    /// The parts that lie outside of another one's range, if both are of one kind.
    fn outside(self, other: &HeldLock) -> impl Iterator<Item = HeldLock> {
        let meets = self.kind == other.kind && other.begin < other.end;
        let (from, to) = if meets { (other.begin, other.end) } else { (self.end, self.end) };
        let parts = [(self.begin, self.end.min(from)), (self.begin.max(to), self.end)];
        parts.into_iter().filter(|(begin, end)| begin < end).map(move |(begin, end)| HeldLock { begin, end, ..self })
    }
}

/// What a lock's holder wants of its own, by a call that succeeds.
pub fn change(held: &mut Vec<HeldLock>, wish: Wish, lock: HeldLock) {
    match wish {
        Wish::Free => give_back(held, &lock),
        Wish::Shared | Wish::Exclusive => take(held, HeldLock { exclusive: wish == Wish::Exclusive, ..lock }),
    }
}

/// A holder has a lock, in place of what it had in its range.
pub fn take(held: &mut Vec<HeldLock>, lock: HeldLock) {
    give_back(held, &lock);
    held.push(lock);
}

/// A holder gives back what it has in the range of a lock.
pub fn give_back(held: &mut Vec<HeldLock>, lock: &HeldLock) {
    *held = std::mem::take(held).into_iter().flat_map(|one| one.outside(lock)).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_given_back() {
        let lock = |begin, end| HeldLock { kind: LockKind::Process, exclusive: true, begin, end };
        let left = |begin, end| {
            let mut held = vec![lock(10, 20)];
            give_back(&mut held, &lock(begin, end));
            held.iter().map(|l| (l.begin, l.end)).collect::<Vec<_>>()
        };
        assert_eq!(left(0, 10), [(10, 20)]);
        assert_eq!(left(12, 15), [(10, 12), (15, 20)]);
        assert_eq!(left(0, HeldLock::END), []);
        assert_eq!(left(15, HeldLock::END), [(10, 15)]);
        assert_eq!(left(15, 12), [(10, 20)], "nothing");
        let mut held = vec![lock(10, 20)];
        give_back(&mut held, &HeldLock { kind: LockKind::Range, ..lock(0, HeldLock::END) });
        assert_eq!(held, [lock(10, 20)], "another kind");
    }

    #[test]
    fn ranges_of_structures() {
        let flock = |whence: i16, start: i64, length: i64| {
            let mut bytes = [0; 32];
            bytes[2..4].copy_from_slice(&whence.to_le_bytes());
            bytes[8..16].copy_from_slice(&start.to_le_bytes());
            bytes[16..24].copy_from_slice(&length.to_le_bytes());
            bytes
        };
        assert_eq!(locked_range(&flock(0, 5, 10), 0, 0), Some((5, 15)));
        assert_eq!(locked_range(&flock(1, 5, 0), 7, 0), Some((12, HeldLock::END)));
        assert_eq!(locked_range(&flock(2, -5, -5), 0, 100), Some((90, 95)));
        assert_eq!(locked_range(&flock(0, -1, 1), 0, 0), None);
        assert_eq!(locked_range(&[0; 9], 0, 0), None);
    }
}
