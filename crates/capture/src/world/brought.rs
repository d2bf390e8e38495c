//! File systems that the program mounts: a directory of the initial tree stands for each (`reprise_calls::brought`).

use std::ffi::{CStr, CString};

use reprise_calls::brought::{Brought, stand_in};

use super::walk::open;
use super::{Start, World, is_synthetic, node, xattrs};
use crate::log::Log;
use crate::sys::{self, FileId, Stat};

/// Devices that no system has: for files of what is mounted a second time.
const ANEW: u64 = 0xfff << 52;

/// Where a file system came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CameTo {
    /// A path of the thread; it holds this.
    Path(Vec<u8>, Brought),
    /// The descriptor that the call gives.
    Descriptor,
}

/// The root of a file system.
struct Root {
    stat: Stat,
    filesystem: u64,
    xattrs: Vec<u8>,
}

impl World {
    /// A call brought a file system, and returned this.
    pub fn brought(&mut self, tid: i32, to: &CameTo, result: i64, log: &mut Log) {
        self.brought += 1;
        let (found, shows_state) = match to {
            CameTo::Path(path, brought) => (self.root_at(tid, path, log), !brought.stands_in()),
            CameTo::Descriptor => (self.root_of(&format!("/proc/{tid}/fd/{result}")), false),
        };
        let (Some(Root { stat, filesystem, xattrs }), Some(top)) = (found, self.top) else { return };
        let was_brought = self.brought_roots.contains(&stat.id);
        let was_met = self.met.contains_key(&stat.id) && !was_brought;
        self.brought_roots.insert(stat.id);
        // What was there before has its place.
        if !stat.is_dir() || shows_state || is_synthetic(filesystem) || was_met {
            return;
        }
        if was_brought {
            self.forget_device(stat.id.device);
            log.renumber(stat.id.device, ANEW | u64::from(self.brought));
        }
        self.reached.insert(stat.id);
        log.node(node(top, &stand_in(self.brought), &stat, Vec::new(), xattrs, filesystem));
    }

    fn root_at(&mut self, tid: i32, path: &[u8], log: &mut Log) -> Option<Root> {
        let last = self.walk(tid, Start::Here, path, true, true, log).last?;
        let path = self.by_handle(&last.parent, &last.name)?;
        Some(self.described(last.stat?, &path))
    }

    fn root_of(&mut self, link: &str) -> Option<Root> {
        let handle = open(link)?;
        let path = CString::new(format!("{link}/.")).ok()?;
        Some(self.described(sys::stat_fd(&*handle.fd).ok()?, &path))
    }

    fn described(&mut self, stat: Stat, path: &CStr) -> Root {
        // Another file system may have had the number.
        self.filesystems.remove(&stat.id.device);
        Root { filesystem: self.filesystem(&stat, Some(path)), xattrs: xattrs(path), stat }
    }

    /// What is mounted anew shows what it held when it was unmounted; or another file system has the number now.
    fn forget_device(&mut self, device: u64) {
        let other = |id: &FileId| id.device != device;
        self.met.retain(|id, _| other(id));
        self.seen.retain(|id, _| other(id));
        [&mut self.reached, &mut self.listed, &mut self.fresh].into_iter().for_each(|ids| ids.retain(other));
    }
}
