//! Why nothing can be recorded in the kernel, and what can go wrong when it is.

use std::io;
use std::path::PathBuf;

use reprise_trace::End;

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
    #[error("the kernel refused the programs: {0} (REPRISE_EBPF_LOG=1 shows why)")]
    Refused(io::Error),
    /// The programs were loaded and could not be attached.
    #[error("the kernel refused to attach to its tracepoints: {0}")]
    NotAttached(io::Error),
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
    #[error("{path}: {source}; make room there, or choose another place with -o")]
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
