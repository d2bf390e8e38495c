//! Owner and group of files, and of the process.

use std::fs;
use std::os::unix::fs::MetadataExt;

use libc::*;

use super::Case;
use super::context::Context;
use super::fixture::{self, status};
use super::value::{self, *};
use crate::raw;
use crate::scratch::is_root;

pub(super) const CASES: &[(&str, Case)] = &[
    ("chown", chown),
    ("lchown", lchown),
    ("fchown", fchown),
    ("fchownat", fchownat),
    ("setuid", setuid),
    ("setgid", setgid),
    ("setreuid", setreuid),
    ("setregid", setregid),
    ("setresuid", setresuid),
    ("setresgid", setresgid),
    ("setfsuid", setfsuid),
    ("setfsgid", setfsgid),
    ("setgroups", setgroups),
    ("capset", capset),
];

/// An owner and a group to change to; an ordinary user may only change to itself.
fn ids() -> (u32, u32) {
    if is_root() {
        return (12_345, 23_456);
    }
    let id = |n| raw::sys(n, &[]) as u32;
    (id(SYS_getuid), id(SYS_getgid))
}

fn owned(c: &Context, name: &str, by: (u32, u32)) {
    c.check(|| {
        let of = fs::symlink_metadata(name).expect(name);
        assert_eq!((of.uid(), of.gid()), by, "{name}");
    });
}

const KEEP: u32 = u32::MAX;

fn by_name(c: &Context, changed: &str) {
    let call = |name: &str, user: u32, group: u32| {
        c.call(&[("path", path(name)), ("owner", owner(user)), ("group", owner(group))])
    };
    let (user, group) = ids();
    call("link", user, group).ok();
    owned(c, changed, (user, group));
    call("link", KEEP, group).ok();
    owned(c, changed, (user, group));
    call("missing", KEEP, KEEP).fails(ENOENT);
}

fn chown(c: &Context) {
    by_name(c, "file");
}

fn lchown(c: &Context) {
    by_name(c, "link");
}

fn fchown(c: &Context) {
    let fd = fixture::open("file", O_RDONLY);
    let (user, group) = ids();
    let done = c.call(&[("fd", value::fd(fd)), ("owner", owner(user)), ("group", owner(group))]);
    done.ok();
    owned(c, "file", (user, group));
}

fn fchownat(c: &Context) {
    let dir = fixture::open("dir", O_PATH);
    let (user, group) = ids();
    let call = |name: &str, bits: i32| {
        c.call(&[
            ("dirfd", at_dir(dir)),
            ("path", path(name)),
            ("owner", owner(user)),
            ("group", owner(group)),
            ("flags", flags(bits.into())),
        ])
    };
    call("inside", 0).ok();
    owned(c, "dir/inside", (user, group));
    call("../link", AT_SYMLINK_NOFOLLOW).ok();
    owned(c, "link", (user, group));
    call("../link", 0).ok();
    owned(c, "file", (user, group));
    call("", AT_EMPTY_PATH).ok();
    owned(c, "dir", (user, group));
}

/// The identity of this process: real, effective, saved and for files.
fn identity_is(c: &Context, key: &str, expected: [u32; 4]) {
    c.check(|| {
        let text = status(key);
        let found: Vec<u32> = text.split_whitespace().map(|w| w.parse().expect("a number")).collect();
        assert_eq!(found, expected, "{key}");
    });
}

/// What it was before.
fn was(call: c_long) -> u32 {
    raw::sys(call, &[]) as u32
}

fn setuid(c: &Context) {
    let (user, _) = ids();
    c.call(&[("uid", owner(user))]).ok();
    identity_is(c, "Uid", [user; 4]);
    c.call(&[("uid", owner(1))]).fails(EPERM);
}

fn setgid(c: &Context) {
    let (_, group) = ids();
    c.call(&[("gid", owner(group))]).ok();
    identity_is(c, "Gid", [group; 4]);
}

fn setreuid(c: &Context) {
    let (user, _) = ids();
    let real = was(SYS_getuid);
    let call = |r: u32, e: u32| c.call(&[("ruid", owner(r)), ("euid", owner(e))]);
    call(KEEP, user).ok();
    identity_is(c, "Uid", [real, user, user, user]);
    call(user, user).ok();
    identity_is(c, "Uid", [user; 4]);
}

fn setregid(c: &Context) {
    let (_, group) = ids();
    let real = was(SYS_getgid);
    let call = |r: u32, e: u32| c.call(&[("rgid", owner(r)), ("egid", owner(e))]);
    call(KEEP, group).ok();
    identity_is(c, "Gid", [real, group, group, group]);
}

/// The three arguments differ where root can make them differ.
fn three() -> [u32; 3] {
    if is_root() { [101, 102, 103] } else { [KEEP; 3] }
}

fn setresuid(c: &Context) {
    let [r, e, s] = three();
    let was = was(SYS_getuid);
    c.call(&[("ruid", owner(r)), ("euid", owner(e)), ("suid", owner(s))]).ok();
    let or = |id: u32| if id == KEEP { was } else { id };
    identity_is(c, "Uid", [or(r), or(e), or(s), or(e)]);
}

fn setresgid(c: &Context) {
    let [r, e, s] = three();
    let was = was(SYS_getgid);
    c.call(&[("rgid", owner(r)), ("egid", owner(e)), ("sgid", owner(s))]).ok();
    let or = |id: u32| if id == KEEP { was } else { id };
    identity_is(c, "Gid", [or(r), or(e), or(s), or(e)]);
}

fn setfsuid(c: &Context) {
    let (user, _) = ids();
    let was = was(SYS_getuid);
    assert_eq!(c.call(&[("uid", owner(user))]).ok(), i64::from(was));
    identity_is(c, "Uid", [was, was, was, user]);
    if is_root() {
        fs::write("dir/nobody", "").expect_err("root's directory is not this user's");
    }
    assert_eq!(c.call(&[("uid", owner(KEEP))]).ok(), i64::from(user));
}

fn setfsgid(c: &Context) {
    let (_, group) = ids();
    let was = was(SYS_getgid);
    assert_eq!(c.call(&[("gid", owner(group))]).ok(), i64::from(was));
    identity_is(c, "Gid", [was, was, was, group]);
    fs::write("new", "").expect("new");
    c.check(|| assert_eq!(fs::metadata("new").expect("new").gid(), group));
}

fn setgroups(c: &Context) {
    c.call(&[("list", input(&words(&[7, 8, 70_000])))]).ok_or_skip(&[EPERM]);
    c.check(|| assert_eq!(status("Groups"), "7 8 70000"));
    c.call(&[("size", length(0)), ("list", null(Is::In))]).ok();
    c.check(|| assert_eq!(status("Groups"), ""));
}

fn capset(c: &Context) {
    const VERSION_3: u32 = 0x2008_0522;
    let done = c.call(&[("header", memory(&words(&[VERSION_3, 0]))), ("data", memory(&[0; 24]))]);
    done.ok();
    c.check(|| {
        assert_eq!(status("CapEff"), "0000000000000000");
        assert_eq!(status("CapPrm"), "0000000000000000");
    });
}
