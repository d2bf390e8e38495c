//! Extended attributes of whatever a descriptor refers to. Rules as in the parent module.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::{call, text};

/// A name for the very file `fd` refers to, also with `O_PATH`: `/proc/self/fd/N`. Needs `/proc`.
pub fn name_of(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// `setxattr` on the file of `fd` (any kind of descriptor), creating or replacing.
pub fn set_xattr(fd: BorrowedFd<'_>, name: &[u8], value: &[u8]) -> io::Result<()> {
    let (path, name) = (text(name_of(fd).as_bytes())?, text(name)?);
    // SAFETY: C strings and a slice with its length, all outlive the call.
    unsafe {
        let (path, name) = (path.as_ptr() as usize, name.as_ptr() as usize);
        call(libc::SYS_setxattr, [path, name, value.as_ptr() as usize, value.len(), 0, 0]).map(drop)
    }
}

/// `removexattr` on the file of `fd` (any kind of descriptor).
pub fn remove_xattr(fd: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    let (path, name) = (text(name_of(fd).as_bytes())?, text(name)?);
    // SAFETY: C strings that outlive the call.
    unsafe { call(libc::SYS_removexattr, [path.as_ptr() as usize, name.as_ptr() as usize, 0, 0, 0, 0]).map(drop) }
}

/// `getxattr` (with a name) or `listxattr` (without: names each ended by a NUL) of the file of `fd`. At most 64 KiB,
/// which is the kernel's own limit.
pub fn xattr(fd: BorrowedFd<'_>, name: Option<&[u8]>) -> io::Result<Vec<u8>> {
    let path = text(name_of(fd).as_bytes())?;
    let name = name.map(text).transpose()?;
    let mut value = vec![0u8; 65536];
    let room = (value.as_mut_ptr() as usize, value.len());
    // SAFETY: C strings and a writable buffer with its length, all outlive the call.
    let length = unsafe {
        match &name {
            Some(name) => {
                call(libc::SYS_getxattr, [path.as_ptr() as usize, name.as_ptr() as usize, room.0, room.1, 0, 0])
            }
            None => call(libc::SYS_listxattr, [path.as_ptr() as usize, room.0, room.1, 0, 0, 0]),
        }?
    };
    value.truncate(length);
    Ok(value)
}
