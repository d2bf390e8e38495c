//! Comparing what a call did with what it did in the trace.
//!
//! Goals: every difference named with both values, what no replay can avoid kept apart. Non-goals: counting, policy.

use reprise_calls::acl;
use reprise_calls::attributes::{Attributes as Told, NOBODY_KNOWN};
use reprise_plan::command::{Command, Expect, Tolerance};

use super::failure::Stop;
use super::{Sections, memory};
use crate::log::{Class, Code, Difference, Field};

/// Length of the pieces that are hashed one by one.
const PIECE: usize = 1 << 20;

/// What cannot be compared here: facts of this machine and user.
#[derive(Debug, Clone, Copy)]
pub(super) struct Circumstances {
    /// Files can be given any owner.
    pub owners: bool,
}

/// What is left of an expectation where memory is not compared.
pub(super) fn without_memory(expect: Expect) -> Expect {
    match expect {
        Expect::Content(..) | Expect::Digest(..) => Expect::Value,
        Expect::Metadata(..) | Expect::Names(..) | Expect::Flock(_) => Expect::Outcome,
        Expect::Nothing | Expect::Outcome | Expect::Value | Expect::Listing(..) => expect,
    }
}

/// Compares with what is expected. `filled` is the memory the call filled, as far as it did.
pub(super) fn judge(
    sections: &Sections,
    about: Circumstances,
    command: &Command,
    expect: Expect,
    result: i64,
    filled: &[u8],
) -> Result<Difference, Stop> {
    let traced = command.result;
    let mut found = match expect {
        Expect::Nothing => return Ok(Difference::NONE),
        _ if result < 0 || traced < 0 => match result == traced {
            true => Difference::NONE,
            false => Difference::new(Code::Outcome, result as u64, traced as u64),
        },
        Expect::Outcome => Difference::NONE,
        // Judged when the listing comes to its end.
        Expect::Listing(..) => Difference::NONE,
        Expect::Value => value(result, traced),
        Expect::Content(offset, length) => match value(result, traced) {
            Difference::NONE => content(part(&sections.buffers, offset, length)?, filled),
            differs => differs,
        },
        Expect::Digest(offset, length) => match value(result, traced) {
            Difference::NONE => digest(sections, offset, length, filled)?,
            differs => differs,
        },
        Expect::Metadata(offset, length) => {
            let expected = part(&sections.bytes, offset, length)?;
            metadata(about, expected, filled).ok_or(Stop::Damaged("metadata of an unknown layout"))?
        }
        Expect::Names(offset, length) => names(part(&sections.bytes, offset, length)?, filled),
        Expect::Flock(offset) => {
            let expected = part(&sections.bytes, offset, 32)?;
            let same = expected.get(..24) == filled.get(..24)
                // Where nothing stands in the way only the type is filled in.
                || expected[..2] == (libc::F_UNLCK as u16).to_le_bytes() && filled.get(..2) == expected.get(..2);
            if same { value(result, traced) } else { Difference::new(Code::Flock, 0, 0) }
        }
    };
    if found.class == Class::Diverged && command.tolerance != Tolerance::None {
        found.class = Class::Unavoidable;
        found.tolerance = command.tolerance as u8;
    }
    Ok(found)
}

fn part(section: &[u8], offset: u64, length: u64) -> Result<&[u8], Stop> {
    memory::part(section, offset, length).ok_or(Stop::Damaged("what is expected lies outside its section"))
}

fn value(result: i64, traced: i64) -> Difference {
    if result == traced { Difference::NONE } else { Difference::new(Code::Value, result as u64, traced as u64) }
}

fn content(expected: &[u8], filled: &[u8]) -> Difference {
    // Where only a size was asked for (with a null pointer) there is nothing to compare.
    if filled.is_empty() {
        return Difference::NONE;
    }
    let filled = filled.get(..expected.len()).unwrap_or(filled);
    if expected == filled {
        return Difference::NONE;
    }
    let same = expected.iter().zip(filled).take_while(|(a, b)| a == b).count();
    Difference::new(Code::Content, same as u64, expected.len() as u64)
}

fn digest(sections: &Sections, offset: u64, length: u64, filled: &[u8]) -> Result<Difference, Stop> {
    let pieces = length.div_ceil(PIECE as u64);
    let size = pieces.checked_mul(32).ok_or(Stop::Damaged("a digest is longer than memory"))?;
    let hashes = part(&sections.bytes, offset, size)?;
    let filled = &filled[..filled.len().min(length as usize)];
    if filled.len() as u64 != length {
        return Ok(Difference::new(Code::Digest, filled.len() as u64, length));
    }
    let differs = |(piece, hash): (&[u8], &[u8])| blake3::hash(piece).as_bytes()[..] != *hash;
    let first = filled.chunks(PIECE).zip(hashes.chunks(32)).position(differs);
    Ok(first.map_or(Difference::NONE, |i| Difference::new(Code::Digest, (i * PIECE) as u64, length)))
}

fn names(expected: &[u8], filled: &[u8]) -> Difference {
    // How a file system keeps what is listed beside it is told to who has a capability that a replay has not.
    let counts = |name: &&[u8]| !name.is_empty() && !acl::AS_KEPT.contains(name);
    let set = |bytes: &[u8]| {
        let mut names: Vec<Vec<u8>> = bytes.split(|b| *b == 0).filter(counts).map(<[u8]>::to_vec).collect();
        names.sort_unstable();
        names
    };
    let (found, wanted) = (set(filled), set(expected));
    if found == wanted {
        return Difference::NONE;
    }
    Difference::new(Code::Names, found.len() as u64, wanted.len() as u64)
}

/// Attributes in one form, from `struct stat` or `struct statx`. Those of a `statx` that were not asked for are `None`.
struct Attributes {
    mode: Option<u64>,
    compared: Vec<(Field, Option<u64>)>,
    /// Cannot be equal: device, inode, times, blocks, block size.
    own: Vec<(Field, Option<u64>)>,
}

fn attributes(bytes: &[u8]) -> Option<Attributes> {
    let told = Told::decode(bytes)?;
    let [access, modification, change, birth] = told.times.map(|time| time.map(|time| time.since_1970_ns() as u64));
    let own = vec![
        (Field::Device, told.device),
        (Field::Inode, told.inode),
        (Field::BlockSize, told.block_bytes),
        (Field::Blocks, told.blocks),
        (Field::AccessTime, access),
        (Field::ModifyTime, modification),
        (Field::ChangeTime, change),
        (Field::BirthTime, birth),
    ];
    let mode = match (told.kind, told.permissions) {
        (None, None) => None,
        (kind, permissions) => Some(u64::from(kind.unwrap_or(0) | permissions.unwrap_or(0))),
    };
    let (size, nlink, rdev) = (told.size, told.links, told.node);
    let (uid, gid) = (told.owner.map(u64::from), told.group.map(u64::from));
    let kind = mode.map_or(0, |m| m as u32 & libc::S_IFMT);
    let mut compared = vec![(Field::Owner, uid), (Field::Group, gid)];
    match kind {
        libc::S_IFREG | libc::S_IFLNK => compared.extend([(Field::Size, size), (Field::Links, nlink)]),
        libc::S_IFCHR | libc::S_IFBLK => compared.extend([(Field::DeviceNumber, rdev), (Field::Links, nlink)]),
        libc::S_IFDIR => {}
        _ => compared.push((Field::Links, nlink)),
    }
    Some(Attributes { mode, compared, own })
}

fn metadata(about: Circumstances, expected: &[u8], filled: &[u8]) -> Option<Difference> {
    let filled = filled.get(..expected.len()).unwrap_or(filled);
    let (wanted, found) = (attributes(expected)?, attributes(filled)?);
    let mut result = Difference::NONE;
    let mut unavoidable = 0;
    for ((field, a), (_, b)) in found.own.iter().zip(&wanted.own) {
        if a.is_some() && b.is_some() && a != b {
            unavoidable |= field.bit();
        }
    }
    if let (Some(a), Some(b)) = (found.mode, wanted.mode)
        && a != b
    {
        let kinds = (a as u32 & libc::S_IFMT, b as u32 & libc::S_IFMT);
        let field = if kinds.0 == kinds.1 { Field::Mode } else { Field::Kind };
        // Device nodes are never created; what stands in for them has attributes of its own.
        if field == Field::Kind && matches!(kinds.1, libc::S_IFCHR | libc::S_IFBLK) {
            return Some(Difference { class: Class::Unavoidable, ..Difference::field(Field::DeviceNode, a, b) });
        }
        result = Difference::field(field, a, b);
    }
    for ((field, a), (other, b)) in found.compared.iter().zip(&wanted.compared) {
        let (Some(a), Some(b)) = (*a, *b) else {
            continue;
        };
        if a == b || field != other {
            continue;
        }
        match field {
            Field::Owner | Field::Group if !about.owners || b == u64::from(NOBODY_KNOWN) => unavoidable |= field.bit(),
            _ if result.class == Class::Same => result = Difference::field(*field, a, b),
            _ => {}
        }
    }
    if result.class == Class::Same && unavoidable != 0 {
        result = Difference { class: Class::Unavoidable, code: Code::Metadata, ..Difference::NONE };
    }
    result.unavoidable = unavoidable;
    Some(result)
}
