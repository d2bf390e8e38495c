//! The initial tree: what was there when the program met it, and nothing that the program made.

mod common;

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use common::{record, scratch};
use reprise_trace::{TraceReader, TreeNode, decode_xattrs};

fn prepare(dir: &Path) {
    fs::create_dir_all(dir.join("pre/sub/deep")).expect("mkdir");
    fs::write(dir.join("pre/sub/file"), "content of file\n").expect("write");
    fs::hard_link(dir.join("pre/sub/file"), dir.join("pre/hard")).expect("link");
    symlink("sub", dir.join("pre/link")).expect("symlink");
    symlink("../../hard", dir.join("pre/sub/deep/up")).expect("symlink");
    fs::write(dir.join("pre/unseen"), "never opened").expect("write");
}

/// Full paths by walking the rows up to the root: every row must be connected.
fn paths(reader: &TraceReader) -> HashMap<String, TreeNode> {
    let nodes = reader.tree().expect("tree");
    let by_id: HashMap<(u64, u64), &TreeNode> =
        nodes.iter().filter(|n| n.mode & 0o170_000 == 0o040_000).map(|n| ((n.device, n.inode), n)).collect();
    let mut out = HashMap::new();
    for node in &nodes {
        let (mut path, mut at) = (String::new(), node);
        while !at.name.is_empty() {
            path = format!("/{}{path}", at.name);
            at = by_id.get(&(at.parent_device, at.parent_inode)).unwrap_or_else(|| panic!("{path} is not connected"));
        }
        assert!(out.insert(path.clone(), node.clone()).is_none(), "{path} twice");
    }
    out
}

#[test]
fn names_met_are_there_and_names_made_are_not() {
    let dir = scratch();
    let root = dir.path().canonicalize().expect("a path");
    prepare(&root);
    let file = root.join("pre/sub/file");
    let c_path = std::process::Command::new("setfattr").args(["-n", "user.colour", "-v", "blue"]).arg(&file).status();
    let has_xattr = c_path.is_ok_and(|s| s.success());
    let before = fs::symlink_metadata(&file).expect("stat");
    let script = "cat pre/link/file pre/sub/deep/up; mkdir made; echo new > made/n; mv made/n made/m; \
        ln -s m made/l; cat made/l; ls made; echo x >> pre/sub/file; ls pre; rm -r pre/sub made; cat absent";
    let (_, reader) = record(&root, &[], &["sh", "-c", script]);
    common::actions(&reader);
    let paths = paths(&reader);
    let at = |name: &str| paths.get(root.join(name).to_str().expect("utf-8"));
    let node = at("pre/sub/file").expect("the file");
    assert_eq!((node.device, node.inode), (before.dev(), before.ino()));
    assert_eq!((node.mode, node.size, node.nlink), (before.mode(), 16, 2));
    assert_eq!(node.mtime_ns, before.mtime() * 1_000_000_000 + before.mtime_nsec());
    if has_xattr {
        assert_eq!(decode_xattrs(&node.xattrs), [(b"user.colour".to_vec(), b"blue".to_vec())]);
    }
    assert_eq!(at("pre/hard").expect("the hard link").inode, node.inode);
    assert_eq!(*at("pre/link").expect("the link").target, *b"sub");
    assert_eq!(*at("pre/sub/deep/up").expect("the link").target, *b"../../hard");
    assert!(at("pre/unseen").is_some(), "seen by listing");
    for made in ["made", "made/n", "made/m", "made/l", "absent"] {
        assert!(at(made).is_none(), "{made} is the program's own");
    }
    let contents = reader.contents().expect("contents");
    let own: Vec<_> = contents.iter().filter(|c| c.inode == node.inode && c.device == node.device).collect();
    assert_eq!(own.len(), 1);
    let bytes = reader.blobs().content(&own[0].data).expect("blobs").expect("kept");
    assert_eq!(bytes, b"content of file\n");
}

#[test]
fn paths_are_resolved_as_the_program_resolves_them() {
    let dir = scratch();
    let root = dir.path().canonicalize().expect("a path");
    prepare(&root);
    let script = "cd pre/sub && cat ./../link/.././sub/deep/../file && cat /proc/self/cwd/file /dev/fd/0 < file \
        && readlink /proc/self && exec 3< deep && cat /proc/self/fd/3/up; true";
    let (output, reader) = record(&root, &[], &["sh", "-c", script]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.matches("content of file").count(), 4, "{text}");
    common::actions(&reader);
    let paths = paths(&reader);
    assert!(paths.contains_key(""), "the root itself");
    assert!(paths.contains_key(root.join("pre/sub/deep/up").to_str().expect("utf-8")));
    let itself = &paths["/proc/self"];
    assert!(itself.target.iter().all(u8::is_ascii_digit) && !itself.target.is_empty());
}

#[test]
fn a_snapshot_has_everything_before_the_first_action() {
    let dir = scratch();
    let root = dir.path().canonicalize().expect("a path");
    prepare(&root);
    let sparse = fs::File::create(root.join("pre/sparse")).expect("create");
    std::os::unix::fs::FileExt::write_at(&sparse, b"end", 5 << 20).expect("write");
    let (_, reader) = record(&root, &["--tree", "pre"], &["true"]);
    assert_eq!(reader.manifest().snapshots, [root.join("pre").to_str().expect("utf-8")]);
    let paths = paths(&reader);
    let contents = reader.contents().expect("contents");
    for entry in ["pre/hard", "pre/sub/file", "pre/unseen", "pre/sparse"] {
        let path = root.join(entry);
        let node = &paths[path.to_str().expect("utf-8")];
        assert_eq!(node.seq, 0);
        let mut bytes = vec![0; node.size as usize];
        let mut covered = 0;
        for c in contents.iter().filter(|c| c.inode == node.inode && c.device == node.device) {
            assert_eq!((c.seq, c.reason.as_str()), (0, "snapshot"));
            covered += c.length;
            if c.hole == 0 {
                let data = reader.blobs().content(&c.data).expect("blobs").expect("kept");
                bytes[c.offset as usize..][..data.len()].copy_from_slice(&data);
            }
        }
        assert_eq!(covered, node.size, "{entry}");
        assert!(bytes == fs::read(&path).expect("a file"), "{entry}");
    }
    fs::remove_dir_all(root.join("t")).expect("remove");
    let missing = common::command(&root, &["--tree", "nowhere"], &["true"]).output().expect("runs");
    assert!(!missing.status.success());
    assert!(String::from_utf8_lossy(&missing.stderr).contains("nowhere: cannot snapshot"));
    assert!(!root.join("t").exists());
}

#[test]
fn inherited_descriptors_are_described() {
    let dir = scratch();
    let root = dir.path().canonicalize().expect("a path");
    fs::write(root.join("in"), "0123456789").expect("write");
    let script = format!(
        "exec 7<>in; head -c 3 <&7 >/dev/null; exec 8<&7; exec 9<in; exec {} t true",
        common::recorder().display()
    );
    let status = std::process::Command::new("bash").args(["-c", &script]).current_dir(&root).status();
    assert!(status.expect("bash").success());
    let reader = TraceReader::open(&root.join("t")).expect("a trace");
    let rows = reader.descriptors().expect("descriptors");
    let of = |fd| rows.iter().find(|d| d.fd == fd).unwrap_or_else(|| panic!("descriptor {fd}"));
    assert_eq!(*of(7).path, *root.join("in").to_str().expect("utf-8").as_bytes());
    assert_eq!(of(7).description, of(8).description);
    assert_ne!(of(7).description, of(9).description);
    assert_eq!((of(7).offset, of(9).offset), (of(8).offset, 0));
    assert!(of(7).offset >= 3);
    assert!(rows.iter().all(|d| !d.path.to_text().contains("/t/")), "none of the recorder's own");
    assert!(paths(&reader).contains_key(root.join("in").to_str().expect("utf-8")));
}
