//! The worker's root: the target alone, with a few harmless devices, and nothing of the host.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::{ConfineError, devices};
use crate::sys::{self, mount_attr};

/// An open directory outside the target would be a starting point for relative paths.
pub(super) fn refuse_open_directories() -> Result<(), ConfineError> {
    let listing = "/proc/self/fd";
    let failed = |e| ConfineError::system("list open descriptors", listing, e);
    // Only paths are collected: the listing itself is an open directory until the last entry is dropped.
    let paths = fs::read_dir(listing).map_err(failed)?.map(|entry| entry.map(|e| e.path()));
    for path in paths.collect::<io::Result<Vec<_>>>().map_err(failed)? {
        let directory = fs::metadata(&path).is_ok_and(|about| about.is_dir());
        let number = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
        if let (true, Some(descriptor)) = (directory, number) {
            return Err(ConfineError::OpenDirectory { descriptor, path: fs::read_link(&path).unwrap_or_default() });
        }
    }
    Ok(())
}

/// Opens the target as a place only; symbolic links in the user's own spelling of it are followed.
pub(super) fn open_target(target: &Path) -> Result<OwnedFd, ConfineError> {
    let failed = |source| ConfineError::Target { path: target.to_path_buf(), source };
    let path = std::os::unix::ffi::OsStrExt::as_bytes(target.as_os_str());
    let here = fs::File::open(".").map_err(failed)?;
    sys::openat2(here.as_fd(), path, libc::O_PATH | libc::O_DIRECTORY, 0, 0).map_err(failed)
}

/// Makes the target the root of this mount namespace and detaches everything else. The devices that work inside.
pub(super) fn replace(target: &Path, directory: OwnedFd) -> Result<Vec<&'static str>, ConfineError> {
    let failed = |action| move |e| ConfineError::system(action, target, e);
    let expected = sys::stat(directory.as_fd(), b"").map_err(failed("examine the target"))?;
    let mount = sys::clone_mount(directory.as_fd(), b"").map_err(|source| match source.raw_os_error() {
        Some(libc::EINVAL) => ConfineError::Submounts { path: target.to_path_buf(), source },
        _ => ConfineError::system("copy the mount", target, source),
    })?;
    // Not NOEXEC: `access(X_OK)` and mappings with PROT_EXEC would fail. `execve` is not among the allowed calls.
    sys::set_mount_attributes(mount.as_fd(), mount_attr::NOSUID | mount_attr::NODEV)
        .map_err(failed("forbid devices and set-user-id"))?;
    sys::attach_mount(mount.as_fd(), directory.as_fd()).map_err(failed("mount the target on itself"))?;
    let devices = cover_devices(mount.as_fd())?;
    sys::change_directory(mount.as_fd()).map_err(failed("enter the target"))?;
    sys::pivot_root_here().map_err(failed("make the target the root"))?;
    // The working directory is now the new root, with the old root stacked on it; what is on top is taken away.
    sys::detach_mount_here().map_err(failed("detach the old root"))?;
    std::env::set_current_dir("/").map_err(failed("enter the new root"))?;
    let root = fs::File::open("/").map_err(failed("open the new root"))?;
    let found = sys::stat(root.as_fd(), b"").map_err(failed("examine the new root"))?;
    if (found.dev, found.ino) != (expected.dev, expected.ino) {
        return Err(ConfineError::WrongRoot { path: target.to_path_buf() });
    }
    Ok(devices)
}

/// Mounts the safe devices over empty regular files `dev/<name>` of the target. The tree may be hostile: no component
/// may be a link, and only such a placeholder is covered. A device that cannot be mounted is left out, and so not reported.
fn cover_devices(root: BorrowedFd<'_>) -> Result<Vec<&'static str>, ConfineError> {
    let mut covered = Vec::new();
    for device in devices::SAFE {
        let inside = [b"dev/", device.name.as_bytes()].concat();
        let resolve = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_XDEV;
        let Ok(place) = sys::openat2(root, &inside, libc::O_PATH | libc::O_NOFOLLOW, 0, resolve) else {
            continue;
        };
        let placeholder = sys::stat(place.as_fd(), b"").is_ok_and(|s| s.kind() == libc::S_IFREG && s.size == 0);
        let source = PathBuf::from("/dev").join(device.source);
        if placeholder && let Some(mount) = device_mount(&source, device.minor_of_source) {
            sys::attach_mount(mount.as_fd(), place.as_fd())
                .map_err(|e| ConfineError::system("mount a device", Path::new("/dev").join(device.name), e))?;
            covered.push(device.name);
        }
    }
    Ok(covered)
}

/// A mount of the one device node `source`, if it is what it should be. Read-only: reads and writes of the device pass,
/// changes to the host's node (mode, owner, times) do not.
fn device_mount(source: &Path, minor: u32) -> Option<OwnedFd> {
    let dev = fs::File::open("/dev").ok()?;
    let mount = sys::clone_mount(dev.as_fd(), source.file_name()?.as_encoded_bytes()).ok()?;
    let about = sys::stat(mount.as_fd(), b"").ok()?;
    let genuine = about.kind() == libc::S_IFCHR && about.rdev == libc::makedev(devices::MEMORY_MAJOR, minor);
    sys::set_mount_attributes(mount.as_fd(), mount_attr::RDONLY | mount_attr::NOSUID | mount_attr::NOEXEC).ok()?;
    genuine.then_some(mount)
}
