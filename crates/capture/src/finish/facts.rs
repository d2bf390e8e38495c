//! Structures that the kernel filled, as facts about files.

use reprise_calls::attributes::{Attributes, Time};
use reprise_calls::{ArgKind, Call, Struct};
use reprise_initial::{Entry, Object, Stat};
use reprise_trace::payload::{Side, split};

use crate::spool::record;

/// `FMODE_CREATED`: the call that opened the file made it.
const CREATED: u32 = 1 << 20;

fn half(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.first_chunk::<4>()).map_or(0, |b| u32::from_le_bytes(*b))
}

/// The attributes that a call returned; without type and mode they say little.
pub fn stat(call: &Call, output: &[u8]) -> Option<Stat> {
    const BASIC: u32 = 0x7ff;
    if output.is_empty() {
        return None;
    }
    let at = call.position(|kind| matches!(kind, ArgKind::Out(Struct::Stat | Struct::Statx)))?;
    let told = Attributes::decode(split(call, Side::Output, output)[at]?)?;
    let [access, modification, change, _] = told.times.map(|time| time.map(Time::since_1970_ns));
    Some(Stat {
        complete: told.mask.is_none_or(|mask| mask & BASIC == BASIC),
        mode: told.mode()?,
        size: told.size,
        identity: told.device.zip(told.inode),
        links: told.links,
        owner: told.owner.zip(told.group),
        device: told.node,
        times: [access, modification, change],
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
    let record::Object { mode, size, device, inode, links, fd, position, file_mode, .. } = *object;
    let made = (file_mode != 0).then_some(file_mode & CREATED != 0);
    let position = u64::try_from(position).unwrap_or(0);
    Object { fd: fd as u32, mode, size, identity: (device, inode), links, position, made }
}
