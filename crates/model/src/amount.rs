//! How much content an action asked for, and how much it moved.

use reprise_calls::{ArgKind, Call, Effect};
use reprise_trace::Action;
use reprise_trace::payload::{Side, split, vector_lengths};

/// Bytes of content that a call moved; `None` of calls that move none.
pub fn moved_bytes(call: &Call, action: &Action) -> Option<u64> {
    match call.effect {
        Effect::Read | Effect::Write | Effect::MappedRead | Effect::MappedWrite | Effect::Copy | Effect::Splice => {
            Some(u64::try_from(action.result).unwrap_or(0))
        }
        _ => None,
    }
}

/// Bytes that a read or write asked for; `None` of other calls.
pub fn asked_bytes(call: &Call, action: &Action) -> Option<u64> {
    if !matches!(call.effect, Effect::Read | Effect::Write | Effect::MappedRead | Effect::MappedWrite) {
        return None;
    }
    let input = split(call, Side::Input, &action.input);
    call.args.iter().enumerate().find_map(|(i, arg)| match arg.kind {
        ArgKind::InData(length) | ArgKind::OutData(length) => action.args.get(usize::from(length)).copied(),
        ArgKind::InVector(_) | ArgKind::OutVector(_) => {
            Some(vector_lengths(input[i]?).into_iter().fold(0, u64::saturating_add))
        }
        _ => None,
    })
}
