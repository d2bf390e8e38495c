//! Names of flag bits and commands, for printing. Sources: `include/uapi` of the Linux kernel.

/// A set of flag bits with names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlagSet {
    /// `O_*`.
    Open,
    /// `AT_*`.
    At,
    /// `AT_*` of `unlinkat`, where a bit means `AT_REMOVEDIR`.
    Unlink,
    /// `RENAME_*`.
    Rename,
    /// `R_OK` and friends.
    Access,
    /// `FALLOC_FL_*`.
    Allocate,
    /// `RWF_*`.
    ReadWrite,
    /// `XATTR_*`.
    Xattr,
    /// `PROT_*`.
    Protection,
    /// `MAP_*`.
    Map,
    /// `MS_*` of `msync`.
    MapSync,
    /// `MREMAP_*`.
    Remap,
    /// `LOCK_*`.
    Lock,
    /// `SYNC_FILE_RANGE_*`.
    SyncRange,
    /// `SPLICE_F_*`.
    Splice,
    /// `CLONE_*`.
    Clone,
    /// `CLOSE_RANGE_*`.
    CloseRange,
    /// Flags without names here.
    Other,
}

/// A set of commands of which one is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandSet {
    /// `F_*`.
    Fcntl,
    /// Requests of `ioctl`.
    Ioctl,
    /// `SEEK_*`.
    Whence,
    /// `POSIX_FADV_*`.
    Fadvise,
    /// `MADV_*`.
    Madvise,
    /// Commands without names here.
    Other,
}

/// `O_TMPFILE`, which contains `O_DIRECTORY` (open(2)).
const O_TMPFILE: u64 = 0o20200000;

/// Whether an open with these flags makes a file without a name.
pub const fn makes_nameless(open_flags: u64) -> bool {
    open_flags & O_TMPFILE == O_TMPFILE
}

impl FlagSet {
    /// Bits and their names; where one includes another the wider comes first.
    pub const fn names(self) -> &'static [(u64, &'static str)] {
        match self {
            FlagSet::Open => &[
                (O_TMPFILE, "O_TMPFILE"),
                (0o4010000, "O_SYNC"),
                (0o1, "O_WRONLY"),
                (0o2, "O_RDWR"),
                (0o100, "O_CREAT"),
                (0o200, "O_EXCL"),
                (0o400, "O_NOCTTY"),
                (0o1000, "O_TRUNC"),
                (0o2000, "O_APPEND"),
                (0o4000, "O_NONBLOCK"),
                (0o10000, "O_DSYNC"),
                (0o20000, "O_ASYNC"),
                (0o40000, "O_DIRECT"),
                (0o100000, "O_LARGEFILE"),
                (0o200000, "O_DIRECTORY"),
                (0o400000, "O_NOFOLLOW"),
                (0o1000000, "O_NOATIME"),
                (0o2000000, "O_CLOEXEC"),
                (0o10000000, "O_PATH"),
            ],
            FlagSet::At => &[
                (0x100, "AT_SYMLINK_NOFOLLOW"),
                (0x200, "AT_EACCESS"),
                (0x400, "AT_SYMLINK_FOLLOW"),
                (0x800, "AT_NO_AUTOMOUNT"),
                (0x1000, "AT_EMPTY_PATH"),
                (0x2000, "AT_STATX_FORCE_SYNC"),
                (0x4000, "AT_STATX_DONT_SYNC"),
            ],
            FlagSet::Unlink => &[(0x200, "AT_REMOVEDIR")],
            FlagSet::Rename => &[(1, "RENAME_NOREPLACE"), (2, "RENAME_EXCHANGE"), (4, "RENAME_WHITEOUT")],
            FlagSet::Access => &[(4, "R_OK"), (2, "W_OK"), (1, "X_OK")],
            FlagSet::Allocate => &[
                (1, "FALLOC_FL_KEEP_SIZE"),
                (2, "FALLOC_FL_PUNCH_HOLE"),
                (8, "FALLOC_FL_COLLAPSE_RANGE"),
                (16, "FALLOC_FL_ZERO_RANGE"),
                (32, "FALLOC_FL_INSERT_RANGE"),
                (64, "FALLOC_FL_UNSHARE_RANGE"),
            ],
            FlagSet::ReadWrite => &[
                (1, "RWF_HIPRI"),
                (2, "RWF_DSYNC"),
                (4, "RWF_SYNC"),
                (8, "RWF_NOWAIT"),
                (16, "RWF_APPEND"),
                (32, "RWF_NOAPPEND"),
                (64, "RWF_ATOMIC"),
                (128, "RWF_DONTCACHE"),
            ],
            FlagSet::Xattr => &[(1, "XATTR_CREATE"), (2, "XATTR_REPLACE")],
            FlagSet::Protection => &[(1, "PROT_READ"), (2, "PROT_WRITE"), (4, "PROT_EXEC")],
            FlagSet::Map => &[
                (3, "MAP_SHARED_VALIDATE"),
                (1, "MAP_SHARED"),
                (2, "MAP_PRIVATE"),
                (0x10, "MAP_FIXED"),
                (0x20, "MAP_ANONYMOUS"),
                (0x100, "MAP_GROWSDOWN"),
                (0x800, "MAP_DENYWRITE"),
                (0x2000, "MAP_LOCKED"),
                (0x4000, "MAP_NORESERVE"),
                (0x8000, "MAP_POPULATE"),
                (0x20000, "MAP_STACK"),
                (0x40000, "MAP_HUGETLB"),
                (0x100000, "MAP_FIXED_NOREPLACE"),
            ],
            FlagSet::MapSync => &[(1, "MS_ASYNC"), (2, "MS_INVALIDATE"), (4, "MS_SYNC")],
            FlagSet::Remap => &[(1, "MREMAP_MAYMOVE"), (2, "MREMAP_FIXED"), (4, "MREMAP_DONTUNMAP")],
            FlagSet::Lock => &[(1, "LOCK_SH"), (2, "LOCK_EX"), (4, "LOCK_NB"), (8, "LOCK_UN")],
            FlagSet::SyncRange => {
                &[(1, "SYNC_FILE_RANGE_WAIT_BEFORE"), (2, "SYNC_FILE_RANGE_WRITE"), (4, "SYNC_FILE_RANGE_WAIT_AFTER")]
            }
            FlagSet::Splice => {
                &[(1, "SPLICE_F_MOVE"), (2, "SPLICE_F_NONBLOCK"), (4, "SPLICE_F_MORE"), (8, "SPLICE_F_GIFT")]
            }
            FlagSet::Clone => &[
                (0x100, "CLONE_VM"),
                (0x200, "CLONE_FS"),
                (0x400, "CLONE_FILES"),
                (0x800, "CLONE_SIGHAND"),
                (0x1000, "CLONE_PIDFD"),
                (0x4000, "CLONE_VFORK"),
                (0x8000, "CLONE_PARENT"),
                (0x10000, "CLONE_THREAD"),
                (0x20000, "CLONE_NEWNS"),
                (0x40000, "CLONE_SYSVSEM"),
                (0x80000, "CLONE_SETTLS"),
                (0x100000, "CLONE_PARENT_SETTID"),
                (0x200000, "CLONE_CHILD_CLEARTID"),
                (0x1000000, "CLONE_CHILD_SETTID"),
                (0x2000000, "CLONE_NEWCGROUP"),
                (0x4000000, "CLONE_NEWUTS"),
                (0x8000000, "CLONE_NEWIPC"),
                (0x10000000, "CLONE_NEWUSER"),
                (0x20000000, "CLONE_NEWPID"),
                (0x40000000, "CLONE_NEWNET"),
            ],
            FlagSet::CloseRange => &[(2, "CLOSE_RANGE_UNSHARE"), (4, "CLOSE_RANGE_CLOEXEC")],
            FlagSet::Other => &[],
        }
    }

    /// The flags in words, as strace prints them.
    pub fn text(self, value: u64) -> String {
        let mut words = Vec::new();
        let mut rest = value;
        if self == FlagSet::Open && value & 3 == 0 {
            words.push("O_RDONLY".to_owned());
        }
        for &(bits, name) in self.names() {
            if rest & bits == bits {
                words.push(name.to_owned());
                rest &= !bits;
            }
        }
        if self == FlagSet::Access && value == 0 {
            words.push("F_OK".to_owned());
        }
        if rest != 0 || words.is_empty() {
            words.push(if rest == 0 { "0".to_owned() } else { format!("{rest:#x}") });
        }
        words.join("|")
    }
}

impl CommandSet {
    /// Commands and their names.
    pub const fn names(self) -> &'static [(u64, &'static str)] {
        match self {
            CommandSet::Fcntl => &[
                (0, "F_DUPFD"),
                (1, "F_GETFD"),
                (2, "F_SETFD"),
                (3, "F_GETFL"),
                (4, "F_SETFL"),
                (5, "F_GETLK"),
                (6, "F_SETLK"),
                (7, "F_SETLKW"),
                (8, "F_SETOWN"),
                (9, "F_GETOWN"),
                (10, "F_SETSIG"),
                (11, "F_GETSIG"),
                (15, "F_SETOWN_EX"),
                (16, "F_GETOWN_EX"),
                (36, "F_OFD_GETLK"),
                (37, "F_OFD_SETLK"),
                (38, "F_OFD_SETLKW"),
                (1024, "F_SETLEASE"),
                (1025, "F_GETLEASE"),
                (1026, "F_NOTIFY"),
                (1030, "F_DUPFD_CLOEXEC"),
                (1031, "F_SETPIPE_SZ"),
                (1032, "F_GETPIPE_SZ"),
                (1033, "F_ADD_SEALS"),
                (1034, "F_GET_SEALS"),
                (1035, "F_GET_RW_HINT"),
                (1036, "F_SET_RW_HINT"),
            ],
            CommandSet::Ioctl => &[
                (0x5401, "TCGETS"),
                (0x5402, "TCSETS"),
                (0x540f, "TIOCGPGRP"),
                (0x5410, "TIOCSPGRP"),
                (0x5413, "TIOCGWINSZ"),
                (0x541b, "FIONREAD"),
                (0x5421, "FIONBIO"),
                (0x5450, "FIONCLEX"),
                (0x5451, "FIOCLEX"),
                (0x5452, "FIOASYNC"),
                (0x40049409, "FICLONE"),
                (0x4020940d, "FICLONERANGE"),
                (0xc0189436, "FIDEDUPERANGE"),
                (0x40305828, "FS_IOC_RESVSP"),
                (0x40305829, "FS_IOC_UNRESVSP"),
                (0x4030582a, "FS_IOC_RESVSP64"),
                (0x4030582b, "FS_IOC_UNRESVSP64"),
                (0x40305839, "FS_IOC_ZERO_RANGE"),
                (0xc020660b, "FS_IOC_FIEMAP"),
                (0x80086601, "FS_IOC_GETFLAGS"),
                (0x40086602, "FS_IOC_SETFLAGS"),
                (0x801c581f, "FS_IOC_FSGETXATTR"),
                (0x401c5820, "FS_IOC_FSSETXATTR"),
                (0x81009431, "FS_IOC_GETFSLABEL"),
                (0x1, "FIBMAP"),
                (0x2, "FIGETBSZ"),
                (0xc0045877, "FIFREEZE"),
                (0xc0185879, "FITRIM"),
            ],
            CommandSet::Whence => {
                &[(0, "SEEK_SET"), (1, "SEEK_CUR"), (2, "SEEK_END"), (3, "SEEK_DATA"), (4, "SEEK_HOLE")]
            }
            CommandSet::Fadvise => &[
                (0, "POSIX_FADV_NORMAL"),
                (1, "POSIX_FADV_RANDOM"),
                (2, "POSIX_FADV_SEQUENTIAL"),
                (3, "POSIX_FADV_WILLNEED"),
                (4, "POSIX_FADV_DONTNEED"),
                (5, "POSIX_FADV_NOREUSE"),
            ],
            CommandSet::Madvise => &[
                (0, "MADV_NORMAL"),
                (1, "MADV_RANDOM"),
                (2, "MADV_SEQUENTIAL"),
                (3, "MADV_WILLNEED"),
                (4, "MADV_DONTNEED"),
                (8, "MADV_FREE"),
                (9, "MADV_REMOVE"),
                (14, "MADV_HUGEPAGE"),
                (15, "MADV_NOHUGEPAGE"),
            ],
            CommandSet::Other => &[],
        }
    }

    /// The command in words.
    pub fn text(self, value: u64) -> String {
        let value = value & 0xffff_ffff;
        self.names().iter().find(|(v, _)| *v == value).map_or_else(|| format!("{value:#x}"), |(_, n)| (*n).to_owned())
    }
}
