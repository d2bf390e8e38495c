//! Files as the walk needs them: by handle, never following a link unasked.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::check;

/// Device and inode: what a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

/// The attributes of a file.
#[derive(Debug, Clone, Copy)]
pub struct Stat {
    /// What it is.
    pub id: FileId,
    /// Type and permission bits.
    pub mode: u32,
    /// Hard links.
    pub nlink: u64,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Device number of a node.
    pub rdev: u64,
    /// Access time, nanoseconds since the epoch.
    pub atime_ns: i64,
    /// Modification time.
    pub mtime_ns: i64,
    /// Change time.
    pub ctime_ns: i64,
}

impl Stat {
    /// The file type bits.
    pub fn kind(&self) -> u32 {
        self.mode & libc::S_IFMT
    }
    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.kind() == libc::S_IFREG
    }
    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind() == libc::S_IFDIR
    }
    /// Whether it is a symbolic link.
    pub fn is_link(&self) -> bool {
        self.kind() == libc::S_IFLNK
    }
}

/// The descriptor number that means the working directory.
pub const HERE: RawFd = libc::AT_FDCWD;

/// Attributes of a name in a directory; `flags` as for `fstatat`. An empty name means the directory itself.
pub fn stat_at(dir: RawFd, name: &CStr, flags: i32) -> io::Result<Stat> {
    let mut s = std::mem::MaybeUninit::<libc::stat>::uninit();
    let flags = flags | libc::AT_NO_AUTOMOUNT;
    // SAFETY: the kernel fills `s` when it succeeds, and only then it is read.
    let s = unsafe {
        check(libc::fstatat(dir, name.as_ptr(), s.as_mut_ptr(), flags).into())?;
        s.assume_init()
    };
    let ns = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
    Ok(Stat {
        id: FileId { device: s.st_dev, inode: s.st_ino },
        mode: s.st_mode,
        nlink: s.st_nlink,
        uid: s.st_uid,
        gid: s.st_gid,
        size: u64::try_from(s.st_size).unwrap_or(0),
        rdev: s.st_rdev,
        atime_ns: ns(s.st_atime, s.st_atime_nsec),
        mtime_ns: ns(s.st_mtime, s.st_mtime_nsec),
        ctime_ns: ns(s.st_ctime, s.st_ctime_nsec),
    })
}

/// Attributes of an open file.
pub fn stat_fd(fd: impl AsFd) -> io::Result<Stat> {
    stat_at(fd.as_fd().as_raw_fd(), c"", libc::AT_EMPTY_PATH)
}

/// Opens a name in a directory.
pub fn open_at(dir: RawFd, name: &CStr, flags: i32) -> io::Result<OwnedFd> {
    // SAFETY: the name is a C string; the descriptor returned is new and so owned.
    unsafe {
        let fd = check(libc::openat(dir, name.as_ptr(), flags | libc::O_CLOEXEC).into())?;
        Ok(OwnedFd::from_raw_fd(fd as RawFd))
    }
}

/// The seals of a file in memory (`F_GET_SEALS`).
#[cfg(ebpf)]
pub fn seals(path: &CStr) -> Option<u32> {
    let file = open_at(HERE, path, libc::O_RDONLY | libc::O_NONBLOCK).ok()?;
    // SAFETY: no pointers.
    u32::try_from(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) }).ok()
}

/// Text of a symbolic link.
pub fn read_link_at(dir: RawFd, name: &CStr) -> io::Result<Vec<u8>> {
    let mut text = vec![0u8; libc::PATH_MAX as usize];
    // SAFETY: the buffer is as long as stated.
    let n = unsafe { check(libc::readlinkat(dir, name.as_ptr(), text.as_mut_ptr().cast(), text.len()) as i64)? };
    text.truncate(n as usize);
    Ok(text)
}

/// Type of the file system that holds what the path names.
pub fn filesystem_of(path: &CStr) -> io::Result<u64> {
    let mut s = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the kernel fills `s` when it succeeds, and only then it is read.
    unsafe {
        check(libc::statfs(path.as_ptr(), s.as_mut_ptr()).into())?;
        Ok(s.assume_init().f_type as u64)
    }
}

/// Names of the extended attributes of what the path names (a link itself), each ended by NUL.
pub fn list_xattrs(path: &CStr) -> io::Result<Vec<u8>> {
    let mut names = vec![0u8; 256];
    loop {
        // SAFETY: the buffer is as long as stated.
        let n = unsafe { libc::llistxattr(path.as_ptr(), names.as_mut_ptr().cast(), names.len()) };
        match check(n as i64) {
            Ok(n) => {
                names.truncate(n as usize);
                return Ok(names);
            }
            Err(e) if e.raw_os_error() == Some(libc::ERANGE) && names.len() < 1 << 16 => {
                names.resize(1 << 16, 0);
            }
            Err(e) => return Err(e),
        }
    }
}

/// Value of an extended attribute.
pub fn get_xattr(path: &CStr, name: &CStr) -> io::Result<Vec<u8>> {
    let mut value = vec![0u8; 1 << 16];
    let (p, n) = (path.as_ptr(), name.as_ptr());
    // SAFETY: the buffer is as long as stated.
    let n = unsafe { check(libc::lgetxattr(p, n, value.as_mut_ptr().cast(), value.len()) as i64)? };
    value.truncate(n as usize);
    Ok(value)
}

/// Reads from the begin of a file what is in the page cache; fewer bytes, or an error, where it would have to be fetched.
#[cfg(ebpf)]
pub fn read_cached(fd: impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    let vector = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: the vector names one buffer, which is borrowed for the call.
    let got = unsafe { libc::preadv2(fd.as_fd().as_raw_fd(), &vector, 1, 0, libc::RWF_NOWAIT) };
    Ok(check(got as i64)? as usize)
}

/// The next data (or hole) at or after an offset; `None` at the end of the file.
pub fn seek_to(fd: impl AsFd, offset: u64, whence: i32) -> io::Result<Option<u64>> {
    // SAFETY: no memory is involved.
    let at = unsafe { libc::lseek(fd.as_fd().as_raw_fd(), offset as i64, whence) };
    match check(at) {
        Ok(at) => Ok(Some(at as u64)),
        Err(e) if e.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Whether two descriptors of a process share one open file description; `None` where the kernel does not tell.
pub fn same_description(pid: i32, a: u32, b: u32) -> Option<bool> {
    const KCMP_FILE: i32 = 0;
    // SAFETY: no memory is involved.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, pid, pid, KCMP_FILE, a, b) };
    (order >= 0).then_some(order == 0)
}

/// How the open file descriptions behind two descriptors, each of a process, stand in an order of the kernel's own; `None`
/// where it does not tell.
#[cfg(ebpf)]
pub fn order_of_descriptions(a: (i32, u32), b: (i32, u32)) -> Option<std::cmp::Ordering> {
    const KCMP_FILE: i32 = 0;
    order((a.0, b.0), KCMP_FILE, (a.1, b.1))
}

/// What processes can share.
#[cfg(ebpf)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Common {
    /// A descriptor table (`CLONE_FILES`).
    Table,
    /// Working directory, root and mask (`CLONE_FS`).
    Directories,
}

/// How what two processes have stands in an order of the kernel's own; `None` where it does not tell.
#[cfg(ebpf)]
pub fn order_of_common(what: Common, a: i32, b: i32) -> Option<std::cmp::Ordering> {
    const KCMP_FILES: i32 = 2;
    const KCMP_FS: i32 = 3;
    let kind = match what {
        Common::Table => KCMP_FILES,
        Common::Directories => KCMP_FS,
    };
    order((a, b), kind, (0, 0))
}

#[cfg(ebpf)]
fn order(processes: (i32, i32), kind: i32, numbers: (u32, u32)) -> Option<std::cmp::Ordering> {
    // SAFETY: no memory is involved.
    match unsafe { libc::syscall(libc::SYS_kcmp, processes.0, processes.1, kind, numbers.0, numbers.1) } {
        0 => Some(std::cmp::Ordering::Equal),
        1 => Some(std::cmp::Ordering::Less),
        2 => Some(std::cmp::Ordering::Greater),
        _ => None,
    }
}

/// Whether this process may execute a file.
pub fn may_execute(path: &CStr) -> io::Result<()> {
    // SAFETY: the path is a C string.
    check(unsafe { libc::faccessat(HERE, path.as_ptr(), libc::X_OK, libc::AT_EACCESS) }.into()).map(drop)
}

/// When a file was made (`stx_btime`), nanoseconds since the epoch, where its file system knows; of a link itself.
pub fn born_ns(path: &CStr) -> Option<i64> {
    let mut s = std::mem::MaybeUninit::<libc::statx>::uninit();
    let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT;
    // SAFETY: the kernel fills `s` when it succeeds, and only then it is read.
    let s = unsafe {
        check(libc::statx(HERE, path.as_ptr(), flags, libc::STATX_BTIME, s.as_mut_ptr()).into()).ok()?;
        s.assume_init()
    };
    let born = s.stx_btime.tv_sec.saturating_mul(1_000_000_000).saturating_add(s.stx_btime.tv_nsec.into());
    (s.stx_mask & libc::STATX_BTIME != 0).then_some(born)
}

/// A file in memory that holds these bytes and has no name.
#[cfg(ebpf)]
pub fn file_in_memory(bytes: &[u8]) -> io::Result<std::fs::File> {
    use std::io::Write;
    // SAFETY: the name is a C string; the descriptor returned is new and so owned.
    let mut file = unsafe {
        let fd = check(libc::memfd_create(c"reprise".as_ptr(), libc::MFD_CLOEXEC).into())?;
        std::fs::File::from_raw_fd(fd as RawFd)
    };
    file.write_all(bytes)?;
    Ok(file)
}
