//! What building and restoring did.

use std::collections::BTreeMap;
use std::fmt;

/// What could not be made as recorded. The file exists all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skip {
    /// Owner or group: no permission.
    Owner,
    /// Permission bits (set-group-id of a foreign group, sticky on files): no permission.
    Mode,
    /// An extended attribute: no permission, or the file system has none.
    Attribute,
    /// A device node: never created; an empty regular file stands in for it.
    Device,
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Skip::Owner => "owners not set (no permission)",
            Skip::Mode => "modes not set (no permission)",
            Skip::Attribute => "extended attributes not set (no permission or no support)",
            Skip::Device => "device nodes are not created (empty files instead)",
        })
    }
}

/// How often each kind of thing was skipped.
pub type Skipped = BTreeMap<Skip, u64>;

/// What [`super::Target::build`] created. Counts of nodes; `bytes` is content written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct BuildReport {
    pub files: u64,
    pub directories: u64,
    pub symlinks: u64,
    pub pipes: u64,
    /// Number of whiteouts (device 0:0, the mark of a name that an overlay removed).
    pub whiteouts: u64,
    pub sockets: u64,
    /// Further names of files (hard links).
    pub links: u64,
    /// Empty files that [`crate::confine`] covers by the safe device of that name.
    pub placeholders: u64,
    pub bytes: u64,
    /// Files that carry privilege when run: set-user-id, set-group-id or `security.capability`.
    pub privileged: u64,
    pub skipped: Skipped,
}

/// What [`super::Target::restore`] did. Counts of nodes, except `removed`: files and directories not of the tree, a
/// directory with all beneath it counted once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct RestoreReport {
    /// As they should be.
    pub kept: u64,
    /// Existed, but had been changed.
    pub rewritten: u64,
    /// Were missing, or something else had their name.
    pub created: u64,
    pub removed: u64,
    pub bytes: u64,
    pub skipped: Skipped,
}

fn list(f: &mut fmt::Formatter<'_>, counts: &[(u64, &str)], skipped: &Skipped) -> fmt::Result {
    for (n, (count, what)) in counts.iter().enumerate() {
        write!(f, "{}{count} {what}", if n > 0 { ", " } else { "" })?;
    }
    skipped.iter().try_for_each(|(reason, count)| write!(f, "; skipped {count}: {reason}"))
}

impl fmt::Display for BuildReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others = self.symlinks + self.pipes + self.whiteouts + self.sockets + self.placeholders;
        let counts = [
            (self.directories, "directories"),
            (self.files, "files"),
            (self.links, "further names"),
            (others, "other nodes"),
            (self.bytes, "bytes of content"),
        ];
        list(f, &counts, &self.skipped)?;
        if self.privileged > 0 {
            write!(f, "; {} set-id or capability files: keep the target private", self.privileged)?;
        }
        Ok(())
    }
}

impl fmt::Display for RestoreReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.kept, "kept"),
            (self.rewritten, "rewritten"),
            (self.created, "created"),
            (self.removed, "removed"),
            (self.bytes, "bytes of content"),
        ];
        list(f, &counts, &self.skipped)
    }
}
