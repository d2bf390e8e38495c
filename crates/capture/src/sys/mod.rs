//! The kernel's doors: thin wrappers, the only place of this room with `unsafe`.
//!
//! Goals: each wrapper owns its buffers, checks its result and returns `io::Result`. Non-goals: policy, state.

#![allow(unsafe_code)]

mod files;
mod heap;
mod launch;
#[cfg(ebpf)]
mod libbpf;
mod limits;
#[cfg(ebpf)]
mod session;
#[cfg(ebpf)]
mod shared;
mod signals;
mod threads;
mod trace;

pub use files::*;
pub use heap::give_back_large_memory;
pub use launch::*;
#[cfg(ebpf)]
pub use libbpf::{Object, Ring, Types, process_descriptor, push};
#[cfg(ebpf)]
pub use limits::raise_descriptors;
#[cfg(ebpf)]
pub use session::*;
#[cfg(ebpf)]
pub use shared::Shared;
pub use signals::*;
pub use threads::*;
pub use trace::*;

use std::io;

/// A result of a system call wrapper: −1 is an error.
fn check(result: i64) -> io::Result<i64> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
