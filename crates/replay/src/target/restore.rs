//! Restoring the tree by difference.
//!
//! A file that needs any repair is removed and made anew, never changed in place: it might be a link to a file outside.
//! So a change time not later than the marker's proves that content, attributes and links are those that were built.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::AsFd;

use reprise_plan::tree::{Node, NodeKind};

use super::check::{self, Checked};
use super::marker::{MARKER_FILE, Store};
use super::place::Maker;
use super::remove::{self, Remover};
use super::{Buffers, Progress, RestoreReport, Target, TargetError, walk};
use crate::sys::{self, Stat};

impl Target {
    /// Brings the tree back to what [`Target::build`] made, also after an interrupted build or restore.
    ///
    /// Files not of the tree are removed (but for `lost+found` at the top); files changed since, by their change time,
    /// size or modification time, are made anew; the rest is left alone but for its access time.
    ///
    /// # Errors
    /// As [`Target::build`]; [`TargetError::NotOurs`] without our marker; [`TargetError::MountInside`].
    pub fn restore<'a>(
        &self,
        nodes: &'a [Node],
        buffers: impl Into<Buffers<'a>>,
        progress: Progress<'_>,
    ) -> Result<RestoreReport, TargetError> {
        let list = check::check(nodes, buffers.into())?;
        let found = Store::locate(self.root(), &self.dir)?.filter(|(_, marker)| marker.owner() == self.owner());
        let (store, old) = found.ok_or_else(|| TargetError::NotOurs { dir: self.dir.clone() })?;
        self.open_up()?;
        let built_ns = old.built_ns.filter(|_| (&old.trace_id, old.tree) == (&self.trace_id, list.digest));
        let moved = self.directories_digest(&list) != Some(old.directories);
        let mut marker = self.marker(&list);
        store.update(self.root(), &self.dir, &marker)?;
        let mut work = Restore {
            target: self,
            list: &list,
            built_ns,
            moved,
            suspect: HashSet::new(),
            linked: HashMap::new(),
            claimed: HashSet::new(),
            maker: Maker::new(self, &list, true, progress),
            remover: Remover::new(self.root(), self.about.mount),
            report: RestoreReport::default(),
        };
        let marker_file: &[u8] = if matches!(store, Store::File) { MARKER_FILE } else { b"" };
        work.remove_extras(b"/", marker_file)?;
        for (index, node) in nodes.iter().enumerate().filter(|(_, node)| node.path != b"/") {
            work.node(index, node)?;
            work.maker.advance();
        }
        for node in check::directories(nodes).rev() {
            work.directory_attributes(node)?;
        }
        self.complete(store, &mut marker, &list)?;
        if let Some(root) = list.by_path.get(b"/".as_slice()) {
            work.maker.finish(&nodes[*root])?;
        }
        let Restore { maker, mut report, .. } = work;
        report.bytes = maker.report.bytes;
        report.skipped = maker.report.skipped;
        Ok(report)
    }
}

struct Restore<'a> {
    target: &'a Target,
    list: &'a Checked<'a>,
    /// Up to when changes are ours; `None`: nothing can be trusted.
    built_ns: Option<i64>,
    /// Some directory of the tree is not the one that was built.
    moved: bool,
    /// Directories that may hold another directory's files, as they or one above changed while some were moved.
    suspect: HashSet<&'a [u8]>,
    /// Inode of files with several names, by their index.
    linked: HashMap<usize, u64>,
    /// The same inodes: no second file may claim one.
    claimed: HashSet<u64>,
    maker: Maker<'a>,
    remover: Remover<'a>,
    report: RestoreReport,
}

impl<'a> Restore<'a> {
    fn failed(&self, action: &'static str, path: &[u8]) -> impl Fn(io::Error) -> TargetError + use<> {
        let place = self.target.place(path);
        move |e| TargetError::io(action, &place, e)
    }

    fn find(&mut self, path: &[u8]) -> Result<Option<Stat>, TargetError> {
        let failed = self.failed("examine", path);
        let (parent, name) = check::split(path);
        let dir = self.maker.directories.get(parent).map_err(&failed)?;
        match sys::stat(dir, name) {
            Ok(about) if about.mount != self.target.about.mount => {
                Err(TargetError::MountInside { place: self.target.place(path) })
            }
            Ok(about) => Ok(Some(about)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(failed(e)),
        }
    }

    fn node(&mut self, index: usize, node: &'a Node) -> Result<(), TargetError> {
        let found = self.find(&node.path)?;
        let same_kind = found.is_some_and(|about| about.kind() == self.kind(node));
        match found {
            Some(about) if same_kind && about.kind() == libc::S_IFDIR => {
                return self.directory(node, &about);
            }
            Some(about) if same_kind && self.is_intact(index, node, &about) => {
                if about.nlink > 1 && node.link_of.is_none() {
                    self.claim(index, about.ino);
                }
                self.maker.spare(node);
                self.report.kept += 1;
                return self.access_time(node, &about);
            }
            Some(_) => self.remove(&node.path)?,
            None => {}
        }
        self.maker.create(node)?;
        if self.list.names[index] > 1
            && let Some(about) = self.find(&node.path)?
        {
            self.claim(index, about.ino);
        }
        match same_kind {
            true => self.report.rewritten += 1,
            false => self.report.created += 1,
        }
        Ok(())
    }

    fn claim(&mut self, index: usize, inode: u64) {
        self.linked.insert(index, inode);
        self.claimed.insert(inode);
    }

    /// The type bits a node should have.
    fn kind(&self, node: &Node) -> u32 {
        let node = node.link_of.and_then(|first| self.list.nodes.get(first as usize)).unwrap_or(node);
        match check::made_as(node) {
            NodeKind::Directory => libc::S_IFDIR,
            NodeKind::Symlink => libc::S_IFLNK,
            NodeKind::Fifo => libc::S_IFIFO,
            NodeKind::Socket => libc::S_IFSOCK,
            NodeKind::CharDevice => libc::S_IFCHR,
            NodeKind::File | NodeKind::BlockDevice => libc::S_IFREG,
        }
    }

    fn is_intact(&self, index: usize, node: &Node, about: &Stat) -> bool {
        if let Some(first) = node.link_of {
            return self.linked.get(&(first as usize)) == Some(&about.ino);
        }
        let size = match node.kind {
            NodeKind::File => Some(node.size),
            NodeKind::Symlink => Some(node.target.len() as u64),
            NodeKind::CharDevice | NodeKind::BlockDevice => Some(0),
            _ => None,
        };
        self.built_ns.is_some_and(|built_ns| about.ctime_ns <= built_ns)
            && size.is_none_or(|size| about.size == size)
            && is_same_time(about.mtime_ns, node.mtime_ns)
            && about.nlink == self.list.names[index]
            && !self.suspect.contains(check::split(&node.path).0)
            && (about.nlink == 1 || !self.claimed.contains(&about.ino))
    }

    fn directory(&mut self, node: &'a Node, about: &Stat) -> Result<(), TargetError> {
        let failed = self.failed("open", &node.path);
        let (parent, name) = check::split(&node.path);
        let changed = self.built_ns.is_none_or(|built_ns| about.ctime_ns > built_ns);
        match changed {
            true => self.report.rewritten += 1,
            false => self.report.kept += 1,
        }
        if self.moved && (changed || self.suspect.contains(parent)) {
            self.suspect.insert(&node.path);
        }
        let dir = self.maker.directories.get(parent).map_err(&failed)?;
        let opened = walk::open_directory(dir, name).map_err(&failed)?;
        remove::open_up(opened.as_fd(), about).map_err(&failed)?;
        match node.path == b"/lost+found" {
            true => Ok(()),
            false => self.remove_extras(&node.path, b""),
        }
    }

    fn remove_extras(&mut self, path: &[u8], spared: &[u8]) -> Result<(), TargetError> {
        let failed = self.failed("list", path);
        let place = self.target.place(path);
        let dir = self.maker.directories.get(path).map_err(&failed)?;
        let mut full = if path == b"/" { Vec::new() } else { path.to_vec() };
        full.push(b'/');
        let stem = full.len();
        for name in walk::entries(dir, &place)? {
            full.truncate(stem);
            full.extend_from_slice(&name);
            let spare = name == spared || full == b"/lost+found";
            if !spare && !self.list.by_path.contains_key(full.as_slice()) {
                self.remover.remove(dir, &name, &self.target.place(&full))?;
                self.report.removed += 1;
            }
        }
        Ok(())
    }

    fn remove(&mut self, path: &[u8]) -> Result<(), TargetError> {
        let failed = self.failed("open", path);
        let (parent, name) = check::split(path);
        let dir = self.maker.directories.get(parent).map_err(&failed)?;
        self.remover.remove(dir, name, &self.target.place(path))
    }

    /// Reading changes the access time, but not the change time.
    fn access_time(&mut self, node: &Node, about: &Stat) -> Result<(), TargetError> {
        if node.link_of.is_some() || about.atime_ns == node.atime_ns {
            return Ok(());
        }
        let failed = self.failed("set the times of", &node.path);
        let (parent, name) = check::split(&node.path);
        let dir = self.maker.directories.get(parent).map_err(&failed)?;
        sys::set_times(dir, name, node.atime_ns, node.mtime_ns).map_err(failed)
    }

    fn directory_attributes(&mut self, node: &Node) -> Result<(), TargetError> {
        let about = self.find(&node.path)?;
        let intact = about.is_some_and(|about| {
            self.built_ns.is_some_and(|built_ns| about.ctime_ns <= built_ns)
                && (about.atime_ns, about.mtime_ns) == (node.atime_ns, node.mtime_ns)
        });
        if !intact {
            self.maker.finish(node)?;
        }
        Ok(())
    }
}

/// Whether a file system with times in nanoseconds, or else in whole 100 ns or seconds, keeps `wanted` as `found`.
fn is_same_time(found: i64, wanted: i64) -> bool {
    [1, 100, 1_000_000_000].iter().any(|unit| found == wanted.saturating_sub(wanted.rem_euclid(*unit)))
}
