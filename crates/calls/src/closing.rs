//! Which numbers of descriptors a call ends.
//!
//! Goals: told once, for calls and for the requests of io_uring that stand for them. Non-goals: whether the numbers were open.

use std::ops::RangeInclusive;

/// Numbers from here on are beyond all that a process can have (`fs.nr_open`): in a trace those of descriptors in tables of rings have
/// them, which end with their ring.
pub const RING_NUMBERS: u32 = 0x4000_0000;

const EBADF: i64 = -9;
const EINVAL: i64 = -22;
const ECANCELED: i64 = -125;

/// Whether a `close` with this result has ended the number, if that was open. A call has whatever its result: what fails there is the
/// file system, which is asked when the number is gone (`filp_flush`). A request may fail before (`io_close` in io_uring/openclose.c): it was
/// cancelled with those that it was linked to, has fields that mean nothing for it, or names a ring, or a place in its table for a number.
pub fn closes(result: i64, is_request: bool) -> bool {
    !(is_request && matches!(result, EBADF | EINVAL | ECANCELED))
}

/// The numbers that a `close_range` with these arguments is about; an empty range if of none.
pub fn ranged(args: &[u64; 6]) -> RangeInclusive<u32> {
    args[0] as u32..=(args[1] as u32).min(RING_NUMBERS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_rings_are_in_no_range() {
        assert_eq!(ranged(&[3, 5, 0, 0, 0, 0]), 3..=5);
        assert_eq!(ranged(&[3, u64::MAX, 0, 0, 0, 0]), 3..=RING_NUMBERS - 1);
        assert!(ranged(&[RING_NUMBERS.into(), u64::MAX, 0, 0, 0, 0]).is_empty());
    }

    #[test]
    fn what_a_request_did_not_get_to_is_not_closed() {
        const EIO: i64 = -5;
        for (result, by_call, by_request) in
            [(0, true, true), (EIO, true, true), (EINVAL, true, false), (EBADF, true, false), (ECANCELED, true, false)]
        {
            assert_eq!((closes(result, false), closes(result, true)), (by_call, by_request), "{result}");
        }
    }
}
