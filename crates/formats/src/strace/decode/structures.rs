//! Small structures: from the text to the bytes that were in memory.

use reprise_calls::attributes::Time;
use reprise_calls::{Effect, FcntlArg, IoctlEffect, ioctl_arg, ioctl_effect};
use reprise_trace::payload::Side;

use super::stat::time;
use crate::strace::lexer::{annotated, bracketed, elements, field, string, unescape};
use crate::strace::symbols::signal;
use crate::strace::value::{exact, value};

pub(super) fn inside(text: &[u8]) -> Option<&[u8]> {
    bracketed(text).map(|(inside, _)| inside)
}

/// `[5]`, or `[0] => [4096]`: a position before and after.
pub fn cell(text: &[u8], side: Side) -> Option<Vec<u8>> {
    let (before, rest) = bracketed(text)?;
    let after = given_back(rest);
    let number = match side {
        Side::Input => exact(before),
        Side::Output => exact(after.unwrap_or(before)),
    };
    number.map(|n| n.to_le_bytes().to_vec())
}

/// `[3, 4]`: two descriptors, perhaps annotated.
pub fn pair(text: &[u8]) -> Option<Vec<u8>> {
    let mut numbers = elements(inside(text)?).map(|e| exact(annotated(e).0));
    let (first, second) = (numbers.next()??, numbers.next()??);
    Some([(first as u32).to_le_bytes(), (second as u32).to_le_bytes()].concat())
}

/// Two times: `[{tv_sec=1, tv_nsec=2}, UTIME_NOW]` in any version's form.
pub fn times(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(32);
    for element in elements(inside(text)?).take(2) {
        let Time { seconds, nanoseconds } = match element.first()? {
            b'{' => time(element)?,
            _ => Time { seconds: 0, nanoseconds: exact(element)? as u32 },
        };
        out.extend_from_slice(&seconds.to_le_bytes());
        out.extend_from_slice(&u64::from(nanoseconds).to_le_bytes());
    }
    (out.len() == 32).then_some(out)
}

/// `{actime=1 /* … */, modtime=2}`, or `[2000/01/01-…]`, which lacks its zone and is not read.
pub fn utimbuf(text: &[u8]) -> Option<Vec<u8>> {
    let inside = inside(text)?;
    let (access, modification) = (time(field(inside, b"actime")?)?, time(field(inside, b"modtime")?)?);
    Some([access.seconds.to_le_bytes(), modification.seconds.to_le_bytes()].concat())
}

/// `{flags=O_RDONLY|O_CLOEXEC, mode=0644, resolve=RESOLVE_BENEATH}`.
pub fn open_how(text: &[u8], size: usize) -> Option<Vec<u8>> {
    let inside = inside(text)?;
    let number = |name: &[u8]| field(inside, name).map_or(0, |v| value(v).number);
    let mut out = [number(b"flags"), number(b"mode"), number(b"resolve")].map(u64::to_le_bytes).concat();
    out.resize(size.max(24), 0);
    Some(out)
}

/// `{attr_set=MOUNT_ATTR_IDMAP, attr_clr=0, propagation=0, userns_fd=3}`.
pub fn mount_attributes(text: &[u8], size: usize) -> Option<Vec<u8>> {
    let inside = inside(text)?;
    let names: [&[u8]; 4] = [b"attr_set", b"attr_clr", b"propagation", b"userns_fd"];
    let mut out = names.map(|name| field(inside, name).map_or(0, |v| value(v).number).to_le_bytes()).concat();
    out.resize(size.max(32), 0);
    Some(out)
}

/// `{flags=CLONE_VM|…, exit_signal=0, stack=…, stack_size=…}`.
pub fn clone_args(text: &[u8], size: usize) -> Option<Vec<u8>> {
    let inside = inside(text)?;
    let names: [&[u8]; 8] =
        [b"flags", b"pidfd", b"child_tid", b"parent_tid", b"exit_signal", b"stack", b"stack_size", b"tls"];
    let mut out = names.map(|name| field(inside, name).map_or(0, |v| value(v).number).to_le_bytes()).concat();
    out.resize(size.max(64), 0);
    Some(out)
}

/// `{flags=CLONE_PIDFD, …} => {pidfd=[3]}`: the descriptor of the child.
pub fn handle_of_clone_args(text: &[u8]) -> Option<Vec<u8>> {
    let (_, rest) = bracketed(text)?;
    handle(field(given_back(rest)?, b"pidfd")?)
}

/// `[3]`: a descriptor, perhaps annotated.
pub fn handle(text: &[u8]) -> Option<Vec<u8>> {
    let number = exact(annotated(inside(text)?).0)?;
    Some((number as u32).to_le_bytes().to_vec())
}

/// `=> [1]`: what stands behind a structure that was changed.
fn given_back(rest: &[u8]) -> Option<&[u8]> {
    rest.trim_ascii_start().strip_prefix(b"=>").and_then(|r| inside(r.trim_ascii_start()))
}

/// `[{WIFEXITED(s) && WEXITSTATUS(s) == 1}]`.
pub fn wait_status(text: &[u8]) -> Option<Vec<u8>> {
    let inside = inside(text)?;
    let status = if let Some(number) = exact(inside) {
        number as u32
    } else {
        let last = inside.rsplit(|b| *b == b' ').next()?.strip_suffix(b"}")?;
        if inside.starts_with(b"{WIFEXITED") {
            (exact(last)? as u32 & 0xff) << 8
        } else if inside.starts_with(b"{WIFSIGNALED") {
            signal(last)? as u32 & 0x7f
        } else {
            return None;
        }
    };
    Some(status.to_le_bytes().to_vec())
}

/// `[0, 1000]`.
pub fn words(text: &[u8]) -> Option<Vec<u8>> {
    let numbers: Option<Vec<u64>> = elements(inside(text)?).map(exact).collect();
    Some(numbers?.iter().flat_map(|n| (*n as u32).to_le_bytes()).collect())
}

const AF_UNIX: [u8; 2] = [1, 0];

/// The address of a UNIX-domain socket; those of other families lead nowhere in a replay.
pub fn socket_address(text: &[u8]) -> Option<Vec<u8>> {
    let inside = inside(text)?;
    let family = field(inside, b"sa_family")?;
    if !matches!(family, b"AF_UNIX" | b"AF_LOCAL" | b"AF_FILE") {
        return None;
    }
    let path = field(inside, b"sun_path").or_else(|| field(inside, b"path"))?;
    let is_abstract = path.starts_with(b"@");
    let name = string(path).map(|t| t.bytes)?;
    Some([AF_UNIX.as_slice(), if is_abstract { b"\0" } else { b"" }, &name].concat())
}

/// The argument of `fcntl` or `ioctl`, where a replay needs it.
pub fn by_command(effect: Effect, command: u64, text: &[u8], side: Side) -> Option<Vec<u8>> {
    const FICLONERANGE: u64 = 0x4020_940d;
    const LOOP_CONFIGURE: u64 = 0x4c0a;
    // FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FIONBIO, FIOASYNC.
    const WORDS: [u64; 4] = [0x8008_6601, 0x4008_6602, 0x5421, 0x5452];
    match (effect, command & 0xffff_ffff) {
        (Effect::Control, 5..=7 | 36..=38) => lock(text, side),
        (Effect::Control, 15 | 16) => {
            let inside = inside(text)?;
            let number = |name: &[u8]| field(inside, name).map(|v| value(v).number as u32);
            Some([number(b"type")?.to_le_bytes(), number(b"pid")?.to_le_bytes()].concat())
        }
        (_, FICLONERANGE) => {
            let inside = inside(text)?;
            let names: [&[u8]; 4] = [b"src_fd", b"src_offset", b"src_length", b"dest_offset"];
            let numbers: Option<Vec<u64>> = names.iter().map(|n| exact(annotated(field(inside, n)?).0)).collect();
            Some(numbers?.iter().flat_map(|n| n.to_le_bytes()).collect())
        }
        (Effect::DeviceControl, c) if matches!(ioctl_effect(c), IoctlEffect::Allocate(_)) => space(text, ioctl_arg(c)),
        (_, LOOP_CONFIGURE) => {
            // Of which file the device is made; nothing else matters here.
            let FcntlArg::In(bytes) = ioctl_arg(LOOP_CONFIGURE) else { return None };
            let mut config = vec![0; bytes];
            let file = exact(annotated(field(inside(text)?, b"fd")?).0)?;
            config[..4].copy_from_slice(&(file as u32).to_le_bytes());
            Some(config)
        }
        (Effect::DeviceControl, c) if WORDS.contains(&c) => {
            exact(inside(text)?).map(|n| (n as u32).to_le_bytes().to_vec())
        }
        _ => None,
    }
}

/// `{l_type=0, l_whence=SEEK_SET, l_start=0, l_len=4096}`, of `struct space_resv`.
fn space(text: &[u8], arg: FcntlArg) -> Option<Vec<u8>> {
    let FcntlArg::In(bytes) = arg else { return None };
    let inside = inside(text)?;
    let number = |name: &[u8]| field(inside, name).and_then(exact);
    let mut out = Vec::with_capacity(bytes);
    out.extend_from_slice(&(number(b"l_type")? as u16).to_le_bytes());
    out.extend_from_slice(&(number(b"l_whence")? as u16).to_le_bytes());
    out.resize(8, 0);
    out.extend_from_slice(&number(b"l_start")?.to_le_bytes());
    out.extend_from_slice(&number(b"l_len")?.to_le_bytes());
    out.resize(bytes, 0);
    Some(out)
}

/// `{l_type=F_WRLCK, l_whence=SEEK_SET, l_start=0, l_len=0, l_pid=0}`; old versions leave the `l_` out.
fn lock(text: &[u8], side: Side) -> Option<Vec<u8>> {
    const UNLOCKED: u64 = 2;
    let (before, rest) = bracketed(text)?;
    let after = given_back(rest);
    let text = if side == Side::Output { after.unwrap_or(before) } else { before };
    let number = |name: &[u8]| field(text, name).or_else(|| field(text, &name[2..])).and_then(exact);
    let mut kind = number(b"l_type")?;
    // `F_GETLK` is printed as it was answered: if nobody holds a lock then nobody hinders one for reading.
    if side == Side::Input && kind == UNLOCKED && field(text, b"l_pid").or_else(|| field(text, b"pid")).is_some() {
        kind = 0;
    }
    let mut out = Vec::with_capacity(32);
    out.extend_from_slice(&(kind as u16).to_le_bytes());
    out.extend_from_slice(&(number(b"l_whence")? as u16).to_le_bytes());
    out.resize(8, 0);
    out.extend_from_slice(&number(b"l_start")?.to_le_bytes());
    out.extend_from_slice(&number(b"l_len")?.to_le_bytes());
    out.extend_from_slice(&(number(b"l_pid").unwrap_or(0) as u32).to_le_bytes());
    out.resize(32, 0);
    Some(out)
}

/// The path in an annotation of a descriptor, without what strace adds to it; `None` if it is no path.
pub fn annotated_path(annotation: &[u8]) -> Option<Vec<u8>> {
    if !annotation.starts_with(b"/") {
        return None;
    }
    let end = memchr::memchr(b'<', annotation).unwrap_or(annotation.len());
    let path = unescape(&annotation[..end]);
    Some(path.strip_suffix(b" (deleted)").map_or_else(|| path.clone(), <[u8]>::to_vec))
}
