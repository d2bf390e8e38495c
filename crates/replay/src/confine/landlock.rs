//! The Landlock layer: file system access beneath the new root only, no TCP, no signals or abstract sockets outwards.
//!
//! It repeats what the new root already gives, by other code of the kernel: should a descriptor of a directory outside
//! survive, or a file be opened by handle, Landlock still refuses paths that do not lead up to the root.

use std::os::fd::AsFd;

use super::ConfineError;
use crate::sys;

/// Rights, network rights and scopes each ABI knows, newest first (Documentation/userspace-api/landlock.rst).
const KNOWN: [(u32, u64, u64, u64); 6] = [
    (6, 0xffff, 0x3, 0x3), // scopes: abstract sockets, signals
    (5, 0xffff, 0x3, 0),   // ioctl on devices
    (4, 0x7fff, 0x3, 0),   // TCP
    (3, 0x7fff, 0, 0),     // truncate
    (2, 0x3fff, 0, 0),     // link and rename between directories
    (1, 0x1fff, 0, 0),
];

/// Restricts this thread, and so all it starts, to what lies beneath `/`. The ABI; `None` when the kernel has none.
pub(super) fn restrict() -> Result<Option<u32>, ConfineError> {
    let Ok(abi) = sys::landlock_abi() else {
        return Ok(None);
    };
    let Some(&(_, rights, network, scopes)) = KNOWN.iter().find(|known| known.0 <= abi) else {
        return Ok(None);
    };
    let failed = |action| move |e| ConfineError::system(action, "/", e);
    let ruleset = sys::landlock_ruleset(rights, network, scopes).map_err(failed("create a Landlock ruleset"))?;
    let root = std::fs::File::open("/").map_err(failed("open the new root"))?;
    sys::landlock_allow(ruleset.as_fd(), root.as_fd(), rights).map_err(failed("add a Landlock rule"))?;
    sys::landlock_restrict(ruleset.as_fd()).map_err(failed("enforce Landlock"))?;
    Ok(Some(abi))
}
