//! What the kernel refuses of owners and attributes, and attributes that do not belong.

use std::io;
use std::os::fd::BorrowedFd;

use reprise_calls::credentials::CAPABILITIES;
use reprise_plan::tree::Node;

use super::marker;
use crate::sys;

/// `EINVAL` is the answer to an owner or access list with a user outside the user namespace.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES | libc::EINVAL))
}

/// No such attributes here, or too large for this file system (`ENOSPC` is how ext4 says that).
pub(super) fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOTSUP | libc::ENOSPC | libc::E2BIG | libc::ERANGE | libc::ENODATA))
}

/// Removes extended attributes that are not of the node; labels of security modules stay.
pub(super) fn remove_foreign(fd: BorrowedFd<'_>, node: &Node) -> io::Result<()> {
    let present = match sys::xattr(fd, None) {
        Err(e) if is_refusal(&e) || is_unsupported(&e) => return Ok(()),
        names => names?,
    };
    for name in present.split(|byte| *byte == 0).filter(|name| !name.is_empty() && *name != marker::ATTRIBUTE) {
        let ours = [b"user.".as_slice(), b"trusted.", b"system.posix_acl_", CAPABILITIES];
        if ours.iter().any(|prefix| name.starts_with(prefix)) && !node.xattrs.iter().any(|(wanted, _)| wanted == name) {
            match sys::remove_xattr(fd, name) {
                Err(e) if is_refusal(&e) || is_unsupported(&e) => {}
                outcome => outcome?,
            }
        }
    }
    Ok(())
}
