//! What is known of the beginning otherwise than by calls.

use std::collections::HashMap;

use crate::decoded::Stat;

/// What stood under a name at the beginning.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Looked {
    /// Its attributes, if they are known.
    pub stat: Option<Stat>,
    /// Text of a symbolic link.
    pub target: Option<Vec<u8>>,
    /// Extended attributes.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Type of its file system, 0 if not known.
    pub filesystem: u64,
}

/// What somebody saw who looked before the beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Before {
    /// Nobody looked there.
    Unknown,
    /// There was nothing.
    Nothing,
    /// This stood there.
    Stood(Looked),
}

/// What a descriptor from before the beginning names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Described {
    /// A path.
    Path {
        /// The path.
        path: Vec<u8>,
        /// Whether it is a device.
        device: bool,
    },
    /// Something without a path, as `/proc/PID/fd` shows it.
    Nameless(Vec<u8>),
}

/// Who can tell of the beginning beside the calls.
pub trait Outside {
    /// What surely stood at this absolute path at the beginning; `None` if that is not known.
    fn look(&mut self, path: &[u8]) -> Option<Looked>;

    /// What was seen at this absolute path before the beginning, as paths were then.
    fn before(&mut self, _path: &[u8]) -> Before {
        Before::Unknown
    }

    /// The text of the link at this absolute path, if what stands there was a link at the beginning already: under this
    /// name or another.
    fn link_text(&mut self, path: &[u8]) -> Option<Vec<u8>> {
        self.look(path)?.target
    }

    /// Names in the directory at this absolute path that surely were there at the beginning: some of them.
    fn names_in(&mut self, _path: &[u8]) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// Whether the file of this identity, if it still stands at this path, is older than the beginning.
    fn was_born_before(&mut self, _path: &[u8], _identity: (u64, u64)) -> Option<bool> {
        None
    }

    /// Whether there is no link of which nothing is told.
    fn knows_links(&self) -> bool {
        true
    }

    /// Whether asking is of no use.
    fn is_empty(&self) -> bool {
        false
    }

    /// Reads an annotation of a descriptor.
    fn descriptor(&self, annotation: &[u8]) -> Described {
        Described::Nameless(annotation.to_vec())
    }
}

/// Nothing is known beside the calls but texts of links, by absolute path.
#[derive(Debug, Default)]
pub struct Links(pub HashMap<Vec<u8>, Vec<u8>>);

impl Outside for Links {
    fn look(&mut self, path: &[u8]) -> Option<Looked> {
        self.0.get(path).map(|target| Looked { target: Some(target.clone()), ..Looked::default() })
    }

    fn knows_links(&self) -> bool {
        false
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
