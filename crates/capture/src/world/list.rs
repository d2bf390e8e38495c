//! Directories whose entries the program sees as a whole: when it lists them, and when it asks that they be empty.

use std::ffi::{CStr, CString};
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::rc::Rc;

use super::{Handle, World};
use crate::log::Log;
use crate::sys::{self, HERE, Stat};

const LISTING: i32 = libc::O_RDONLY | libc::O_DIRECTORY;

impl World {
    /// Meets every entry of a directory that a thread has open at this number.
    pub fn list_fd(&mut self, tid: i32, fd: u32, log: &mut Log) {
        let Ok(path) = CString::new(format!("/proc/{tid}/fd/{fd}")) else {
            return;
        };
        let known = sys::stat_at(HERE, &path, 0)
            .map(|s| !s.is_dir() || self.listed.contains(&s.id) || self.fresh.contains(&s.id));
        if known.unwrap_or(true) {
            return;
        }
        self.connect_fd(tid, fd, log);
        self.list_opened(tid, sys::open_at(HERE, &path, LISTING).ok(), log)
    }

    /// Meets every entry of a directory named in another.
    pub fn list_at(&mut self, tid: i32, parent: RawFd, name: &CStr, stat: &Stat, log: &mut Log) {
        if !stat.is_dir() || self.listed.contains(&stat.id) || self.fresh.contains(&stat.id) {
            return;
        }
        let opened = sys::open_at(parent, name, LISTING | libc::O_NOFOLLOW).ok();
        self.list_opened(tid, opened, log)
    }

    fn list_opened(&mut self, tid: i32, opened: Option<OwnedFd>, log: &mut Log) {
        let Some((fd, stat)) = opened.and_then(|fd| sys::stat_fd(&fd).ok().map(|s| (fd, s))) else {
            log.note("a directory could not be listed: entries the program did not name are not in the tree");
            return;
        };
        let dir = Handle { fd: Rc::new(fd), id: stat.id };
        for name in names(dir.fd.as_raw_fd()) {
            self.meet(tid, &dir, &name, log);
        }
        self.listed.insert(stat.id);
    }
}

/// The names in an open directory, without `.` and `..`.
pub(super) fn names(dir: RawFd) -> impl Iterator<Item = CString> {
    fs::read_dir(format!("/proc/self/fd/{dir}"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| CString::new(e.file_name().into_vec()).ok())
}
