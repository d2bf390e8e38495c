//! What was there before the first call, as rows of a trace.

use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use reprise_trace::{Name, TraceWriter, TreeNode, WriteError};

use crate::WorkloadError;

/// Names of the initial tree: the directories from the root down, and the files.
pub(crate) struct Before {
    nodes: Vec<TreeNode>,
}

impl Before {
    /// Looks at the directory, its parents, and those of the names that are there.
    pub fn look(directory: &Path, names: &[String]) -> Result<Before, WorkloadError> {
        let mut nodes = Vec::new();
        let mut parent = (0, 0);
        let mut chain: Vec<&Path> = directory.ancestors().collect();
        chain.reverse();
        for place in chain {
            let name = place.file_name().map_or(&b""[..], |name| name.as_bytes());
            let node = node(place, name, parent)?;
            // The root is its own parent.
            parent = (node.device, node.inode);
            let parent_of_root = if name.is_empty() { parent } else { (node.parent_device, node.parent_inode) };
            nodes.push(TreeNode { parent_device: parent_of_root.0, parent_inode: parent_of_root.1, ..node });
        }
        for name in names {
            let place = directory.join(name);
            if fs::symlink_metadata(&place).is_ok() {
                nodes.push(node(&place, name.as_bytes(), parent)?);
            }
        }
        Ok(Before { nodes })
    }

    /// Writes the rows.
    pub fn write(&self, writer: &mut TraceWriter) -> Result<(), WriteError> {
        self.nodes.iter().try_for_each(|node| writer.node(node.clone()))
    }
}

fn node(place: &Path, name: &[u8], (parent_device, parent_inode): (u64, u64)) -> Result<TreeNode, WorkloadError> {
    let failed = |e| WorkloadError::files("look at", place, e);
    let meta: Metadata = fs::symlink_metadata(place).map_err(failed)?;
    let filesystem = rustix::fs::statfs(place).map_err(|e| failed(e.into()))?.f_type as u64;
    let time = |seconds: i64, ns: i64| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
    Ok(TreeNode {
        seq: 0,
        parent_device,
        parent_inode,
        name: Name(name.to_vec()),
        device: meta.dev(),
        inode: meta.ino(),
        mode: meta.mode(),
        nlink: meta.nlink(),
        uid: meta.uid(),
        gid: meta.gid(),
        size: meta.size(),
        rdev: meta.rdev(),
        atime_ns: time(meta.atime(), meta.atime_nsec()),
        mtime_ns: time(meta.mtime(), meta.mtime_nsec()),
        ctime_ns: time(meta.ctime(), meta.ctime_nsec()),
        target: Name::default(),
        xattrs: Vec::new(),
        filesystem,
    })
}
