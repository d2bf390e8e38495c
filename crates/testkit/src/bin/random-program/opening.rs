//! Opening: flags of all kinds.

use libc::*;

use crate::context::{Context, HERE};

const FLAGS: [c_int; 20] = [
    O_RDONLY,
    O_RDONLY,
    O_RDWR,
    O_RDWR | O_CREAT,
    O_RDWR | O_CREAT,
    O_RDWR | O_CREAT | O_TRUNC,
    O_WRONLY | O_CREAT | O_APPEND,
    O_RDWR | O_CREAT | O_EXCL,
    O_RDWR | O_APPEND,
    O_WRONLY | O_TRUNC,
    O_RDONLY | O_TRUNC,
    O_RDONLY | O_DIRECTORY,
    O_RDONLY | O_DIRECTORY | O_CLOEXEC,
    O_PATH,
    O_PATH | O_NOFOLLOW,
    O_PATH | O_TRUNC | O_CREAT,
    O_RDONLY | O_NOFOLLOW,
    O_RDONLY | O_CREAT | O_DIRECTORY,
    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
    O_RDWR | O_CREAT | O_APPEND | O_SYNC,
];

/// One open.
pub fn any(c: &mut Context) {
    let mut path = c.path();
    if path.starts_with(b"/proc") {
        // A replay cannot open a file again that has no name, and a pipe opened again would be waited at.
        path = b"d/a\0".to_vec();
    }
    let (at, mode, flags) = (path.as_ptr() as u64, c.mode(), c.rng.pick(&FLAGS) as u64);
    let base = c.base();
    let fd = match c.rng.below(14) {
        0 => c.call(SYS_creat, &[at, mode]),
        1 | 2 => c.call(SYS_open, &[at, flags, mode]),
        3 => {
            let resolve = c.rng.pick(&[0, 0x04, 0x08, 0x02]);
            let create = flags & (O_CREAT as u64) != 0;
            let how = [flags, if create { mode } else { 0 }, resolve];
            c.call(SYS_openat2, &[base, at, how.as_ptr() as u64, 24])
        }
        4 => return directory(c),
        5 => return nameless(c),
        6 => return fifo(c),
        7 => c.call(SYS_memfd_create, &[at, 1]),
        _ => c.call(SYS_openat, &[base, at, flags, mode]),
    };
    c.keep(fd);
}

/// A directory, for listing and as a base.
fn directory(c: &mut Context) {
    let base = c.base();
    let path = c.rng.pick(&[b"d\0".as_slice(), b"e\0", b"d/e\0", b"d/g\0", b".\0", b"g\0"]);
    let fd = c.call(SYS_openat, &[base, path.as_ptr() as u64, (O_RDONLY | O_DIRECTORY) as u64, 0]);
    c.keep(fd);
}

/// A file without a name, which often gets one.
fn nameless(c: &mut Context) {
    let path = c.rng.pick(&[b"d\0".as_slice(), b".\0", b"e\0", b"a\0"]);
    let mode = c.mode();
    let flags = (O_TMPFILE | c.rng.pick(&[O_RDWR, O_WRONLY, O_RDWR | O_EXCL])) as u64;
    let fd = c.call(SYS_openat, &[HERE, path.as_ptr() as u64, flags, mode]);
    if fd < 0 {
        return;
    }
    let (room, length) = (c.at(), c.length());
    c.call(SYS_write, &[fd as u64, room, length]);
    if c.rng.chance(60) {
        let old = c.name_of(fd) + "\0";
        let new = c.path();
        let (old, new, base) = (old.as_ptr() as u64, new.as_ptr() as u64, c.base());
        c.call(SYS_linkat, &[HERE, old, base, new, AT_SYMLINK_FOLLOW as u64]);
    }
    c.keep(fd);
}

/// FIFOs have names of their own: nobody waits at one.
fn fifo(c: &mut Context) {
    let path = c.rng.pick(&[b"p\0".as_slice(), b"q\0", b"d/p\0"]).as_ptr() as u64;
    let mode = c.mode();
    match c.rng.below(6) {
        0 | 1 => drop(c.call(SYS_mknodat, &[HERE, path, u64::from(S_IFIFO) | mode, 0])),
        2 => drop(c.call(SYS_unlinkat, &[HERE, path, 0])),
        3 => drop(c.call(SYS_linkat, &[HERE, path, HERE, c"e/q".as_ptr() as u64, 0])),
        _ => {
            let flags = O_NONBLOCK | c.rng.pick(&[O_RDONLY, O_RDWR, O_WRONLY, O_PATH]);
            let fd = c.call(SYS_openat, &[HERE, path, flags as u64, 0]);
            c.keep(fd);
        }
    }
}
