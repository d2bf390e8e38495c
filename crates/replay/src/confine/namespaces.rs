//! Namespaces of the worker: which the machine permits, and entering them.

use std::fmt;
use std::fs;
use std::io;

use super::{ConfineError, Options};
use crate::sys;

/// How this user can be confined on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// May create mount namespaces: root.
    Privileged,
    /// May create them inside a user namespace: an ordinary user. Files then get this user's owner and group only.
    UserNamespace,
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Capability::Privileged => "mount namespace (privileged)",
            Capability::UserNamespace => "user and mount namespace (ordinary user: recorded owners are not restored)",
        })
    }
}

/// Finds out, in a child that ends at once, how this user can be confined. Changes nothing.
///
/// # Errors
/// [`ConfineError::NotPermitted`] with the setting that forbids it.
pub fn probe() -> Result<Capability, ConfineError> {
    let child = sys::fork().map_err(|e| ConfineError::system("fork", "a probe", e))?;
    let Some(child) = child else {
        sys::exit(match mount_namespace() {
            Ok(false) => 200,
            Ok(true) => 201,
            Err(ConfineError::NotPermitted { source, .. } | ConfineError::System { source, .. }) => {
                source.raw_os_error().filter(|e| *e < 200).unwrap_or(libc::EPERM)
            }
            Err(_) => libc::EPERM,
        })
    };
    let status = sys::wait(child).map_err(|e| ConfineError::system("wait for", "a probe", e))?;
    match libc::WEXITSTATUS(status) {
        200 if libc::WIFEXITED(status) => Ok(Capability::Privileged),
        201 if libc::WIFEXITED(status) => Ok(Capability::UserNamespace),
        errno => Err(not_permitted(io::Error::from_raw_os_error(if errno == 0 { libc::EPERM } else { errno }))),
    }
}

/// Which namespaces the worker got.
pub(super) struct Own {
    pub user: bool,
    pub process: bool,
    pub ipc: bool,
    pub network: bool,
    pub host_name: bool,
}

/// Enters the namespaces; the mandatory mount namespace or an error, the others as far as they are permitted.
pub(super) fn enter(options: Options) -> Result<Own, ConfineError> {
    let user = mount_namespace()?;
    let wanted = |flag| options.other_namespaces && sys::unshare(flag).is_ok();
    let (ipc, network) = (wanted(libc::CLONE_NEWIPC), wanted(libc::CLONE_NEWNET));
    let host_name = wanted(libc::CLONE_NEWUTS);
    let process = options.process_namespace && sys::unshare(libc::CLONE_NEWPID).is_ok();
    if process {
        become_first_process()?;
    }
    Ok(Own { user, process, ipc, network, host_name })
}

/// Enters a mount namespace whose mounts are private; whether a user namespace was needed for it.
fn mount_namespace() -> Result<bool, ConfineError> {
    let user = match sys::unshare(libc::CLONE_NEWNS) {
        Ok(()) => false,
        Err(e) if e.raw_os_error() == Some(libc::EPERM) => {
            user_namespace()?;
            true
        }
        Err(e) => return Err(ConfineError::system("create a mount namespace", "/", e)),
    };
    match sys::make_mounts_private() {
        Ok(()) => Ok(user),
        // A security module (AppArmor) lets the namespace be created, and then denies every privilege in it.
        Err(e) if user => Err(not_permitted(e)),
        Err(e) => Err(ConfineError::system("make mounts private", "/", e)),
    }
}

/// Owners look the same inside: the user and group of this process are mapped to themselves, all others to nobody.
fn user_namespace() -> Result<(), ConfineError> {
    let (uid, gid) = sys::user();
    sys::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS).map_err(|e| match e.raw_os_error() {
        Some(libc::EINVAL) => ConfineError::Threads,
        _ => not_permitted(e),
    })?;
    let maps = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{uid} {uid} 1")),
        ("/proc/self/gid_map", format!("{gid} {gid} 1")),
    ];
    for (file, content) in maps {
        fs::write(file, content).map_err(|e| ConfineError::system("map users", file, e))?;
    }
    Ok(())
}

/// Forks into the new process namespace and returns in the child; the parent ends as the child ends.
fn become_first_process() -> Result<(), ConfineError> {
    match sys::fork().map_err(|e| ConfineError::system("fork", "the new process namespace", e))? {
        None => sys::die_with_parent().map_err(|e| ConfineError::system("tie to the parent", "the worker", e)),
        Some(child) => {
            // The worker's pipes must end when the worker does; this process never uses a descriptor again.
            let _ = sys::close_range(3, u32::MAX);
            match sys::wait(child) {
                Ok(status) if libc::WIFSIGNALED(status) => sys::die_by(libc::WTERMSIG(status)),
                Ok(status) => sys::exit(libc::WEXITSTATUS(status)),
                Err(_) => sys::exit(1),
            }
        }
    }
}

fn not_permitted(source: io::Error) -> ConfineError {
    let setting = |file: &str| fs::read_to_string(file).map(|text| text.trim().to_owned()).unwrap_or_default();
    let next = if setting("/proc/sys/kernel/unprivileged_userns_clone") == "0" {
        "run with sudo, or allow it with `sudo sysctl kernel.unprivileged_userns_clone=1`"
    } else if setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
        "run with sudo, or allow it with `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
    } else if setting("/proc/sys/user/max_user_namespaces") == "0" {
        "run with sudo, or allow it with `sudo sysctl user.max_user_namespaces=10000`"
    } else {
        "run with sudo; in a container, start it with the capability SYS_ADMIN (`--cap-add SYS_ADMIN`)"
    };
    ConfineError::NotPermitted { next: next.to_owned(), source }
}
