//! Memory mappings.

use std::fs;

use libc::*;

use super::Case;
use super::context::Context;
use super::fixture::{self, pattern, status};
use super::value::{self, *};
use crate::raw::{self, peek, poke};

pub(super) const CASES: &[(&str, Case)] = &[
    ("mmap", mmap),
    ("munmap", munmap),
    ("mremap", mremap),
    ("mprotect", mprotect),
    ("madvise", madvise),
    ("msync", msync),
    ("mlock", mlock),
    ("munlock", munlock),
    ("mincore", mincore),
    ("remap_file_pages", remap_file_pages),
];

const PAGE: u64 = 4096;
const READ_WRITE: i32 = PROT_READ | PROT_WRITE;

/// Maps pages of a file, by the call that is not under test here.
fn map(name: &str, pages: u64, kind: i32) -> u64 {
    let fd = fixture::open(name, O_RDWR);
    let args = [0, pages * PAGE, READ_WRITE as u64, kind as u64, fd as u64, 0];
    raw::must(SYS_mmap, &args) as u64
}

/// Permissions, offset and path of the mapping at this address, as `/proc/self/maps` says.
fn mapping(at: u64) -> Option<(String, u64, String)> {
    let text = fs::read_to_string("/proc/self/maps").expect("maps");
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        if !(hex(start)?..hex(end)?).contains(&at) {
            return None;
        }
        let rights = words.next()?.to_owned();
        let offset = hex(words.next()?)? + (at - hex(start)?);
        Some((rights, offset, words.nth(2).unwrap_or("").to_owned()))
    })
}

/// The mapping at this address is of this file, with these permissions, at this offset.
fn maps(c: &Context, at: u64, rights: &str, offset: u64, name: &str) {
    c.check(|| {
        let (found, found_offset, path) = mapping(at).expect("a mapping");
        assert_eq!(found, rights);
        assert!(path.ends_with(name), "{path}");
        if !name.is_empty() {
            assert_eq!(found_offset, offset, "{path}");
        }
    });
}

fn mmap(c: &Context) {
    let fd = fixture::open("file", O_RDWR);
    let call = |at: u64, n: u64, prot: i32, bits: i32, fd: i64, from: i64| {
        c.call(&[
            ("addr", address(at)),
            ("length", length(n)),
            ("prot", flags(prot.into())),
            ("flags", flags(bits.into())),
            ("fd", value::fd(fd)),
            ("offset", offset(from)),
        ])
    };
    let at = call(0, 2 * PAGE, READ_WRITE, MAP_SHARED, fd, 4096).ok() as u64;
    maps(c, at, "rw-s", 4096, "/file");
    assert_eq!(peek(at, 4096), pattern(10_000)[4096..8192]);
    let private = call(0, PAGE, PROT_READ, MAP_PRIVATE, fd, 0).ok() as u64;
    maps(c, private, "r--p", 0, "/file");
    let there = call(at, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0).ok() as u64;
    assert_eq!(there, at);
    maps(c, at, "r--p", 0, "/file");
    let nameless = call(0, PAGE, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0).ok() as u64;
    assert_eq!(peek(nameless, 4096), [0; 4096]);
    call(0, PAGE, PROT_READ, MAP_SHARED, fd, 1).fails(EINVAL);
    call(0, PAGE, PROT_READ, MAP_SHARED, 9999, 0).fails(EBADF);
}

fn munmap(c: &Context) {
    let at = map("file", 2, MAP_SHARED);
    let call = |at: u64, n: u64| c.call(&[("addr", address(at)), ("length", length(n))]);
    call(at, PAGE).ok();
    c.check(|| assert_eq!(mapping(at), None));
    maps(c, at + PAGE, "rw-s", 4096, "/file");
    call(at + 1, PAGE).fails(EINVAL);
}

fn mremap(c: &Context) {
    let at = map("file", 1, MAP_SHARED);
    let call = |at: u64, old: u64, new: u64, bits: i32, to: u64| {
        c.call(&[
            ("addr", address(at)),
            ("old_length", length(old)),
            ("new_length", length(new)),
            ("flags", flags(bits.into())),
            ("new_addr", address(to)),
        ])
    };
    let wide = call(at, PAGE, 2 * PAGE, MREMAP_MAYMOVE, 0).ok() as u64;
    maps(c, wide + PAGE, "rw-s", 4096, "/file");
    assert_eq!(peek(wide + PAGE, 1), pattern(10_000)[4096..4097]);
    // A place that is free, because it has just been made so.
    let free = map("other", 2, MAP_PRIVATE);
    let moved = call(wide, 2 * PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, free).ok() as u64;
    assert_eq!(moved, free);
    maps(c, free, "rw-s", 0, "/file");
    c.check(|| assert_eq!(mapping(wide), None));
    let left = call(free, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0).ok() as u64;
    let again = call(free, 0, PAGE, MREMAP_MAYMOVE, 0).ok() as u64;
    for at in [free, left, again] {
        maps(c, at, "rw-s", 0, "/file");
    }
    call(free + 1, PAGE, PAGE, 0, 0).fails(EINVAL);
}

fn mprotect(c: &Context) {
    let at = map("file", 2, MAP_SHARED);
    let call = |at: u64, n: u64, prot: i32| {
        c.call(&[("addr", address(at)), ("length", length(n)), ("prot", flags(prot.into()))])
    };
    call(at, PAGE, PROT_READ).ok();
    maps(c, at, "r--s", 0, "/file");
    maps(c, at + PAGE, "rw-s", 4096, "/file");
    call(at + 1, PAGE, PROT_READ).fails(EINVAL);
}

fn madvise(c: &Context) {
    let at = map("file", 1, MAP_PRIVATE);
    poke(at, b"changed");
    let call = |at: u64, n: u64, advice: i32| {
        c.call(&[("addr", address(at)), ("length", length(n)), ("advice", command(advice.into()))])
    };
    // A private page that is given up comes back as the file has it.
    call(at, PAGE, MADV_DONTNEED).ok();
    assert_eq!(peek(at, 7), pattern(7));
    call(at, PAGE, 9999).fails(EINVAL);
}

fn msync(c: &Context) {
    let at = map("file", 1, MAP_SHARED);
    poke(at, b"changed");
    let call = |at: u64, n: u64, bits: i32| {
        c.call(&[("addr", address(at)), ("length", length(n)), ("flags", flags(bits.into()))])
    };
    call(at, PAGE, MS_SYNC).ok();
    let mut whole = pattern(10_000);
    whole[..7].copy_from_slice(b"changed");
    c.has_content("file", &whole);
    call(at, PAGE, MS_SYNC | MS_ASYNC).fails(EINVAL);
    call(at + 1, PAGE, MS_SYNC).fails(EINVAL);
}

fn locked(c: &Context, kilobytes: u64) {
    c.check(|| assert_eq!(status("VmLck"), format!("{kilobytes} kB")));
}

fn mlock(c: &Context) {
    let at = map("file", 2, MAP_SHARED);
    c.call(&[("addr", address(at)), ("length", length(PAGE))]).ok_or_skip(&[EPERM, ENOMEM]);
    locked(c, 4);
    c.call(&[("addr", address(at)), ("length", length(2 * PAGE))]).ok();
    locked(c, 8);
}

fn munlock(c: &Context) {
    let at = map("file", 2, MAP_SHARED);
    if raw::sys(SYS_mlock, &[at, 2 * PAGE]) != 0 {
        c.skip("memory cannot be locked");
    }
    c.call(&[("addr", address(at)), ("length", length(PAGE))]).ok();
    locked(c, 4);
}

fn mincore(c: &Context) {
    let at = map("file", 3, MAP_SHARED);
    peek(at, 1);
    let done = c.call(&[("addr", address(at)), ("length", length(3 * PAGE)), ("vec", memory(&[CANARY; 3]))]);
    done.ok();
    assert!(done.bytes("vec").iter().all(|b| *b & !1 == 0), "one byte a page");
    assert_eq!(done.bytes("vec")[0], 1);
    let bad = c.call(&[("addr", address(at + 1)), ("length", length(PAGE)), ("vec", memory(&[0]))]);
    bad.fails(EINVAL);
}

fn remap_file_pages(c: &Context) {
    let at = map("file", 2, MAP_SHARED);
    let done = c.call(&[
        ("addr", address(at)),
        ("size", length(PAGE)),
        ("prot", num(0)),
        ("pgoff", num(1)),
        ("flags", num(0)),
    ]);
    done.ok_or_skip(&[ENOSYS]);
    assert_eq!(peek(at, 100), pattern(10_000)[4096..4196]);
    maps(c, at, "rw-s", 4096, "/file");
}
