//! The initial tree, recovered as the program meets it.
//!
//! Goals: every name that a path resolution passes gets one row, if it exists, before the program can change it; the
//! rows form a connected tree; what the program itself makes is never taken for initial. Non-goals: following what
//! the program does to names afterwards (that is the model's work).

mod brought;
mod content;
mod list;
mod snapshot;
mod walk;

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

use reprise_trace::{Name, TreeNode, encode_xattrs};

use crate::log::Log;
use crate::sys::{self, FileId, Stat};

pub use brought::CameTo;
pub use content::{is_synthetic, open_quietly, range, read_at};
pub use snapshot::snapshot;
pub use walk::{Last, Start};

const PROC: u64 = 0x9fa0;

/// An open directory and what it is.
#[derive(Debug, Clone)]
struct Handle {
    fd: Rc<OwnedFd>,
    id: FileId,
}

/// Where the paths of a thread begin.
#[derive(Debug, Default)]
struct Places {
    root: Option<Handle>,
    here: Option<Handle>,
}

/// What is known of the world outside of the program.
#[derive(Debug, Default)]
pub struct World {
    /// Names met, by directory.
    met: HashMap<FileId, HashSet<Box<[u8]>>>,
    /// Directories that are connected to the root by rows.
    reached: HashSet<FileId>,
    /// Directories whose every entry was met.
    listed: HashSet<FileId>,
    /// Files and directories that the program made, or emptied.
    fresh: HashSet<FileId>,
    /// The root directory of all rows.
    top: Option<FileId>,
    /// Calls that brought a file system, and the roots of these.
    brought: u32,
    brought_roots: HashSet<FileId>,
    /// Type of file system by device.
    filesystems: HashMap<u64, u64>,
    /// Paths resolved to their end before: the type of what they named then (0: nothing).
    walked: HashMap<(FileId, Vec<u8>, bool), u32>,
    /// Open handles of where threads are.
    places: HashMap<i32, Places>,
    /// Content observed, by file.
    seen: HashMap<FileId, content::Seen>,
    /// The trace itself, which no snapshot enters.
    excluded: Vec<FileId>,
    /// Bound on the size of files captured whole when opened.
    whole_file_bytes: u64,
    /// Whether what the loader maps is captured too.
    libraries: bool,
}

impl World {
    /// Nothing met yet.
    pub fn new(whole_file_bytes: u64, libraries: bool) -> World {
        World { whole_file_bytes, libraries, ..World::default() }
    }

    /// Keeps snapshots out of a directory.
    pub fn exclude(&mut self, path: &std::path::Path) {
        let path = CString::new(path.as_os_str().as_encoded_bytes());
        let stat = path.ok().and_then(|p| sys::stat_at(sys::HERE, &p, 0).ok());
        self.excluded.extend(stat.map(|s| s.id));
    }

    /// Whether the content of a mapping with these flags is to be captured.
    pub fn wants_mapping(&self, flags: u64) -> bool {
        const LOADER: u64 = libc::MAP_DENYWRITE as u64;
        flags & libc::MAP_ANONYMOUS as u64 == 0 && (self.libraries || flags & LOADER == 0)
    }

    /// Forgets resolved paths: what they pass may have changed.
    pub fn forget_paths(&mut self) {
        self.walked.clear();
    }

    /// Forgets where threads are.
    pub fn forget_places(&mut self) {
        self.places.clear();
    }

    /// Forgets where a thread was that has ended.
    pub fn forget_thread(&mut self, tid: i32) {
        self.places.remove(&tid);
    }

    /// Marks a file as made (or emptied) by the program.
    pub fn mark_fresh(&mut self, id: FileId) {
        self.fresh.insert(id);
    }

    /// Looks at a name in a directory; writes its row if it exists and was not met before.
    fn meet(&mut self, tid: i32, dir: &Handle, name: &CStr, log: &mut Log) -> Option<Stat> {
        let stat = match sys::stat_at(dir.fd.as_raw_fd(), name, libc::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(stat),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => None,
            // Not known to be absent, so not met.
            Err(_) => return None,
        };
        let names = self.met.entry(dir.id).or_default();
        if names.contains(name.to_bytes()) {
            if let Some(stat) = &stat
                && stat.is_dir()
            {
                self.reached.insert(stat.id);
            }
            return stat;
        }
        names.insert(name.to_bytes().into());
        let stat = stat?;
        if stat.is_dir() {
            self.reached.insert(stat.id);
        }
        let target = if stat.is_link() { self.link_text(tid, dir, name) } else { Vec::new() };
        let by_handle = self.by_handle(dir, name);
        let xattrs = by_handle.as_deref().map(xattrs).unwrap_or_default();
        let filesystem = self.filesystem(&stat, by_handle.as_deref());
        log.node(node(dir.id, name.to_bytes(), &stat, target, xattrs, filesystem));
        Some(stat)
    }

    /// Writes the row of the root directory.
    fn meet_root(&mut self, root: &Handle, log: &mut Log) {
        if !self.reached.insert(root.id) {
            return;
        }
        self.top.get_or_insert(root.id);
        let Ok(stat) = sys::stat_fd(&*root.fd) else {
            return;
        };
        let path = CString::new(format!("/proc/self/fd/{}/.", root.fd.as_raw_fd())).ok();
        let xattrs = path.as_deref().map(xattrs).unwrap_or_default();
        let filesystem = self.filesystem(&stat, path.as_deref());
        let nowhere = FileId { device: 0, inode: 0 };
        log.node(node(nowhere, b"", &stat, Vec::new(), xattrs, filesystem))
    }

    fn by_handle(&self, dir: &Handle, name: &CStr) -> Option<CString> {
        let mut path = format!("/proc/self/fd/{}/", dir.fd.as_raw_fd()).into_bytes();
        path.extend_from_slice(name.to_bytes());
        CString::new(path).ok()
    }

    /// Type of the file system of what a path names; asked once per device.
    fn filesystem(&mut self, stat: &Stat, path: Option<&CStr>) -> u64 {
        if let Some(known) = self.filesystems.get(&stat.id.device) {
            return *known;
        }
        if stat.is_link() {
            return 0;
        }
        let kind = path.and_then(|p| sys::filesystem_of(p).ok()).unwrap_or(0);
        self.filesystems.insert(stat.id.device, kind);
        kind
    }

    /// The text of a link, as the traced thread reads it.
    fn link_text(&mut self, tid: i32, dir: &Handle, name: &CStr) -> Vec<u8> {
        // These two name whoever asks.
        let process = || crate::procfs::status(tid).process;
        match name.to_bytes() {
            b"self" if self.is_proc(dir) => process().to_string().into_bytes(),
            b"thread-self" if self.is_proc(dir) => format!("{}/task/{tid}", process()).into_bytes(),
            _ => sys::read_link_at(dir.fd.as_raw_fd(), name).unwrap_or_default(),
        }
    }

    /// Whether a directory is one of `/proc`, or of another mount of its kind, which perhaps stands nowhere.
    fn is_proc(&mut self, dir: &Handle) -> bool {
        let Some(known) = self.filesystems.get(&dir.id.device) else {
            let path = self.by_handle(dir, c".");
            let stat = sys::stat_fd(&*dir.fd).ok();
            return stat.is_some_and(|stat| self.filesystem(&stat, path.as_deref()) == PROC);
        };
        *known == PROC
    }
}

fn node(parent: FileId, name: &[u8], stat: &Stat, target: Vec<u8>, xattrs: Vec<u8>, filesystem: u64) -> TreeNode {
    TreeNode {
        seq: 0, // set by the log
        parent_device: parent.device,
        parent_inode: parent.inode,
        name: Name::from(name),
        device: stat.id.device,
        inode: stat.id.inode,
        mode: stat.mode,
        nlink: stat.nlink,
        uid: stat.uid,
        gid: stat.gid,
        size: stat.size,
        rdev: stat.rdev,
        atime_ns: stat.atime_ns,
        mtime_ns: stat.mtime_ns,
        ctime_ns: stat.ctime_ns,
        target: Name(target),
        xattrs,
        filesystem,
    }
}

fn xattrs(path: &CStr) -> Vec<u8> {
    let Ok(names) = sys::list_xattrs(path) else {
        return Vec::new();
    };
    let pairs: Vec<(Vec<u8>, Vec<u8>)> = names
        .split_inclusive(|b| *b == 0)
        .filter_map(|name| {
            let name = CStr::from_bytes_with_nul(name).ok()?;
            Some((name.to_bytes().to_vec(), sys::get_xattr(path, name).ok()?))
        })
        .collect();
    encode_xattrs(&pairs)
}
