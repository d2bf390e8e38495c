//! Messages of sockets: their lengths, and the descriptors that go with them.
//!
//! Goals: what `sendmsg` is given and what `recvmsg` filled, in bounded memory whatever the headers say. Non-goals: the
//! bytes of the messages.

use reprise_calls::{Envelope, Struct};

use crate::memory::Memory;

/// `struct msghdr`, and `struct mmsghdr` with the length of the message behind it.
const HEADER: usize = 56;
const SEVERAL: usize = 64;
/// The kernel takes no more messages in a call (`UIO_MAXIOV`).
const MOST_MESSAGES: u64 = 1024;
/// More than the control data of 253 descriptors (`SCM_MAX_FD`) and of everything else together.
const MOST_CONTROL: u64 = 1 << 16;

/// The envelopes of the messages that a call is given.
pub fn given(memory: Memory<'_>, kind: Struct, at: u64, args: &[u64; 6]) -> Option<Vec<u8>> {
    let count = match kind {
        Struct::Messages(of) => args.get(usize::from(of)).copied().unwrap_or(0),
        _ => 1,
    };
    envelopes(memory, kind, at, count, |header| {
        let pieces = memory.vector(word(header, 16), word(header, 24)).unwrap_or_default();
        pieces.iter().fold(0u64, |sum, (_, length)| sum.saturating_add(*length)).min(u32::MAX.into()) as u32
    })
}

/// The envelopes of the messages that a call filled.
pub fn filled(memory: Memory<'_>, kind: Struct, at: u64, result: i64) -> Option<Vec<u8>> {
    let result = u64::try_from(result).unwrap_or(0);
    let count = if kind == Struct::Message { 1 } else { result };
    envelopes(memory, kind, at, count, |header| match kind {
        Struct::Message => result as u32,
        _ => word(header, HEADER) as u32,
    })
}

fn envelopes(memory: Memory<'_>, kind: Struct, at: u64, count: u64, length: impl Fn(&[u8]) -> u32) -> Option<Vec<u8>> {
    let size = if kind == Struct::Message { HEADER } else { SEVERAL };
    let headers = memory.exact(at, size * count.min(MOST_MESSAGES) as usize)?;
    let mut out = Vec::new();
    for header in headers.chunks_exact(size) {
        let control = memory.exact(word(header, 32), word(header, 40).min(MOST_CONTROL) as usize);
        let descriptors = control.map_or(Vec::new(), |control| rights(&control));
        Envelope { length: length(header), descriptors }.encode(&mut out);
    }
    Some(out)
}

/// The descriptors in control data (`cmsg(3)`).
fn rights(mut control: &[u8]) -> Vec<u32> {
    const BEGIN: usize = 16;
    let mut out = Vec::new();
    while control.len() >= BEGIN {
        let length = (word(control, 0) as usize).min(control.len());
        if length < BEGIN {
            break;
        }
        let about = word(control, 8);
        if about == libc::SOL_SOCKET as u64 | (libc::SCM_RIGHTS as u64) << 32 {
            let numbers = control[BEGIN..length].as_chunks::<4>().0;
            out.extend(numbers.iter().map(|number| u32::from_le_bytes(*number)));
        }
        control = &control[length.next_multiple_of(8).min(control.len())..];
    }
    out
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(level: i32, kind: i32, content: &[u8]) -> Vec<u8> {
        let mut out = (16 + content.len() as u64).to_le_bytes().to_vec();
        out.extend([level, kind].iter().flat_map(|n| n.to_le_bytes()));
        out.extend(content);
        out.resize(out.len().next_multiple_of(8), 0);
        out
    }

    #[test]
    fn rights_are_found_among_other_control_data() {
        let fds: Vec<u8> = [5u32, 9, 700].iter().flat_map(|n| n.to_le_bytes()).collect();
        let other = control(libc::SOL_SOCKET, libc::SCM_CREDENTIALS, &[1; 12]);
        let all = [other.clone(), control(libc::SOL_SOCKET, libc::SCM_RIGHTS, &fds), other].concat();
        assert_eq!(rights(&all), [5, 9, 700]);
        assert_eq!(rights(&all[..all.len() - 30]), [5, 9, 700]);
        assert!(rights(&[3; 40]).is_empty());
        assert!(rights(&[0; 40]).is_empty());
    }
}
