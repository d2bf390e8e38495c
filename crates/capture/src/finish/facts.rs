//! Structures that the kernel filled, as facts about files.

use reprise_calls::{ArgKind, Call, Struct};
use reprise_initial::{Entry, Object, Stat};
use reprise_trace::payload::{Side, split};

use crate::spool::record;

/// `FMODE_CREATED`: the call that opened the file made it.
const CREATED: u32 = 1 << 20;

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.first_chunk::<8>()).map_or(0, |b| u64::from_le_bytes(*b))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.first_chunk::<4>()).map_or(0, |b| u32::from_le_bytes(*b))
}

/// The attributes that a call returned.
pub fn stat(call: &Call, output: &[u8]) -> Option<Stat> {
    let at = call.position(|kind| matches!(kind, ArgKind::Out(Struct::Stat | Struct::Statx)))?;
    let bytes = split(call, Side::Output, output)[at]?;
    match call.args[at].kind {
        ArgKind::Out(Struct::Stat) => Some(of_stat(bytes)),
        _ => of_statx(bytes),
    }
}

fn of_stat(b: &[u8]) -> Stat {
    let time = |at| Some((word(b, at) as i64).saturating_mul(1_000_000_000).saturating_add(word(b, at + 8) as i64));
    Stat {
        complete: true,
        mode: half(b, 24),
        size: Some(word(b, 48)),
        identity: Some((word(b, 0), word(b, 8))),
        links: Some(word(b, 16)),
        owner: Some((half(b, 28), half(b, 32))),
        device: Some(word(b, 40)),
        times: [time(72), time(88), time(104)],
    }
}

fn of_statx(b: &[u8]) -> Option<Stat> {
    const BASIC: u32 = 0x7ff;
    let mask = half(b, 0);
    // Without type and mode it says little.
    if mask & 3 != 3 {
        return None;
    }
    let has = |bit: u32| mask & bit != 0;
    let time = |at, bit| {
        let seconds = (word(b, at) as i64).saturating_mul(1_000_000_000);
        has(bit).then(|| seconds.saturating_add(half(b, at + 8).into()))
    };
    let device = |at| libc::makedev(half(b, at), half(b, at + 4));
    Some(Stat {
        complete: mask & BASIC == BASIC,
        mode: half(b, 28) & 0xffff,
        size: has(0x200).then(|| word(b, 40)),
        identity: has(0x100).then(|| (device(136), word(b, 32))),
        links: has(4).then(|| half(b, 16).into()),
        owner: (has(8) && has(0x10)).then(|| (half(b, 20), half(b, 24))),
        device: Some(device(128)),
        times: [time(64, 0x20), time(112, 0x40), time(96, 0x80)],
    })
}

/// The entries of a listing (`getdents64`, or `old`: `getdents`).
pub fn entries(mut bytes: &[u8], old: bool) -> Vec<Entry> {
    const NAME: usize = 18;
    let mut out = Vec::new();
    while bytes.len() > NAME + 1 {
        let length = usize::from(half(bytes, 16) as u16);
        if length <= NAME || length > bytes.len() {
            break;
        }
        let (entry, rest) = bytes.split_at(length);
        let (name, kind) = if old { (&entry[NAME..], entry[length - 1]) } else { (&entry[NAME + 1..], entry[NAME]) };
        let name = name.split(|b| *b == 0).next().unwrap_or_default().to_vec();
        if !name.is_empty() {
            out.push(Entry { name, kind });
        }
        bytes = rest;
    }
    out
}

/// An open file.
pub fn object(object: &record::Object) -> Object {
    let stat = Stat {
        mode: object.mode,
        size: Some(object.size),
        identity: Some((object.device, object.inode)),
        links: Some(object.links.into()),
        ..Stat::default()
    };
    let made = (object.file_mode != 0).then_some(object.file_mode & CREATED != 0);
    Object { fd: object.fd as u32, stat, position: u64::try_from(object.position).unwrap_or(0), made }
}
