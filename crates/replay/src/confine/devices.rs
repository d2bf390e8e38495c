//! The devices a replay may use: those that hold no data and change nothing.

/// A device that is made available inside the target.
pub(super) struct Device {
    pub name: &'static str,
    /// Minor number as recorded.
    minor: u32,
    /// Which device of the host stands in for it.
    pub source: &'static str,
    pub minor_of_source: u32,
}

/// Major number of all of them.
pub(super) const MEMORY_MAJOR: u32 = 1;

const fn device(name: &'static str, minor: u32, source: &'static str, minor_of_source: u32) -> Device {
    Device { name, minor, source, minor_of_source }
}

/// `/dev/random` is served by `/dev/urandom`: the same bytes, but it never waits for entropy.
pub(super) const SAFE: [Device; 5] = [
    device("null", 3, "null", 3),
    device("zero", 5, "zero", 5),
    device("full", 7, "full", 7),
    device("random", 8, "urandom", 9),
    device("urandom", 9, "urandom", 9),
];

/// The name in `/dev` of the safe character device with number `rdev` (as `makedev` packs it), if it is one.
pub fn safe_device(rdev: u64) -> Option<&'static str> {
    SAFE.iter().find(|d| libc::makedev(MEMORY_MAJOR, d.minor) == rdev).map(|d| d.name)
}
