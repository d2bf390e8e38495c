//! `struct stat` as the kernel fills it, for a trace.

use rustix::fs::Stat;

/// Bytes of the structure.
const BYTES: usize = 144;

/// The structure in memory, little-endian (x86-64).
pub(crate) fn stat_bytes(stat: &Stat) -> [u8; BYTES] {
    let mut out = [0; BYTES];
    let mut word = |at: usize, value: u64| out[at..at + 8].copy_from_slice(&value.to_le_bytes());
    word(0, stat.st_dev);
    word(8, stat.st_ino);
    word(16, stat.st_nlink);
    word(24, u64::from(stat.st_mode) | u64::from(stat.st_uid) << 32);
    word(32, u64::from(stat.st_gid));
    word(40, stat.st_rdev);
    word(48, stat.st_size as u64);
    word(56, stat.st_blksize as u64);
    word(64, stat.st_blocks as u64);
    word(72, stat.st_atime as u64);
    word(80, stat.st_atime_nsec);
    word(88, stat.st_mtime as u64);
    word(96, stat.st_mtime_nsec);
    word(104, stat.st_ctime as u64);
    word(112, stat.st_ctime_nsec);
    out
}
