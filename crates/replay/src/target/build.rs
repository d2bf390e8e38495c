//! Building the tree in an empty directory.

use reprise_plan::tree::Node;

use super::check::{self, Checked, Digest};
use super::marker::{Marker, Store};
use super::place::Maker;
use super::walk::{self, Directories};
use super::{Buffers, BuildReport, Progress, Target, TargetError, remove};
use crate::sys;

impl Target {
    /// Creates all nodes. `buffers` holds the contents the extents refer to.
    ///
    /// What permissions or the file system do not allow (owners, some modes and attributes) is skipped and counted.
    ///
    /// # Errors
    /// [`TargetError::Node`] before anything is touched when the list is not sound; [`TargetError::AlreadyBuilt`] or
    /// [`TargetError::NotEmpty`]; failures of the file system, after which [`Target::restore`] can finish the work.
    pub fn build<'a>(
        &self,
        nodes: &'a [Node],
        buffers: impl Into<Buffers<'a>>,
        progress: Progress<'_>,
    ) -> Result<BuildReport, TargetError> {
        let list = check::check(nodes, buffers.into())?;
        if Store::find(self.root(), &self.dir)?.is_some() {
            return Err(TargetError::AlreadyBuilt { dir: self.dir.clone() });
        }
        if let Some(name) = walk::entries(self.root(), &self.dir)?.iter().find(|name| *name != walk::LOST_AND_FOUND) {
            let entry = String::from_utf8_lossy(name).into_owned();
            return Err(TargetError::NotEmpty { dir: self.dir.clone(), entry });
        }
        self.open_up()?;
        let mut marker = self.marker(&list);
        let store = Store::create(self.root(), &self.dir, &marker)?;
        let mut maker = Maker::new(self, &list, false, progress);
        for node in nodes {
            match node.path.as_slice() {
                b"/" => maker.report.directories += 1,
                _ => maker.create(node)?,
            }
            maker.advance();
        }
        for node in check::directories(nodes).rev() {
            maker.finish(node)?;
        }
        self.complete(store, &mut marker, &list)?;
        // The root last: its mode might forbid the marker. A restore always gives it its attributes again.
        if let Some(root) = list.by_path.get(b"/".as_slice()) {
            maker.finish(&nodes[*root])?;
        }
        Ok(maker.report)
    }

    /// Makes the root writable for an owner who is not root; [`Maker::finish`] gives it its recorded mode.
    pub(super) fn open_up(&self) -> Result<(), TargetError> {
        let about = sys::stat(self.root(), b"").map_err(|e| TargetError::io("examine", &self.dir, e))?;
        remove::open_up(self.root(), &about).map_err(|e| TargetError::io("open", &self.dir, e))
    }

    /// A marker that says: not complete.
    pub(super) fn marker(&self, list: &Checked<'_>) -> Marker {
        Marker {
            version: 1,
            trace_id: self.trace_id.clone(),
            part_of: self.part_of.clone(),
            tree: list.digest,
            directories: 0,
            built_ns: None,
            writes: 0,
        }
    }

    pub(super) fn complete(&self, store: Store, marker: &mut Marker, list: &Checked<'_>) -> Result<(), TargetError> {
        marker.directories = self.directories_digest(list).unwrap_or(0);
        store.complete(self.root(), &self.dir, marker)
    }

    /// Identity of all directories of the tree by their inode numbers; `None` when one is missing or cannot be reached.
    pub(super) fn directories_digest(&self, list: &Checked<'_>) -> Option<u64> {
        let mut digest = Digest::default();
        let mut directories = Directories::new(self.root());
        for node in check::directories(list.nodes) {
            let (parent, name) = check::split(&node.path);
            let about = directories.get(parent).and_then(|dir| sys::stat(dir, name)).ok()?;
            digest.number(about.ino);
        }
        Some(digest.0.max(1))
    }
}
