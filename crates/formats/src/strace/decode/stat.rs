//! `struct stat` and `struct statx` as strace prints them.

use reprise_calls::attributes::{Attributes, STAT_BYTES, STATX_BYTES, Time, make_device};

use crate::strace::lexer::{bracketed, elements, field};
use crate::strace::value::{exact, plain, value};

/// Attributes of a file, as far as they were printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    /// Nothing was left out.
    pub complete: bool,
    /// Type and permission bits.
    pub mode: u32,
    /// Size, of what has one.
    pub size: Option<u64>,
    /// Device and inode.
    pub identity: Option<(u64, u64)>,
    /// Hard links.
    pub links: Option<u64>,
    /// Owner and group.
    pub owner: Option<(u32, u32)>,
    /// Device number of a node.
    pub device: Option<u64>,
    /// Access, modification and change time.
    pub times: [Option<Time>; 3],
    blocks: u64,
    block_size: u64,
    mask: u64,
    attributes: u64,
    attributes_mask: u64,
    birth: Option<Time>,
}

/// Reads a structure; `None` if it does not say what the file is.
pub fn read(text: &[u8]) -> Option<Stat> {
    let (inside, _) = bracketed(text)?;
    let mut out = Stat { complete: true, ..Stat::default() };
    let (mut seen, mut device, mut inode, mut halves, mut rdev) = (false, None, None, [None; 2], [None; 2]);
    for element in elements(inside) {
        if element.starts_with(b"...") {
            out.complete = false;
            continue;
        }
        let Some(equals) = memchr::memchr(b'=', element) else { continue };
        let (name, text) = (&element[..equals], &element[equals + 1..]);
        let number = || exact(text);
        let name = name.strip_prefix(b"st_").or_else(|| name.strip_prefix(b"stx_")).unwrap_or(name);
        match name {
            b"mode" => {
                out.mode = number()? as u32;
                seen = true;
            }
            b"size" => out.size = number(),
            b"dev" => device = number(),
            b"ino" => inode = number(),
            b"nlink" => out.links = number(),
            b"uid" => out.owner = number().map(|uid| (uid as u32, out.owner.map_or(0, |o| o.1))),
            b"gid" => out.owner = number().map(|gid| (out.owner.map_or(0, |o| o.0), gid as u32)),
            b"rdev" => out.device = number(),
            b"blocks" => out.blocks = number().unwrap_or(0),
            b"blksize" => out.block_size = number().unwrap_or(0),
            b"mask" => out.mask = value(text).number,
            b"attributes" => out.attributes = number().unwrap_or(0),
            b"attributes_mask" => out.attributes_mask = number().unwrap_or(0),
            b"atime" => out.times[0] = time(text),
            b"mtime" => out.times[1] = time(text),
            b"ctime" => out.times[2] = time(text),
            b"btime" => out.birth = time(text),
            b"atime_nsec" => set_nanoseconds(&mut out.times[0], number()),
            b"mtime_nsec" => set_nanoseconds(&mut out.times[1], number()),
            b"ctime_nsec" => set_nanoseconds(&mut out.times[2], number()),
            b"dev_major" => halves[0] = number(),
            b"dev_minor" => halves[1] = number(),
            b"rdev_major" => rdev[0] = number(),
            b"rdev_minor" => rdev[1] = number(),
            _ => {}
        }
    }
    if let [Some(major), Some(minor)] = halves {
        device = Some(make_device(major, minor));
    }
    if let ([Some(major), Some(minor)], true) = (rdev, matches!(out.mode & 0o170000, 0o020000 | 0o060000)) {
        out.device = Some(make_device(major, minor));
    }
    out.identity = device.zip(inode);
    // Structures of versions that left fields out without saying so.
    out.complete &= out.identity.is_some() && out.links.is_some() && out.owner.is_some();
    seen.then_some(out)
}

/// `1700000000 /* … */`, or `{tv_sec=…, tv_nsec=…}`; dates of old versions lack their zone and are not read.
pub fn time(text: &[u8]) -> Option<Time> {
    if let Some((inside, _)) = bracketed(text) {
        let seconds = field(inside, b"tv_sec").or_else(|| elements(inside).next()).and_then(signed)?;
        let second = || elements(inside).nth(1);
        let rest = field(inside, b"tv_nsec").or_else(|| field(inside, b"tv_usec")).or_else(second).and_then(exact)?;
        return Some(Time { seconds, nanoseconds: rest as u32 });
    }
    signed(text).map(|seconds| Time { seconds, nanoseconds: 0 })
}

fn signed(text: &[u8]) -> Option<i64> {
    let end = memchr::memchr(b' ', text).unwrap_or(text.len());
    plain(&text[..end]).map(|n| n as i64)
}

fn set_nanoseconds(time: &mut Option<Time>, nanoseconds: Option<u64>) {
    if let (Some(time), Some(nanoseconds)) = (time.as_mut(), nanoseconds) {
        time.nanoseconds = nanoseconds as u32;
    }
}

impl Stat {
    /// What it tells of the file.
    pub fn facts(&self) -> reprise_initial::Stat {
        reprise_initial::Stat {
            complete: self.complete,
            mode: self.mode,
            size: self.size,
            identity: self.identity,
            links: self.links,
            owner: self.owner,
            device: self.device,
            times: self.times.map(|time| time.map(Time::since_1970_ns)),
        }
    }

    /// As `struct stat` of x86-64.
    pub fn to_stat(self) -> Vec<u8> {
        self.written(STAT_BYTES)
    }

    /// As `struct statx`.
    pub fn to_statx(self) -> Vec<u8> {
        self.written(STATX_BYTES)
    }

    fn written(self, length: usize) -> Vec<u8> {
        let [access, modification, change] = self.times;
        let mut out = vec![0; length];
        let told = Attributes {
            mask: Some(self.mask as u32),
            device: self.identity.map(|(device, _)| device),
            inode: self.identity.map(|(_, inode)| inode),
            kind: Some(self.mode & 0o170_000),
            permissions: Some(self.mode & 0o7777),
            links: self.links,
            owner: self.owner.map(|(uid, _)| uid),
            group: self.owner.map(|(_, gid)| gid),
            node: self.device,
            size: self.size,
            block_bytes: Some(self.block_size),
            blocks: Some(self.blocks),
            times: [access, modification, change, self.birth],
            flags: Some((self.attributes, self.attributes_mask)),
        };
        told.write(&mut out);
        out
    }
}
