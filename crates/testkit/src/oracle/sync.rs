//! Durability and advice: only that the call is understood can be seen, so wrong arguments are tried too.

use libc::*;

use super::Case;
use super::context::Context;
use super::fixture;
use super::value::{self, *};
use crate::raw::{self, Guarded};

pub(super) const CASES: &[(&str, Case)] = &[
    ("fsync", by_fd),
    ("fdatasync", by_fd),
    ("sync", sync),
    ("syncfs", syncfs),
    ("sync_file_range", sync_file_range),
    ("fadvise64", fadvise64),
    ("readahead", readahead),
];

/// A new file with a dirty page.
fn dirty() -> i64 {
    let fd = fixture::open("new", O_RDWR | O_CREAT);
    let memory = Guarded::new(&fixture::pattern(8192));
    raw::must(SYS_write, &[fd as u64, memory.address(), 8192]);
    fd
}

fn by_fd(c: &Context) {
    let fd = dirty();
    c.call(&[("fd", value::fd(fd))]).ok();
    c.has_content("new", &fixture::pattern(8192));
    c.call(&[("fd", value::fd(9999))]).fails(EBADF);
    let pair = Guarded::new(&[0; 8]);
    raw::must(SYS_pipe2, &[pair.address(), 0]);
    let pipe = super::context::number(&pair.bytes(), 0, 4) as i64;
    c.call(&[("fd", value::fd(pipe))]).fails(EINVAL);
}

fn sync(c: &Context) {
    dirty();
    c.call(&[]).ok();
}

fn syncfs(c: &Context) {
    let fd = dirty();
    c.call(&[("fd", value::fd(fd))]).ok();
    c.call(&[("fd", value::fd(9999))]).fails(EBADF);
}

/// The number of dirty pages of the file's page here, 0 or 1, where the kernel tells it.
fn dirty_pages(fd: i64, at: u64) -> Option<u64> {
    const CACHESTAT: c_long = 451;
    let (range, found) = (Guarded::new(&longs(&[at, 4096])), Guarded::new(&[0; 40]));
    let result = raw::sys(CACHESTAT, &[fd as u64, range.address(), found.address(), 0]);
    (result == 0 && !in_memory()).then(|| super::context::number(&found.bytes(), 8, 8))
}

fn sync_file_range(c: &Context) {
    const PLACES: [u64; 2] = [2 << 20, 4 << 20];
    let fd = fixture::open("new", O_RDWR | O_CREAT);
    let call = |at: i64, n: i64, bits: u32| {
        c.call(&[("fd", value::fd(fd)), ("offset", offset(at)), ("length", offset(n)), ("flags", flags(bits.into()))])
    };
    // Of two dirty places one is written back.
    let one_stays = (0..5).any(|_| {
        let memory = Guarded::new(&fixture::pattern(4096));
        for at in PLACES {
            raw::must(SYS_pwrite64, &[fd as u64, memory.address(), 4096, at]);
        }
        call(PLACES[1] as i64, 4096, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER).ok();
        let dirty = |at: u64| !c.checks() || dirty_pages(fd, at).is_none_or(|n| n > 0);
        dirty(PLACES[0]) && (!c.checks() || dirty_pages(fd, PLACES[1]).is_none_or(|n| n == 0))
    });
    assert!(one_stays, "something else was written back than the range");
    call(0, 0, 0).ok();
    call(-1, 1, 0).fails(EINVAL);
    call(0, -1, 0).fails(EINVAL);
    call(0, 1, 64).fails(EINVAL);
}

/// Whether the first page of a file is in the page cache.
fn resident(fd: i64) -> bool {
    let flags = MAP_SHARED as u64;
    let at = raw::must(SYS_mmap, &[0, 4096, PROT_READ as u64, flags, fd as u64, 0]) as u64;
    let vector = Guarded::new(&[0]);
    raw::must(SYS_mincore, &[at, 4096, vector.address()]);
    raw::must(SYS_munmap, &[at, 4096]);
    vector.bytes()[0] & 1 == 1
}

/// Waits for what the kernel does in the background.
fn comes(mut done: impl FnMut() -> bool) -> bool {
    (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(2));
        done()
    })
}

fn fadvise64(c: &Context) {
    let fd = dirty();
    raw::must(SYS_fsync, &[fd as u64]);
    let call = |fd: i64, at: i64, n: i64, advice: i32| {
        c.call(&[
            ("fd", value::fd(fd)),
            ("offset", offset(at)),
            ("length", offset(n)),
            ("advice", command(advice.into())),
        ])
    };
    // Another process may hold the page for a moment.
    let gone = (0..5).any(|_| {
        call(fd, 0, 0, POSIX_FADV_DONTNEED).ok();
        !c.checks() || comes(|| !resident(fd))
    });
    c.check(|| assert!(gone || in_memory(), "the page is still there"));
    call(fd, 0, 4096, POSIX_FADV_SEQUENTIAL).ok();
    call(fd, 0, 0, 99).fails(EINVAL);
    call(fd, 0, -1, POSIX_FADV_NORMAL).fails(EINVAL);
    call(9999, 0, 0, 0).fails(EBADF);
}

/// Whether the file system keeps files in memory only.
fn in_memory() -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let fd = fixture::open(".", O_DIRECTORY);
    let id = fixture::fd_info(fd, "mnt_id");
    let line = mounts.lines().find(|l| l.split(' ').next() == Some(&id));
    line.is_none_or(|l| l.contains(" - tmpfs ") || l.contains(" - overlay "))
}

fn readahead(c: &Context) {
    let fd = dirty();
    raw::must(SYS_fsync, &[fd as u64]);
    raw::must(SYS_fadvise64, &[fd as u64, 0, 0, POSIX_FADV_DONTNEED as u64]);
    let call =
        |fd: i64, at: i64, n: u64| c.call(&[("fd", value::fd(fd)), ("offset", offset(at)), ("count", length(n))]);
    call(fd, 0, 8192).ok();
    c.check(|| assert!(comes(|| resident(fd)), "the page is not there"));
    call(9999, 0, 1).fails(EBADF);
    let closed = fixture::open("new", O_WRONLY);
    call(closed, 0, 1).fails(EBADF);
}
