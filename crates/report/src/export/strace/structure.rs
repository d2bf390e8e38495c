//! Structures, as `strace -v` prints them. One that is shorter than it should be is an address.

use reprise_calls::attributes::{Attributes, Time, device_halves};
use reprise_calls::{Call, CommandSet, Effect, Envelope, FlagSet, Struct};

/// The address of what is not printed.
const UNKNOWN: &str = "0x1000";

pub(super) fn structure(call: &Call, kind: Struct, args: &[u64; 6], bytes: &[u8]) -> String {
    let b = Bytes(bytes);
    let complete = kind.size().is_none_or(|size| bytes.len() >= size);
    match kind {
        _ if !complete => UNKNOWN.to_owned(),
        Struct::Stat => Attributes::decode(bytes).map_or_else(|| UNKNOWN.to_owned(), |told| stat(&told)),
        Struct::Statx => Attributes::decode(bytes).map_or_else(|| UNKNOWN.to_owned(), |told| statx(&told)),
        // Free space is the machine's own.
        Struct::Statfs => UNKNOWN.to_owned(),
        Struct::OffsetCell => format!("[{}]", b.u64(0) as i64),
        Struct::FdPair => format!("[{}, {}]", b.u32(0) as i32, b.u32(4) as i32),
        Struct::Timespecs => format!("[{}, {}]", timespec(&b, 0), timespec(&b, 16)),
        Struct::Timevals => {
            let time = |at| format!("{{tv_sec={}, tv_usec={}}}", b.u64(at) as i64, b.u64(at + 8));
            format!("[{}, {}]", time(0), time(16))
        }
        Struct::Utimbuf => format!("{{actime={}, modtime={}}}", b.u64(0) as i64, b.u64(8) as i64),
        Struct::Int => status(b.u32(0)),
        Struct::Words(_) => {
            let words = bytes.as_chunks::<4>().0.iter().map(|c| u32::from_le_bytes(*c).to_string());
            format!("[{}]", words.collect::<Vec<_>>().join(", "))
        }
        Struct::Sized(_) => sized(call, &b),
        Struct::CloneArgs(_) if Struct::ChildHandle.size() == Some(bytes.len()) => {
            format!("{{pidfd=[{}]}}", b.u32(0) as i32)
        }
        Struct::CloneArgs(_) => clone_args(&b),
        Struct::ChildHandle => format!("[{}]", b.u32(0) as i32),
        Struct::ByCommand => by_command(call, args, &b),
        Struct::Message => Envelope::decode(bytes).first().map_or_else(|| UNKNOWN.to_owned(), message),
        Struct::Messages(_) => {
            let all = Envelope::decode(bytes);
            let texts = all.iter().map(|e| format!("{{msg_hdr={}, msg_len={}}}", message(e), e.length));
            format!("[{}]", texts.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Little-endian numbers at places; beyond the end 0.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn number(&self, at: usize, length: usize) -> u64 {
        (0..length).rev().fold(0, |n, i| n << 8 | u64::from(self.0.get(at + i).copied().unwrap_or(0)))
    }

    fn u16(&self, at: usize) -> u64 {
        self.number(at, 2)
    }

    fn u32(&self, at: usize) -> u32 {
        self.number(at, 4) as u32
    }

    fn u64(&self, at: usize) -> u64 {
        self.number(at, 8)
    }
}

/// A device number as the kernel encodes it.
pub(super) fn device(number: u64) -> String {
    let (major, minor) = device_halves(number);
    format!("makedev({major:#x}, {minor:#x})")
}

fn mode(told: &Attributes) -> String {
    let kind = match told.kind.unwrap_or(0) {
        0o040_000 => "S_IFDIR|",
        0o100_000 => "S_IFREG|",
        0o120_000 => "S_IFLNK|",
        0o010_000 => "S_IFIFO|",
        0o140_000 => "S_IFSOCK|",
        0o020_000 => "S_IFCHR|",
        0o060_000 => "S_IFBLK|",
        _ => "",
    };
    format!("{kind}0{:o}", told.permissions.unwrap_or(0))
}

fn stat(told: &Attributes) -> String {
    let [access, modification, change, _] = told.times.map(Option::unwrap_or_default);
    let time = |name: &str, at: Time| format!("st_{name}={}, st_{name}_nsec={}", at.seconds, at.nanoseconds);
    format!(
        "{{st_dev={}, st_ino={}, st_mode={}, st_nlink={}, st_uid={}, st_gid={}, st_rdev={}, st_blksize={}, \
         st_blocks={}, st_size={}, {}, {}, {}}}",
        device(told.device.unwrap_or(0)),
        told.inode.unwrap_or(0),
        mode(told),
        told.links.unwrap_or(0),
        told.owner.unwrap_or(0),
        told.group.unwrap_or(0),
        device(told.node.unwrap_or(0)),
        told.block_bytes.unwrap_or(0),
        told.blocks.unwrap_or(0),
        told.size.unwrap_or(0),
        time("atime", access),
        time("mtime", modification),
        time("ctime", change)
    )
}

fn statx(told: &Attributes) -> String {
    let [access, modification, change, birth] = told.times.map(Option::unwrap_or_default);
    let time = |name: &str, at: Time| format!("stx_{name}={{tv_sec={}, tv_nsec={}}}", at.seconds, at.nanoseconds);
    let (attributes, known) = told.flags.unwrap_or_default();
    let [(major, minor), (node_major, node_minor)] = [told.device, told.node].map(|d| device_halves(d.unwrap_or(0)));
    format!(
        "{{stx_mask={:#x}, stx_blksize={}, stx_attributes={attributes:#x}, stx_nlink={}, stx_uid={}, stx_gid={}, \
         stx_mode={}, stx_ino={}, stx_size={}, stx_blocks={}, stx_attributes_mask={known:#x}, {}, {}, {}, {}, \
         stx_rdev_major={node_major:#x}, stx_rdev_minor={node_minor:#x}, stx_dev_major={major:#x}, \
         stx_dev_minor={minor:#x}}}",
        told.mask.unwrap_or(0),
        told.block_bytes.unwrap_or(0),
        told.links.unwrap_or(0),
        told.owner.unwrap_or(0),
        told.group.unwrap_or(0),
        mode(told),
        told.inode.unwrap_or(0),
        told.size.unwrap_or(0),
        told.blocks.unwrap_or(0),
        time("atime", access),
        time("btime", birth),
        time("ctime", change),
        time("mtime", modification)
    )
}

fn timespec(b: &Bytes<'_>, at: usize) -> String {
    match b.u64(at + 8) {
        0x3fff_ffff => "UTIME_NOW".to_owned(),
        0x3fff_fffe => "UTIME_OMIT".to_owned(),
        nanoseconds => format!("{{tv_sec={}, tv_nsec={nanoseconds}}}", b.u64(at) as i64),
    }
}

fn status(status: u32) -> String {
    match status & 0x7f {
        0 => format!("[{{WIFEXITED(s) && WEXITSTATUS(s) == {}}}]", status >> 8 & 0xff),
        _ => format!("[{:#x}]", status),
    }
}

fn message(envelope: &Envelope) -> String {
    let descriptors: Vec<String> = envelope.descriptors.iter().map(|fd| (*fd as i32).to_string()).collect();
    let control = match &descriptors[..] {
        [] => String::new(),
        all => {
            let length = 16 + 4 * all.len();
            let data = all.join(", ");
            format!(
                ", msg_control=[{{cmsg_len={length}, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, cmsg_data=[{data}]}}]"
            )
        }
    };
    format!("{{msg_name=NULL, msg_namelen=0, msg_iov=[{{iov_base={UNKNOWN}, iov_len={}}}]{control}}}", envelope.length)
}

fn sized(call: &Call, b: &Bytes<'_>) -> String {
    match call.effect {
        Effect::Open => {
            format!("{{flags={}, mode=0{:o}, resolve={:#x}}}", FlagSet::Open.text(b.u64(0)), b.u64(8), b.u64(16))
        }
        _ => UNKNOWN.to_owned(),
    }
}

fn clone_args(b: &Bytes<'_>) -> String {
    const NAMES: [&str; 7] = ["pidfd", "child_tid", "parent_tid", "exit_signal", "stack", "stack_size", "tls"];
    let rest = NAMES.iter().enumerate().map(|(i, name)| format!(", {name}={:#x}", b.u64(8 * (i + 1))));
    format!("{{flags={}{}}}", FlagSet::Clone.text(b.u64(0)), rest.collect::<String>())
}

fn by_command(call: &Call, args: &[u64; 6], b: &Bytes<'_>) -> String {
    let command = match call.effect {
        Effect::Control => CommandSet::Fcntl.text(args[1]),
        _ => CommandSet::Ioctl.text(args[1]),
    };
    match command.as_str() {
        "F_GETLK" | "F_SETLK" | "F_SETLKW" | "F_OFD_GETLK" | "F_OFD_SETLK" | "F_OFD_SETLKW" => {
            const KINDS: [&str; 3] = ["F_RDLCK", "F_WRLCK", "F_UNLCK"];
            let kind = KINDS.get(b.u16(0) as usize).map_or_else(|| b.u16(0).to_string(), |k| (*k).to_owned());
            let whence = CommandSet::Whence.text(b.u16(2));
            let (start, length) = (b.u64(8) as i64, b.u64(16) as i64);
            let pid = if command.ends_with("GETLK") { format!(", l_pid={}", b.u32(24) as i32) } else { String::new() };
            format!("{{l_type={kind}, l_whence={whence}, l_start={start}, l_len={length}{pid}}}")
        }
        "FICLONERANGE" => format!(
            "{{src_fd={}, src_offset={}, src_length={}, dest_offset={}}}",
            b.u64(0),
            b.u64(8),
            b.u64(16),
            b.u64(24)
        ),
        "FS_IOC_RESVSP" | "FS_IOC_RESVSP64" | "FS_IOC_UNRESVSP" | "FS_IOC_UNRESVSP64" | "FS_IOC_ZERO_RANGE" => {
            let whence = CommandSet::Whence.text(b.u16(2));
            format!(
                "{{l_type={}, l_whence={whence}, l_start={}, l_len={}}}",
                b.u16(0),
                b.u64(8) as i64,
                b.u64(16) as i64
            )
        }
        "FS_IOC_GETFLAGS" | "FS_IOC_SETFLAGS" => format!("[{:#x}]", b.u32(0)),
        "F_GETOWN_EX" | "F_SETOWN_EX" => format!("{{type={}, pid={}}}", b.u32(0), b.u32(4) as i32),
        _ => UNKNOWN.to_owned(),
    }
}
