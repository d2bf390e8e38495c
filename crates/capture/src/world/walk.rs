//! Resolving a path as the traced thread would, one component at a time.
//!
//! Goals: the thread's own root, working directory and descriptors; links expanded as the kernel does; each path
//! resolved once while nothing that it passes can have changed. Non-goals: permissions of the thread (a walk may see
//! more than the thread is allowed to, which adds rows and takes none away).

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;

use super::{Handle, World};
use crate::log::Log;
use crate::procfs;
use crate::sys::{self, FileId, HERE, Stat};

const MOST_LINKS: usize = 40;
const MOST_PATHS: usize = 1 << 16;
const MOST_PLACES: usize = 64;
const DIRECTORY: i32 = libc::O_PATH | libc::O_DIRECTORY;

/// Where a relative path begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The working directory.
    Here,
    /// An open directory of the thread.
    Fd(u32),
}

/// The last component of a path.
#[derive(Debug, Clone)]
pub struct Last {
    pub(super) parent: Handle,
    pub(super) name: CString,
    /// What it names; `None` if nothing.
    pub stat: Option<Stat>,
}

impl Last {
    /// The directory that holds the name.
    pub fn parent(&self) -> RawFd {
        self.parent.fd.as_raw_fd()
    }

    /// The name.
    pub fn name(&self) -> &CStr {
        &self.name
    }
}

/// What a walk found.
#[derive(Debug, Default)]
pub struct Walked {
    /// Type of what the path names (`S_IFMT` bits), 0 if nothing or unknown.
    pub kind: u32,
    /// The last component, if it was asked for and the walk reached it by name.
    pub last: Option<Last>,
}

impl World {
    /// Walks a path of a thread and writes the rows of what it meets. `exact` asks for [`Walked::last`].
    pub fn walk(&mut self, tid: i32, start: Start, path: &[u8], follow: bool, exact: bool, log: &mut Log) -> Walked {
        let absolute = path.starts_with(b"/");
        let follow = follow || path.ends_with(b"/");
        if path.is_empty() {
            return Walked::default();
        }
        let Some(root) = self.root(tid, log) else {
            return Walked::default();
        };
        let origin = if absolute { Some(root.clone()) } else { self.origin(tid, start, &root, log) };
        let Some(origin) = origin else {
            return Walked::default();
        };
        let key = (origin.id, path.to_vec(), follow);
        if !exact && let Some(kind) = self.walked.get(&key) {
            return Walked { kind: *kind, last: None };
        }
        let (walked, complete) = self.resolve(tid, &root, origin, path, follow, log);
        if complete {
            if self.walked.len() >= MOST_PATHS {
                self.walked.clear();
            }
            self.walked.insert(key, walked.kind);
        }
        walked
    }

    /// Makes sure that a directory of a thread, open at this number, is connected to the root by rows.
    pub fn connect_fd(&mut self, tid: i32, fd: u32, log: &mut Log) {
        let Some(root) = self.root(tid, log) else {
            return;
        };
        self.origin(tid, Start::Fd(fd), &root, log);
    }

    /// Walks the path that a link such as `/proc/TID/cwd` shows.
    pub fn connect_link(&mut self, tid: i32, what: &str, log: &mut Log) {
        let path = procfs::link(tid, what);
        if path.starts_with(b"/") {
            self.walk(tid, Start::Here, &path, false, false, log);
        }
    }

    fn root(&mut self, tid: i32, log: &mut Log) -> Option<Handle> {
        if let Some(root) = self.places.get(&tid).and_then(|p| p.root.clone()) {
            return Some(root);
        }
        let root = open(&format!("/proc/{tid}/root"))?;
        self.meet_root(&root, log);
        if self.places.len() >= MOST_PLACES {
            self.places.clear();
        }
        self.places.entry(tid).or_default().root = Some(root.clone());
        Some(root)
    }

    fn origin(&mut self, tid: i32, start: Start, root: &Handle, log: &mut Log) -> Option<Handle> {
        let what = match start {
            Start::Here => {
                if let Some(here) = self.places.get(&tid).and_then(|p| p.here.clone()) {
                    return Some(here);
                }
                "cwd".to_owned()
            }
            Start::Fd(n) => format!("fd/{n}"),
        };
        let handle = open(&format!("/proc/{tid}/{what}"))?;
        if start == Start::Here {
            self.places.entry(tid).or_default().here = Some(handle.clone());
        }
        if !self.reached.contains(&handle.id) {
            let path = procfs::link(tid, &what);
            if path.starts_with(b"/") {
                self.resolve(tid, root, root.clone(), &path, false, log);
            }
        }
        Some(handle)
    }

    /// The walk itself; also tells whether every component but perhaps the last was there.
    fn resolve(
        &mut self,
        tid: i32,
        root: &Handle,
        origin: Handle,
        path: &[u8],
        follow: bool,
        log: &mut Log,
    ) -> (Walked, bool) {
        let mut dir = origin;
        let mut links = 0;
        let mut rest: Vec<CString> = components(path);
        let broken = (Walked::default(), false);
        while let Some(name) = rest.pop() {
            let ends = rest.is_empty();
            if name.as_bytes() == b".." {
                if dir.id != root.id {
                    match open_in(&dir, &name) {
                        Some(parent) => dir = parent,
                        None => return broken,
                    }
                }
                continue;
            }
            let stat = self.meet(tid, &dir, &name, log);
            let expand = stat.is_some_and(|s| s.is_link()) && (follow || !ends);
            if expand {
                links += 1;
                let text = self.link_text(tid, &dir, &name);
                if links > MOST_LINKS || text.is_empty() {
                    return broken;
                }
                if text.starts_with(b"/") {
                    dir = root.clone();
                }
                rest.extend(components(&text));
                continue;
            }
            if ends {
                let kind = stat.map_or(0, |s| s.kind());
                let last = Some(Last { parent: dir, name, stat });
                return (Walked { kind, last }, true);
            }
            if !stat.is_some_and(|s| s.is_dir()) {
                return broken;
            }
            match open_in(&dir, &name) {
                Some(next) => dir = next,
                None => return broken,
            }
        }
        // The path ends in `.`, `..` or `/`.
        let walked = Walked { kind: libc::S_IFDIR, last: None };
        (walked, true)
    }
}

/// The components of a path, last first, without `.`.
fn components(path: &[u8]) -> Vec<CString> {
    path.split(|b| *b == b'/')
        .rev()
        .filter(|c| !c.is_empty() && *c != b".")
        .filter_map(|c| CString::new(c).ok())
        .collect()
}

fn handle(fd: std::os::fd::OwnedFd) -> Option<Handle> {
    let id: FileId = sys::stat_fd(&fd).ok()?.id;
    Some(Handle { fd: Rc::new(fd), id })
}

pub(super) fn open(path: &str) -> Option<Handle> {
    let path = CString::new(path).ok()?;
    handle(sys::open_at(HERE, &path, DIRECTORY).ok()?)
}

fn open_in(dir: &Handle, name: &CStr) -> Option<Handle> {
    handle(sys::open_at(dir.fd.as_raw_fd(), name, DIRECTORY | libc::O_NOFOLLOW).ok()?)
}
