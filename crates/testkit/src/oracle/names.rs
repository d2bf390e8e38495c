//! Names: making, moving, removing, listing; working and root directory.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

use libc::*;

use super::Case;
use super::context::{Context, Done, number};
use super::fixture::{self, identity};
use super::value::{self, *};
use crate::raw;

pub(super) const CASES: &[(&str, Case)] = &[
    ("rename", rename),
    ("renameat", renameat),
    ("renameat2", renameat2),
    ("link", link),
    ("linkat", linkat),
    ("symlink", symlink),
    ("symlinkat", symlinkat),
    ("unlink", unlink),
    ("unlinkat", unlinkat),
    ("rmdir", rmdir),
    ("mkdir", mkdir),
    ("mkdirat", mkdirat),
    ("mknod", mknod),
    ("mknodat", mknodat),
    ("readlink", readlink),
    ("readlinkat", readlinkat),
    ("getdents", getdents),
    ("getdents64", getdents64),
    ("chdir", chdir),
    ("fchdir", fchdir),
    ("chroot", chroot),
    ("getcwd", getcwd),
];

/// What has this identity now has this name.
fn moved(c: &Context, was: (u64, u64), to: &str) {
    c.check(|| assert_eq!(identity(to), was, "{to}"));
}

fn rename(c: &Context) {
    let was = identity("file");
    let call = |a: &str, b: &str| c.call(&[("old", path(a)), ("new", path(b))]);
    call("file", "dir/moved").ok();
    c.is_absent("file");
    moved(c, was, "dir/moved");
    call("dir/moved", "other").ok();
    moved(c, was, "other");
    let link = identity("link");
    call("link", "link2").ok();
    moved(c, link, "link2");
    call("dir", "dir/inside/x").fails(ENOTDIR);
    call("empty", "dir").fails(ENOTEMPTY);
    call("missing", "x").fails(ENOENT);
}

fn renameat(c: &Context) {
    let was = identity("dir/inside");
    let (dir, empty) = (fixture::open("dir", O_PATH), fixture::open("empty", O_PATH));
    let done = c.call(&[
        ("olddirfd", at_dir(dir)),
        ("old", path("inside")),
        ("newdirfd", at_dir(empty)),
        ("new", path("outside")),
    ]);
    done.ok();
    c.is_absent("dir/inside");
    moved(c, was, "empty/outside");
}

fn renameat2(c: &Context) {
    let (dir, here) = (fixture::open("dir", O_PATH), i64::from(AT_FDCWD));
    let (inside, file) = (identity("dir/inside"), identity("file"));
    let call = |bits: u32| {
        c.call(&[
            ("olddirfd", at_dir(dir)),
            ("old", path("inside")),
            ("newdirfd", at_dir(here)),
            ("new", path("file")),
            ("flags", flags(bits.into())),
        ])
    };
    call(RENAME_EXCHANGE).ok_or_skip(&[EINVAL]);
    moved(c, inside, "file");
    moved(c, file, "dir/inside");
    call(RENAME_NOREPLACE).fails(EEXIST);
    call(0).ok();
    c.is_absent("dir/inside");
    moved(c, file, "file");
}

fn links(c: &Context, name: &str, number: u64) {
    c.check(|| assert_eq!(fs::symlink_metadata(name).expect(name).nlink(), number, "{name}"));
}

fn link(c: &Context) {
    let was = identity("file");
    let call = |a: &str, b: &str| c.call(&[("old", path(a)), ("new", path(b))]);
    call("file", "dir/second").ok();
    moved(c, was, "dir/second");
    moved(c, was, "file");
    links(c, "file", 2);
    let was = identity("link");
    call("link", "link2").ok();
    moved(c, was, "link2");
    call("file", "other").fails(EEXIST);
    call("dir", "dir2").fails(EPERM);
}

fn linkat(c: &Context) {
    let (dir, empty) = (fixture::open("dir", O_PATH), fixture::open("empty", O_PATH));
    let call = |a: i64, old: &str, b: i64, new: &str, bits: i32| {
        c.call(&[
            ("olddirfd", at_dir(a)),
            ("old", path(old)),
            ("newdirfd", at_dir(b)),
            ("new", path(new)),
            ("flags", flags(bits.into())),
        ])
    };
    let was = identity("dir/inside");
    call(dir, "inside", empty, "second", 0).ok();
    moved(c, was, "empty/second");
    links(c, "dir/inside", 2);
    let was = identity("file");
    call(AT_FDCWD.into(), "link", dir, "file2", AT_SYMLINK_FOLLOW).ok();
    moved(c, was, "dir/file2");
    call(dir, "inside", dir, "file2", 0).fails(EEXIST);
}

fn leads(c: &Context, name: &str, target: &str) {
    c.check(|| assert_eq!(fs::read_link(name).expect(name).to_string_lossy(), target));
}

fn symlink(c: &Context) {
    let call = |a: &str, b: &str| c.call(&[("target", text(a)), ("path", path(b))]);
    call("../anything at all", "new").ok();
    leads(c, "new", "../anything at all");
    call("x", "file").fails(EEXIST);
    call("", "y").fails(ENOENT);
}

fn symlinkat(c: &Context) {
    let dir = fixture::open("dir", O_PATH);
    let done = c.call(&[("target", text("inside")), ("dirfd", at_dir(dir)), ("path", path("new"))]);
    done.ok();
    leads(c, "dir/new", "inside");
}

fn unlink(c: &Context) {
    let call = |name: &str| c.call(&[("path", path(name))]);
    let fd = fixture::open("file", O_RDONLY);
    call("link").ok();
    c.is_absent("link");
    call("file").ok();
    c.is_absent("file");
    c.check(|| assert!(fixture::fd_path(fd).ends_with("/file (deleted)")));
    call("dir").fails(EISDIR);
    call("missing").fails(ENOENT);
}

fn unlinkat(c: &Context) {
    let dir = fixture::open("dir", O_PATH);
    let call = |at: i64, name: &str, bits: i32| {
        c.call(&[("dirfd", at_dir(at)), ("path", path(name)), ("flags", flags(bits.into()))])
    };
    call(dir, "inside", 0).ok();
    c.is_absent("dir/inside");
    call(dir, "../empty", 0).fails(EISDIR);
    call(dir, "../empty", AT_REMOVEDIR).ok();
    c.is_absent("empty");
    call(AT_FDCWD.into(), "file", AT_REMOVEDIR).fails(ENOTDIR);
}

fn rmdir(c: &Context) {
    let call = |name: &str| c.call(&[("path", path(name))]);
    call("empty").ok();
    c.is_absent("empty");
    call("dir").fails(ENOTEMPTY);
    call("file").fails(ENOTDIR);
}

fn mkdir(c: &Context) {
    let call = |name: &str| c.call(&[("path", path(name)), ("mode", mode(0o1737))]);
    call("new").ok();
    c.has_mode("new", S_IFDIR | 0o1715);
    call("file").fails(EEXIST);
    call("missing/x").fails(ENOENT);
}

fn mkdirat(c: &Context) {
    let dir = fixture::open("dir", O_PATH);
    let done = c.call(&[("dirfd", at_dir(dir)), ("path", path("new")), ("mode", mode(0o700))]);
    done.ok();
    c.has_mode("dir/new", S_IFDIR | 0o700);
}

fn mknod(c: &Context) {
    let call = |name: &str, bits: u32, dev: Value| c.call(&[("path", path(name)), ("mode", mode(bits)), ("dev", dev)]);
    call("fifo", S_IFIFO | 0o622, device(0, 0)).ok();
    c.has_mode("fifo", S_IFIFO | 0o600);
    call("plain", S_IFREG | 0o600, device(0, 0)).ok();
    c.has_mode("plain", S_IFREG | 0o600);
    call("socket", S_IFSOCK | 0o600, device(0, 0)).ok();
    c.has_mode("socket", S_IFSOCK | 0o600);
    call("file", S_IFIFO, device(0, 0)).fails(EEXIST);
    let null = call("null", S_IFCHR | 0o600, device(1, 3));
    if null.errno() != EPERM {
        null.ok();
        c.has_mode("null", S_IFCHR | 0o600);
        c.check(|| assert_eq!(fs::metadata("null").expect("null").rdev(), 0x103));
    }
}

fn mknodat(c: &Context) {
    let dir = fixture::open("dir", O_PATH);
    let call = |name: &str, bits: u32, dev: Value| {
        c.call(&[("dirfd", at_dir(dir)), ("path", path(name)), ("mode", mode(bits)), ("dev", dev)])
    };
    call("fifo", S_IFIFO | 0o600, device(0, 0)).ok();
    c.has_mode("dir/fifo", S_IFIFO | 0o600);
    let loop_device = call("block", S_IFBLK | 0o600, device(7, 200));
    if loop_device.errno() != EPERM {
        loop_device.ok();
        c.has_mode("dir/block", S_IFBLK | 0o600);
        c.check(|| assert_eq!(fs::metadata("dir/block").expect("block").rdev(), 0x7c8));
    }
}

fn readlink(c: &Context) {
    let call = |name: &str, n: usize| c.call(&[("path", path(name)), ("buf", room(n))]);
    let done = call("link", 100);
    assert_eq!(done.ok(), 4);
    assert_eq!(done.content("buf"), b"file");
    assert_eq!(done.bytes("buf")[4], CANARY, "no NUL");
    let done = call("link", 2);
    assert_eq!(done.ok(), 2);
    assert_eq!(done.content("buf"), b"fi");
    call("file", 10).fails(EINVAL);
}

fn readlinkat(c: &Context) {
    std::os::unix::fs::symlink("inside", "dir/l").expect("a link");
    let dir = fixture::open("dir", O_PATH);
    let call = |name: &str| c.call(&[("dirfd", at_dir(dir)), ("path", path(name)), ("buf", room(64))]);
    let done = call("l");
    assert_eq!(done.ok(), 6);
    assert_eq!(done.content("buf"), b"inside");
    call("inside").fails(EINVAL);
}

/// Entries of a listing: inode, type and name; `name_at` and the place of the type differ between the layouts.
fn listed(done: &Done, old: bool) -> BTreeSet<(u64, u8, String)> {
    let bytes = done.content("buf");
    let (mut at, mut out) = (0, BTreeSet::new());
    while at < bytes.len() {
        let length = number(&bytes, at + 16, 2) as usize;
        let (name_at, kind) = match old {
            true => (18, bytes[at + length - 1]),
            false => (19, bytes[at + 18]),
        };
        let name = bytes[at + name_at..].split(|b| *b == 0).next().unwrap_or(&[]);
        let name = String::from_utf8_lossy(name).into_owned();
        out.insert((number(&bytes, at, 8), kind, name));
        at += length;
    }
    out
}

fn lists(c: &Context, old: bool) {
    let fd = fixture::open(".", O_DIRECTORY);
    let call = |fd: i64, n: usize| c.call(&[("fd", value::fd(fd)), ("buf", room(n))]);
    let done = call(fd, 4096);
    assert!(done.ok() > 0);
    c.check(|| {
        let mut expected: BTreeSet<_> = [".", ".."].map(|n| (identity(n).1, DT_DIR, n.to_owned())).into();
        for entry in fs::read_dir(".").expect("this directory").flatten() {
            let kind = (fs::symlink_metadata(entry.path()).expect("an entry").mode() >> 12) as u8;
            let name = entry.file_name().to_string_lossy().into_owned();
            expected.insert((identity(&name).1, kind, name));
        }
        assert_eq!(listed(&done, old), expected);
    });
    assert_eq!(call(fd, 4096).ok(), 0);
    let file = fixture::open("file", O_RDONLY);
    call(file, 4096).fails(ENOTDIR);
    raw::must(SYS_lseek, &[fd as u64, 0, 0]);
    call(fd, 10).fails(EINVAL);
}

fn getdents(c: &Context) {
    lists(c, true);
}

fn getdents64(c: &Context) {
    lists(c, false);
}

fn is_here(c: &Context, here: (u64, u64)) {
    c.check(|| assert_eq!(identity("/proc/self/cwd/."), here));
}

fn chdir(c: &Context) {
    let dir = identity("dir");
    c.call(&[("path", path("dir"))]).ok();
    is_here(c, dir);
    c.check(|| assert!(fs::metadata("inside").is_ok()));
    c.call(&[("path", path("inside"))]).fails(ENOTDIR);
}

fn fchdir(c: &Context) {
    let dir = identity("dir");
    let fd = fixture::open("dir", O_PATH);
    let file = fixture::open("file", O_RDONLY);
    c.call(&[("fd", value::fd(fd))]).ok();
    is_here(c, dir);
    c.call(&[("fd", value::fd(file))]).fails(ENOTDIR);
}

fn chroot(c: &Context) {
    let here = identity(".");
    // A descriptor, since `/proc` is out of reach afterwards.
    c.call(&[("path", path("."))]).ok_or_skip(&[EPERM]);
    c.check(|| {
        assert_eq!(identity("/"), here);
        assert!(fs::metadata("/dir/inside").is_ok());
        assert!(fs::metadata("/proc").is_err());
    });
    c.call(&[("path", path("/file"))]).fails(ENOTDIR);
}

fn getcwd(c: &Context) {
    let call = |n: usize| c.call(&[("buf", room(n))]);
    let done = call(4096);
    let length = done.ok();
    c.check(|| {
        let here = fs::read_link("/proc/self/cwd").expect("cwd");
        let expected = [here.to_string_lossy().as_bytes(), &[0]].concat();
        assert_eq!(done.content("buf"), expected);
        assert_eq!(length as usize, expected.len(), "the result counts the NUL");
    });
    call(2).fails(ERANGE);
}
