//! Comparing two trees without any code of the product.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::raw;

/// What is compared of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Type, in a word.
    pub kind: &'static str,
    /// Permission bits; 0 for a symbolic link.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Size of a regular file.
    pub size: u64,
    /// Content of a regular file, or text of a link.
    pub content: Vec<u8>,
    /// Number of hard links; 1 for a directory.
    pub links: u64,
    /// Device number of a device node.
    pub device: u64,
    /// The first name, in order, of the same inode.
    pub first_name: PathBuf,
    /// Extended attributes but those of the system.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// All names below a directory, and the directory itself as the empty name.
pub fn walk(dir: &Path) -> BTreeMap<PathBuf, Node> {
    let mut names = vec![PathBuf::new()];
    let mut at = 0;
    while at < names.len() {
        let path = dir.join(&names[at]);
        let is_dir = fs::symlink_metadata(&path).is_ok_and(|m| m.is_dir());
        let entries = is_dir.then(|| fs::read_dir(&path));
        for entry in entries.into_iter().flatten().flatten().flatten() {
            names.push(names[at].join(entry.file_name()));
        }
        at += 1;
    }
    names.sort();
    let (mut out, mut inodes) = (BTreeMap::new(), BTreeMap::new());
    for name in names {
        let path = dir.join(&name);
        let stat = match fs::symlink_metadata(&path) {
            Ok(stat) => stat,
            Err(e) => panic!("{}: {e}", path.display()),
        };
        let first = inodes.entry((stat.dev(), stat.ino())).or_insert_with(|| name.clone());
        let node = node(&path, &stat, first.clone());
        out.insert(name, node);
    }
    out
}

fn node(path: &Path, stat: &fs::Metadata, first_name: PathBuf) -> Node {
    let kind = stat.file_type();
    let (word, content) = match () {
        _ if kind.is_file() => ("file", fs::read(path).unwrap_or_default()),
        _ if kind.is_symlink() => {
            let text = fs::read_link(path).unwrap_or_default();
            ("link", text.as_os_str().as_bytes().to_vec())
        }
        _ if kind.is_dir() => ("directory", Vec::new()),
        _ if kind.is_fifo() => ("fifo", Vec::new()),
        _ if kind.is_socket() => ("socket", Vec::new()),
        _ if kind.is_char_device() => ("character device", Vec::new()),
        _ => ("block device", Vec::new()),
    };
    Node {
        kind: word,
        mode: if kind.is_symlink() { 0 } else { stat.mode() & 0o7777 },
        owner: (stat.uid(), stat.gid()),
        size: if kind.is_file() { stat.size() } else { 0 },
        content,
        links: if kind.is_dir() { 1 } else { stat.nlink() },
        device: stat.rdev(),
        first_name,
        xattrs: xattrs(path),
    }
}

fn xattrs(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let name = [path.as_os_str().as_bytes(), &[0]].concat();
    let mut room = vec![0u8; 65_536];
    // Memory that is given back: a walk meets many names.
    let mut filled = |number, key: Option<&[u8]>| -> Vec<u8> {
        let (at, size) = (room.as_mut_ptr() as u64, room.len() as u64);
        let length = match key {
            Some(key) => raw::sys(number, &[name.as_ptr() as u64, key.as_ptr() as u64, at, size]),
            None => raw::sys(number, &[name.as_ptr() as u64, at, size]),
        };
        room[..length.max(0) as usize].to_vec()
    };
    let list = filled(libc::SYS_llistxattr, None);
    let names = list.split(|b| *b == 0).filter(|n| !n.is_empty());
    let kept = names.filter(|n| !n.starts_with(b"system.") && !n.starts_with(b"security."));
    kept.map(|n| (n.to_vec(), filled(libc::SYS_lgetxattr, Some(&[n, &[0]].concat())))).collect()
}

/// Differences between two trees, one line each.
pub fn differences(expected: &BTreeMap<PathBuf, Node>, found: &BTreeMap<PathBuf, Node>) -> Vec<String> {
    let mut out = Vec::new();
    for (name, e) in expected {
        let Some(f) = found.get(name) else {
            out.push(format!("{}: missing ({})", name.display(), e.kind));
            continue;
        };
        let name = name.display();
        if e == f {
            continue;
        }
        let mut of = |what: &str, e: &dyn std::fmt::Debug, f: &dyn std::fmt::Debug| {
            let (e, f) = (format!("{e:?}"), format!("{f:?}"));
            if e != f {
                out.push(format!("{name}: {what} {e}, found {f}"));
            }
        };
        of("type", &e.kind, &f.kind);
        of("mode", &format_args!("{:o}", e.mode), &format_args!("{:o}", f.mode));
        of("owner", &e.owner, &f.owner);
        of("size", &e.size, &f.size);
        of("links", &e.links, &f.links);
        of("device", &e.device, &f.device);
        of("hard link of", &e.first_name, &f.first_name);
        of("attributes", &e.xattrs, &f.xattrs);
        if e.content != f.content {
            let same = e.content.iter().zip(&f.content).take_while(|(a, b)| a == b);
            out.push(format!("{name}: content differs from byte {}", same.count()));
        }
    }
    let extra = found.iter().filter(|(name, _)| !expected.contains_key(*name));
    out.extend(extra.map(|(name, f)| format!("{}: not expected ({})", name.display(), f.kind)));
    out
}
