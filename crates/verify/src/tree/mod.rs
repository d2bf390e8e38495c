//! The final tree: what the trace says it should be, against what is there.
//!
//! Goals: names, types, contents, sizes, modes, owners, link texts, hard links, extended attributes; nothing outside the
//! directory is read, no symbolic link is followed; what the trace does not know is counted, not guessed, and so are
//! attributes that no replay gives. Non-goals: holes, times, pseudo file systems.

mod attributes;
mod content;
mod expected;
mod found;
mod walk;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use reprise_trace::{Name, TraceReader};
use serde::Serialize;

use crate::error::VerifyError;
use crate::group::Gathered;

pub(crate) use attributes::is_of_the_system;

/// A name that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TreeExample {
    /// Path in the replayed world, escaped as in the trace.
    pub path: String,
    /// How it differs, with both values.
    pub text: String,
}

/// Names that differ for one cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TreeGroup {
    /// What differs, without values.
    pub cause: String,
    /// How often.
    pub count: u64,
    /// The first of them, by path.
    pub first: Vec<TreeExample>,
}

/// A trace's final tree and a directory. Every expected name is in exactly one of `same`, `excused` and `diverged`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct TreeComparison {
    /// Names that should be there.
    pub names: u64,
    /// Names that are as they should be.
    pub same: u64,
    /// Names that differ as after any replay.
    pub excused: u64,
    /// Names that differ or are missing.
    pub diverged: u64,
    /// Names that should not be there; below a directory that should not be there none is counted.
    pub extra: u64,
    /// Differences that no replay can avoid: cause, names. A name may have several.
    pub unavoidable: BTreeMap<String, u64>,
    /// Extended attributes that the trace tells of and that were not compared: why, attributes.
    pub uncompared_attributes: BTreeMap<String, u64>,
    /// What differs, the worst first. A name may be in several groups; extra names are among them.
    pub groups: Vec<TreeGroup>,
    /// Bytes of content that were compared.
    pub compared_bytes: u64,
    /// Bytes that no one ever read in the recording: part of the initial tree, but unknown.
    pub unknown_bytes: u64,
    /// Bytes that were written, but whose value is not in the trace.
    pub unrecorded_bytes: u64,
    /// Where the trace does not fit the model: cause, actions. There the expectation may be wrong.
    pub surprises: BTreeMap<String, u64>,
}

impl TreeComparison {
    /// Whether nothing differs that a replay could avoid.
    pub fn is_same(&self) -> bool {
        self.diverged == 0 && self.extra == 0
    }
}

/// What differs; the order is the severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Missing,
    Type,
    Content,
    Size,
    Target,
    Links,
    Extra,
    Mode,
    Owner,
    Attribute,
}

/// Notes differences of one name after another.
struct Notes {
    groups: Gathered<String, TreeExample>,
    unavoidable: BTreeMap<String, u64>,
    uncompared: BTreeMap<String, u64>,
    /// Of the present name.
    differs: bool,
    excused: bool,
}

impl Notes {
    fn differs(&mut self, kind: Kind, path: &[u8], cause: &str, text: impl Into<String>) {
        self.differs = true;
        let example = || TreeExample { path: Name(path.to_vec()).to_text(), text: text.into() };
        self.groups.add(kind as u8, cause.to_owned(), example);
    }

    fn excuse(&mut self, cause: &str) {
        self.excused = true;
        *self.unavoidable.entry(cause.to_owned()).or_default() += 1;
    }

    fn uncompared(&mut self, cause: &str) {
        *self.uncompared.entry(cause.to_owned()).or_default() += 1;
    }
}

/// Compares the tree that a trace leaves behind with the tree under `dir`, which is `/` of the replayed world.
///
/// # Errors
/// The trace or the tree cannot be read. A difference is never an error.
pub fn compare_tree(trace: &TraceReader, dir: &Path) -> Result<TreeComparison, VerifyError> {
    if !std::fs::metadata(dir).is_ok_and(|about| about.is_dir()) {
        return Err(VerifyError::NoDirectory { path: dir.to_owned() });
    }
    let expected = expected::follow(trace)?;
    let names = expected.world.tree();
    let mut walk = walk::Walk {
        dir,
        expected: &expected,
        blobs: trace.blobs(),
        replayed: found::is_replayed(dir),
        privileged: rustix::process::geteuid().is_root(),
        notes: Notes {
            groups: Gathered::new(),
            unavoidable: BTreeMap::new(),
            uncompared: BTreeMap::new(),
            differs: false,
            excused: false,
        },
        bytes: content::Bytes::default(),
        directories: HashSet::new(),
        files: HashMap::new(),
        nodes: HashMap::new(),
    };
    let mut out = TreeComparison { names: names.len() as u64, ..TreeComparison::default() };
    for name in &names {
        (walk.notes.differs, walk.notes.excused) = (false, false);
        walk.name(name)?;
        *match (walk.notes.differs, walk.notes.excused) {
            (true, _) => &mut out.diverged,
            (false, true) => &mut out.excused,
            (false, false) => &mut out.same,
        } += 1;
    }
    out.extra = walk.extra_names(&names)?;
    let walk::Walk { notes, bytes, .. } = walk;
    let groups = notes.groups.worst_first().into_iter();
    out.groups = groups.map(|(cause, g)| TreeGroup { cause, count: g.count, first: g.first }).collect();
    (out.unavoidable, out.uncompared_attributes) = (notes.unavoidable, notes.uncompared);
    (out.compared_bytes, out.unknown_bytes, out.unrecorded_bytes) = (bytes.compared, bytes.unknown, bytes.unrecorded);
    out.surprises = expected.surprises;
    Ok(out)
}
