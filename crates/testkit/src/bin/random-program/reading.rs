//! Looking: attributes, links, listings, access.

use libc::*;

use crate::context::Context;

/// One look.
pub fn any(c: &mut Context) {
    let path = c.path();
    let (at, base, room, fd) = (path.as_ptr() as u64, c.base(), c.at(), c.fd());
    let nofollow = c.rng.pick(&[0, AT_SYMLINK_NOFOLLOW as u64, AT_EMPTY_PATH as u64]);
    match c.rng.below(20) {
        0 | 1 => c.call(SYS_stat, &[at, room]),
        2 => c.call(SYS_lstat, &[at, room]),
        3 | 4 => c.call(SYS_fstat, &[fd, room]),
        5 | 6 => c.call(SYS_newfstatat, &[base, at, room, nofollow]),
        7 | 8 => c.call(SYS_statx, &[base, at, nofollow, u64::from(STATX_BASIC_STATS), room]),
        9 => {
            let mode = c.rng.below(8);
            c.call(SYS_access, &[at, mode])
        }
        10 => {
            let mode = c.rng.below(8);
            c.call(SYS_faccessat2, &[base, at, mode, nofollow & !(AT_EMPTY_PATH as u64)])
        }
        11 => {
            let size = c.rng.pick(&[1, 5, 4096]);
            c.call(SYS_readlinkat, &[base, at, room, size])
        }
        12 => c.call(SYS_readlink, &[at, room, 4096]),
        13 => c.call(SYS_getcwd, &[room, 4096]),
        14 => c.call(SYS_statfs, &[at, room]),
        18 => c.call(SYS_fstatfs, &[fd, room]),
        19 => {
            let mode = c.rng.below(8);
            c.call(SYS_faccessat, &[base, at, mode])
        }
        _ => {
            list(c);
            0
        }
    };
}

/// Listings, whole or in part, from the begin or from where they were left.
fn list(c: &mut Context) {
    let (fd, room) = (c.fd(), c.at());
    if c.rng.chance(40) {
        c.call(SYS_lseek, &[fd, 0, SEEK_SET as u64]);
    }
    let size = c.rng.pick(&[600, 1024, 4096, 32_768]);
    let number = if c.rng.chance(90) { SYS_getdents64 } else { SYS_getdents };
    for _ in 0..c.rng.pick(&[1, 2, 100]) {
        if c.call(number, &[fd, room, size]) <= 0 {
            break;
        }
        if c.rng.chance(5) {
            c.call(SYS_lseek, &[fd, 0, SEEK_CUR as u64]);
        }
    }
}
