//! Capabilities a faithful replay by root needs, and dropping all others.

use super::ConfineError;
use crate::sys;

/// Capabilities kept, bit n for capability n (linux/capability.h), as far as the caller had them; an ordinary user keeps
/// none, so permission checks fail as they did when recorded.
///
/// Kept: CHOWN, DAC_OVERRIDE, FOWNER, FSETID (owners, modes); SETGID, SETUID (changes of user in the trace); IPC_LOCK
/// (`mlock`); SYS_CHROOT; SYS_NICE (I/O priorities); SYS_RESOURCE (reserved blocks, quotas, limits); LEASE; SETFCAP.
///
/// Dropped on purpose, though a trace may have used them (the calls then fail with EPERM and are reported as diverged):
/// - DAC_READ_SEARCH: with it `open_by_handle_at` reaches every file of the target's *file system*, beside the target
///   too. DAC_OVERRIDE already grants reading and searching.
/// - MKNOD: a device node would stay in the target, where others could open it after the replay.
/// - LINUX_IMMUTABLE: immutable files could not be restored.
/// - SYS_ADMIN: too broad. Its one storage use, `trusted.*` attributes, is not replayed.
/// - SYS_PTRACE, SYS_RAWIO, SYS_MODULE, SYS_BOOT, SYS_TIME, NET_*, KILL, BPF, …: no use in a storage replay.
pub const KEPT: u64 = 1 << 0 // CHOWN
    | 1 << 1   // DAC_OVERRIDE
    | 1 << 3   // FOWNER
    | 1 << 4   // FSETID
    | 1 << 6   // SETGID
    | 1 << 7   // SETUID
    | 1 << 14  // IPC_LOCK
    | 1 << 18  // SYS_CHROOT
    | 1 << 23  // SYS_NICE
    | 1 << 24  // SYS_RESOURCE
    | 1 << 28  // LEASE
    | 1 << 31; // SETFCAP

/// The part of [`KEPT`] this process has now, before a user namespace gives it all of them.
pub(super) fn keepable() -> Result<u64, ConfineError> {
    let held = sys::capabilities().map_err(|e| ConfineError::system("read capabilities", "this process", e))?;
    Ok(held & KEPT)
}

/// Reduces the bounding, permitted, effective, inheritable and ambient sets to `kept`.
pub(super) fn reduce(kept: u64) -> Result<(), ConfineError> {
    let failed = |e| ConfineError::system("drop capabilities", "this process", e);
    for capability in (0..64).filter(|n| kept & (1 << n) == 0) {
        match sys::drop_bounding(capability) {
            Ok(()) => {}
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => break, // past the last one this kernel knows
            Err(e) => return Err(failed(e)),
        }
    }
    sys::clear_ambient().map_err(failed)?;
    sys::set_capabilities(kept).map_err(failed)
}
