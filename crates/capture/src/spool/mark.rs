//! `spool/complete-until`: up to which instant the files of a spool hold everything.
//!
//! Goals: a recorder that is killed leaves a beginning without a gap. Each processor fills a segment of its own, so that
//! what is on the disk of one may be younger than what another still holds; from time to time all are written, and then
//! the instant is. Non-goals: a recording that ends in order, whose spool is complete.

use std::path::Path;
use std::{fs, io};

/// Name of the file in the directory of the spool.
pub const MARK: &str = "complete-until";
const NEW: &str = "complete-until.new";

/// Whether a file of a spool holds no segments.
pub fn is_mark(name: &std::ffi::OsStr) -> bool {
    name == MARK || name == NEW
}

/// Says that all records up to an instant of `CLOCK_MONOTONIC` are there.
///
/// # Errors
/// The file cannot be written.
pub fn write(spool: &Path, until_ns: u64) -> io::Result<()> {
    let new = spool.join(NEW);
    fs::write(&new, until_ns.to_string())?;
    fs::rename(new, spool.join(MARK))
}

/// The instant; 0 if no round came to its end.
pub fn read(spool: &Path) -> u64 {
    fs::read_to_string(spool.join(MARK)).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}
