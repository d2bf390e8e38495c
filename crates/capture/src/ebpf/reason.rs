//! Why nothing can be recorded in the kernel, and what can go wrong when it is.

use std::io;
use std::path::PathBuf;

use reprise_trace::{End, write_remedy};

use crate::error::CaptureError;

/// Why the kernel cannot record here.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// The programs are not part of this build.
    #[error("built without clang or libbpf; install them (scripts/install-deps build) and build again")]
    NotBuilt,
    /// The kernel does not describe its types.
    #[error("the kernel has no /sys/kernel/btf/vmlinux; it must be built with CONFIG_DEBUG_INFO_BTF")]
    NoTypes,
    /// The rights are missing.
    #[error("no right to load programs into the kernel: run as root, or with CAP_BPF and CAP_PERFMON")]
    NoRights,
    /// The kernel is locked down.
    #[error(
        "the kernel is locked down for confidentiality (/sys/kernel/security/lockdown): it lets nobody read memory by programs"
    )]
    LockedDown,
    /// The programs were refused.
    #[error("the kernel refused the programs: {0} ({hint})", hint = few(.0).unwrap_or("REPRISE_EBPF_LOG=1 shows why"))]
    Refused(io::Error),
    /// The programs were loaded and could not be attached.
    #[error("the kernel refused to attach to its tracepoints: {0}{hint}", hint = few(.0).map(|hint| format!(" ({hint})")).unwrap_or_default())]
    NotAttached(io::Error),
}

/// What helps who may not have more descriptors.
fn few(error: &io::Error) -> Option<&'static str> {
    let advice = "the limit on open descriptors is too low for them: raise the hard one, `ulimit -Hn`";
    (error.raw_os_error() == Some(libc::EMFILE)).then_some(advice)
}

/// Recording in the kernel failed.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// It is not possible here.
    #[error("cannot record in the kernel: {0}")]
    Unavailable(#[from] Reason),
    /// The command could not be started.
    #[error(transparent)]
    Start(#[from] CaptureError),
    /// Something of the machinery failed.
    #[error("cannot {step}: {source}; {advice}")]
    Step {
        /// What was tried.
        step: &'static str,
        /// The system's error.
        source: io::Error,
        /// What to do.
        advice: &'static str,
    },
    /// The spool cannot be written.
    #[error("{path}: {source}; {remedy}", remedy = write_remedy(source, "-o"))]
    Unwritten {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The spool could not be written any further. The program was not disturbed.
    #[error("{path}: {source}; the program went on unrecorded, and the spool holds what was written until then")]
    Cut {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
        /// How the program ended.
        end: End,
    },
}

/// A step of the machinery failed, for which there is an advice.
#[cfg(ebpf)]
pub fn step(step: &'static str, advice: &'static str) -> impl FnOnce(io::Error) -> SpoolError {
    move |source| SpoolError::Step { step, source, advice }
}

/// A thread of the recorder could not be started.
#[cfg(ebpf)]
pub fn no_thread(source: io::Error) -> SpoolError {
    step("start a thread", "check the limits on processes and memory")(source)
}
