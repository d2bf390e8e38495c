//! Names: made, moved, removed; and where relative ones begin.

use std::os::unix::ffi::OsStrExt;

use libc::*;

use crate::context::{Context, HERE};

/// One operation on names.
pub fn any(c: &mut Context) {
    let (path, other) = (c.path(), c.path());
    let (at, to, base, into) = (path.as_ptr() as u64, other.as_ptr() as u64, c.base(), c.base());
    let mode = c.mode();
    match c.rng.below(31) {
        0..=2 => c.call(SYS_mkdirat, &[base, at, mode]),
        3 => c.call(SYS_mkdir, &[at, mode]),
        4 | 5 => c.call(SYS_rmdir, &[at]),
        6 | 7 => c.call(SYS_unlink, &[at]),
        8..=10 => {
            let flags = c.rng.pick(&[0, 0, AT_REMOVEDIR as u64]);
            c.call(SYS_unlinkat, &[base, at, flags])
        }
        11 | 12 => c.call(SYS_rename, &[at, to]),
        13 | 14 => c.call(SYS_renameat, &[base, at, into, to]),
        15..=17 => {
            let flags = c.rng.pick(&[0, u64::from(RENAME_NOREPLACE), u64::from(RENAME_EXCHANGE)]);
            c.call(SYS_renameat2, &[base, at, into, to, flags])
        }
        18 | 19 => c.call(SYS_link, &[at, to]),
        20 => {
            let flags = c.rng.pick(&[0, AT_SYMLINK_FOLLOW as u64, AT_EMPTY_PATH as u64]);
            c.call(SYS_linkat, &[base, at, into, to, flags])
        }
        21..=23 => {
            let text = text(c);
            let text = text.as_ptr() as u64;
            match c.rng.chance(50) {
                true => c.call(SYS_symlink, &[text, at]),
                false => c.call(SYS_symlinkat, &[text, base, at]),
            }
        }
        30 => c.call(SYS_mknod, &[at, u64::from(S_IFREG) | mode, 0]),
        24 => c.call(SYS_mknodat, &[base, at, u64::from(S_IFREG) | mode, 0]),
        25 => c.call(SYS_chdir, &[at]),
        26 => {
            let fd = c.fd();
            c.call(SYS_fchdir, &[fd])
        }
        27 => {
            // Back home, so that not everything fails from here on.
            let mut home = c.options.dir.as_os_str().as_bytes().to_vec();
            home.push(0);
            c.call(SYS_chdir, &[home.as_ptr() as u64])
        }
        28 => {
            let mask = c.rng.pick(&[0o022, 0, 0o077, 0o002]);
            c.call(SYS_umask, &[mask])
        }
        _ => busy_directory(c),
    };
}

/// Text of a link.
fn text(c: &mut Context) -> Vec<u8> {
    let mut text = match c.rng.below(8) {
        0 => b"l\0".to_vec(),
        1 => b"m\0".to_vec(),
        2 => b"../d\0".to_vec(),
        3 => b"d/\0".to_vec(),
        4 => b".\0".to_vec(),
        _ => return c.path(),
    };
    if c.rng.chance(30) {
        let dir = c.options.dir.as_os_str().as_bytes();
        text.splice(0..0, [dir, b"/"].concat());
    }
    text
}

/// Many names at once, so that listings need several calls.
fn busy_directory(c: &mut Context) -> i64 {
    let remove = c.rng.chance(40);
    for number in 0..c.rng.pick(&[3, 10, 40]) {
        let name = format!("d/g/name-{number:060}\0");
        let at = name.as_ptr() as u64;
        match remove {
            true => c.call(SYS_unlinkat, &[HERE, at, 0]),
            false => c.call(SYS_mknodat, &[HERE, at, u64::from(S_IFREG) | 0o644, 0]),
        };
    }
    0
}
