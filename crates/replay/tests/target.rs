//! Building and restoring trees on the real kernel, compared with an independent walk (`find`).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use reprise_plan::tree::{Extent, Node, NodeKind};
use reprise_replay::target::{self, NodeFault, Skip, State, TargetError};

mod scratch;
use scratch::{Scratch, is_root};

const T: i64 = 1_500_000_000_000_000_123;

fn node(path: &str, kind: NodeKind, mode: u32) -> Node {
    let (uid, gid) = if is_root() { (1234, 4321) } else { reprise_replay::sys::user() };
    Node {
        path: path.as_bytes().to_vec(),
        kind,
        mode,
        uid,
        gid,
        size: 0,
        rdev: 0,
        atime_ns: T + 5,
        mtime_ns: T + path.len() as i64,
        target: Vec::new(),
        xattrs: Vec::new(),
        link_of: None,
        extents: Vec::new(),
    }
}

fn file(path: &str, mode: u32, size: u64, extents: &[(u64, u64, u64)]) -> Node {
    let extents = extents.iter().map(|&(offset, length, buffer)| Extent { offset, length, buffer }).collect();
    Node { size, extents, ..node(path, NodeKind::File, mode) }
}

fn sample() -> (Vec<Node>, Vec<u8>) {
    let buffers: Vec<u8> = (0..100_000u32).map(|n| (n * 7 % 251) as u8).collect();
    let mut nodes = vec![
        node("/", NodeKind::Directory, 0o555),
        node("/locked", NodeKind::Directory, 0o500),
        file("/locked/secret", 0o000, 10, &[(0, 10, 3)]),
        node("/dev", NodeKind::Directory, 0o755),
        Node { rdev: libc::makedev(1, 3), ..node("/dev/null", NodeKind::CharDevice, 0o600) },
        Node { rdev: libc::makedev(8, 0), ..node("/dev/sda", NodeKind::BlockDevice, 0o600) },
        node("/a", NodeKind::Directory, 0o1777),
        node("/a/b", NodeKind::Directory, 0o755),
        file("/a/b/set-id", 0o4755, 5000, &[(0, 100, 0), (4000, 500, 50_000)]),
        Node { target: b"/etc/passwd".to_vec(), ..node("/a/absolute", NodeKind::Symlink, 0o777) },
        node("/a/pipe", NodeKind::Fifo, 0o640),
        node("/a/socket", NodeKind::Socket, 0o750),
        file("/a/one", 0o644, 70_000, &[(0, 70_000, 1)]),
    ];
    let first = nodes.len() as u32 - 1;
    nodes.push(Node { link_of: Some(first), ..node("/a/b/two", NodeKind::File, 0) });
    nodes.push(node("/odd\n \u{e9}name", NodeKind::Directory, 0o700));
    nodes[8].xattrs.push((b"user.note".to_vec(), b"kept".to_vec()));
    nodes[7].xattrs.push((b"user.dir".to_vec(), b"".to_vec()));
    for n in 0..40 {
        nodes.push(file(&format!("/a/b/f{n}"), 0o644, 2000, &[(0, 2000, n * 2000)]));
    }
    (nodes, buffers)
}

/// Everything `find` can tell but change times, the content, and user attributes, by name.
fn observe(dir: &Path) -> BTreeMap<String, String> {
    let output =
        Command::new("find").arg(dir).args(["-printf", "%P\\t%y %m %U %G %s %n %A@ %T@ %l\\0"]).output().unwrap();
    let mut seen: BTreeMap<String, String> = String::from_utf8_lossy(&output.stdout)
        .split('\0')
        .filter_map(|line| line.split_once('\t'))
        .map(|(name, about)| {
            // The size of a directory is the file system's own affair.
            let mut words: Vec<&str> = about.split(' ').collect();
            if words[0] == "d" {
                words[4] = "-";
                words[5] = "-";
                // Listing by `find` itself moves the access time of directories.
                words[6] = "-";
            }
            (name.to_owned(), words.join(" "))
        })
        .collect();
    let names: Vec<String> = seen.keys().cloned().collect();
    for name in names {
        let path = dir.join(&name);
        if seen[&name].starts_with('f') {
            let content = fs::read(&path).map(|bytes| format!("{:x}", checksum(&bytes))).unwrap_or_default();
            seen.get_mut(&name).unwrap().push_str(&content);
        }
        if seen[&name].starts_with(['f', 'd'])
            && let Ok(opened) = fs::File::open(&path)
        {
            use std::os::fd::AsFd;
            let list = reprise_replay::sys::xattr(opened.as_fd(), None).unwrap_or_default();
            let list = String::from_utf8_lossy(&list).replace("user.reprise.tree\0", "");
            seen.get_mut(&name).unwrap().push_str(&list);
        }
    }
    seen
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(17, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)))
}

fn quiet() -> impl FnMut(u64, u64) {
    |done, total| assert!(done <= total)
}

/// Access times are compared as the nodes say, before anything is read.
fn assert_access_times(dir: &Path, nodes: &[Node]) {
    use std::os::unix::fs::MetadataExt;
    for node in nodes.iter().filter(|n| n.link_of.is_none() && n.kind != NodeKind::Directory) {
        let path = dir.join(std::str::from_utf8(&node.path[1..]).unwrap());
        let about = fs::symlink_metadata(&path).unwrap();
        assert_eq!(about.atime() * 1_000_000_000 + about.atime_nsec(), node.atime_ns, "{}", path.display());
    }
}

#[test]
fn builds_and_restores_after_vandalism() {
    let scratch = Scratch::new("round");
    let (nodes, buffers) = sample();
    let dir = scratch.dir("t");
    let opened = target::open(&dir, "trace-1").unwrap();
    assert_eq!(opened.state(), &State::Empty);
    let report = opened.build(&nodes, &buffers, &mut quiet()).unwrap();
    assert_eq!((report.files, report.links, report.placeholders, report.privileged), (43, 1, 1, 1));
    assert_eq!(report.skipped.get(&Skip::Device), Some(&1));
    assert!(matches!(opened.build(&nodes, &buffers, &mut quiet()), Err(TargetError::AlreadyBuilt { .. })));
    assert_access_times(&dir, &nodes);
    let fresh = observe(&dir);
    assert_eq!(fresh.len(), nodes.len());
    let content = fs::read(dir.join("a/b/set-id")).unwrap();
    assert_eq!((content[99], content[100], content[4000]), (buffers[99], 0, buffers[50_000]));

    let mut seed = 42u64;
    for round in 0..12 {
        for _ in 0..8 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            vandalize(&dir, scratch.path(), (seed >> 33) as u32);
        }
        let again = target::open(&dir, "trace-1").unwrap();
        assert!(matches!(again.state(), State::Ours(marker) if marker.built_ns.is_some()));
        again.restore(&nodes, &buffers, &mut quiet()).unwrap();
        assert_access_times(&dir, &nodes);
        assert_eq!(observe(&dir), fresh, "round {round}");
    }
    assert_eq!(fs::read(scratch.path().join("outside")).unwrap_or_else(|_| b"precious".to_vec()), b"precious");

    let last = target::open(&dir, "trace-1").unwrap().restore(&nodes, &buffers, &mut quiet()).unwrap();
    assert_eq!((last.rewritten, last.created, last.removed, last.bytes), (0, 0, 0, 0));
    assert_eq!(last.kept, nodes.len() as u64 - 1);
    assert!(matches!(target::open(&dir, "other"), Err(TargetError::OtherTrace { .. })));
}

fn vandalize(dir: &Path, outside: &Path, dice: u32) {
    let _ = fs::set_permissions(dir, PermissionsExt::from_mode(0o700));
    let some = dir.join(format!("a/b/f{}", dice / 20 % 40));
    let other = dir.join(format!("a/b/f{}", dice / 800 % 40));
    let precious = outside.join("outside");
    let _ = fs::write(&precious, "precious");
    let _ = match dice % 20 {
        0 => fs::remove_file(&some),
        1 => fs::write(&some, "short"),
        2 => fs::OpenOptions::new().write(true).open(&some).and_then(|f| {
            // The same size and modification time, but other content.
            f.write_all_at(b"x", 7)?;
            f.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_nanos(T as u64))
        }),
        3 => fs::remove_dir_all(dir.join("a/b")),
        4 => fs::rename(&some, &other),
        5 => fs::remove_file(&some).and_then(|()| symlink("/etc/passwd", &some)),
        6 => fs::remove_file(&some).and_then(|()| fs::create_dir_all(some.join("x/y"))),
        7 => fs::remove_file(&some).and_then(|()| fs::hard_link(&precious, &some)),
        8 => fs::create_dir_all(dir.join("new/".to_owned() + &"d/".repeat(100))),
        9 => fs::rename(dir.join("a"), dir.join("dev2")).and_then(|()| symlink(outside, dir.join("a"))),
        10 => fs::remove_file(dir.join("a/b/two")),
        11 => fs::set_permissions(dir.join("a/b"), PermissionsExt::from_mode(0o0)),
        12 => fs::set_permissions(&some, PermissionsExt::from_mode(0o4777)),
        13 => fs::remove_file(&some).and_then(|()| fs::hard_link(dir.join("a/one"), &some)),
        14 => fs::read(&some).map(drop),
        15 => symlink("/etc", dir.join("link")),
        16 => Command::new("setfattr").args(["-n", "user.evil", "-v", "1"]).arg(&other).output().map(drop),
        17 => Command::new("setfacl").args(["-d", "-m", "u:7:rwx"]).arg(dir.join("a/b")).output().map(drop),
        18 => fs::rename(dir.join("locked"), dir.join("a/x")).and_then(|()| fs::create_dir(dir.join("locked"))),
        _ => fs::File::options().write(true).open(dir.join("a/one")).and_then(|f| f.write_all_at(b"zz", 69_999)),
    };
}

#[test]
fn swapped_directories_are_noticed() {
    let scratch = Scratch::new("swap");
    let dir = scratch.dir("t");
    let buffers = b"firstother".to_vec();
    let nodes = vec![
        node("/x", NodeKind::Directory, 0o755),
        file("/x/f", 0o644, 5, &[(0, 5, 0)]),
        node("/y", NodeKind::Directory, 0o755),
        file("/y/f", 0o644, 5, &[(0, 5, 5)]),
    ];
    let opened = target::open(&dir, "t").unwrap();
    opened.build(&nodes, &buffers, &mut quiet()).unwrap();
    for (from, to) in [("x", "z"), ("y", "x"), ("z", "y")] {
        fs::rename(dir.join(from), dir.join(to)).unwrap();
    }
    opened.restore(&nodes, &buffers, &mut quiet()).unwrap();
    assert_eq!(
        (fs::read(dir.join("x/f")).unwrap(), fs::read(dir.join("y/f")).unwrap()),
        (b"first".into(), b"other".into())
    );
}

#[test]
fn an_interrupted_build_is_restorable() {
    let scratch = Scratch::new("interrupted");
    let dir = scratch.dir("t");
    let (nodes, buffers) = sample();
    let opened = target::open(&dir, "t").unwrap();
    let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        opened.build(&nodes, &buffers, &mut |done, total| {
            if done > total / 2 {
                std::panic::resume_unwind(Box::new("stopped by the test"));
            }
        })
    }));
    assert!(stopped.is_err());
    let again = target::open(&dir, "t").unwrap();
    assert!(matches!(again.state(), State::Ours(marker) if marker.built_ns.is_none()));
    again.restore(&nodes, &buffers, &mut quiet()).unwrap();
    let other = scratch.dir("u");
    target::open(&other, "t").unwrap().build(&nodes, &buffers, &mut quiet()).unwrap();
    assert_eq!(observe(&dir), observe(&other));
}

#[test]
fn the_rest_of_a_trace_has_the_directory_of_the_trace() {
    let scratch = Scratch::new("rest");
    let dir = scratch.dir("t");
    // Lists that differ in nothing: only the buffers do.
    let nodes = [file("/f", 0o600, 5, &[(0, 5, 0)])];
    let content = || fs::read(dir.join("f")).unwrap();
    target::open(&dir, "whole").unwrap().build(&nodes, b"first", &mut quiet()).unwrap();
    for (trace, of, buffers) in [
        ("rest-1", Some("whole"), b"other"),
        ("rest-2", Some("whole"), b"third"),
        ("whole", None, b"first"),
        ("rest-2", Some("whole"), b"third"),
    ] {
        let opened = target::open_part(&dir, trace, of).unwrap();
        assert_eq!(opened.restore(&nodes, buffers, &mut quiet()).unwrap().rewritten, 1, "{trace}");
        assert_eq!(content(), buffers, "{trace}");
        assert_eq!(opened.restore(&nodes, buffers, &mut quiet()).unwrap().kept, 1, "{trace}");
    }
    for (trace, of) in [("rest-2", None), ("rest-2", Some("another")), ("another", None)] {
        let refused = target::open_part(&dir, trace, of);
        assert!(matches!(&refused, Err(TargetError::OtherTrace { found, .. }) if found == "whole"), "{refused:?}");
    }
}

#[test]
fn deep_rubbish_is_removed() {
    let scratch = Scratch::new("deep");
    let dir = scratch.dir("t");
    let opened = target::open(&dir, "t").unwrap();
    opened.build(&[], b"", &mut quiet()).unwrap();
    // Deeper than PATH_MAX: made from within.
    let script = "for i in $(seq 1500); do mkdir dddd; cd dddd; done 2>/dev/null; touch end";
    assert!(Command::new("sh").args(["-c", script]).current_dir(&dir).status().unwrap().success());
    assert_eq!(opened.restore(&[], b"", &mut quiet()).unwrap().removed, 1);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}

#[test]
fn unsuitable_directories_are_refused() {
    let scratch = Scratch::new("unsuitable");
    let missing = scratch.path().join("no/such");
    let error = target::open(&missing, "t").unwrap_err();
    assert!(error.to_string().contains(&format!("mkdir -p {}", missing.display())), "{error}");
    fs::write(scratch.path().join("file"), "").unwrap();
    assert!(matches!(target::open(&scratch.path().join("file"), "t"), Err(TargetError::NotADirectory { .. })));
    assert!(matches!(target::open(scratch.path(), "t"), Err(TargetError::NotEmpty { .. })));
    let fallback = scratch.dir("fallback");
    fs::write(fallback.join(".reprise-tree"), "{\"version\":9").unwrap();
    assert!(matches!(target::open(&fallback, "t"), Err(TargetError::BadMarker { .. })));
    let lost = scratch.dir("lost");
    fs::create_dir(lost.join("lost+found")).unwrap();
    assert_eq!(target::open(&lost, "t").unwrap().state(), &State::Empty);
    assert!(matches!(
        target::open(&lost, "t").unwrap().restore(&[], b"", &mut quiet()),
        Err(TargetError::NotOurs { .. })
    ));
}

#[test]
fn hostile_lists_are_refused_and_touch_nothing() {
    let dir = |path| node(path, NodeKind::Directory, 0o755);
    let plain = |path| file(path, 0o644, 0, &[]);
    let link = |path, first| Node { link_of: Some(first), ..plain(path) };
    let pointer = |path: &str, to: &str| Node { target: to.into(), ..node(path, NodeKind::Symlink, 0o777) };
    use NodeFault::*;
    let cases: Vec<(Vec<Node>, NodeFault)> = vec![
        (vec![plain("relative")], NotAbsolute),
        (vec![plain("")], NotAbsolute),
        (vec![plain("/../escape")], BadComponent),
        (vec![plain("//x")], BadComponent),
        (vec![dir("/a/")], BadComponent),
        (vec![plain("/.")], BadComponent),
        (vec![plain("/a\0b")], BadComponent),
        (vec![plain(&format!("/{}", "x".repeat(256)))], TooLong),
        (vec![plain(&"/x".repeat(3000))], TooLong),
        (vec![pointer("/l", "/etc"), plain("/l/passwd")], NoParent),
        (vec![plain("/f"), plain("/f/child")], NoParent),
        (vec![plain("/missing/child")], NoParent),
        (vec![plain("/f"), plain("/f")], Duplicate),
        (vec![plain("/")], RootKind),
        (vec![pointer("/lost+found", "/etc")], RootKind),
        (vec![plain("/.reprise-tree")], Reserved),
        (vec![link("/l", 0)], BadLink),
        (vec![link("/l", 7), plain("/f")], BadLink),
        (vec![link("/l", 1), plain("/f")], BadLink),
        (vec![dir("/d"), link("/l", 0)], BadLink),
        (vec![plain("/f"), link("/l", 0), link("/m", 1)], BadLink),
        (vec![plain("/f"), Node { link_of: Some(0), ..dir("/d") }, plain("/d/x")], NoParent),
        (vec![pointer("/l", "")], BadLinkText),
        (vec![pointer("/l", "a\0b")], BadLinkText),
        (vec![file("/f", 0, u64::MAX, &[])], TooLarge),
        (vec![file("/f", 0, 10, &[(8, 3, 0)])], BadExtent),
        (vec![file("/f", 0, 10, &[(0, 5, 8)])], BadExtent),
        (vec![file("/f", 0, 10, &[(0, 5, u64::MAX - 2)])], BadExtent),
        (vec![file("/f", 0, 10, &[(u64::MAX - 2, 5, 0)])], BadExtent),
        (vec![file("/f", 0, 10, &[(4, 2, 0), (0, 2, 0)])], BadExtent),
        (vec![Node { xattrs: vec![(b"user.\0".to_vec(), vec![])], ..plain("/f") }], BadAttribute),
    ];
    let scratch = Scratch::new("hostile");
    let target_dir = scratch.dir("t");
    let opened = target::open(&target_dir, "t").unwrap();
    for (nodes, expected) in cases {
        match opened.build(&nodes, b"0123456789", &mut quiet()) {
            Err(TargetError::Node { fault, .. }) => assert_eq!(fault, expected, "{nodes:?}"),
            other => panic!("{nodes:?}: {other:?}"),
        }
    }
    assert_eq!(opened.state(), &State::Empty);
    assert_eq!(fs::read_dir(&target_dir).unwrap().count(), 0);
    // Some file systems hold a file of this size.
    let huge = [file("/huge", 0o600, i64::MAX as u64, &[])];
    if let Err(error) = opened.build(&huge, b"", &mut quiet()) {
        assert!(error.to_string().contains("cannot hold it"), "{error}");
    }
}

struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn run(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
}

#[test]
fn full_and_read_only_and_mounted_over() {
    let scratch = Scratch::new("full");
    let (image, dir) = (scratch.path().join("image"), scratch.dir("m"));
    fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
    let (image, at) = (image.to_str().unwrap(), dir.to_str().unwrap());
    if !is_root() || !run("mkfs.ext4", &["-q", image]) || !run("mount", &["-o", "loop", image, at]) {
        eprintln!("SKIP: a loop device with ext4 cannot be mounted here");
        return;
    }
    let mounted = Mounted(dir.clone());
    let opened = target::open(&dir, "t").unwrap();
    let buffers = vec![7u8; 1 << 20];
    let big =
        |count: u64| (0..count).map(|n| file(&format!("/{n}"), 0o600, 1 << 20, &[(0, 1 << 20, 0)])).collect::<Vec<_>>();
    let full = opened.build(&big(20), &buffers, &mut quiet()).unwrap_err();
    assert!(matches!(full, TargetError::NoSpace { .. }), "{full}");
    assert!(full.to_string().contains("larger target"), "{full}");
    let report = opened.restore(&big(3), &buffers, &mut quiet()).unwrap();
    assert_eq!((report.rewritten, report.bytes), (3, 3 << 20));
    assert!(dir.join("lost+found").is_dir());

    fs::create_dir(dir.join("extra")).unwrap();
    assert!(run("mount", &["-t", "tmpfs", "none", dir.join("extra").to_str().unwrap()]));
    let inner = Mounted(dir.join("extra"));
    fs::write(dir.join("extra/precious"), "").unwrap();
    let crossed = opened.restore(&big(3), &buffers, &mut quiet()).unwrap_err();
    assert!(matches!(crossed, TargetError::MountInside { .. }), "{crossed}");
    assert!(dir.join("extra/precious").exists());
    drop(inner);

    drop(opened);
    assert!(run("mount", &["-o", "remount,ro", at]));
    assert!(matches!(target::open(&dir, "t"), Err(TargetError::ReadOnly { .. })));
    drop(mounted);
}

#[test]
fn thousands_of_small_files_per_second() {
    let scratch = Scratch::new("speed");
    let dir = scratch.dir("t");
    let mut nodes = Vec::new();
    for d in 0..50 {
        nodes.push(node(&format!("/{d}"), NodeKind::Directory, 0o755));
        nodes.extend((0..100).map(|f| file(&format!("/{d}/{f}"), 0o644, 1000, &[(0, 1000, 0)])));
    }
    let opened = target::open(&dir, "t").unwrap();
    let start = std::time::Instant::now();
    opened.build(&nodes, &[1; 1000], &mut quiet()).unwrap();
    let built = start.elapsed();
    let start = std::time::Instant::now();
    assert_eq!(opened.restore(&nodes, &[1; 1000], &mut quiet()).unwrap().kept, nodes.len() as u64);
    eprintln!("5,000 files of 1,000 bytes: built in {built:?}, nothing to restore in {:?}", start.elapsed());
    assert!(built.as_secs() < 30, "{built:?}");
}
