//! Recording in the kernel: programs at the entry and exit of every call write what happened into a spool.
//!
//! Goals: a command's whole process tree, or what runs already, every byte, no loss; the program waits for room rather than lose a record,
//! and never longer than there is a recorder. Non-goals: meaning; the finisher makes a trace of the spool.
//!
//! The programs are in `bpf/`, what they keep of each call is derived in `table`, and [`Session`] runs them.

#[cfg(ebpf)]
mod aside;
#[cfg(ebpf)]
mod attach;
#[cfg(ebpf)]
mod cached;
#[cfg(ebpf)]
mod disks;
#[cfg(ebpf)]
mod files;
#[cfg(ebpf)]
mod kernel;
#[cfg(ebpf)]
mod known;
#[cfg(ebpf)]
mod launch;
#[cfg(ebpf)]
mod mappings;
#[cfg(ebpf)]
mod opcodes;
mod options;
#[cfg(ebpf)]
mod present;
mod processors;
mod reason;
#[cfg(ebpf)]
mod rescue;
#[cfg(ebpf)]
mod reserve;
#[cfg(ebpf)]
mod sampling;
#[cfg(ebpf)]
mod session;
#[cfg(ebpf)]
mod shared;
#[cfg(ebpf)]
mod sink;
#[cfg(ebpf)]
mod survey;
#[cfg(ebpf)]
mod table;
#[cfg(ebpf)]
mod ways;
#[cfg(not(ebpf))]
mod without;

#[cfg(ebpf)]
pub use kernel::available;
pub use options::{Capabilities, MOST_SEGMENTS, OnFull, Sink, SpoolOptions, Summary, least_segments};
pub use reason::{Reason, SpoolError};
#[cfg(ebpf)]
pub use session::{Ready, Session};
#[cfg(not(ebpf))]
pub use without::{Ready, Session, available};
