//! Locks on files that were held when the trace begins: a look at processes before it, changed by the calls since.
//!
//! Goals: locks of processes and of open files, whole files and ranges. Non-goals: who waits for one.

use reprise_calls::locking::{HeldLock, LockKind, Wish, change, give_back, lock_command, locked_range};
use reprise_calls::{Call, Effect};

use crate::kept::When;
use crate::memory::Memory;
use crate::spool::join::Heard;
use crate::spool::{BeganDescriptor, BeganProcess};

/// Size of `struct flock`.
const FLOCK_BYTES: usize = 32;

/// What a call wants that is about a lock, and succeeded.
fn wish(call: &Call, heard: &Heard) -> Option<(Wish, HeldLock)> {
    let args = &heard.call.args;
    let (wish, kind, (begin, end)) = match lock_command(call, args) {
        Some(command) if !command.asks => {
            let lock = Memory::Kept(&heard.kept, When::Exit).exact(args[2], FLOCK_BYTES)?;
            let file = heard.objects.first()?;
            (Wish::of(&lock)?, command.kind, locked_range(&lock, file.position, file.size)?)
        }
        None if call.effect == Effect::Lock => (Wish::of_operation(args[1])?, LockKind::Whole, (0, HeldLock::END)),
        _ => return None,
    };
    Some((wish, HeldLock { kind, exclusive: wish == Wish::Exclusive, begin, end }))
}

/// A call of the process at a place has succeeded, and changed its locks, or those of an open file that others have, too, since these
/// were looked at.
pub fn called(processes: &mut [BeganProcess], at: usize, call: &Call, heard: &Heard) {
    let Some((wish, lock)) = wish(call, heard) else { return };
    let fd = heard.call.args[0] & 0xffff_ffff;
    let Some(of) = processes[at].descriptors.iter().find(|d| u64::from(d.fd) == fd) else { return };
    let (file, description) = ((of.device, of.inode), of.description);
    let is_same = |d: &&mut BeganDescriptor| match lock.kind {
        LockKind::Process => (d.device, d.inode) == file,
        LockKind::Range | LockKind::Whole => d.description == description,
    };
    for (number, process) in processes.iter_mut().enumerate() {
        let is_concerned = number == at || lock.kind != LockKind::Process;
        if is_concerned && heard.end_ns >= process.descriptors_ns {
            process.descriptors.iter_mut().filter(is_same).for_each(|d| give_back(&mut d.locks, &lock));
        }
    }
    let own = processes[at].descriptors.iter_mut().find(|d| u64::from(d.fd) == fd);
    own.into_iter().for_each(|d| change(&mut d.locks, wish, lock));
}

/// A process closes a descriptor: what it has locked itself of its file is free.
pub fn closed(process: &mut BeganProcess, fd: u64) {
    let Some(of) = process.descriptors.iter().find(|d| u64::from(d.fd) == fd) else { return };
    let file = (of.device, of.inode);
    for d in process.descriptors.iter_mut().filter(|d| (d.device, d.inode) == file) {
        d.locks.retain(|held| held.kind != LockKind::Process);
    }
}
