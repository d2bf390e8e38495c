//! Making one node: content, owner, extended attributes, mode and times, in the order in which they do not undo each other.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;

use reprise_calls::credentials::CAPABILITIES;
use reprise_plan::tree::{Node, NodeKind};

use super::attributes::{is_refusal, is_unsupported, remove_foreign};
use super::check::{self, Checked};
use super::content::Content;
use super::walk::{self, Directories};
use super::{BuildReport, Progress, Skip, Target, TargetError, marker};
use crate::sys;

/// Work counted for a node beside its content, in bytes.
const NODE_COST: u64 = 4096;
const NOFOLLOW: i32 = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;

/// Makes nodes of one checked list in one target, and counts what it did.
pub(super) struct Maker<'a> {
    target: &'a Target,
    list: &'a Checked<'a>,
    pub directories: Directories<'a>,
    /// A second set, for the other end of hard links.
    first_names: Directories<'a>,
    pub report: BuildReport,
    /// Attributes not of the tree may be there already (inherited, or left by a replay) and are removed.
    exact: bool,
    progress: Progress<'a>,
    done: u64,
    total: u64,
}

impl<'a> Maker<'a> {
    pub fn new(target: &'a Target, list: &'a Checked<'a>, exact: bool, progress: Progress<'a>) -> Self {
        let content = |node: &Node| node.extents.iter().fold(NODE_COST, |sum, e| sum.saturating_add(e.length));
        let total = list.nodes.iter().fold(0u64, |sum, node| sum.saturating_add(content(node)));
        let (directories, first_names) = (Directories::new(target.root()), Directories::new(target.root()));
        let report = BuildReport::default();
        Maker { target, list, directories, first_names, report, exact, progress, done: 0, total }
    }

    /// Counts a node that is finished.
    pub fn advance(&mut self) {
        self.work(NODE_COST);
    }

    /// Counts the content of a node that did not have to be written.
    pub fn spare(&mut self, node: &Node) {
        self.work(node.extents.iter().fold(0, |sum, e| sum.saturating_add(e.length)));
    }

    fn work(&mut self, bytes: u64) {
        self.done = self.done.saturating_add(bytes);
        (self.progress)(self.done, self.total);
    }

    fn failed(&self, action: &'static str, node: &Node) -> impl Fn(io::Error) -> TargetError + use<> {
        let place = self.target.place(&node.path);
        move |e| TargetError::io(action, &place, e)
    }

    fn skip(&mut self, what: Skip) {
        *self.report.skipped.entry(what).or_default() += 1;
    }

    /// Creates a node, not the root, where nothing is. A directory stays open to its owner until [`Maker::finish`].
    pub fn create(&mut self, node: &Node) -> Result<(), TargetError> {
        let (parent, name) = check::split(&node.path);
        if let Some(first) = node.link_of.and_then(|first| self.list.nodes.get(first as usize)) {
            return self.link(first, node);
        }
        let failed = self.failed("create", node);
        let dir = self.directories.get(parent).map_err(&failed)?;
        match check::made_as(node) {
            NodeKind::Directory => {
                match sys::mkdir(dir, name, 0o700) {
                    Err(e) if e.raw_os_error() == Some(libc::EEXIST) && node.path == b"/lost+found" => {}
                    outcome => outcome.map_err(&failed)?,
                }
                self.report.directories += 1;
                return Ok(());
            }
            NodeKind::CharDevice => {
                sys::mknod(dir, name, libc::S_IFCHR | 0o600, 0).map_err(&failed)?;
                self.report.whiteouts += 1;
            }
            NodeKind::File | NodeKind::BlockDevice => {
                let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
                let file = sys::openat2(dir, name, flags, 0o600, libc::RESOLVE_BENEATH).map_err(&failed)?;
                return self.file(file.into(), node);
            }
            NodeKind::Symlink => {
                sys::symlink(&node.target, dir, name).map_err(&failed)?;
                self.report.symlinks += 1;
            }
            NodeKind::Fifo => {
                sys::mknod(dir, name, libc::S_IFIFO | 0o600, 0).map_err(&failed)?;
                self.report.pipes += 1;
            }
            NodeKind::Socket => {
                sys::mknod(dir, name, libc::S_IFSOCK | 0o600, 0).map_err(&failed)?;
                self.report.sockets += 1;
            }
        }
        let dir = self.directories.get(parent).map_err(&failed)?;
        let made = walk::open_place(dir, name, 0).map_err(&failed)?;
        self.attributes(made.as_fd(), node, node.mode)
    }

    fn link(&mut self, first: &Node, node: &Node) -> Result<(), TargetError> {
        let failed = self.failed("link", node);
        let ((old_parent, old_name), (parent, name)) = (check::split(&first.path), check::split(&node.path));
        let old = self.first_names.get(old_parent).map_err(&failed)?;
        let new = self.directories.get(parent).map_err(&failed)?;
        sys::link((old, old_name), (new, name)).map_err(&failed)?;
        self.report.links += 1;
        Ok(())
    }

    fn file(&mut self, file: File, node: &Node) -> Result<(), TargetError> {
        if node.kind != NodeKind::File {
            if check::is_placeholder(node) {
                self.report.placeholders += 1;
                return self.attributes(file.as_fd(), node, 0o666);
            }
            self.skip(Skip::Device);
            return self.attributes(file.as_fd(), node, node.mode);
        }
        let failed = self.failed("write", node);
        let list = self.list;
        if node.size > 0 {
            file.set_len(node.size).map_err(&failed)?;
        }
        let mut content = Content::of(&file);
        let mut written = |bytes| {
            self.report.bytes += bytes;
            self.work(bytes);
        };
        for extent in &node.extents {
            // In range: `check` saw to it; an empty slice would only write nothing.
            let bytes = list.buffers.get(extent.buffer, extent.length).unwrap_or_default();
            content.add(extent.offset, bytes, &mut written).map_err(&failed)?;
        }
        content.finish(&mut written).map_err(&failed)?;
        self.report.files += 1;
        let capable = node.xattrs.iter().any(|(name, _)| name == CAPABILITIES);
        self.report.privileged += u64::from(capable || node.mode & 0o6000 != 0);
        self.attributes(file.as_fd(), node, node.mode)
    }

    /// Gives a directory its owner, attributes, mode and times, when all beneath it is finished.
    pub fn finish(&mut self, node: &Node) -> Result<(), TargetError> {
        let failed = self.failed("set the attributes of", node);
        let opened: OwnedFd = match node.path.as_slice() {
            b"/" => self.target.root().try_clone_to_owned().map_err(&failed)?,
            path => {
                let (parent, name) = check::split(path);
                let dir = self.directories.get(parent).map_err(&failed)?;
                walk::open_directory(dir, name).map_err(&failed)?
            }
        };
        self.attributes(opened.as_fd(), node, node.mode)
    }

    /// Owner first (changing it clears set-id bits and capabilities), then extended attributes (an owner without write
    /// permission could not set them), mode, and times last.
    fn attributes(&mut self, fd: BorrowedFd<'_>, node: &Node, mode: u32) -> Result<(), TargetError> {
        let failed = self.failed("set the attributes of", node);
        match sys::chown(fd, b"", node.uid, node.gid, NOFOLLOW) {
            Err(e) if is_refusal(&e) => self.skip(Skip::Owner),
            outcome => outcome.map_err(&failed)?,
        }
        if self.exact {
            remove_foreign(fd, node).map_err(&failed)?;
        }
        for (name, value) in node.xattrs.iter().filter(|(name, _)| name != marker::ATTRIBUTE) {
            match sys::set_xattr(fd, name, value) {
                Err(e) if is_refusal(&e) || is_unsupported(&e) => self.skip(Skip::Attribute),
                outcome => outcome.map_err(&failed)?,
            }
        }
        if node.kind != NodeKind::Symlink {
            self.mode(fd, mode & 0o7777).map_err(&failed)?;
        }
        sys::set_times(fd, b"", node.atime_ns, node.mtime_ns).map_err(&failed)
    }

    fn mode(&mut self, fd: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
        match change_mode(fd, mode) {
            Err(e) if is_refusal(&e) => self.skip(Skip::Mode),
            outcome => {
                outcome?;
                // The kernel drops set-group-id without a word when the owner is not of the group.
                if mode & 0o6000 != 0 && sys::stat(fd, b"")?.mode & 0o7777 != mode {
                    self.skip(Skip::Mode);
                }
            }
        }
        Ok(())
    }
}

/// Changes the mode of the file of `fd`, which may be `O_PATH` but not a symbolic link.
pub(super) fn change_mode(fd: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    match sys::chmod(fd, b"", mode, libc::AT_EMPTY_PATH) {
        // Before Linux 6.6.
        Err(e) if e.raw_os_error() == Some(libc::ENOSYS) => {
            fs::set_permissions(sys::name_of(fd), Permissions::from_mode(mode))
        }
        outcome => outcome,
    }
}
