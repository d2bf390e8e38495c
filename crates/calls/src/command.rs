//! What the third argument of `fcntl` and `ioctl` is: it depends on the command.

/// What a command's argument is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FcntlArg {
    /// No argument, or a plain number.
    Value,
    /// A structure of this many bytes, read.
    In(usize),
    /// A structure of this many bytes, filled.
    Out(usize),
    /// A structure of this many bytes, read and filled.
    InOut(usize),
}

/// What a request of `ioctl` does to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoctlEffect {
    /// `FICLONE`: the whole of the file in the argument becomes the file's content.
    Clone,
    /// `FICLONERANGE`: `struct file_clone_range`.
    CloneRange,
    /// `FS_IOC_RESVSP`, `FS_IOC_UNRESVSP`, `FS_IOC_ZERO_RANGE`: what `fallocate` does in this mode, on the range in
    /// `struct space_resv` ([`SpaceRange`]).
    Allocate(u64),
    /// `FIOCLEX`.
    SetCloseOnExec,
    /// `FIONCLEX`.
    ClearCloseOnExec,
    /// `FIONBIO`: whether calls on the open file wait (`O_NONBLOCK`).
    SetWaiting,
    /// Opens something of a terminal, namespace or machine (`TIOCGPTPEER`, `NS_GET_USERNS` …): the result is its number.
    MakeHandle,
    /// Reads attributes of the file (`FS_IOC_GETFLAGS`, `FIGETBSZ` …): issued, the result is the file system's own.
    Inspect,
    /// `FS_IOC_FSSETXATTR`: `struct fsxattr`, hints and the project of the file; issued unless it forbids writing
    /// ([`forbids_writing`]).
    SetHints,
    /// `LOOP_SET_FD`, `LOOP_CHANGE_FD`: a device is made of the file in the argument; what the kernel changes there no call shows.
    Lend,
    /// `LOOP_CONFIGURE`: the same of the file that `struct loop_config` begins with.
    LendConfigured,
    /// Asks for or changes a terminal, socket or unknown device: taken from the trace.
    Foreign,
}

/// The range of a request that allocates: `struct space_resv` (`linux/falloc.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpaceRange {
    /// From where `start` counts: `SEEK_SET`, `SEEK_CUR` or `SEEK_END`.
    pub whence: u16,
    /// Where it begins.
    pub start: i64,
    /// How long it is.
    pub length: i64,
}

impl SpaceRange {
    /// Takes the structure apart; `None` if it is not whole.
    pub fn of(bytes: &[u8]) -> Option<SpaceRange> {
        let word = |at: usize| bytes.get(at..)?.first_chunk().map(|b| i64::from_le_bytes(*b));
        let whence = bytes.get(2..)?.first_chunk().map(|b| u16::from_le_bytes(*b))?;
        Some(SpaceRange { whence, start: word(8)?, length: word(16)? })
    }

    /// Begin and end in a file whose descriptor stands at `position` and that has this size; `None` where the kernel takes
    /// none.
    pub fn within(self, position: u64, size: u64) -> Option<(u64, u64)> {
        let base = match self.whence {
            0 => 0,
            1 => position,
            2 => size,
            _ => return None,
        };
        let begin = base.checked_add_signed(self.start)?;
        Some((begin, begin.checked_add(u64::try_from(self.length).ok()?)?))
    }
}

/// Whether a `struct fsxattr` forbids that its file is written to from then on (`FS_XFLAG_IMMUTABLE`, `FS_XFLAG_APPEND`); one that is
/// not whole may.
pub fn forbids_writing(attributes: &[u8]) -> bool {
    const IMMUTABLE: u32 = 0x8;
    const APPEND: u32 = 0x10;
    attributes.first_chunk().is_none_or(|flags| u32::from_le_bytes(*flags) & (IMMUTABLE | APPEND) != 0)
}

/// Whether a request that is not known gives the kernel something (`_IOW`), so that it may change a file.
pub const fn ioctl_gives(request: u64) -> bool {
    (request & 0xffff_ffff) >> 30 == 1
}

/// The argument of an `fcntl` command (`include/uapi/asm-generic/fcntl.h`).
pub const fn fcntl_arg(command: u64) -> FcntlArg {
    match command & 0xffff_ffff {
        5 | 36 => FcntlArg::InOut(32),
        6 | 7 | 37 | 38 => FcntlArg::In(32),
        15 | 1036 | 1038 => FcntlArg::In(8),
        16 | 1035 | 1037 => FcntlArg::Out(8),
        _ => FcntlArg::Value,
    }
}

/// The argument of an `ioctl` request: old requests by number, others by the direction and size in their bits
/// (`include/uapi/asm-generic/ioctl.h`).
pub const fn ioctl_arg(request: u64) -> FcntlArg {
    let request = request & 0xffff_ffff;
    let size = ((request >> 16) & 0x3fff) as usize;
    match request {
        0x5401 => FcntlArg::Out(36),
        0x5402..=0x5404 => FcntlArg::In(36),
        0x5413 => FcntlArg::Out(8),
        0x540f | 0x541b | 0x2 => FcntlArg::Out(4),
        0x5410 | 0x5421 | 0x5452 => FcntlArg::In(4),
        0x1 => FcntlArg::InOut(4),
        0x4c0a => FcntlArg::In(304),
        0x40049409 => FcntlArg::Value,
        // The flags calls declare `long` but move an `int`.
        0x80086601 => FcntlArg::Out(4),
        0x40086602 => FcntlArg::In(4),
        _ if size == 0 => FcntlArg::Value,
        _ => match request >> 30 {
            1 => FcntlArg::In(size),
            2 => FcntlArg::Out(size),
            3 => FcntlArg::InOut(size),
            _ => FcntlArg::Value,
        },
    }
}

/// What a request does.
pub const fn ioctl_effect(request: u64) -> IoctlEffect {
    match request & 0xffff_ffff {
        0x40049409 => IoctlEffect::Clone,
        0x4020940d => IoctlEffect::CloneRange,
        // The modes are FALLOC_FL_KEEP_SIZE alone, with PUNCH_HOLE, with ZERO_RANGE.
        0x40305828 | 0x4030582a => IoctlEffect::Allocate(0x1),
        0x40305829 | 0x4030582b => IoctlEffect::Allocate(0x1 | 0x2),
        0x40305839 => IoctlEffect::Allocate(0x1 | 0x10),
        0x5451 => IoctlEffect::SetCloseOnExec,
        0x5450 => IoctlEffect::ClearCloseOnExec,
        0x5421 => IoctlEffect::SetWaiting,
        0x5441 | 0x894c | 0x89e0 | 0xb701 | 0xb702 | 0xae01 | 0xae41 | 0xff01..=0xff0a => IoctlEffect::MakeHandle,
        0x2 | 0x80086601 | 0x801c581f => IoctlEffect::Inspect,
        0x401c5820 => IoctlEffect::SetHints,
        0x4c00 | 0x4c06 => IoctlEffect::Lend,
        0x4c0a => IoctlEffect::LendConfigured,
        _ => IoctlEffect::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserved(whence: u16, start: i64, length: i64) -> Vec<u8> {
        let mut out = vec![0; 48];
        out[2..4].copy_from_slice(&whence.to_le_bytes());
        out[8..16].copy_from_slice(&start.to_le_bytes());
        out[16..24].copy_from_slice(&length.to_le_bytes());
        out
    }

    #[test]
    fn ranges_count_from_the_begin_the_position_or_the_end() {
        let within = |whence, start| SpaceRange::of(&reserved(whence, start, 10)).and_then(|r| r.within(100, 1000));
        assert_eq!(within(0, 5), Some((5, 15)));
        assert_eq!(within(1, -5), Some((95, 105)));
        assert_eq!(within(2, -5), Some((995, 1005)));
        assert_eq!(within(0, -5), None, "before the begin");
        assert_eq!(within(3, 5), None, "SEEK_DATA");
        assert_eq!(SpaceRange::of(&[0; 20]), None, "cut off");
    }

    #[test]
    fn what_forbids_writing_is_told_by_the_first_word() {
        let extent_size = [0, 8, 0, 0, 0, 0, 16, 0];
        assert!(!forbids_writing(&extent_size));
        assert!(forbids_writing(&[0x18, 8, 0, 0]), "immutable");
        assert!(forbids_writing(&[0x10, 0, 0, 0]), "append only");
        assert!(forbids_writing(&[0]), "cut off");
        assert_eq!(ioctl_arg(0x401c_5820), FcntlArg::In(28));
    }

    #[test]
    fn the_structures_of_allocating_requests_are_kept() {
        for request in [0x40305828, 0x4030582a, 0x40305829, 0x4030582b, 0x40305839] {
            assert!(matches!(ioctl_effect(request), IoctlEffect::Allocate(_)), "{request:#x}");
            assert_eq!(ioctl_arg(request), FcntlArg::In(48), "{request:#x}");
        }
    }
}
