//! Confinement of the replay worker: after [`enter`] no path, link, `..`, `/proc` or inherited directory leads outside
//! the target.
//!
//! Goals: three independent layers (a file system root that holds nothing but the target; Landlock; an allow list of
//! system calls), the least privileges a faithful replay needs, as root and as an ordinary user, each layer reported.
//! Non-goals: protecting the target itself; hiding CPU time or timing; limiting memory (the engine's `setrlimit`).
//!
//! What no layer can take away: files in the target are real files of their recorded owners and modes. A trace may
//! create a set-user-id file there, so keep the target beneath a directory only its owner may enter (mode 0700), or on a
//! file system mounted `nosuid`. io_uring operations bypass seccomp and are held by the other layers.

mod calls;
mod devices;
mod error;
mod landlock;
mod namespaces;
mod privileges;
mod root;

use std::fmt;
use std::path::{Path, PathBuf};

pub use calls::{REMAINING, restrict_calls};
pub use devices::safe_device;
pub use error::ConfineError;
pub use namespaces::{Capability, probe};
pub use privileges::KEPT;

use crate::sys;

/// What to do beyond the mandatory mount namespace and new root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Fork once more into a process namespace of its own: no process outside can be seen or signalled. The calling
    /// process then never returns from [`enter`]: it waits for the new one and ends as it ended.
    pub process_namespace: bool,
    /// Namespaces for System V IPC, network and host name.
    pub other_namespaces: bool,
    /// The Landlock layer; costs 0.1-0.3 us for each directory from the file up to one that [`enter`] was told of, at each call that takes
    /// a path.
    pub landlock: bool,
    /// The allow list of system calls ([`restrict_calls`]), which every call pays for (some 30 ns: [`crate::run::Cost::list_ns`]).
    pub call_list: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { process_namespace: true, other_namespaces: true, landlock: true, call_list: true }
    }
}

impl Options {
    /// What costs calls nothing: the new root, namespaces and fewer privileges. For traces that are trusted not to attack the replayer
    /// itself.
    pub fn lean() -> Options {
        Options { landlock: false, call_list: false, ..Options::default() }
    }
}

/// What holds the worker. Every field was observed, not merely asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    /// The directory that became `/`.
    pub target: PathBuf,
    /// A user namespace was needed: owners other than one's own cannot be given to files.
    pub user_namespace: bool,
    /// Own mount table whose root is the target. Always true after [`enter`].
    pub mount_namespace: bool,
    /// Own process namespace; the worker is its process 1.
    pub process_namespace: bool,
    /// Own System V IPC namespace.
    pub ipc_namespace: bool,
    /// Own network namespace, without any interface up.
    pub network_namespace: bool,
    /// Own host name.
    pub host_name_namespace: bool,
    /// The Landlock ABI in force; `None` when the kernel has none of use or it was not asked for.
    pub landlock_abi: Option<u32>,
    /// The allow list of system calls is installed ([`Confinement::restrict_calls`]).
    pub seccomp: bool,
    /// Capabilities left, bit n for capability n: the part of [`KEPT`] the caller had.
    pub capabilities: u64,
    /// Devices that work inside, as `/dev/<name>`.
    pub devices: Vec<&'static str>,
}

impl Confinement {
    /// [`restrict_calls`], and notes it in this report.
    ///
    /// # Errors
    /// As [`restrict_calls`].
    pub fn restrict_calls(&mut self, allowed: &[u32]) -> Result<(), ConfineError> {
        restrict_calls(allowed)?;
        self.seccomp = true;
        Ok(())
    }
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "confined to {}: ", self.target.display())?;
        let privilege = if self.user_namespace { "by a user namespace" } else { "by root" };
        write!(f, "the target is the only file system ({privilege})")?;
        let own = [
            (self.process_namespace, "processes"),
            (self.ipc_namespace, "IPC"),
            (self.network_namespace, "network"),
            (self.host_name_namespace, "host name"),
        ];
        let list = |wanted: bool| own.iter().filter(|o| o.0 == wanted).map(|o| o.1).collect::<Vec<_>>().join(", ");
        if own.iter().any(|o| o.0) {
            write!(f, "; separate {}", list(true))?;
        }
        if own.iter().any(|o| !o.0) {
            write!(f, "; shared with the host: {}", list(false))?;
        }
        match self.landlock_abi {
            Some(abi) => write!(f, "; Landlock on (ABI {abi})")?,
            None => write!(f, "; Landlock off")?,
        }
        write!(f, "; system calls {}", if self.seccomp { "limited to a list" } else { "not limited" })?;
        write!(f, "; {} capabilities", self.capabilities.count_ones())?;
        match self.devices.is_empty() {
            true => write!(f, "; no devices"),
            false => write!(f, "; devices {}", self.devices.join(", ")),
        }
    }
}

/// Confines this process to `target`, which becomes `/` and the working directory.
///
/// Call it in a freshly forked worker with a single thread, after [`close_descriptors_except`]: an open directory would
/// be a way out and is refused. With [`Options::process_namespace`] the caller is replaced by its child (see there).
/// Afterwards `no_new_privs` is set for good and capabilities are reduced to [`KEPT`]. `near`: directories of the target, as they are
/// called inside, from which the way up need not be looked at.
///
/// # Errors
/// When a mandatory part fails: no namespaces permitted, several threads, `target` not a directory or holding mounts an
/// ordinary user may not leave out, an open directory. The process is then in an undefined state between free and
/// confined: report the error and exit.
pub fn enter(target: &Path, options: Options, near: &[&[u8]]) -> Result<Confinement, ConfineError> {
    let kept = privileges::keepable()?;
    root::refuse_open_directories()?;
    drop(root::open_target(target)?);
    let own = namespaces::enter(options)?;
    // Opened again: the first one belongs to the mounts of the host.
    let devices = root::replace(target, root::open_target(target)?)?;
    sys::no_new_privileges().map_err(|e| ConfineError::system("set no_new_privs", "/", e))?;
    let landlock_abi = if options.landlock { landlock::restrict(near)? } else { None };
    privileges::reduce(kept)?;
    Ok(Confinement {
        target: target.to_path_buf(),
        user_namespace: own.user,
        mount_namespace: true,
        process_namespace: own.process,
        ipc_namespace: own.ipc,
        network_namespace: own.network,
        host_name_namespace: own.host_name,
        landlock_abi,
        seccomp: false,
        capabilities: kept,
        devices,
    })
}

/// Closes every descriptor of this process but standard input, output and error and those in `keep`.
///
/// Only for a freshly forked worker: owners of a closed descriptor elsewhere in this process must not be used or dropped.
///
/// # Errors
/// When the kernel refuses (`close_range`, Linux 5.9).
pub fn close_descriptors_except(keep: &[i32]) -> Result<(), ConfineError> {
    let mut keep: Vec<u32> = keep.iter().filter_map(|fd| u32::try_from(*fd).ok()).filter(|fd| *fd > 2).collect();
    keep.sort_unstable();
    let mut first = 3u32;
    for fd in keep {
        if fd > first {
            sys::close_range(first, fd - 1)
                .map_err(|e| ConfineError::system("close descriptors", "/proc/self/fd", e))?;
        }
        first = first.max(fd.saturating_add(1));
    }
    sys::close_range(first, u32::MAX).map_err(|e| ConfineError::system("close descriptors", "/proc/self/fd", e))
}
