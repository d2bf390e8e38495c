//! The processors of this machine, as the kernel numbers them.

use std::fs;

/// Numbers of the processors in a list of the kernel's (`possible`, `online`), as `0-3,8`.
pub fn list(name: &str) -> Vec<usize> {
    let text = fs::read_to_string(format!("/sys/devices/system/cpu/{name}")).unwrap_or_default();
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

/// Number of processors that work, whichever this process may use.
pub fn online() -> u64 {
    list("online").len().max(1) as u64
}
