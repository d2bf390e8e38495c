//! Descriptors: ended, doubled, controlled.

use libc::*;

use crate::context::Context;

/// One operation on descriptors.
pub fn any(c: &mut Context) {
    match c.rng.below(22) {
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
        19 => pipe(c),
        20 => nameless(c),
        _ => {
            let (fd, request) = (c.fd(), c.rng.pick(&[0x5451, 0x5450, 0x8008_6601]));
            let room = c.at();
            // FIOCLEX, FIONCLEX, FS_IOC_GETFLAGS.
            c.call(SYS_ioctl, &[fd, request, room]);
        }
    }
}

/// Descriptors of things that no directory knows; their traffic is not replayed.
fn nameless(c: &mut Context) {
    let fd = match c.rng.below(6) {
        0 => c.call(SYS_eventfd2, &[3, EFD_NONBLOCK as u64]),
        1 => c.call(SYS_epoll_create1, &[0]),
        2 => c.call(SYS_timerfd_create, &[CLOCK_MONOTONIC as u64, TFD_NONBLOCK as u64]),
        3 => {
            let fd = c.call(SYS_inotify_init1, &[IN_NONBLOCK as u64]);
            let path = c.path();
            c.call(SYS_inotify_add_watch, &[fd as u64, path.as_ptr() as u64, u64::from(IN_MODIFY)]);
            fd
        }
        4 => c.call(SYS_socket, &[AF_UNIX as u64, (SOCK_STREAM | SOCK_NONBLOCK) as u64, 0]),
        _ => {
            let mut ends = [0i32; 2];
            let kind = (SOCK_STREAM | SOCK_NONBLOCK) as u64;
            if c.call(SYS_socketpair, &[AF_UNIX as u64, kind, 0, &raw mut ends as u64]) == 0 {
                c.keep(i64::from(ends[1]));
            }
            i64::from(ends[0])
        }
    };
    c.keep(fd);
}

fn pipe(c: &mut Context) {
    let mut ends = [0i32; 2];
    let flags = (O_NONBLOCK | c.rng.pick(&[0, O_CLOEXEC])) as u64;
    if c.call(SYS_pipe2, &[&raw mut ends as u64, flags]) == 0 {
        ends.iter().for_each(|fd| c.keep(i64::from(*fd)));
    }
}
