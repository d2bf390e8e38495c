//! `struct stat` as the kernel fills it, for a trace.

use reprise_calls::attributes::{Attributes, STAT_BYTES, Time};
use rustix::fs::Stat;

/// The structure in memory.
pub(crate) fn stat_bytes(stat: &Stat) -> [u8; STAT_BYTES] {
    let time = |seconds, nanoseconds: u64| Some(Time { seconds, nanoseconds: nanoseconds as u32 });
    let told = Attributes {
        device: Some(stat.st_dev),
        inode: Some(stat.st_ino),
        kind: Some(stat.st_mode & 0o170_000),
        permissions: Some(stat.st_mode & 0o7777),
        links: Some(stat.st_nlink),
        owner: Some(stat.st_uid),
        group: Some(stat.st_gid),
        node: Some(stat.st_rdev),
        size: Some(stat.st_size as u64),
        block_bytes: Some(stat.st_blksize as u64),
        blocks: Some(stat.st_blocks as u64),
        times: [
            time(stat.st_atime, stat.st_atime_nsec),
            time(stat.st_mtime, stat.st_mtime_nsec),
            time(stat.st_ctime, stat.st_ctime_nsec),
            None,
        ],
        ..Attributes::default()
    };
    let mut out = [0; STAT_BYTES];
    told.write(&mut out);
    out
}
