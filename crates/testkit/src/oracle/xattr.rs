//! Extended attributes. Attributes of symbolic links are root's alone, in the `trusted` namespace.

use std::collections::BTreeSet;
use std::path::Path;

use libc::*;

use super::Case;
use super::context::{Context, Done};
use super::fixture::{self, get_xattr, set_xattr};
use super::value::{self, *};
use crate::raw::Guarded;

pub(super) const CASES: &[(&str, Case)] = &[
    ("setxattr", set_by_name),
    ("lsetxattr", set_by_name),
    ("fsetxattr", fsetxattr),
    ("getxattr", get_by_name),
    ("lgetxattr", get_by_name),
    ("fgetxattr", fgetxattr),
    ("listxattr", list_by_name),
    ("llistxattr", list_by_name),
    ("flistxattr", flistxattr),
    ("removexattr", remove_by_name),
    ("lremovexattr", remove_by_name),
    ("fremovexattr", fremovexattr),
    ("setxattrat", setxattrat),
    ("getxattrat", getxattrat),
    ("listxattrat", listxattrat),
    ("removexattrat", removexattrat),
];

fn needs_xattrs(c: &Context) {
    if get_xattr(Path::new("file"), "user.k").is_none() {
        c.skip("the file system has no extended attributes");
    }
}

/// What is called, what of it is meant, and an attribute that it may have. A replay has no right to attributes of
/// symbolic links (the `trusted` namespace), so what is recorded is a file.
fn subject(c: &Context) -> (&'static str, &'static str, &'static str) {
    needs_xattrs(c);
    if !c.row().name.starts_with('l') || c.row().name == "listxattr" {
        return ("link", "file", "user.new");
    }
    if !c.checks() && !c.probes() {
        return ("file", "file", "user.new");
    }
    if !set_xattr(Path::new("link"), "trusted.here", b"1") {
        c.skip("no extended attributes of a symbolic link");
    }
    ("link", "link", "trusted.new")
}

fn has(c: &Context, name: &str, attribute: &str, value: Option<&[u8]>) {
    c.check(|| assert_eq!(get_xattr(Path::new(name), attribute).as_deref(), value, "{name}"));
}

fn set_by_name(c: &Context) {
    let (called, changed, attribute) = subject(c);
    let call = |value: &[u8], bits: i32| {
        c.call(&[
            ("path", path(called)),
            ("name", text(attribute)),
            ("value", data(value)),
            ("flags", flags(bits.into())),
        ])
    };
    call(b"a value", XATTR_CREATE).ok();
    has(c, changed, attribute, Some(b"a value"));
    call(b"x", XATTR_CREATE).fails(EEXIST);
    call(b"longer than before", XATTR_REPLACE).ok();
    has(c, changed, attribute, Some(b"longer than before"));
    call(b"", 0).ok();
    has(c, changed, attribute, Some(b""));
}

fn fsetxattr(c: &Context) {
    needs_xattrs(c);
    let fd = fixture::open("file", O_RDONLY);
    let call = |value: &[u8], bits: i32| {
        c.call(&[
            ("fd", value::fd(fd)),
            ("name", text("user.new")),
            ("value", data(value)),
            ("flags", flags(bits.into())),
        ])
    };
    call(b"a value", 0).ok();
    has(c, "file", "user.new", Some(b"a value"));
    call(b"x", XATTR_CREATE).fails(EEXIST);
}

fn get_by_name(c: &Context) {
    let (called, changed, attribute) = subject(c);
    set_xattr(Path::new(changed), attribute, b"some\0bytes");
    let call =
        |attribute: &str, n: usize| c.call(&[("path", path(called)), ("name", text(attribute)), ("value", room(n))]);
    let done = call(attribute, 100);
    assert_eq!(done.ok(), 10);
    assert_eq!(done.content("value"), b"some\0bytes");
    call(attribute, 3).fails(ERANGE);
    assert_eq!(
        c.call(&[("path", path(called)), ("name", text(attribute)), ("value", null(Is::Room)), ("size", length(0)),])
            .result,
        10
    );
    call("user.no such", 9).errno();
}

fn fgetxattr(c: &Context) {
    needs_xattrs(c);
    let fd = fixture::open("file", O_RDONLY);
    let call = |attribute: &str| c.call(&[("fd", value::fd(fd)), ("name", text(attribute)), ("value", room(64))]);
    let done = call("user.k");
    assert_eq!(done.ok(), 5);
    assert_eq!(done.content("value"), b"value");
    call("user.none").fails(ENODATA);
}

/// The attributes' names, without those that the system adds.
fn names(done: &Done) -> BTreeSet<String> {
    done.ok();
    let list = done.content("list");
    let texts = list.split(|b| *b == 0).map(|n| String::from_utf8_lossy(n).into_owned());
    texts.filter(|n| n.starts_with("user.") || n.starts_with("trusted.")).collect()
}

fn list_by_name(c: &Context) {
    let (called, changed, attribute) = subject(c);
    set_xattr(Path::new(changed), attribute, b"1");
    let call = |n: usize| c.call(&[("path", path(called)), ("list", room(n))]);
    let other = if changed == "file" { "user.k" } else { "trusted.here" };
    assert_eq!(names(&call(1000)), [attribute, other].map(str::to_owned).into());
    call(3).fails(ERANGE);
}

fn flistxattr(c: &Context) {
    needs_xattrs(c);
    let fd = fixture::open("file", O_RDONLY);
    let done = c.call(&[("fd", value::fd(fd)), ("list", room(1000))]);
    assert_eq!(names(&done), ["user.k".to_owned()].into());
}

fn remove_by_name(c: &Context) {
    let (called, changed, attribute) = subject(c);
    set_xattr(Path::new(changed), attribute, b"1");
    let call = || c.call(&[("path", path(called)), ("name", text(attribute))]);
    call().ok();
    has(c, changed, attribute, None);
    call().fails(ENODATA);
}

fn fremovexattr(c: &Context) {
    needs_xattrs(c);
    let fd = fixture::open("file", O_RDONLY);
    let call = || c.call(&[("fd", value::fd(fd)), ("name", text("user.k"))]);
    call().ok();
    has(c, "file", "user.k", None);
    call().fails(ENODATA);
}

/// `struct xattr_args`: value (u64), size (u32), flags (u32).
fn xattr_args(value: Guarded, bits: i32) -> Vec<u8> {
    let tail = words(&[value.len() as u32, bits as u32]);
    [longs(&[value.address()]), tail].concat()
}

fn setxattrat(c: &Context) {
    needs_xattrs(c);
    let dir = fixture::open("dir", O_PATH);
    let call = |value: &[u8], bits: i32| {
        c.call(&[
            ("dirfd", at_dir(dir)),
            ("path", path("inside")),
            ("at_flags", flags(0)),
            ("name", text("user.new")),
            ("args", memory(&xattr_args(Guarded::new(value), bits))),
            ("size", length(16)),
        ])
    };
    call(b"a value", XATTR_CREATE).ok();
    has(c, "dir/inside", "user.new", Some(b"a value"));
    call(b"x", XATTR_CREATE).fails(EEXIST);
}

fn getxattrat(c: &Context) {
    needs_xattrs(c);
    let dir = fixture::open("dir", O_PATH);
    let value = Guarded::new(&[0; 64]);
    let done = c.call(&[
        ("dirfd", at_dir(dir)),
        ("path", path("../link")),
        ("at_flags", flags(0)),
        ("name", text("user.k")),
        ("args", memory(&xattr_args(value, 0))),
        ("size", length(16)),
    ]);
    assert_eq!(done.ok(), 5);
    assert_eq!(value.bytes()[..5], *b"value");
}

fn listxattrat(c: &Context) {
    needs_xattrs(c);
    let dir = fixture::open("dir", O_PATH);
    let call = |bits: i32| {
        c.call(&[
            ("dirfd", at_dir(dir)),
            ("path", path("../link")),
            ("at_flags", flags(bits.into())),
            ("list", room(1000)),
        ])
    };
    assert_eq!(names(&call(0)), ["user.k".to_owned()].into());
    assert_eq!(names(&call(AT_SYMLINK_NOFOLLOW)), BTreeSet::new());
}

fn removexattrat(c: &Context) {
    needs_xattrs(c);
    let dir = fixture::open("dir", O_PATH);
    let call = || {
        c.call(&[("dirfd", at_dir(dir)), ("path", path("../link")), ("at_flags", flags(0)), ("name", text("user.k"))])
    };
    call().ok();
    has(c, "file", "user.k", None);
    call().fails(ENODATA);
}
