//! Facts of this machine for a manifest.

use std::fs::{self, File};
use std::io::{self, Read};

use reprise_trace::Host;

/// 32 hexadecimal digits at random.
pub(super) fn random_identity() -> io::Result<String> {
    let mut bytes = [0u8; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

/// This machine.
pub(super) fn host() -> Host {
    let fact =
        |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default().trim().to_owned();
    Host {
        kernel: fact("osrelease"),
        name: fact("hostname"),
        machine: std::env::consts::ARCH.to_owned(),
        processors: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
    }
}
