//! Structures in words.

use reprise_calls::attributes::{Attributes, device_halves};
use reprise_calls::{Call, Effect, Envelope, FcntlArg, FlagSet, Struct, fcntl_arg, ioctl_arg};

use super::quote::{SHOWN, hex};

fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut out = [0; 8];
    if let (Some(source), Some(target)) = (bytes.get(at..at + N), out.get_mut(..N)) {
        target.copy_from_slice(source);
    }
    u64::from_le_bytes(out)
}

/// A structure that an argument points to, in words where it is known.
pub(super) fn structure(call: &Call, kind: Struct, args: &[u64; 6], b: &[u8]) -> String {
    let (d, w) = (number::<8>, number::<4>);
    match kind {
        Struct::Stat | Struct::Statx => Attributes::decode(b).map_or_else(|| raw(b), |told| attributes(&told)),
        Struct::Statfs if b.len() >= 120 => format!(
            "{{type={:#x}, bsize={}, blocks={}, bfree={}, bavail={}, files={}, ffree={}}}",
            d(b, 0),
            d(b, 8),
            d(b, 16),
            d(b, 24),
            d(b, 32),
            d(b, 40),
            d(b, 48)
        ),
        Struct::OffsetCell => format!("[{}]", d(b, 0) as i64),
        Struct::FdPair => format!("[{}, {}]", w(b, 0), w(b, 4)),
        Struct::Timespecs if b.len() >= 32 => format!("[{}, {}]", timespec(b, 0), timespec(b, 16)),
        Struct::Timevals if b.len() >= 32 => {
            let time = |at| format!("{}.{:06}", d(b, at) as i64, d(b, at + 8));
            format!("[{}, {}]", time(0), time(16))
        }
        Struct::Utimbuf if b.len() >= 16 => format!("[{}, {}]", d(b, 0) as i64, d(b, 8) as i64),
        Struct::Int => format!("[{:#x}]", w(b, 0)),
        Struct::Words(_) => {
            let words = b.as_chunks::<4>().0.iter().map(|c| u32::from_le_bytes(*c).to_string());
            format!("[{}]", words.collect::<Vec<_>>().join(", "))
        }
        Struct::Sized(_) => sized(call, b),
        Struct::CloneArgs(_) if Struct::ChildHandle.size() == Some(b.len()) => format!("{{pidfd={}}}", w(b, 0)),
        Struct::CloneArgs(_) => format!("{{flags={}}}", FlagSet::Clone.text(d(b, 0))),
        Struct::ChildHandle => format!("[{}]", w(b, 0)),
        Struct::ByCommand => by_command(call, args, b),
        Struct::Message | Struct::Messages(_) => {
            Envelope::decode(b).iter().map(envelope).collect::<Vec<_>>().join(", ")
        }
        // Shorter than it should be.
        Struct::Statfs | Struct::Timespecs | Struct::Timevals | Struct::Utimbuf => raw(b),
    }
}

fn envelope(message: &Envelope) -> String {
    let descriptors = &message.descriptors;
    let passed = if descriptors.is_empty() { String::new() } else { format!(", fds={descriptors:?}") };
    format!("{{len={}{passed}}}", message.length)
}

fn raw(b: &[u8]) -> String {
    let shown = hex(&b[..b.len().min(SHOWN)]);
    if b.len() > SHOWN { format!("{{{shown}...[{} bytes]}}", b.len()) } else { format!("{{{shown}}}") }
}

fn timespec(b: &[u8], at: usize) -> String {
    const NOW: u64 = 0x3fff_ffff;
    const OMIT: u64 = 0x3fff_fffe;
    match (number::<8>(b, at), number::<8>(b, at + 8)) {
        (_, NOW) => "UTIME_NOW".to_owned(),
        (_, OMIT) => "UTIME_OMIT".to_owned(),
        (seconds, nanoseconds) => format!("{}.{nanoseconds:09}", seconds as i64),
    }
}

fn attributes(told: &Attributes) -> String {
    let (size, rdev) = (told.size.unwrap_or(0), told.node.unwrap_or(0));
    let (kind, last) = match told.kind.unwrap_or(0) {
        0o040000 => ("S_IFDIR", format!("size={size}")),
        0o100000 => ("S_IFREG", format!("size={size}")),
        0o120000 => ("S_IFLNK", format!("size={size}")),
        0o010000 => ("S_IFIFO", format!("size={size}")),
        0o140000 => ("S_IFSOCK", format!("size={size}")),
        0o020000 => ("S_IFCHR", format!("rdev={}", device(rdev))),
        0o060000 => ("S_IFBLK", format!("rdev={}", device(rdev))),
        _ => ("0", format!("size={size}")),
    };
    let (permissions, links) = (told.permissions.unwrap_or(0), told.links.unwrap_or(0));
    let (uid, gid) = (told.owner.unwrap_or(0), told.group.unwrap_or(0));
    format!("{{mode={kind}|{permissions:04o}, {last}, nlink={links}, uid={uid}, gid={gid}}}")
}

/// A device number as the kernel encodes it.
pub(super) fn device(number: u64) -> String {
    let (major, minor) = device_halves(number);
    format!("{major}:{minor}")
}

fn sized(call: &Call, b: &[u8]) -> String {
    let d = number::<8>;
    match call.effect {
        Effect::Open => {
            format!("{{flags={}, mode={:04o}, resolve={:#x}}}", FlagSet::Open.text(d(b, 0)), d(b, 8), d(b, 16))
        }
        _ => raw(b),
    }
}

fn by_command(call: &Call, args: &[u64; 6], b: &[u8]) -> String {
    match (call.effect, fcntl_arg(args[1])) {
        (Effect::Control, FcntlArg::In(32) | FcntlArg::InOut(32)) if b.len() >= 32 => flock(b),
        _ => raw(b),
    }
}

/// `struct flock`.
fn flock(b: &[u8]) -> String {
    let kind = match number::<2>(b, 0) {
        0 => "F_RDLCK",
        1 => "F_WRLCK",
        2 => "F_UNLCK",
        _ => "?",
    };
    let whence = reprise_calls::CommandSet::Whence.text(number::<2>(b, 2));
    let (start, length) = (number::<8>(b, 8) as i64, number::<8>(b, 16) as i64);
    format!("{{type={kind}, whence={whence}, start={start}, len={length}, pid={}}}", number::<4>(b, 24) as i32)
}

/// Whether the third argument of a `fcntl` or `ioctl` is a plain number.
pub(crate) fn is_plain(call: &Call, args: &[u64; 6]) -> bool {
    let arg = match call.effect {
        Effect::Control => fcntl_arg(args[1]),
        _ => ioctl_arg(args[1]),
    };
    arg == FcntlArg::Value
}
