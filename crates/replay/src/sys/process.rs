//! What changes the process itself: mounts, children, Landlock, seccomp, capabilities. Rules as in the parent module.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use super::{call, call_fd, raw, text};

/// `mount_setattr` attributes (linux/mount.h).
pub mod mount_attr {
    /// Read-only: device nodes stay writable, their inodes do not.
    pub const RDONLY: u64 = 0x1;
    /// Set-user-id bits and file capabilities have no effect.
    pub const NOSUID: u64 = 0x2;
    /// Device nodes cannot be opened.
    pub const NODEV: u64 = 0x4;
    /// Nothing can be executed.
    pub const NOEXEC: u64 = 0x8;
}

/// Makes every mount of this mount namespace private: later changes stay in the namespace.
pub fn make_mounts_private() -> io::Result<()> {
    let flags = (libc::MS_REC | libc::MS_PRIVATE) as usize;
    // SAFETY: a static C string; the other pointers may be null for a change of propagation.
    unsafe { call(libc::SYS_mount, [0, c"/".as_ptr() as usize, 0, flags, 0, 0]).map(drop) }
}

/// `open_tree(OPEN_TREE_CLONE)`: a detached copy of the one mount at `path` (empty: `dir` itself), without submounts.
pub fn clone_mount(dir: BorrowedFd<'_>, path: &[u8]) -> io::Result<OwnedFd> {
    let path = text(path)?;
    let flags = libc::OPEN_TREE_CLONE as usize | libc::OPEN_TREE_CLOEXEC as usize | libc::AT_EMPTY_PATH as usize;
    // SAFETY: a C string that outlives the call.
    unsafe { call_fd(libc::SYS_open_tree, [raw(dir), path.as_ptr() as usize, flags, 0, 0, 0]) }
}

/// `mount_setattr` on the one mount of `mount`: sets [`mount_attr`] bits and private propagation.
pub fn set_mount_attributes(mount: BorrowedFd<'_>, attributes: u64) -> io::Result<()> {
    let change = [attributes, 0, libc::MS_PRIVATE, 0];
    let empty = c"".as_ptr() as usize;
    // SAFETY: `change` has the layout of `struct mount_attr` (four u64); both pointers outlive the call.
    unsafe {
        let args = [raw(mount), empty, libc::AT_EMPTY_PATH as usize, change.as_ptr() as usize, size_of_val(&change), 0];
        call(libc::SYS_mount_setattr, args).map(drop)
    }
}

/// `move_mount`: attaches a detached mount on the file or directory of `onto`.
pub fn attach_mount(mount: BorrowedFd<'_>, onto: BorrowedFd<'_>) -> io::Result<()> {
    const EMPTY_PATHS: usize = 0x4 | 0x40; // MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH
    let empty = c"".as_ptr() as usize;
    // SAFETY: static C strings.
    unsafe { call(libc::SYS_move_mount, [raw(mount), empty, raw(onto), empty, EMPTY_PATHS, 0]).map(drop) }
}

/// `pivot_root(".", ".")`: the working directory becomes the root, the old root is stacked on top of it.
pub fn pivot_root_here() -> io::Result<()> {
    let here = c".".as_ptr() as usize;
    // SAFETY: static C strings.
    unsafe { call(libc::SYS_pivot_root, [here, here, 0, 0, 0, 0]).map(drop) }
}

/// `umount2(".", MNT_DETACH)`: takes away what is mounted on the working directory and all beneath it.
pub fn detach_mount_here() -> io::Result<()> {
    let flags = libc::MNT_DETACH as usize;
    // SAFETY: a static C string.
    unsafe { call(libc::SYS_umount2, [c".".as_ptr() as usize, flags, 0, 0, 0, 0]).map(drop) }
}

/// `fork`: the child's process id in the parent, `None` in the child. A child of a process with several threads must
/// not rely on locks other threads may have held, other than the allocator's.
pub fn fork() -> io::Result<Option<i32>> {
    // SAFETY: no pointers; glibc makes its own locks usable in the child.
    match unsafe { libc::fork() } {
        0 => Ok(None),
        child if child > 0 => Ok(Some(child)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits until `child` ends; its raw wait status.
pub fn wait(child: i32) -> io::Result<i32> {
    let mut status = 0;
    loop {
        // SAFETY: `status` outlives the call.
        if unsafe { libc::waitpid(child, &raw mut status, 0) } == child {
            return Ok(status);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Ends this process at once, without destructors or exit handlers, which belong to the process it was forked from.
pub fn exit(code: i32) -> ! {
    // SAFETY: does not return.
    unsafe { libc::_exit(code) }
}

/// Ends this process by `signal`, as its child was (default action, no core file of our own).
pub fn die_by(signal: i32) -> ! {
    // SAFETY: no pointers to our memory; the default action needs no handler.
    unsafe {
        let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core);
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
        libc::_exit(128 + signal)
    }
}

/// `close_range`: closes descriptors `first..=last`. Only for a freshly forked worker: whoever owns a descriptor closed
/// here must never use it again (it would be `EBADF`, or another file of the same number).
pub fn close_range(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: plain numbers.
    unsafe { call(libc::SYS_close_range, [first as usize, last as usize, 0, 0, 0, 0]).map(drop) }
}

/// Whether `child` has ended, and how: its raw wait status.
pub fn has_ended(child: i32) -> io::Result<Option<i32>> {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    match unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } {
        0 => Ok(None),
        found if found == child => Ok(Some(status)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What all threads of this process, those that ended included, have used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// Processor time in programs, in nanoseconds.
    pub user_ns: u64,
    /// The same in the kernel for them.
    pub system_ns: u64,
    /// Bytes that they had read from devices.
    pub device_bytes: u64,
    /// How often one of them slept.
    pub voluntary_switches: u64,
    /// How often one lost its processor to another thread.
    pub involuntary_switches: u64,
    /// The most memory that was resident at once, with what was mapped of files.
    pub resident_bytes: u64,
}

/// So far.
pub fn used() -> Used {
    /// Unit of `ru_inblock`, whatever the device.
    const BLOCK_BYTES: u64 = 512;
    // SAFETY: `rusage` is plain data, which the kernel fills within its size.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let count = |n: libc::c_long| u64::try_from(n).unwrap_or(0);
    let nanoseconds = |t: libc::timeval| count(t.tv_sec).saturating_mul(1_000_000_000) + count(t.tv_usec) * 1_000;
    Used {
        user_ns: nanoseconds(usage.ru_utime),
        system_ns: nanoseconds(usage.ru_stime),
        device_bytes: count(usage.ru_inblock).saturating_mul(BLOCK_BYTES),
        voluntary_switches: count(usage.ru_nvcsw),
        involuntary_switches: count(usage.ru_nivcsw),
        resident_bytes: count(usage.ru_maxrss).saturating_mul(1024),
    }
}

/// Effective user and group.
pub fn user() -> (u32, u32) {
    // SAFETY: these calls cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// The Landlock ABI of this kernel; an error when it has none or Landlock is off.
pub fn landlock_abi() -> io::Result<u32> {
    // SAFETY: a null ruleset of size 0 with flag 1 (LANDLOCK_CREATE_RULESET_VERSION) asks for the version.
    unsafe { call(libc::SYS_landlock_create_ruleset, [0, 0, 1, 0, 0, 0]).map(|abi| abi as u32) }
}

/// `landlock_create_ruleset`: handled file system rights, network rights and scopes. A trailing zero is not passed, so
/// that older kernels accept the shorter structure.
pub fn landlock_ruleset(rights: u64, network: u64, scopes: u64) -> io::Result<OwnedFd> {
    let attributes = [rights, network, scopes];
    let used = attributes.iter().rposition(|word| *word != 0).map_or(1, |last| last + 1);
    // SAFETY: the layout of `struct landlock_ruleset_attr`, of which every prefix of whole words is valid.
    unsafe { call_fd(libc::SYS_landlock_create_ruleset, [attributes.as_ptr() as usize, used * 8, 0, 0, 0, 0]) }
}

/// `landlock_add_rule(LANDLOCK_RULE_PATH_BENEATH)`: allows `rights` beneath the directory `beneath`.
pub fn landlock_allow(ruleset: BorrowedFd<'_>, beneath: BorrowedFd<'_>, rights: u64) -> io::Result<()> {
    #[repr(C, packed)]
    struct PathBeneath(u64, i32);
    let rule = PathBeneath(rights, raw(beneath) as i32);
    // SAFETY: the layout of `struct landlock_path_beneath_attr`, which outlives the call; 1 is the type of rule.
    unsafe { call(libc::SYS_landlock_add_rule, [raw(ruleset), 1, &raw const rule as usize, 0, 0, 0]).map(drop) }
}

/// Installs a seccomp filter on all threads. `Ok(Some(tid))`: thread `tid` has a filter of its own, nothing installed.
pub fn seccomp_filter_all_threads(program: &[libc::sock_filter]) -> io::Result<Option<u32>> {
    let length = u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    let (operation, flags) = (libc::SECCOMP_SET_MODE_FILTER as usize, libc::SECCOMP_FILTER_FLAG_TSYNC as usize);
    // SAFETY: the kernel only reads the program, which with its header outlives the call.
    let thread = unsafe { call(libc::SYS_seccomp, [operation, flags, &raw const program as usize, 0, 0, 0])? };
    Ok((thread != 0).then_some(thread as u32))
}

const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

/// The permitted capabilities of this thread, bit n for capability n.
pub fn capabilities() -> io::Result<u64> {
    let header = [CAPABILITY_VERSION_3, 0];
    let mut sets = [0u32; 6]; // effective, permitted, inheritable; low word, then high word
    // SAFETY: the layouts of `cap_user_header_t` and two `cap_user_data_t`; both outlive the call.
    unsafe { call(libc::SYS_capget, [header.as_ptr() as usize, sets.as_mut_ptr() as usize, 0, 0, 0, 0])? };
    Ok(u64::from(sets[1]) | u64::from(sets[4]) << 32)
}

/// Makes `kept` the permitted and effective capabilities of this thread, and none inheritable.
pub fn set_capabilities(kept: u64) -> io::Result<()> {
    let header = [CAPABILITY_VERSION_3, 0];
    let (low, high) = (kept as u32, (kept >> 32) as u32);
    let sets = [low, low, 0, high, high, 0];
    // SAFETY: as in `capabilities`; the kernel only reads the sets.
    unsafe { call(libc::SYS_capset, [header.as_ptr() as usize, sets.as_ptr() as usize, 0, 0, 0, 0]).map(drop) }
}
