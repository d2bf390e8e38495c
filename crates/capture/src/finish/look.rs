//! The file system as it is after the run, asked for what it was before.
//!
//! Goals: what has not changed since the beginning is told as it is; what may have changed is not told. Non-goals:
//! other namespaces than that of whoever finishes.

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use reprise_initial::{Before, Looked, Outside, Stat};

use crate::spool::Stood;
use crate::sys::{self, HERE};

/// The kernel's clock for files stands still between ticks.
pub const TICK_NS: i64 = 20_000_000;
/// Directories whose files show the kernel's state, of whoever looks.
const STATE: [&[u8]; 4] = [b"/proc", b"/sys", b"/dev/fd", b"/dev/pts"];

/// Looks at files.
#[derive(Debug)]
pub struct Live {
    /// What the recorded program saw as `/`.
    root: Vec<u8>,
    /// When the recording began, nanoseconds since 1970.
    began_ns: i64,
    filesystems: HashMap<u64, u64>,
    /// What was seen before.
    stood: Stood,
}

impl Live {
    /// For a program with this root directory.
    pub fn new(root: &[u8], began_ns: u64) -> Live {
        let root = root.strip_suffix(b"/").unwrap_or(root).to_vec();
        let began_ns = i64::try_from(began_ns).unwrap_or(i64::MAX);
        Live { root, began_ns, filesystems: HashMap::new(), stood: Stood::default() }
    }

    /// The same, remembering what was seen before the beginning.
    pub fn remembering(self, stood: Stood) -> Live {
        Live { stood, ..self }
    }

    /// A path of the program as one of this process.
    pub fn path(&self, path: &[u8]) -> Option<CString> {
        let state = |prefix: &&[u8]| path.strip_prefix(*prefix).is_some_and(|rest| rest.starts_with(b"/"));
        if STATE.iter().any(state) {
            return None;
        }
        CString::new([&self.root, path].concat()).ok()
    }

    /// What stands at a path now.
    pub fn now(&mut self, path: &[u8]) -> Option<(Looked, sys::Stat)> {
        let path = self.path(path)?;
        let stat = sys::stat_at(HERE, &path, libc::AT_SYMLINK_NOFOLLOW).ok()?;
        let target = match stat.is_link() {
            true => Some(sys::read_link_at(HERE, &path).ok()?),
            false => None,
        };
        let looked =
            Looked { stat: Some(facts(&stat)), target, xattrs: xattrs(&path), filesystem: self.of(&stat, &path) };
        Some((looked, stat))
    }

    /// Whether a time is surely before the beginning.
    pub fn is_before(&self, time_ns: i64) -> bool {
        time_ns.saturating_add(TICK_NS) < self.began_ns
    }

    /// Type of the file system of a file; asked once per device.
    fn of(&mut self, stat: &sys::Stat, path: &CStr) -> u64 {
        if let Some(known) = self.filesystems.get(&stat.id.device) {
            return *known;
        }
        if stat.is_link() {
            return 0;
        }
        let kind = sys::filesystem_of(path).unwrap_or(0);
        self.filesystems.insert(stat.id.device, kind);
        kind
    }
}

impl Outside for Live {
    fn before(&mut self, path: &[u8]) -> Before {
        self.stood.at(path)
    }

    fn look(&mut self, path: &[u8]) -> Option<Looked> {
        // Cheaper than all the rest, and decides.
        let at = self.path(path)?;
        let stat = sys::stat_at(HERE, &at, libc::AT_SYMLINK_NOFOLLOW).ok()?;
        if !self.is_before(stat.ctime_ns) {
            return None;
        }
        self.now(path).map(|(looked, _)| looked)
    }

    // The text of a link never changes. Where files bear no time of birth (NFS, 9p, FUSE), a link was there if nothing of it changed since.
    fn link_text(&mut self, path: &[u8]) -> Option<Vec<u8>> {
        let at = self.path(path)?;
        let target = sys::read_link_at(HERE, &at).ok()?;
        let changed = || Some(sys::stat_at(HERE, &at, libc::AT_SYMLINK_NOFOLLOW).ok()?.ctime_ns);
        sys::born_ns(&at).or_else(changed).is_some_and(|known| self.is_before(known)).then_some(target)
    }

    fn names_in(&mut self, path: &[u8]) -> Vec<Vec<u8>> {
        const MOST: usize = 64;
        let stood = self.stood.names_in(path);
        if !stood.is_empty() {
            return stood;
        }
        let Some(at) = self.path(path) else { return Vec::new() };
        let Ok(entries) = std::fs::read_dir(OsStr::from_bytes(at.to_bytes())) else { return Vec::new() };
        let names = entries.take(MOST).filter_map(|entry| Some(entry.ok()?.file_name().into_vec()));
        names.filter(|name| self.look(&[path, b"/", name].concat()).is_some()).take(1).collect()
    }

    fn was_born_before(&mut self, path: &[u8], identity: (u64, u64)) -> Option<bool> {
        let at = self.path(path)?;
        let stat = sys::stat_at(HERE, &at, libc::AT_SYMLINK_NOFOLLOW).ok()?;
        if (stat.id.device, stat.id.inode) != identity {
            return None;
        }
        sys::born_ns(&at).map(|born| self.is_before(born))
    }
}

fn facts(stat: &sys::Stat) -> Stat {
    Stat {
        complete: true,
        mode: stat.mode,
        size: Some(stat.size),
        identity: Some((stat.id.device, stat.id.inode)),
        links: Some(stat.nlink),
        owner: Some((stat.uid, stat.gid)),
        device: Some(stat.rdev),
        times: [Some(stat.atime_ns), Some(stat.mtime_ns), Some(stat.ctime_ns)],
    }
}

fn xattrs(path: &CStr) -> Vec<(Vec<u8>, Vec<u8>)> {
    let names = sys::list_xattrs(path).unwrap_or_default();
    let names = names.split_inclusive(|b| *b == 0).filter_map(|name| CStr::from_bytes_with_nul(name).ok());
    names.filter_map(|name| Some((name.to_bytes().to_vec(), sys::get_xattr(path, name).ok()?))).collect()
}
