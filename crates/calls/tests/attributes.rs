//! The layout of `struct stat` and `statx` against what the kernel fills.

use reprise_calls::attributes::{Attributes, STAT_BYTES, STATX_BYTES, Time};

/// The kernel's own structures are the oracle.
#[test]
#[expect(unsafe_code, reason = "the structures as bytes")]
fn as_the_kernel_fills_them() {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata("/dev/null").expect("a device");
    let (mut stat, mut statx) = ([0u8; STAT_BYTES], [0u8; STATX_BYTES]);
    let path = c"/dev/null".as_ptr();
    // SAFETY: both have the length of what the kernel fills.
    let done = unsafe {
        (
            libc::syscall(libc::SYS_stat, path, stat.as_mut_ptr()),
            libc::syscall(libc::SYS_statx, libc::AT_FDCWD, path, 0, 0xfff, statx.as_mut_ptr()),
        )
    };
    assert_eq!(done, (0, 0));
    for bytes in [&stat[..], &statx] {
        let seen = Attributes::decode(bytes).expect("its length");
        assert_eq!(seen.mode(), Some(found.mode()));
        assert_eq!((seen.device, seen.inode, seen.node), (Some(found.dev()), Some(found.ino()), Some(found.rdev())));
        assert_eq!((seen.links, seen.owner, seen.group), (Some(found.nlink()), Some(found.uid()), Some(found.gid())));
        assert_eq!((seen.size, seen.blocks), (Some(found.size()), Some(found.blocks())));
        assert_eq!(seen.block_bytes, Some(found.blksize()));
        let times = [
            (found.atime(), found.atime_nsec()),
            (found.mtime(), found.mtime_nsec()),
            (found.ctime(), found.ctime_nsec()),
        ];
        for (seen, (seconds, nanoseconds)) in seen.times.into_iter().zip(times) {
            assert_eq!(seen, Some(Time { seconds, nanoseconds: nanoseconds as u32 }));
        }
    }
}
