//! Content: reading, writing, sizes, copies, mappings, locks.

use libc::*;

use crate::context::Context;

/// One operation on content.
pub fn any(c: &mut Context) {
    let (fd, room, length, offset) = (c.fd(), c.at(), c.length(), c.offset());
    let shift = c.rng.below(1000);
    let vector = [room, length / 3, room + 70_000, length - length / 3];
    let vector = vector.as_ptr() as u64;
    match c.rng.below(37) {
        0..=3 => c.call(SYS_read, &[fd, room, length]),
        4..=7 => c.call(SYS_write, &[fd, room + shift, length]),
        8 | 9 => c.call(SYS_pread64, &[fd, room, length, offset]),
        10 | 11 => c.call(SYS_pwrite64, &[fd, room + shift, length, offset]),
        12 => c.call(SYS_readv, &[fd, vector, 2]),
        13 => c.call(SYS_writev, &[fd, vector, 2]),
        14 => c.call(SYS_preadv, &[fd, vector, 2, offset, 0]),
        15 => c.call(SYS_pwritev, &[fd, vector, 2, offset, 0]),
        16 => {
            let at = c.rng.pick(&[offset, u64::MAX]);
            c.call(SYS_preadv2, &[fd, vector, 2, at, 0, 0])
        }
        17 => {
            let at = c.rng.pick(&[offset, u64::MAX]);
            let flags = c.rng.pick(&[0, 0, 0x10, 0x2]);
            c.call(SYS_pwritev2, &[fd, vector, 2, at, 0, flags])
        }
        18 | 19 => {
            let whence = c.rng.pick(&[0, 1, 2, 0, 1, 3, 4]);
            let at = c.rng.pick(&[offset, 0, -1i64 as u64, -100i64 as u64]);
            c.call(SYS_lseek, &[fd, at, whence])
        }
        20 => c.call(SYS_ftruncate, &[fd, offset]),
        21 => {
            let path = c.path();
            c.call(SYS_truncate, &[path.as_ptr() as u64, offset])
        }
        22 | 23 => allocate(c),
        24..=26 => copy(c),
        27 => c.call(c.options.seed as i64 % 2 * (SYS_fsync - SYS_fdatasync) + SYS_fdatasync, &[fd]),
        28 => mapping(c),
        29 => c.call(SYS_fadvise64, &[fd, offset, length, 4]),
        34 => flush(c),
        35 | 36 => splice(c),
        _ => locks(c),
    };
}

fn allocate(c: &mut Context) -> i64 {
    let mode = match c.options.portable {
        true => c.rng.pick(&[0, 1, 3]),
        false => c.rng.pick(&[0, 1, 3, 3, 8, 16, 17, 32, 0x40, 99]),
    };
    let (fd, mut offset, mut length) = (c.fd(), c.offset(), c.length());
    if mode & 40 != 0 {
        (offset, length) = (offset & !4095, 4096);
    }
    c.call(SYS_fallocate, &[fd, mode, offset, length])
}

fn copy(c: &mut Context) -> i64 {
    let (from, to, length) = (c.fd(), c.fd(), c.length());
    let mut cells = [c.offset(), c.offset()];
    let mut cell = |c: &mut Context, i: usize| if c.rng.chance(50) { &raw mut cells[i] as u64 } else { 0 };
    let (one, two) = (cell(c, 0), cell(c, 1));
    match c.rng.chance(40) {
        true => c.call(SYS_sendfile, &[to, from, one, length]),
        false => c.call(SYS_copy_file_range, &[from, one, to, two, length, 0]),
    }
}

/// Through a pipe, if a descriptor happens to be one; never waits.
fn splice(c: &mut Context) -> i64 {
    let (from, to, length) = (c.fd(), c.fd(), c.length());
    let mut cells = [c.offset(), c.offset()];
    let mut cell = |c: &mut Context, i: usize| if c.rng.chance(30) { &raw mut cells[i] as u64 } else { 0 };
    let (one, two) = (cell(c, 0), cell(c, 1));
    let flags = u64::from(SPLICE_F_NONBLOCK);
    match c.rng.below(6) {
        0 => c.call(SYS_tee, &[from, to, length, flags]),
        1 => {
            let vector = [c.at(), length];
            c.call(SYS_vmsplice, &[to, vector.as_ptr() as u64, 1, flags])
        }
        _ => c.call(SYS_splice, &[from, one, to, two, length, flags]),
    }
}

fn flush(c: &mut Context) -> i64 {
    let (fd, offset, length) = (c.fd(), c.offset(), c.length());
    match c.rng.below(8) {
        0 => c.call(SYS_syncfs, &[fd]),
        1..=4 => c.call(SYS_sync_file_range, &[fd, offset, length, u64::from(SYNC_FILE_RANGE_WRITE)]),
        _ => c.call(SYS_readahead, &[fd, offset, length]),
    }
}

/// Maps a file, writes from the mapping, unmaps. It is not touched: it may be shorter by then.
fn mapping(c: &mut Context) -> i64 {
    let (fd, to) = (c.fd(), c.fd());
    let kind = c.rng.pick(&[MAP_PRIVATE, MAP_SHARED]) as u64;
    let address = c.call(SYS_mmap, &[0, 16_384, PROT_READ as u64, kind, fd, 0]);
    if address <= 0 {
        return address;
    }
    if c.rng.chance(50) {
        let length = c.rng.pick(&[10, 4096, 8192]);
        c.call(SYS_write, &[to, address as u64, length]);
    }
    match c.rng.below(8) {
        0 => drop(c.call(SYS_msync, &[address as u64, 8192, MS_SYNC as u64])),
        1 => drop(c.call(SYS_madvise, &[address as u64, 8192, MADV_DONTNEED as u64])),
        2 => drop(c.call(SYS_mprotect, &[address as u64 + 4096, 4096, PROT_NONE as u64])),
        3 => drop(c.call(SYS_munmap, &[address as u64 + 4096, 4096])),
        4 => drop(c.call(SYS_mlock, &[address as u64, 4096])),
        _ => {}
    }
    c.call(SYS_munmap, &[address as u64, 16_384])
}

fn locks(c: &mut Context) -> i64 {
    if c.rng.chance(10) {
        return c.locked(super::reading::any);
    }
    let fd = c.fd();
    if c.rng.chance(30) {
        let operation = c.rng.pick(&[LOCK_SH, LOCK_EX, LOCK_UN]) | LOCK_NB;
        return c.call(SYS_flock, &[fd, operation as u64]);
    }
    // struct flock: type, whence, start, length, process.
    let kind = c.rng.pick(&[F_RDLCK, F_WRLCK, F_UNLCK]) as u64;
    let mut lock = [kind, 10 + c.rng.below(4) * 10, c.rng.pick(&[0, 5, 10]), 0];
    let at = &raw mut lock as u64;
    if c.rng.chance(15) {
        // Before the others, some of which reach to the end, and given back before anything else can wait: by a number that nobody else closes.
        let fd = c.call(SYS_fcntl, &[fd, F_DUPFD as u64, 100]) as u64;
        let (first, free) = ([F_WRLCK as u64, 0, 1, 0], [F_UNLCK as u64, 0, 1, 0]);
        let taken = c.call(SYS_fcntl, &[fd, F_SETLKW as u64, first.as_ptr() as u64]);
        c.call(SYS_fcntl, &[fd, F_SETLK as u64, free.as_ptr() as u64]);
        c.call(SYS_close, &[fd]);
        return taken;
    }
    let command = c.rng.pick(&[F_SETLK, F_SETLK, F_GETLK, F_OFD_SETLK, F_OFD_GETLK]);
    c.call(SYS_fcntl, &[fd, command as u64, at])
}
