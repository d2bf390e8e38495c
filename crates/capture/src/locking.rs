//! Calls about locks on files: what their arguments and results say, however the calls were recorded.
//!
//! Non-goals: who holds which lock.

use reprise_calls::{Call, Effect};
use reprise_trace::payload::{Side, split};

const EAGAIN: i64 = -(libc::EAGAIN as i64);
const EACCES: i64 = -(libc::EACCES as i64);

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
        match i32::from(i16::from_le_bytes(*lock.first_chunk()?)) {
            libc::F_RDLCK => Some(Wish::Shared),
            libc::F_WRLCK => Some(Wish::Exclusive),
            libc::F_UNLCK => Some(Wish::Free),
            _ => None,
        }
    }

    /// Of the operation of `flock`.
    pub fn of_operation(operation: u64) -> Option<Wish> {
        match operation as i32 & !libc::LOCK_NB {
            libc::LOCK_SH => Some(Wish::Shared),
            libc::LOCK_EX => Some(Wish::Exclusive),
            libc::LOCK_UN => Some(Wish::Free),
            _ => None,
        }
    }
}

/// A command of `fcntl` that is about a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// The lock is one of an open file, not of a process.
    pub is_of_description: bool,
    /// Only asks.
    pub asks: bool,
}

/// The command, if a call is `fcntl` and about a lock.
pub fn command(call: &Call, args: &[u64; 6]) -> Option<Command> {
    let (is_of_description, asks) = match args[1] as i32 {
        _ if call.effect != Effect::Control => return None,
        libc::F_SETLK | libc::F_SETLKW => (false, false),
        libc::F_OFD_SETLK | libc::F_OFD_SETLKW => (true, false),
        libc::F_GETLK => (false, true),
        libc::F_OFD_GETLK => (true, true),
        _ => return None,
    };
    Some(Command { is_of_description, asks })
}

/// Whether a call takes, gives back or asks for a lock.
pub fn is_about(call: &Call, args: &[u64; 6]) -> bool {
    call.effect == Effect::Lock || command(call, args).is_some()
}

/// The `struct flock` that `fcntl` was given or has filled.
pub fn flock<'a>(call: &Call, side: Side, bytes: &'a [u8]) -> Option<&'a [u8]> {
    split(call, side, bytes)[2]
}

/// Whether a call gives a lock back, as far as its arguments say.
pub fn releases(call: &Call, args: &[u64; 6], input: &[u8]) -> bool {
    match call.effect {
        Effect::Lock => args[1] & libc::LOCK_UN as u64 != 0,
        _ if command(call, args).is_some() => flock(call, Side::Input, input).and_then(Wish::of) == Some(Wish::Free),
        _ => false,
    }
}

/// Whether the result says that somebody else has the lock.
pub fn is_refused(result: i64) -> bool {
    matches!(result, EAGAIN | EACCES)
}
