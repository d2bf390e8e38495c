//! Raw system calls behind thin safe wrappers: the only module of this crate with `unsafe`.
//!
//! Goals: one wrapper per call, no policy, `io::Error` of the call's errno, descriptors owned at once and close-on-exec.
//! Non-goals: retries, paths of error messages, portability beyond 64-bit Linux. A name with a NUL byte is `EINVAL`
//! everywhere; all names are relative to the given directory unless said otherwise.
#![allow(unsafe_code)]

mod attributes;
mod process;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libc::{c_int, c_long};

pub use attributes::*;
pub use process::*;

/// What `statx` says of one file. Times in nanoseconds since the epoch, saturating; sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Stat {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    pub ino: u64,
    pub size: u64,
    /// Device number of a device node, as `makedev` packs it.
    pub rdev: u64,
    /// Device number of the file system.
    pub dev: u64,
    /// Which mount it was reached through; unique while that mount lives.
    pub mount: u64,
    pub atime_ns: i64,
    pub mtime_ns: i64,
    pub ctime_ns: i64,
}

impl Stat {
    /// The type bits of the mode (`S_IFREG` …).
    pub fn kind(&self) -> u32 {
        self.mode & libc::S_IFMT
    }
}

fn text(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// # Safety
/// The arguments must be what the call expects: pointers valid for what the kernel reads and writes through them.
unsafe fn call(number: c_long, args: [usize; 6]) -> io::Result<usize> {
    let [a, b, c, d, e, f] = args;
    // SAFETY: passed on to the caller.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as usize) }
}

/// # Safety
/// As [`call`]; in addition a success must return a new descriptor.
unsafe fn call_fd(number: c_long, args: [usize; 6]) -> io::Result<OwnedFd> {
    // SAFETY: passed on to the caller; a descriptor just returned has no other owner.
    unsafe { Ok(OwnedFd::from_raw_fd(call(number, args)? as RawFd)) }
}

fn raw(fd: BorrowedFd<'_>) -> usize {
    fd.as_raw_fd() as usize
}

/// `openat2` with `O_CLOEXEC`. `resolve` are `RESOLVE_*` bits.
pub fn openat2(dir: BorrowedFd<'_>, path: &[u8], flags: c_int, mode: u32, resolve: u64) -> io::Result<OwnedFd> {
    let path = text(path)?;
    let how = [(flags | libc::O_CLOEXEC) as u64, u64::from(mode), resolve];
    // SAFETY: `how` has the layout of `struct open_how` (three u64), both pointers outlive the call.
    unsafe {
        let args = [raw(dir), path.as_ptr() as usize, how.as_ptr() as usize, size_of_val(&how), 0, 0];
        call_fd(libc::SYS_openat2, args)
    }
}

macro_rules! by_name {
    ($($(#[$doc:meta])* $name:ident, $nr:ident, ($($arg:ident: $type:ty),*) => [$($rest:expr),*];)*) => {$(
        $(#[$doc])*
        pub fn $name(dir: BorrowedFd<'_>, name: &[u8] $(, $arg: $type)*) -> io::Result<()> {
            let name = text(name)?;
            let mut args = [raw(dir), name.as_ptr() as usize, 0, 0, 0, 0];
            for (slot, value) in args[2..].iter_mut().zip([$($rest as usize),*]) {
                *slot = value;
            }
            // SAFETY: the name is a C string that outlives the call; the other arguments are plain numbers.
            unsafe { call(libc::$nr, args).map(drop) }
        }
    )*};
}

by_name! {
    /// `mkdirat`.
    mkdir, SYS_mkdirat, (mode: u32) => [mode];
    /// `mknodat`: `mode` with its type bits, `rdev` as the kernel packs it.
    mknod, SYS_mknodat, (mode: u32, rdev: u32) => [mode, rdev];
    /// `unlinkat`; `AT_REMOVEDIR` in `flags` for directories.
    unlink, SYS_unlinkat, (flags: c_int) => [flags];
    /// `fchownat`; `flags` such as `AT_SYMLINK_NOFOLLOW`, `AT_EMPTY_PATH`.
    chown, SYS_fchownat, (uid: u32, gid: u32, flags: c_int) => [uid, gid, flags];
    /// `fchmodat2` (Linux 6.6, else `ENOSYS`), `flags` as for [`chown`].
    chmod, SYS_fchmodat2, (mode: u32, flags: c_int) => [mode, flags];
    /// `faccessat2`: `mode` such as `W_OK`.
    access, SYS_faccessat2, (mode: c_int, flags: c_int) => [mode, flags];
}

/// `symlinkat`: makes `name` a link with the text `target`.
pub fn symlink(target: &[u8], dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    let (target, name) = (text(target)?, text(name)?);
    // SAFETY: both are C strings that outlive the call.
    unsafe {
        let args = [target.as_ptr() as usize, raw(dir), name.as_ptr() as usize, 0, 0, 0];
        call(libc::SYS_symlinkat, args).map(drop)
    }
}

fn two_names(
    number: c_long,
    from: (BorrowedFd<'_>, &[u8]),
    to: (BorrowedFd<'_>, &[u8]),
    flags: c_int,
) -> io::Result<()> {
    let (old, new) = (text(from.1)?, text(to.1)?);
    // SAFETY: both are C strings that outlive the call.
    unsafe {
        let args = [raw(from.0), old.as_ptr() as usize, raw(to.0), new.as_ptr() as usize, flags as usize, 0];
        call(number, args).map(drop)
    }
}

/// `linkat` without following a symbolic link.
pub fn link(from: (BorrowedFd<'_>, &[u8]), to: (BorrowedFd<'_>, &[u8])) -> io::Result<()> {
    two_names(libc::SYS_linkat, from, to, 0)
}

/// `renameat2` that replaces nothing (`RENAME_NOREPLACE`).
pub fn rename(from: (BorrowedFd<'_>, &[u8]), to: (BorrowedFd<'_>, &[u8])) -> io::Result<()> {
    two_names(libc::SYS_renameat2, from, to, libc::RENAME_NOREPLACE as c_int)
}

/// `statx` without following a symbolic link or an automount; the empty name means `dir` itself.
pub fn stat(dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<Stat> {
    let name = text(name)?;
    // SAFETY: `statx` is plain data; the kernel fills it within its size, the name is a C string.
    let s = unsafe {
        let mut s: libc::statx = std::mem::zeroed();
        let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT | libc::AT_EMPTY_PATH;
        let mask = libc::STATX_BASIC_STATS | libc::STATX_MNT_ID;
        let args = [raw(dir), name.as_ptr() as usize, flags as usize, mask as usize, &raw mut s as usize, 0];
        call(libc::SYS_statx, args)?;
        s
    };
    let ns = |t: libc::statx_timestamp| t.tv_sec.saturating_mul(1_000_000_000).saturating_add(i64::from(t.tv_nsec));
    Ok(Stat {
        mode: u32::from(s.stx_mode),
        uid: s.stx_uid,
        gid: s.stx_gid,
        nlink: s.stx_nlink,
        ino: s.stx_ino,
        size: s.stx_size,
        rdev: libc::makedev(s.stx_rdev_major, s.stx_rdev_minor),
        dev: libc::makedev(s.stx_dev_major, s.stx_dev_minor),
        mount: s.stx_mnt_id,
        atime_ns: ns(s.stx_atime),
        mtime_ns: ns(s.stx_mtime),
        ctime_ns: ns(s.stx_ctime),
    })
}

/// `utimensat` without following a symbolic link; the empty name means `dir` itself. Nanoseconds since the epoch.
pub fn set_times(dir: BorrowedFd<'_>, name: &[u8], atime_ns: i64, mtime_ns: i64) -> io::Result<()> {
    let name = text(name)?;
    let split = |ns: i64| [ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000)];
    let times = [split(atime_ns), split(mtime_ns)];
    let flags = libc::AT_SYMLINK_NOFOLLOW | if name.is_empty() { libc::AT_EMPTY_PATH } else { 0 };
    // SAFETY: `times` has the layout of two 64-bit `timespec`, the name is a C string; both outlive the call.
    unsafe {
        let args = [raw(dir), name.as_ptr() as usize, times.as_ptr() as usize, flags as usize, 0, 0];
        call(libc::SYS_utimensat, args).map(drop)
    }
}

/// `cachestat` (Linux 6.5): bytes of a file's contents that are cached, in whole pages.
pub fn cached_bytes(file: BorrowedFd<'_>) -> io::Result<u64> {
    const SYS_CACHESTAT: c_long = 451;
    const PAGE_BYTES: u64 = 4096;
    // From 0 on, 0: to the end. Of the answer, the first number is that of cached pages.
    let (range, mut found) = ([0u64; 2], [0u64; 5]);
    // SAFETY: the layouts of `struct cachestat_range` and `struct cachestat`; both outlive the call.
    unsafe {
        let args = [raw(file), range.as_ptr() as usize, found.as_mut_ptr() as usize, 0, 0, 0];
        call(SYS_CACHESTAT, args)?;
    }
    Ok(found[0].saturating_mul(PAGE_BYTES))
}

macro_rules! by_number {
    ($($(#[$doc:meta])* $name:ident, $nr:ident, ($($arg:ident: $type:ty),*) => [$($pass:expr),*];)*) => {$(
        $(#[$doc])*
        pub fn $name($($arg: $type),*) -> io::Result<()> {
            let mut args = [0usize; 6];
            for (slot, value) in args.iter_mut().zip([$($pass as usize),*]) {
                *slot = value;
            }
            // SAFETY: plain numbers only; nothing in this process is read or written through them.
            unsafe { call(libc::$nr, args).map(drop) }
        }
    )*};
}

by_number! {
    /// `syncfs`: writes out the file system of `fd`.
    synchronize, SYS_syncfs, (fd: BorrowedFd<'_>) => [raw(fd)];
    /// `fadvise64(POSIX_FADV_DONTNEED)`: drops what is cached of a part of a file and need not be written first; a length of 0
    /// means all the rest.
    forget, SYS_fadvise64, (fd: BorrowedFd<'_>, from: u64, length: u64) => [raw(fd), from, length, libc::POSIX_FADV_DONTNEED];
    /// `unshare`: `CLONE_NEW*` bits.
    unshare, SYS_unshare, (flags: c_int) => [flags];
    /// `fchdir`.
    change_directory, SYS_fchdir, (dir: BorrowedFd<'_>) => [raw(dir)];
    /// `prctl(PR_SET_NO_NEW_PRIVS)`: an exec never gains privileges, for good.
    no_new_privileges, SYS_prctl, () => [libc::PR_SET_NO_NEW_PRIVS, 1];
    /// `prctl(PR_SET_PDEATHSIG, SIGKILL)`: die when the parent thread ends.
    die_with_parent, SYS_prctl, () => [libc::PR_SET_PDEATHSIG, libc::SIGKILL];
    /// `prctl(PR_CAPBSET_DROP)`: removes one capability from the bounding set, for good.
    drop_bounding, SYS_prctl, (capability: u32) => [libc::PR_CAPBSET_DROP, capability];
    /// `prctl(PR_CAP_AMBIENT_CLEAR_ALL)`.
    clear_ambient, SYS_prctl, () => [libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL];
    /// `landlock_restrict_self`.
    landlock_restrict, SYS_landlock_restrict_self, (ruleset: BorrowedFd<'_>) => [raw(ruleset)];
}
