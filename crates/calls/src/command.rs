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
    /// `LOOP_SET_FD`, `LOOP_CHANGE_FD`: a device is made of the file in the argument; what the kernel changes there no call shows.
    Lend,
    /// `LOOP_CONFIGURE`: the same of the file that `struct loop_config` begins with.
    LendConfigured,
    /// Asks for or changes a terminal, socket or unknown device: taken from the trace.
    Foreign,
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
        0x5451 => IoctlEffect::SetCloseOnExec,
        0x5450 => IoctlEffect::ClearCloseOnExec,
        0x5421 => IoctlEffect::SetWaiting,
        0x5441 | 0x894c | 0x89e0 | 0xb701 | 0xb702 | 0xae01 | 0xae41 | 0xff01..=0xff0a => IoctlEffect::MakeHandle,
        0x2 | 0x80086601 | 0x801c581f => IoctlEffect::Inspect,
        0x4c00 | 0x4c06 => IoctlEffect::Lend,
        0x4c0a => IoctlEffect::LendConfigured,
        _ => IoctlEffect::Foreign,
    }
}
