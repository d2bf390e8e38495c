//! `--tree`: a directory with all its contents, before the program starts.
//!
//! Goals: streamed, each file once however many names it has. Non-goals: following links, entering other mounts.

use std::ffi::CStr;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use reprise_trace::Loss;

use super::list::names;
use super::walk::Start;
use super::{Handle, World};
use crate::error::CaptureError;
use crate::log::Log;
use crate::sys::{self, HERE};

const LISTING: i32 = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;

/// Writes rows for all that is under a directory, and its chain of parents; returns its full path.
pub fn snapshot(world: &mut World, path: &Path, log: &mut Log) -> Result<String, CaptureError> {
    let unreadable = |source| CaptureError::Tree { path: path.to_owned(), source };
    let full = path.canonicalize().map_err(unreadable)?;
    let here = std::process::id() as i32;
    let bytes = full.as_os_str().as_bytes();
    let name = std::ffi::CString::new(bytes).map_err(|e| unreadable(e.into()))?;
    let fd = sys::open_at(HERE, &name, LISTING).map_err(unreadable)?;
    let stat = sys::stat_fd(&fd).map_err(unreadable)?;
    world.walk(here, Start::Here, bytes, true, false, log);
    let dir = Handle { fd: Rc::new(fd), id: stat.id };
    directory(world, here, &dir, log);
    world.forget_thread(here);
    Ok(full.to_string_lossy().into_owned())
}

fn directory(world: &mut World, here: i32, dir: &Handle, log: &mut Log) {
    let mut is_whole = true;
    for name in names(dir.fd.as_raw_fd()) {
        let Some(stat) = world.meet(here, dir, &name, log) else {
            is_whole = false;
            continue;
        };
        if stat.id.device != dir.id.device {
            log.note("--tree: another mount was not entered");
        } else if stat.is_file() {
            let path = format!("/proc/self/fd/{}/", dir.fd.as_raw_fd());
            file(world, path.into_bytes(), &name, &stat, log);
        } else if stat.is_dir() && !world.excluded.contains(&stat.id) {
            match sys::open_at(dir.fd.as_raw_fd(), &name, LISTING) {
                Ok(fd) => {
                    let below = Handle { fd: Rc::new(fd), id: stat.id };
                    directory(world, here, &below, log);
                }
                Err(e) => {
                    log.loss(Loss::Dropped, format!("--tree: directory: {}", e.kind()), 0);
                }
            }
        }
    }
    world.listed.insert(dir.id);
    if is_whole {
        log.listed(dir.id);
    }
}

fn file(world: &mut World, mut path: Vec<u8>, name: &CStr, stat: &sys::Stat, log: &mut Log) {
    path.extend_from_slice(name.to_bytes());
    world.observe(&path, stat, (0, stat.size), "snapshot", log)
}
