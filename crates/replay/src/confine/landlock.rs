//! The Landlock layer: file system access beneath the new root only, no TCP, no signals or abstract sockets outwards.
//!
//! It repeats what the new root already gives, by other code of the kernel: should a descriptor of a directory outside
//! survive, or a file be opened by handle, Landlock still refuses paths that do not lead up to the root.
//!
//! The kernel looks for a rule at each directory on the way up, 0.1-0.3 us each for every call that takes a path: response times would
//! grow with the depth of the target. So directories below the root have rules of their own that say the same.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;

use super::ConfineError;
use crate::sys;

/// Rights, network rights and scopes each ABI knows, newest first (Documentation/userspace-api/landlock.rst).
/// The first (before Linux 5.19) forbids links and renames from one directory to another, whatever its rules: programs do these.
const KNOWN: [(u32, u64, u64, u64); 5] = [
    (6, 0xffff, 0x3, 0x3), // scopes: abstract sockets, signals
    (5, 0xffff, 0x3, 0),   // ioctl on devices
    (4, 0x7fff, 0x3, 0),   // TCP
    (3, 0x7fff, 0, 0),     // truncate
    (2, 0x3fff, 0, 0),     // link and rename between directories
];

/// Restricts this thread, and so all it starts, to what lies beneath `/`, of which `near` are directories. The ABI; `None` when the
/// kernel has none of use.
pub(super) fn restrict(near: &[&[u8]]) -> Result<Option<u32>, ConfineError> {
    let Ok(abi) = sys::landlock_abi() else {
        return Ok(None);
    };
    let Some(&(_, rights, network, scopes)) = KNOWN.iter().find(|known| known.0 <= abi) else {
        return Ok(None);
    };
    let failed = |action| move |e| ConfineError::system(action, "/", e);
    let ruleset = sys::landlock_ruleset(rights, network, scopes).map_err(failed("create a Landlock ruleset"))?;
    let root = File::open("/").map_err(failed("open the new root"))?;
    sys::landlock_allow(ruleset.as_fd(), root.as_fd(), rights).map_err(failed("add a Landlock rule"))?;
    for path in near {
        // What is no directory, or no more there, is reached by way of the root's rule.
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let Ok(directory) = File::options().read(true).custom_flags(flags).open(OsStr::from_bytes(path)) else {
            continue;
        };
        sys::landlock_allow(ruleset.as_fd(), directory.as_fd(), rights).map_err(failed("add a Landlock rule"))?;
    }
    sys::landlock_restrict(ruleset.as_fd()).map_err(failed("enforce Landlock"))?;
    Ok(Some(abi))
}
