//! Names of constants that strace prints: those of the table of calls, and others that matter to a replay.

use std::collections::HashMap;
use std::sync::LazyLock;

use reprise_calls::{CommandSet, FlagSet};

const FLAGS: [FlagSet; 17] = [
    FlagSet::Open,
    FlagSet::At,
    FlagSet::Unlink,
    FlagSet::Rename,
    FlagSet::Access,
    FlagSet::Allocate,
    FlagSet::ReadWrite,
    FlagSet::Xattr,
    FlagSet::Protection,
    FlagSet::Map,
    FlagSet::MapSync,
    FlagSet::Remap,
    FlagSet::Lock,
    FlagSet::SyncRange,
    FlagSet::Splice,
    FlagSet::Clone,
    FlagSet::CloseRange,
];

const COMMANDS: [CommandSet; 5] =
    [CommandSet::Fcntl, CommandSet::Ioctl, CommandSet::Whence, CommandSet::Fadvise, CommandSet::Madvise];

/// Constants of `include/uapi` that the table of calls does not name.
#[rustfmt::skip]
const OTHERS: &[(&str, u64)] = &[
    ("AT_FDCWD", 0xffff_ff9c), ("F_OK", 0), ("O_RDONLY", 0), ("O_ACCMODE", 3), ("O_NDELAY", 0o4000), ("FASYNC", 0o20000),
    ("__O_SYNC", 0o4000000), ("__O_TMPFILE", 0o20000000), ("O_LARGEFILE", 0o100000), ("O_PATH", 0o10000000),
    ("FD_CLOEXEC", 1), ("PROT_NONE", 0), ("PROT_SEM", 8), ("PROT_GROWSDOWN", 0x100_0000), ("PROT_GROWSUP", 0x200_0000),
    ("MAP_FILE", 0), ("MAP_ANON", 0x20), ("MAP_32BIT", 0x40), ("MAP_EXECUTABLE", 0x1000), ("MAP_NONBLOCK", 0x10000),
    ("MAP_SYNC", 0x80000), ("AT_STATX_SYNC_AS_STAT", 0), ("AT_SYMLINK_NOFOLLOW", 0x100), ("AT_RECURSIVE", 0x8000),
    ("AT_EACCESS", 0x200), ("FALLOC_FL_KEEP_SIZE", 1),
    ("S_IFMT", 0o170000), ("S_IFSOCK", 0o140000), ("S_IFLNK", 0o120000), ("S_IFREG", 0o100000), ("S_IFBLK", 0o060000),
    ("S_IFDIR", 0o040000), ("S_IFCHR", 0o020000), ("S_IFIFO", 0o010000), ("S_ISUID", 0o4000), ("S_ISGID", 0o2000),
    ("S_ISVTX", 0o1000),
    ("F_GETLK64", 5), ("F_SETLK64", 6), ("F_SETLKW64", 7), ("F_CANCELLK", 1029), ("F_GET_FILE_RW_HINT", 1037),
    ("F_SET_FILE_RW_HINT", 1038), ("F_DUPFD_QUERY", 1027), ("F_CREATED_QUERY", 1028),
    ("F_RDLCK", 0), ("F_WRLCK", 1), ("F_UNLCK", 2),
    ("F_SEAL_SEAL", 1), ("F_SEAL_SHRINK", 2), ("F_SEAL_GROW", 4), ("F_SEAL_WRITE", 8), ("F_SEAL_FUTURE_WRITE", 16),
    ("F_SEAL_EXEC", 32), ("F_OWNER_TID", 0), ("F_OWNER_PID", 1), ("F_OWNER_PGRP", 2),
    ("MFD_CLOEXEC", 1), ("MFD_ALLOW_SEALING", 2), ("MFD_HUGETLB", 4), ("MFD_NOEXEC_SEAL", 8), ("MFD_EXEC", 16), ("MFD_HUGE_SHIFT", 26), ("MAP_HUGE_SHIFT", 26),
    ("SOCK_STREAM", 1), ("SOCK_DGRAM", 2), ("SOCK_RAW", 3), ("SOCK_RDM", 4), ("SOCK_SEQPACKET", 5),
    ("SOCK_CLOEXEC", 0o2000000), ("SOCK_NONBLOCK", 0o4000),
    ("AF_UNSPEC", 0), ("AF_UNIX", 1), ("AF_LOCAL", 1), ("AF_INET", 2), ("AF_INET6", 10), ("AF_NETLINK", 16),
    ("AF_PACKET", 17), ("PF_UNSPEC", 0), ("PF_FILE", 1), ("PF_UNIX", 1), ("PF_LOCAL", 1), ("PF_INET", 2), ("PF_INET6", 10),
    ("PF_NETLINK", 16), ("PF_PACKET", 17), ("IPPROTO_IP", 0), ("IPPROTO_TCP", 6), ("IPPROTO_UDP", 17), ("IPPROTO_IPV6", 41),
    ("IPPROTO_ICMP", 1), ("NETLINK_ROUTE", 0), ("NETLINK_AUDIT", 9), ("NETLINK_KOBJECT_UEVENT", 15),
    ("SHUT_RD", 0), ("SHUT_WR", 1), ("SHUT_RDWR", 2), ("SOL_SOCKET", 1), ("SOL_IP", 0), ("SOL_TCP", 6), ("SOL_IPV6", 41),
    ("EPOLL_CLOEXEC", 0o2000000), ("EPOLL_CTL_ADD", 1), ("EPOLL_CTL_DEL", 2), ("EPOLL_CTL_MOD", 3),
    ("EFD_CLOEXEC", 0o2000000), ("EFD_NONBLOCK", 0o4000), ("EFD_SEMAPHORE", 1), ("TFD_CLOEXEC", 0o2000000),
    ("TFD_NONBLOCK", 0o4000), ("SFD_CLOEXEC", 0o2000000), ("SFD_NONBLOCK", 0o4000), ("PIDFD_NONBLOCK", 0o4000),
    ("UFFD_USER_MODE_ONLY", 1), ("CLOCK_REALTIME", 0), ("CLOCK_MONOTONIC", 1), ("CLOCK_BOOTTIME", 7),
    ("IN_CLOEXEC", 0o2000000), ("IN_NONBLOCK", 0o4000), ("IN_ACCESS", 1), ("IN_MODIFY", 2), ("IN_ATTRIB", 4),
    ("IN_CLOSE_WRITE", 8), ("IN_CLOSE_NOWRITE", 16), ("IN_OPEN", 32), ("IN_MOVED_FROM", 64), ("IN_MOVED_TO", 128),
    ("IN_CREATE", 256), ("IN_DELETE", 512), ("IN_DELETE_SELF", 1024), ("IN_MOVE_SELF", 2048),
    ("IN_ONLYDIR", 0x100_0000), ("IN_DONT_FOLLOW", 0x200_0000), ("IN_EXCL_UNLINK", 0x400_0000),
    ("IN_MASK_CREATE", 0x1000_0000), ("IN_MASK_ADD", 0x2000_0000), ("IN_ISDIR", 0x4000_0000), ("IN_ONESHOT", 0x8000_0000),
    ("P_ALL", 0), ("P_PID", 1), ("P_PGID", 2), ("P_PIDFD", 3), ("WNOHANG", 1), ("WSTOPPED", 2), ("WUNTRACED", 2),
    ("WEXITED", 4), ("WCONTINUED", 8), ("WNOWAIT", 0x100_0000), ("__WNOTHREAD", 0x2000_0000), ("__WALL", 0x4000_0000),
    ("__WCLONE", 0x8000_0000), ("LOCK_MAND", 32), ("LOCK_READ", 64), ("LOCK_WRITE", 128), ("LOCK_RW", 192),
    ("MS_RDONLY", 1), ("MS_NOSUID", 2), ("MS_NODEV", 4), ("MS_NOEXEC", 8), ("MS_SYNCHRONOUS", 16), ("MS_REMOUNT", 32),
    ("MS_MANDLOCK", 64), ("MS_DIRSYNC", 128), ("MS_NOSYMFOLLOW", 256), ("MS_NOATIME", 1024), ("MS_NODIRATIME", 2048),
    ("MS_BIND", 4096), ("MS_MOVE", 8192), ("MS_REC", 16384), ("MS_SILENT", 32768), ("MS_POSIXACL", 1 << 16),
    ("MS_UNBINDABLE", 1 << 17), ("MS_PRIVATE", 1 << 18), ("MS_SLAVE", 1 << 19), ("MS_SHARED", 1 << 20),
    ("MS_RELATIME", 1 << 21), ("MS_STRICTATIME", 1 << 24), ("MS_LAZYTIME", 1 << 25),
    ("MOUNT_ATTR_IDMAP", 1 << 20),
    ("MNT_FORCE", 1), ("MNT_DETACH", 2), ("MNT_EXPIRE", 4), ("UMOUNT_NOFOLLOW", 8),
    ("CLONE_PTRACE", 0x2000), ("CLONE_DETACHED", 0x400000), ("CLONE_UNTRACED", 0x800000), ("CLONE_NEWCGROUP", 0x2000000),
    ("CLONE_NEWUTS", 0x4000000), ("CLONE_NEWIPC", 0x8000000), ("CLONE_NEWUSER", 0x10000000), ("CLONE_NEWPID", 0x20000000),
    ("CLONE_NEWNET", 0x40000000), ("CLONE_IO", 0x80000000), ("CLONE_CLEAR_SIGHAND", 0x1_0000_0000),
    ("CLONE_INTO_CGROUP", 0x2_0000_0000), ("SIGHUP", 1), ("SIGINT", 2), ("SIGQUIT", 3), ("SIGILL", 4), ("SIGTRAP", 5),
    ("SIGABRT", 6), ("SIGIOT", 6), ("SIGBUS", 7), ("SIGFPE", 8), ("SIGKILL", 9), ("SIGUSR1", 10), ("SIGSEGV", 11),
    ("SIGUSR2", 12), ("SIGPIPE", 13), ("SIGALRM", 14), ("SIGTERM", 15), ("SIGSTKFLT", 16), ("SIGCHLD", 17), ("SIGCONT", 18),
    ("SIGSTOP", 19), ("SIGTSTP", 20), ("SIGTTIN", 21), ("SIGTTOU", 22), ("SIGURG", 23), ("SIGXCPU", 24), ("SIGXFSZ", 25),
    ("SIGVTALRM", 26), ("SIGPROF", 27), ("SIGWINCH", 28), ("SIGIO", 29), ("SIGPWR", 30), ("SIGSYS", 31),
    ("STATX_TYPE", 1), ("STATX_MODE", 2), ("STATX_NLINK", 4), ("STATX_UID", 8), ("STATX_GID", 16), ("STATX_ATIME", 32),
    ("STATX_MTIME", 64), ("STATX_CTIME", 128), ("STATX_INO", 256), ("STATX_SIZE", 512), ("STATX_BLOCKS", 1024),
    ("STATX_BASIC_STATS", 0x7ff), ("STATX_BTIME", 0x800), ("STATX_ALL", 0xfff), ("STATX_MNT_ID", 0x1000),
    ("STATX_DIOALIGN", 0x2000), ("STATX_MNT_ID_UNIQUE", 0x4000), ("STATX_SUBVOL", 0x8000), ("STATX_WRITE_ATOMIC", 0x10000),
    ("UTIME_NOW", 0x3fff_ffff), ("UTIME_OMIT", 0x3fff_fffe), ("RESOLVE_NO_XDEV", 1), ("RESOLVE_NO_MAGICLINKS", 2),
    ("RESOLVE_NO_SYMLINKS", 4), ("RESOLVE_BENEATH", 8), ("RESOLVE_IN_ROOT", 16), ("RESOLVE_CACHED", 32),
    ("DT_UNKNOWN", 0), ("DT_FIFO", 1), ("DT_CHR", 2), ("DT_DIR", 4), ("DT_BLK", 6), ("DT_REG", 8), ("DT_LNK", 10),
    ("DT_SOCK", 12), ("DT_WHT", 14), ("OPEN_TREE_CLONE", 1), ("OPEN_TREE_CLOEXEC", 0o2000000),
    ("MOVE_MOUNT_F_AUTOMOUNTS", 2), ("MOVE_MOUNT_F_EMPTY_PATH", 4), ("MOVE_MOUNT_T_AUTOMOUNTS", 0x20),
    ("MOVE_MOUNT_T_EMPTY_PATH", 0x40), ("MOVE_MOUNT_SET_GROUP", 0x100), ("MOVE_MOUNT_BENEATH", 0x200),
    ("LOOP_SET_FD", 0x4c00), ("LOOP_CLR_FD", 0x4c01), ("LOOP_SET_STATUS64", 0x4c04), ("LOOP_GET_STATUS64", 0x4c05),
    ("LOOP_CHANGE_FD", 0x4c06), ("LOOP_CONFIGURE", 0x4c0a), ("LOOP_CTL_GET_FREE", 0x4c82),
    ("MOVE_MOUNT_F_SYMLINKS", 1), ("MOVE_MOUNT_T_SYMLINKS", 0x10), ("FSOPEN_CLOEXEC", 1), ("FSMOUNT_CLOEXEC", 1),
    ("FAN_MARK_ADD", 1), ("FAN_MARK_REMOVE", 2), ("FAN_MARK_DONT_FOLLOW", 4), ("FAN_MARK_MOUNT", 16),
    ("MADV_POPULATE_READ", 22), ("MADV_POPULATE_WRITE", 23), ("MADV_DONTFORK", 10), ("MADV_DOFORK", 11),
    ("MADV_DONTDUMP", 16), ("MADV_DODUMP", 17), ("MADV_COLD", 20), ("MADV_PAGEOUT", 21), ("MADV_MERGEABLE", 12),
    ("MADV_UNMERGEABLE", 13), ("MADV_HWPOISON", 100), ("MADV_WIPEONFORK", 18), ("MADV_KEEPONFORK", 19),
    ("BTRFS_IOC_CLONE", 0x40049409), ("BTRFS_IOC_CLONE_RANGE", 0x4020940d), ("TCSETSW", 0x5403), ("TCSETSF", 0x5404),
    ("TCGETS2", 0x802c542a), ("TCSETS2", 0x402c542b), ("TCSETSW2", 0x402c542c), ("TCSETSF2", 0x402c542d), ("TIOCINQ", 0x541b), ("TIOCSWINSZ", 0x5414), ("TIOCSCTTY", 0x540e), ("TIOCNOTTY", 0x5422),
    ("TIOCGPTN", 0x80045430), ("TIOCSPTLCK", 0x40045431), ("TIOCGPTPEER", 0x5441), ("FIOQSIZE", 0x5460), ("FIONREAD", 0x541b),
    ("SIOCGIFCONF", 0x8912), ("SIOCGIFFLAGS", 0x8913), ("BLKGETSIZE64", 0x80081272), ("BLKGETSIZE", 0x1260), ("BLKSSZGET", 0x1268),
    ("BLKDISCARD", 0x1277), ("BLKFLSBUF", 0x1261), ("FITRIM", 0xc0185879), ("HDIO_GETGEO", 0x301), ("CDROM_GET_CAPABILITY", 0x5331),
    ("FS_IOC32_GETFLAGS", 0x80086601), ("FS_IOC_GETVERSION", 0x80087601), ("EXT2_IOC_GETFLAGS", 0x80086601), ("EXT2_IOC_SETFLAGS", 0x40086602), ("EXT4_IOC_GETFLAGS", 0x80086601),
    ("GRND_NONBLOCK", 1), ("GRND_RANDOM", 2), ("CLOSE_RANGE_UNSHARE", 2), ("CLOSE_RANGE_CLOEXEC", 4),
    ("-1", u64::MAX), ("SECCOMP_SET_MODE_FILTER", 1), ("SECCOMP_SET_MODE_STRICT", 0), ("PTRACE_TRACEME", 0),
    ("MSG_OOB", 1), ("MSG_PEEK", 2), ("MSG_DONTWAIT", 0x40), ("MSG_NOSIGNAL", 0x4000), ("MSG_CMSG_CLOEXEC", 0x4000_0000), ("MSG_TRUNC", 0x20), ("MSG_WAITALL", 0x100), ("MSG_MORE", 0x8000),
];

static SYMBOLS: LazyLock<HashMap<&'static [u8], u64>> = LazyLock::new(|| {
    let flags = FLAGS.iter().flat_map(|set| set.names());
    let commands = COMMANDS.iter().flat_map(|set| set.names());
    let named = flags.chain(commands).map(|(number, name)| (name.as_bytes(), *number));
    named.chain(OTHERS.iter().map(|(name, number)| (name.as_bytes(), *number))).collect()
});

/// The number of a constant.
pub fn symbol(word: &[u8]) -> Option<u64> {
    SYMBOLS.get(word).copied()
}

/// The number of a signal (`SIGKILL`, `SIGRT_3`).
pub fn signal(word: &[u8]) -> Option<i32> {
    if let Some(real_time) = word.strip_prefix(b"SIGRT_").or_else(|| word.strip_prefix(b"SIGRTMIN+")) {
        return super::value::plain(real_time).map(|n| 32 + n as i32);
    }
    symbol(word).filter(|_| word.starts_with(b"SIG")).map(|n| n as i32)
}
