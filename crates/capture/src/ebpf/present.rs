//! Processes as they are now: what a finisher must know of them beside the records.
//!
//! Goals: all that a call can depend on and no call shows: descriptors with their descriptions, directories, masks, users,
//! mappings; content that nobody can find later. Non-goals: an instant picture. A running process is read item by item;
//! the finisher corrects it by the records of what happened meanwhile.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use reprise_trace::Name;

use super::mappings;
use crate::procfs;
use crate::spool::{Again, BeganDescriptor, BeganProcess};
use crate::sys::{self, Common, HERE};
use crate::world::{is_synthetic, open_quietly};

/// Looks at processes.
#[derive(Debug, Default)]
pub struct Present {
    /// Open file descriptions that were met, by identity of their file, in the kernel's order.
    met: HashMap<(u64, u64), Vec<Met>>,
    next: u64,
    tables: Holders,
    directories: Holders,
}

/// A process for each descriptor table, or set of directories, that was met, and its number: in the kernel's order.
#[derive(Debug, Default)]
struct Holders(Vec<(i32, u64)>);

impl Holders {
    /// The number of what a process has.
    fn number(&mut self, what: Common, pid: i32) -> u64 {
        // Where the kernel does not tell, or who had it is gone, it counts as another.
        let order = |(other, _): &(i32, u64)| sys::order_of_common(what, *other, pid).unwrap_or(Ordering::Less);
        match self.0.binary_search_by(order) {
            Ok(at) => self.0[at].1,
            Err(at) => {
                let number = self.0.len() as u64;
                self.0.insert(at, (pid, number));
                number
            }
        }
    }
}

/// An open file description: a descriptor of a process that names it, and its number.
#[derive(Debug)]
struct Met {
    pid: i32,
    fd: u32,
    number: u64,
}

impl Present {
    /// A process; `executes`: it will run a command, and loses the descriptors that end then. Nothing if it is gone.
    pub fn process(&mut self, pid: i32, tids: &[i32], executes: bool) -> Option<BeganProcess> {
        let status = procfs::status(pid);
        if status.uids.is_empty() {
            return None;
        }
        // Descriptors last: they change most. A command has mapped nothing yet.
        let mappings_ns = sys::monotonic_ns();
        let (mappings, mapped) = if executes { Default::default() } else { mappings::look(pid) };
        let descriptors_ns = sys::monotonic_ns();
        let mut descriptors = Vec::new();
        for fd in procfs::descriptors(pid) {
            let row = descriptor(pid, fd).filter(|row| !executes || row.flags & libc::O_CLOEXEC as u64 == 0);
            descriptors.extend(row.map(|row| BeganDescriptor { description: self.description(pid, &row), ..row }));
        }
        let rings = descriptors.iter().filter(|d| d.path == RING);
        let registered: Vec<BeganDescriptor> = rings.flat_map(|ring| registered(pid, ring.fd)).collect();
        let before_ns = sys::monotonic_ns();
        let cwd = procfs::link(pid, "cwd").to_text();
        Some(BeganProcess {
            pid,
            threads: tids.iter().map(|tid| (*tid, procfs::name(*tid).to_text())).collect(),
            uids: status.uids,
            gids: status.gids,
            groups: status.groups,
            umask: status.umask,
            cwd,
            cwd_ns: [before_ns, sys::monotonic_ns()],
            root: procfs::link(pid, "root").to_text(),
            executable: procfs::link(pid, "exe").to_text(),
            descriptors,
            descriptors_ns,
            table: Some(self.tables.number(Common::Table, pid)),
            directories: Some(self.directories.number(Common::Directories, pid)),
            again: Again::default(),
            mappings,
            mappings_ns,
            held: [mapped, registered].concat(),
        })
    }

    /// Looks at a process again.
    pub fn again(&mut self, process: &mut BeganProcess) {
        let known = |row: &BeganDescriptor| {
            let before = process.descriptors.iter().find(|d| d.fd == row.fd);
            before.is_some_and(|d| (d.device, d.inode, d.flags) == (row.device, row.inode, row.flags))
        };
        let now = procfs::descriptors(process.pid).into_iter().filter_map(|fd| descriptor(process.pid, fd));
        let mut news: Vec<BeganDescriptor> = now.filter(|row| !known(row)).collect();
        for row in &mut news {
            row.description = self.description(process.pid, row);
        }
        process.again = Again {
            cwd: procfs::link(process.pid, "cwd").to_text(),
            executable: procfs::link(process.pid, "exe").to_text(),
            descriptors: news,
        };
    }

    /// Number of the description behind a descriptor: equal ones are one.
    fn description(&mut self, pid: i32, row: &BeganDescriptor) -> u64 {
        let known = self.met.entry((row.device, row.inode)).or_default();
        // Where the kernel does not tell, or who named it is gone, it counts as another.
        let order = |met: &Met| sys::order_of_descriptions((met.pid, met.fd), (pid, row.fd)).unwrap_or(Ordering::Less);
        match known.binary_search_by(order) {
            Ok(at) => known[at].number,
            Err(at) => {
                known.insert(at, Met { pid, fd: row.fd, number: self.next });
                self.next += 1;
                self.next - 1
            }
        }
    }
}

fn descriptor(pid: i32, fd: u32) -> Option<BeganDescriptor> {
    let info = procfs::fd_info(pid, fd.into())?;
    let file = file(pid, &format!("fd/{fd}"))?;
    let procfs::FdInfo { flags, position, locks } = info;
    let path = file.path.starts_with(MEMORY).then(|| CString::new(format!("/proc/{pid}/fd/{fd}")).ok()).flatten();
    let seals = path.and_then(|path| sys::seals(&path));
    Some(BeganDescriptor { fd, flags, position, locks, seals, ..file })
}

/// What `/proc/PID/fd` says of a file in memory begins so.
const MEMORY: &str = "/memfd:";

/// What `/proc/PID/fd` says of a ring of io_uring.
const RING: &str = "anon_inode:[io_uring]";

/// The files that are registered with a ring.
fn registered(pid: i32, ring: u32) -> Vec<BeganDescriptor> {
    // The kernel tells of them unless the ring is just being used.
    const TRIES: usize = 20;
    let paths = (0..TRIES).find_map(|_| procfs::registered(pid, ring)).unwrap_or_default();
    paths.iter().filter_map(|path| at_path(pid, path)).collect()
}

/// The file at a path, as a process sees it.
fn at_path(pid: i32, path: &Name) -> Option<BeganDescriptor> {
    let at = CString::new([format!("/proc/{pid}/root").as_bytes(), path].concat()).ok()?;
    let stat = sys::stat_at(HERE, &at, 0).ok().filter(sys::Stat::is_file)?;
    Some(described(path, &stat, false))
}

/// The file behind a link below `/proc/PID`.
pub fn file(pid: i32, link: &str) -> Option<BeganDescriptor> {
    let at = CString::new(format!("/proc/{pid}/{link}")).ok()?;
    let stat = sys::stat_at(HERE, &at, 0).ok()?;
    let path = procfs::link(pid, link);
    let nameless = (stat.is_file() || stat.is_dir()) && !is_named(pid, &path, &stat);
    Some(described(&path, &stat, nameless))
}

fn described(path: &Name, stat: &sys::Stat, nameless: bool) -> BeganDescriptor {
    BeganDescriptor {
        mode: stat.mode,
        device: stat.id.device,
        inode: stat.id.inode,
        nameless,
        path: path.to_text(),
        size: stat.size,
        owner: (stat.uid, stat.gid),
        links: stat.nlink,
        times: [stat.atime_ns, stat.mtime_ns, stat.ctime_ns],
        ..BeganDescriptor::default()
    }
}

/// Whether a file still stands where it was opened.
fn is_named(pid: i32, path: &Name, stat: &sys::Stat) -> bool {
    let below = CString::new([format!("/proc/{pid}/root").as_bytes(), path].concat());
    below.is_ok_and(|below| sys::stat_at(HERE, &below, libc::AT_SYMLINK_NOFOLLOW).is_ok_and(|now| now.id == stat.id))
}

/// Copies of files that were open.
#[derive(Debug)]
pub struct Copies {
    directory: PathBuf,
    /// Files up to this many bytes.
    most: u64,
    /// So many bytes are still to be copied in all.
    left: u64,
    /// Number and instant, by identity.
    made: HashMap<(u64, u64), (Option<u64>, u64)>,
    systems: HashMap<u64, u64>,
}

/// All copies together take so much at most; what is not copied is read after the recording, if it is still there.
const MOST: u64 = 256 << 20;

impl Copies {
    /// Into a directory that does not exist yet.
    pub fn new(directory: PathBuf, most: u64) -> Copies {
        Copies { directory, most, left: MOST, made: HashMap::new(), systems: HashMap::new() }
    }

    /// Copies the files that a process has open, mapped or registered.
    pub fn take(&mut self, process: &mut BeganProcess) {
        let BeganProcess { pid, descriptors, again, mappings, held, .. } = process;
        for row in descriptors.iter_mut().chain(&mut again.descriptors) {
            self.take_one(row, |row| format!("/proc/{pid}/fd/{}", row.fd));
        }
        for row in held {
            let of = |row: &BeganDescriptor| mappings.iter().find(|m| (m.device, m.inode) == (row.device, row.inode));
            let link = |row: &BeganDescriptor| of(row).map_or_else(|| format!("root{}", row.path), mappings::link);
            self.take_one(row, |row| format!("/proc/{pid}/{}", link(row)));
        }
    }

    fn take_one(&mut self, row: &mut BeganDescriptor, from: impl Fn(&BeganDescriptor) -> String) {
        if row.mode & libc::S_IFMT != libc::S_IFREG {
            return;
        }
        let identity = (row.device, row.inode);
        if !self.made.contains_key(&identity) {
            let copy = self.copy(&from(row), row);
            self.made.insert(identity, (copy, sys::monotonic_ns()));
        }
        (row.copy, row.copied_ns) = self.made[&identity];
    }

    fn copy(&mut self, from: &str, row: &BeganDescriptor) -> Option<u64> {
        let at = CString::new(from).ok()?;
        if row.size > self.most || row.size > self.left {
            return None;
        }
        let system = *self.systems.entry(row.device).or_insert_with(|| sys::filesystem_of(&at).unwrap_or(0));
        if is_synthetic(system) {
            return None;
        }
        let source = open_quietly(OsStr::from_bytes(from.as_bytes())).ok()?;
        // It must be the file that was meant: a number is used again.
        let stat = sys::stat_fd(&source).ok()?;
        if (stat.id.device, stat.id.inode) != (row.device, row.inode) {
            return None;
        }
        let number = self.made.len() as u64;
        fs::create_dir_all(&self.directory).ok()?;
        let mut target = fs::File::create(self.directory.join(number.to_string())).ok()?;
        let mut source = std::io::Read::take(source, self.most);
        let copied = std::io::copy(&mut source, &mut target).ok()?;
        self.left = self.left.saturating_sub(copied);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This process is looked at; what it has open is known otherwise.
    #[test]
    fn descriptors_are_as_they_are() {
        use std::io::{Seek, Write};
        use std::os::fd::AsRawFd;
        let path = std::env::temp_dir().join(format!("reprise-present-{}", std::process::id()));
        let mut file = fs::File::create(&path).expect("made");
        file.write_all(b"0123456789").and_then(|()| file.seek(std::io::SeekFrom::Start(4))).expect("written");
        let (same, other) = (file.try_clone().expect("a copy"), fs::File::open(&path).expect("opened"));
        fs::remove_file(&path).expect("removed");
        let pid = std::process::id() as i32;
        let found = Present::default().process(pid, &[pid], false).expect("it lives");
        let row = |file: &fs::File| found.descriptors.iter().find(|d| d.fd == file.as_raw_fd() as u32).expect("open");
        let (one, two, three) = (row(&file), row(&same), row(&other));
        assert_eq!((one.position, one.size, one.nameless), (4, 10, true));
        assert_eq!(one.description, two.description);
        assert_ne!(one.description, three.description);
        assert_eq!((three.position, three.inode), (0, one.inode));
        assert!(!found.mappings.is_empty() && !found.cwd.is_empty());
    }
}
