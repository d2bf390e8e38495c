//! Attributes: changed, and the extended ones read.

use libc::*;

use crate::context::Context;

/// One operation on attributes.
pub fn any(c: &mut Context) {
    let path = c.path();
    let (at, base, fd, mode) = (path.as_ptr() as u64, c.base(), c.fd(), c.mode());
    let owner = c.rng.pick(&[0, 1000, 65534, u64::from(u32::MAX)]);
    let group = c.rng.pick(&[0, 1000, 65534, u64::from(u32::MAX)]);
    let nofollow = c.rng.pick(&[0, AT_SYMLINK_NOFOLLOW as u64]);
    match c.rng.below(18) {
        0 => c.call(SYS_chmod, &[at, mode]),
        1 => c.call(SYS_fchmod, &[fd, mode]),
        2 => c.call(SYS_fchmodat, &[base, at, mode]),
        3 => c.call(SYS_fchmodat2, &[base, at, mode, nofollow]),
        4 => c.call(SYS_chown, &[at, owner, group]),
        5 => c.call(SYS_lchown, &[at, owner, group]),
        6 => c.call(SYS_fchown, &[fd, owner, group]),
        7 => c.call(SYS_fchownat, &[base, at, owner, group, nofollow]),
        8 => {
            let times = [1_000_000_000u64, 5, 1_500_000_000, 7];
            c.call(SYS_utimensat, &[base, at, times.as_ptr() as u64, nofollow])
        }
        9 => c.call(SYS_utimensat, &[fd, 0, 0, 0]),
        16 | 17 => old_times(c, at, base),
        _ => extended(c, at, fd),
    };
}

/// By the calls that came before `utimensat`.
fn old_times(c: &mut Context, at: u64, base: u64) -> i64 {
    let (seconds, times) = ([1_000_000_000u64, 1_500_000_000], [1_000_000_000u64, 5, 1_500_000_000, 7]);
    match c.rng.below(3) {
        0 => c.call(SYS_utime, &[at, seconds.as_ptr() as u64]),
        1 => c.call(SYS_utimes, &[at, times.as_ptr() as u64]),
        _ => c.call(SYS_futimesat, &[base, at, times.as_ptr() as u64]),
    }
}

fn extended(c: &mut Context, at: u64, fd: u64) -> i64 {
    let name = c.rng.pick(&[b"user.one\0".as_slice(), b"user.two\0", b"user.\0"]).as_ptr() as u64;
    let (room, size) = (c.at(), c.rng.pick(&[0, 1, 20, 300]));
    let flags = c.rng.pick(&[0, 0, 1, 2]);
    match c.rng.below(13) {
        10 => c.call(SYS_lgetxattr, &[at, name, room, size]),
        11 => c.call(SYS_llistxattr, &[at, room, size]),
        12 => c.call(SYS_lremovexattr, &[at, name]),
        0 | 1 => c.call(SYS_setxattr, &[at, name, room, size, flags]),
        2 => c.call(SYS_fsetxattr, &[fd, name, room, size, flags]),
        3 => c.call(SYS_lsetxattr, &[at, name, room, size, flags]),
        4 => c.call(SYS_getxattr, &[at, name, room, size]),
        5 => c.call(SYS_fgetxattr, &[fd, name, room, size]),
        6 => c.call(SYS_listxattr, &[at, room, size]),
        7 => c.call(SYS_flistxattr, &[fd, room, size]),
        8 => c.call(SYS_removexattr, &[at, name]),
        _ => c.call(SYS_fremovexattr, &[fd, name]),
    }
}
