//! The encoding of `actions.input` and `actions.output`: for each argument that contributes, in argument order, a
//! length (u32, little-endian; `u32::MAX` for a null pointer, or where the command has no such structure) and the bytes.
//!
//! To the input contribute [`ArgKind::Text`] (bytes without NUL), [`ArgKind::Strings`] (each string ended by NUL),
//! vectors (the `iov_len` of each element, u64), structures read, and the numbers of requests submitted; to the output
//! structures filled, the numbers of requests reaped, and whom a process that runs another program is from then on.

use reprise_calls::{ArgKind, Call, Credentials, Struct};

/// Which of the two columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// `actions.input`.
    Input,
    /// `actions.output`.
    Output,
}

/// Whether an argument of this kind contributes.
pub fn contributes(kind: ArgKind, side: Side) -> bool {
    match (kind, side) {
        (ArgKind::Text | ArgKind::Strings | ArgKind::InVector(_) | ArgKind::OutVector(_) | ArgKind::In(_), _) => {
            side == Side::Input
        }
        (ArgKind::Submits, _) => side == Side::Input,
        (ArgKind::Out(_) | ArgKind::Environment | ArgKind::Reaps, _) => side == Side::Output,
        (ArgKind::InOut(_), _) => true,
        (
            ArgKind::Fd(_)
            | ArgKind::Dirfd
            | ArgKind::Path(_)
            | ArgKind::InData(_)
            | ArgKind::OutData(_)
            | ArgKind::Flags(_)
            | ArgKind::Command(_)
            | ArgKind::Mode
            | ArgKind::Offset
            | ArgKind::Length
            | ArgKind::Integer
            | ArgKind::Number
            | ArgKind::Device
            | ArgKind::Owner
            | ArgKind::Address,
            _,
        ) => false,
    }
}

/// Appends one argument's contribution.
pub fn append(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(bytes);
        }
        None => out.extend_from_slice(&u32::MAX.to_le_bytes()),
    }
}

/// The contributions, by argument index. What is cut off or not there is `None`.
pub fn split<'a>(call: &Call, side: Side, mut bytes: &'a [u8]) -> [Option<&'a [u8]>; 6] {
    let mut out = [None; 6];
    for (i, arg) in call.args.iter().enumerate().take(6) {
        if !contributes(arg.kind, side) {
            continue;
        }
        let Some((head, tail)) = bytes.split_first_chunk::<4>() else {
            break;
        };
        bytes = tail;
        let length = u32::from_le_bytes(*head);
        if length == u32::MAX {
            continue;
        }
        let Some((part, tail)) = bytes.split_at_checked(length as usize) else {
            break;
        };
        out[i] = Some(part);
        bytes = tail;
    }
    out
}

/// The number of the descriptor that a call which starts a thread got for it (`CLONE_PIDFD`), if it got one.
pub fn child_handle(call: &Call, output: &[u8]) -> Option<u32> {
    let at =
        call.position(|kind| matches!(kind, ArgKind::Out(Struct::ChildHandle) | ArgKind::InOut(Struct::CloneArgs(_))))?;
    split(call, Side::Output, output)[at]?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// What stands in `output` of a call that made a process run another program, if it is known whom that runs as.
pub fn runs_as(credentials: Option<&Credentials>) -> Vec<u8> {
    let mut out = Vec::new();
    append(&mut out, credentials.map(Credentials::encode).as_ref().map(<[u8; Credentials::BYTES]>::as_slice));
    out
}

/// Whom a process runs as since it runs another program, where the trace tells it.
pub fn ran_as(call: &Call, output: &[u8]) -> Option<Credentials> {
    let at = call.position(|kind| kind == ArgKind::Environment)?;
    Credentials::decode(split(call, Side::Output, output)[at]?)
}

/// The lengths of a vector's elements, or the numbers of requests.
pub fn vector_lengths(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).collect()
}
