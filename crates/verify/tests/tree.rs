//! Every kind of difference between a trace's final tree and a directory is found, and only those.

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use common::{Script, me, node, row};
use reprise_verify::{TreeComparison, VerifyError, compare_tree};

fn script() -> Script {
    let mut s = Script::new(vec![
        row("mkdir", &[0, 0o777], 0).path("/d"),
        row("open", &[0, 0o102, 0o666], 3).path("/d/f"),
        row("write", &[3, 0, 5], 5).content(b"hello"),
        row("ftruncate", &[3, 10_000], 0),
        row("link", &[0, 0], 0).path("/d/f").path2("/d/g"),
        row("symlink", &[0, 0], 0).input(b"d/f").path("/l"),
        row("chmod", &[0, 0o600], 0).path("/d/f"),
        // Of the initial file only the begin is ever seen.
        row("open", &[0, 0], 4).path("/old"),
        row("read", &[4, 0, 4], 4).content(b"abcd"),
        row("mknod", &[0, 0o010644, 0], 0).path("/pipe"),
    ]);
    s.tree.push(node(2, "old", 20, 0o100644, 8));
    let mut proc = node(2, "proc", 10, 0o040555, 0);
    proc.filesystem = 0x9fa0;
    let mut null = node(2, "null", 11, 0o020666, 0);
    null.rdev = 0x103;
    s.tree.extend([proc, null]);
    s
}

/// What a faithful replay leaves.
fn build(dir: &Path) {
    fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
    for d in ["d", "proc"] {
        fs::create_dir(dir.join(d)).unwrap();
        fs::set_permissions(dir.join(d), Permissions::from_mode(0o755)).unwrap();
    }
    let mut content = b"hello".to_vec();
    content.resize(10_000, 0);
    fs::write(dir.join("d/f"), content).unwrap();
    fs::set_permissions(dir.join("d/f"), Permissions::from_mode(0o600)).unwrap();
    fs::hard_link(dir.join("d/f"), dir.join("d/g")).unwrap();
    symlink("d/f", dir.join("l")).unwrap();
    for (name, content) in [("old", &b"abcd\0\0\0\0"[..]), ("null", b"")] {
        fs::write(dir.join(name), content).unwrap();
        fs::set_permissions(dir.join(name), Permissions::from_mode(0o644)).unwrap();
    }
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    rustix::fs::mknodat(rustix::fs::CWD, dir.join("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    fs::set_permissions(dir.join("pipe"), Permissions::from_mode(0o644)).unwrap();
    fs::create_dir(dir.join("lost+found")).unwrap();
    fs::write(dir.join(".reprise-tree"), "mark").unwrap();
}

fn compared(script: &Script, change: impl Fn(&Path)) -> TreeComparison {
    let dir = tempfile::tempdir().unwrap();
    let trace = script.record(dir.path());
    let target = dir.path().join("t");
    fs::create_dir(&target).unwrap();
    build(&target);
    change(&target);
    let c = compare_tree(&trace, &target).unwrap();
    assert_eq!(c.same + c.excused + c.diverged, c.names, "{c:#?}");
    c
}

#[test]
fn the_same_is_the_same() {
    let c = compared(&script(), |_| {});
    assert!(c.is_same(), "{c:#?}");
    assert_eq!((c.names, c.same, c.excused), (9, 7, 2));
    assert_eq!((c.compared_bytes, c.unknown_bytes, c.unrecorded_bytes), (10_004, 4, 0));
    let causes: Vec<&str> = c.unavoidable.keys().map(String::as_str).collect();
    assert_eq!(causes, ["device nodes are not made by a replay", "pseudo file system"]);
    assert!(c.surprises.is_empty(), "{c:#?}");
}

#[test]
fn differences_are_found_by_what_they_are() {
    type Change = fn(&Path);
    let cases: [(Change, &str, &str); 16] = [
        (|t| fs::remove_file(t.join("l")).unwrap(), "missing", "/l"),
        (|t| fs::write(t.join("d/new"), "").unwrap(), "should not be there", "/d/new"),
        (|t| fs::write(t.join("d/f"), "hello").unwrap(), "another size", "/d/f"),
        (|t| change_byte(t, "d/f", 1), "other content", "/d/f"),
        (|t| change_byte(t, "d/f", 9_999), "other content", "/d/f"),
        (|t| change_byte(t, "old", 3), "other content", "/old"),
        (|t| set_mode(t, "d/f", 0o644), "another mode", "/d/f"),
        (|t| set_mode(t, "d", 0o700), "another mode", "/d"),
        (|t| set_mode(t, "", 0o700), "another mode", "/"),
        (|t| replace(t, "l", |p| symlink("d/g", p).unwrap()), "link to another place", "/l"),
        (|t| replace(t, "l", |p| fs::write(p, "d/f").unwrap()), "another type", "/l"),
        (|t| replace(t, "pipe", |p| fs::create_dir(p).unwrap()), "another type", "/pipe"),
        (|t| unlink_apart(t), "a hard link is a file of its own", "/d/g"),
        (|t| replace(t, "old", |p| fs::hard_link(t_file(p), p).unwrap()), "a hard link that should not be", "/old"),
        (|t| set_attribute(t, "d/f", "user.x"), "an attribute that should not be there", "/d/f"),
        (|t| set_attribute(t, "d/f", "security.x"), "", ""),
    ];
    for (change, cause, path) in cases {
        let c = compared(&script(), change);
        if cause.is_empty() {
            assert!(c.is_same(), "{c:#?}");
            continue;
        }
        let found = c.groups.iter().find(|g| g.cause == cause);
        let found = found.unwrap_or_else(|| panic!("{cause} at {path} is not in {c:#?}"));
        assert_eq!(found.first[0].path, path);
        assert!(!c.is_same());
    }
}

fn t_file(p: &Path) -> std::path::PathBuf {
    p.with_file_name("d").join("f")
}

fn change_byte(t: &Path, name: &str, at: usize) {
    let mut content = fs::read(t.join(name)).unwrap();
    content[at] ^= 1;
    fs::write(t.join(name), content).unwrap();
}

fn set_mode(t: &Path, name: &str, mode: u32) {
    fs::set_permissions(t.join(name), Permissions::from_mode(mode)).unwrap();
}

fn replace(t: &Path, name: &str, make: impl Fn(&Path)) {
    fs::remove_file(t.join(name)).unwrap();
    make(&t.join(name));
}

fn unlink_apart(t: &Path) {
    let content = fs::read(t.join("d/f")).unwrap();
    fs::remove_file(t.join("d/g")).unwrap();
    fs::write(t.join("d/g"), content).unwrap();
    set_mode(t, "d/g", 0o600);
}

fn set_attribute(t: &Path, name: &str, attribute: &str) {
    let set = rustix::fs::lsetxattr(t.join(name), attribute, b"1", rustix::fs::XattrFlags::empty());
    // Not every user may set every one; then there is nothing to ignore.
    if attribute.starts_with("user.") {
        set.unwrap();
    }
}

#[test]
fn nothing_is_reached_through_a_link() {
    let c = compared(&script(), |t| {
        fs::rename(t.join("d"), t.join("../elsewhere")).unwrap();
        symlink("../elsewhere", t.join("d")).unwrap();
    });
    let missing = c.groups.iter().find(|g| g.cause == "missing").unwrap();
    assert_eq!((missing.count, c.compared_bytes), (2, 4));
}

#[test]
fn the_worst_comes_first() {
    let c = compared(&script(), |t| {
        set_mode(t, "d", 0o700);
        change_byte(t, "d/f", 0);
        fs::remove_file(t.join("old")).unwrap();
    });
    let causes: Vec<&str> = c.groups.iter().map(|g| g.cause.as_str()).collect();
    assert_eq!(causes, ["missing", "other content", "another mode"]);
}

#[test]
fn attributes_that_were_set_are_expected() {
    let mut s = script();
    s.rows.push(row("fsetxattr", &[3, 0, 0, 5, 0], 0).input(b"user.x").content(b"value"));
    let c = compared(&s, |_| {});
    assert_eq!(c.groups[0].cause, "an attribute is missing");
    let set = |value: &'static [u8]| {
        move |t: &Path| {
            rustix::fs::lsetxattr(t.join("d/f"), "user.x", value, rustix::fs::XattrFlags::empty()).unwrap();
        }
    };
    assert!(compared(&s, set(b"value")).is_same());
    assert_eq!(compared(&s, set(b"other")).groups[0].cause, "another value of an attribute");
}

/// `u::rwx,u:5:rwx,g::r-x,m::rwx,o::r-x`, as the kernel holds it.
const LIST: &[u8] = b"\x02\0\0\0\x01\0\x07\0\xff\xff\xff\xff\x02\0\x07\0\x05\0\0\0\x04\0\x05\0\xff\xff\xff\xff\
    \x10\0\x07\0\xff\xff\xff\xff\x20\0\x05\0\xff\xff\xff\xff";
/// `cap_net_raw+ep`.
const NET_RAW: &[u8] = b"\x01\0\0\x02\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// Whether an attribute could be set here.
fn give(path: &Path, name: &str, value: &[u8]) -> bool {
    rustix::fs::lsetxattr(path, name, value, rustix::fs::XattrFlags::empty()).is_ok()
}

#[test]
fn attributes_of_the_system_that_a_replay_gives_are_compared() {
    let (list, program) = ("system.posix_acl_default", "security.capability");
    let probe = tempfile::tempdir().unwrap();
    if me().0 != 0 || !give(probe.path(), list, LIST) {
        eprintln!("SKIP: needs root and access lists");
        return;
    }
    let mut s = script();
    let given = |path: &str, name: &str, value: &[u8]| {
        let length = value.len() as u64;
        row("setxattr", &[0, 0, 0, length, 0], 0).path(path).input(name.as_bytes()).content(value)
    };
    s.rows.extend([given("/d", list, LIST), given("/d/f", program, NET_RAW)]);
    let faithful = |t: &Path| assert!(give(&t.join("d"), list, LIST) && give(&t.join("d/f"), program, NET_RAW));
    assert!(compared(&s, faithful).is_same());
    let lost = |from: &str, name: &str| rustix::fs::lremovexattr(from, name).unwrap();
    let differing = [("d", list, "/d"), ("d/f", program, "/d/f")];
    for (from, name, path) in differing {
        let c = compared(&s, |t| {
            faithful(t);
            lost(t.join(from).to_str().unwrap(), name);
        });
        let group = &c.groups[0];
        assert_eq!((&*group.cause, &*group.first[0].path, c.diverged), ("an attribute is missing", path, 1), "{c:#?}");
        let c = compared(&script(), |t| assert!(give(&t.join(from), name, if name == list { LIST } else { NET_RAW })));
        assert_eq!(c.groups[0].cause, "an attribute that should not be there", "{c:#?}");
    }
    let c = compared(&s, |t| {
        faithful(t);
        let mut other = LIST.to_vec();
        other[16] = 7;
        assert!(give(&t.join("d"), list, &other));
    });
    assert_eq!(c.groups[0].cause, "another value of an attribute", "{c:#?}");
}

#[test]
fn attributes_that_no_replay_gives_are_counted() {
    let mut s = script();
    for name in ["trusted.overlay.opaque", "trusted.x", "security.selinux"] {
        s.rows.push(row("fsetxattr", &[3, 0, 0, 1, 0], 0).input(name.as_bytes()).content(b"y"));
    }
    let c = compared(&s, |_| {});
    assert!(c.is_same() && c.same == 7, "{c:#?}");
    let told: Vec<(&str, u64)> = c.uncompared_attributes.iter().map(|(why, n)| (&why[..8], *n)).collect();
    assert_eq!(told, [("security", 1), ("trusted.", 2)]);
    assert!(compared(&script(), |_| {}).uncompared_attributes.is_empty());
}

#[test]
fn content_kept_as_a_hash_is_still_compared_and_none_is_counted() {
    let mut s = script();
    s.data = reprise_trace::DataPolicy::Hash;
    assert!(compared(&s, |_| {}).is_same());
    let c = compared(&s, |t| change_byte(t, "d/f", 2));
    assert_eq!(c.groups[0].cause, "other content");
    s.data = reprise_trace::DataPolicy::None;
    let c = compared(&s, |t| change_byte(t, "d/f", 2));
    assert!(c.is_same(), "{c:#?}");
    assert_eq!(c.unrecorded_bytes, 5);
}

#[test]
fn content_kept_as_a_hash_is_counted_where_a_replay_made_it_up() {
    let mut s = script();
    s.data = reprise_trace::DataPolicy::Hash;
    let c = compared(&s, |t| {
        fs::write(t.join(".reprise-tree"), "{\"version\":1,\"trace_id\":\"x\"}").unwrap();
        change_byte(t, "d/f", 2);
    });
    assert!(c.is_same(), "{c:#?}");
    assert_eq!(c.unrecorded_bytes, 9);
    let zero = compared(&s, |t| {
        fs::write(t.join(".reprise-tree"), "{\"version\":1,\"trace_id\":\"x\"}").unwrap();
        change_byte(t, "d/f", 9_999);
    });
    assert_eq!(zero.groups[0].cause, "other content", "what is known to be zero");
}

#[test]
fn names_deeper_than_a_path_may_be_long_are_compared() {
    use rustix::fs::{Mode, OFlags};
    const LEVELS: usize = 50;
    let name = "n".repeat(200);
    let path = |levels: usize| format!("/{name}").repeat(levels);
    let mut rows = Vec::new();
    for level in 1..=LEVELS {
        rows.push(row("mkdir", &[0, 0o755], 0).path(&path(level)));
    }
    let deepest = path(LEVELS);
    rows.push(row("symlink", &[0, 0], 0).input(b"nowhere").path(&format!("{deepest}/l")));
    rows.push(row("open", &[0, 0o102, 0o644], 3).path(&format!("{deepest}/f")));
    rows.push(row("write", &[3, 0, 5], 5).content(b"hello"));
    let s = Script::new(rows);
    let build = |text: &str| {
        let dir = tempfile::tempdir().unwrap();
        let trace = s.record(dir.path());
        let target = dir.path().join("t");
        fs::create_dir(&target).unwrap();
        fs::set_permissions(&target, Permissions::from_mode(0o755)).unwrap();
        let way = OFlags::PATH | OFlags::DIRECTORY;
        let mut at = rustix::fs::open(&target, way, Mode::empty()).unwrap();
        for _ in 0..LEVELS {
            rustix::fs::mkdirat(&at, &name, Mode::from_raw_mode(0o755)).unwrap();
            at = rustix::fs::openat(&at, &name, way, Mode::empty()).unwrap();
        }
        rustix::fs::symlinkat("nowhere", &at, "l").unwrap();
        let made = OFlags::CREATE | OFlags::WRONLY;
        let file = rustix::fs::openat(&at, "f", made, Mode::from_raw_mode(0o644)).unwrap();
        rustix::io::write(&file, text.as_bytes()).unwrap();
        compare_tree(&trace, &target).unwrap()
    };
    let same = build("hello");
    assert!(same.is_same() && same.names == LEVELS as u64 + 3, "{same:#?}");
    let other = build("hallo");
    assert_eq!((other.diverged, &*other.groups[0].cause), (1, "other content"));
}

#[test]
fn a_mapped_file_may_differ() {
    let mut s = script();
    s.rows.push(row("mmap", &[0, 4096, 3, 1, 3, 0], 0x7000_0000));
    let c = compared(&s, |t| change_byte(t, "d/f", 2));
    assert!(c.is_same(), "{c:#?}");
    assert_eq!(c.unavoidable["written through a mapping"], 1);
}

#[test]
fn a_directory_that_is_not_there_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let trace = script().record(dir.path());
    let error = compare_tree(&trace, &dir.path().join("none")).unwrap_err();
    assert!(matches!(error, VerifyError::NoDirectory { .. }), "{error}");
}
