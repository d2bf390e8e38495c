//! Descriptors: ended, doubled, controlled.

use libc::*;

use crate::context::Context;

/// One operation on descriptors.
pub fn any(c: &mut Context) {
    match c.rng.below(20) {
        0..=6 => {
            let fd = c.take();
            // Not one of the standard descriptors.
            if fd > 2 {
                c.call(SYS_close, &[fd]);
            }
        }
        7 | 8 => {
            let fd = c.fd();
            let new = c.call(SYS_dup, &[fd]);
            c.keep(new);
        }
        9 | 10 => {
            let (fd, to) = (c.fd(), 3 + c.rng.below(15));
            let new = c.call(SYS_dup2, &[fd, to]);
            c.keep(new);
        }
        11 => {
            let (fd, to) = (c.fd(), 3 + c.rng.below(15));
            let new = c.call(SYS_dup3, &[fd, to, O_CLOEXEC as u64]);
            c.keep(new);
        }
        12 | 13 => {
            let (fd, least) = (c.fd(), c.rng.pick(&[0, 10, 30]));
            let command = c.rng.pick(&[F_DUPFD, F_DUPFD_CLOEXEC]);
            let new = c.call(SYS_fcntl, &[fd, command as u64, least]);
            c.keep(new);
        }
        14 => {
            let (fd, on) = (c.fd(), c.rng.below(2));
            c.call(SYS_fcntl, &[fd, F_SETFD as u64, on]);
            c.call(SYS_fcntl, &[fd, F_GETFD as u64]);
        }
        15 | 16 => {
            let (fd, flags) = (c.fd(), O_NONBLOCK | c.rng.pick(&[0, O_APPEND, O_APPEND, O_NOATIME]));
            c.call(SYS_fcntl, &[fd, F_SETFL as u64, flags as u64]);
        }
        17 => {
            let fd = c.fd();
            c.call(SYS_fcntl, &[fd, F_GETFL as u64]);
        }
        18 => {
            let (first, last) = (8 + c.rng.below(12), 2);
            let flags = c.rng.pick(&[0, 0, 4, 2]);
            c.call(SYS_close_range, &[first, first + last, flags]);
        }
        _ => pipe(c),
    }
}

fn pipe(c: &mut Context) {
    let mut ends = [0i32; 2];
    let flags = (O_NONBLOCK | c.rng.pick(&[0, O_CLOEXEC])) as u64;
    if c.call(SYS_pipe2, &[&raw mut ends as u64, flags]) == 0 {
        ends.iter().for_each(|fd| c.keep(i64::from(*fd)));
    }
}
