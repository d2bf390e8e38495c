//! Where a trace is made: facts of the machine for its manifest, its identity, names of file systems.
//!
//! Goals: whoever writes traces says the same of the same machine. Non-goals: what recorders and replays need to know of kernels.

use std::fs::{self, File};
use std::io::{self, Read};

use crate::Host;

impl Host {
    /// This machine; what it does not tell is empty.
    pub fn this() -> Host {
        let fact =
            |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default().trim().to_owned();
        Host {
            kernel: fact("osrelease"),
            name: fact("hostname"),
            machine: std::env::consts::ARCH.to_owned(),
            processors: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        }
    }
}

/// The identity of a new trace: 32 hexadecimal digits at random.
///
/// # Errors
/// When `/dev/urandom` cannot be read.
pub fn random_identity() -> io::Result<String> {
    let mut bytes = [0u8; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

/// The name of a file system by its number, `f_type` of `statfs`.
pub fn file_system_name(kind: u64) -> String {
    match kind {
        0xef53 => "ext4".into(),
        0x5846_5342 => "xfs".into(),
        0x9123_683e => "btrfs".into(),
        0x0102_1994 => "tmpfs".into(),
        0x794c_7630 => "overlay".into(),
        0x2fc1_2fc1 => "zfs".into(),
        0xf2f5_2010 => "f2fs".into(),
        0xca45_1a4e => "bcachefs".into(),
        0x6969 => "nfs".into(),
        kind => format!("type {kind:#x}"),
    }
}
