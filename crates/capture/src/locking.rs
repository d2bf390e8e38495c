//! Calls about locks on files, however they were recorded.
//!
//! Non-goals: who holds which lock.

use reprise_calls::locking::{Wish, lock_command};
use reprise_calls::{Call, Effect};
use reprise_trace::payload::{Side, split};

const EAGAIN: i64 = -(libc::EAGAIN as i64);
const EACCES: i64 = -(libc::EACCES as i64);

/// Whether a call takes, gives back or asks for a lock.
pub fn is_about(call: &Call, args: &[u64; 6]) -> bool {
    call.effect == Effect::Lock || lock_command(call, args).is_some()
}

/// The `struct flock` that `fcntl` was given or has filled.
pub fn flock<'a>(call: &Call, side: Side, bytes: &'a [u8]) -> Option<&'a [u8]> {
    split(call, side, bytes)[2]
}

/// Whether a call gives a lock back, as far as its arguments say.
pub fn releases(call: &Call, args: &[u64; 6], input: &[u8]) -> bool {
    match call.effect {
        Effect::Lock => args[1] & libc::LOCK_UN as u64 != 0,
        _ if lock_command(call, args).is_some() => {
            flock(call, Side::Input, input).and_then(Wish::of) == Some(Wish::Free)
        }
        _ => false,
    }
}

/// Whether a call that is about a lock waits until that can be had.
pub fn waits(call: &Call, args: &[u64; 6]) -> bool {
    match call.effect {
        Effect::Lock => args[1] & (libc::LOCK_NB | libc::LOCK_UN) as u64 == 0,
        _ => lock_command(call, args).is_some_and(|command| command.waits),
    }
}

/// Whether a call only asks for who has a lock.
pub fn asks(call: &Call, args: &[u64; 6]) -> bool {
    lock_command(call, args).is_some_and(|command| command.asks)
}

/// Whether the result says that somebody else has the lock.
pub fn is_refused(result: i64) -> bool {
    matches!(result, EAGAIN | EACCES)
}
