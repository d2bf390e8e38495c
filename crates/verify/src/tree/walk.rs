//! Name by name through the expected tree, and past it for what should not be there.

use std::collections::{HashMap, HashSet};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use reprise_model::{FileKind, Nature, NodeId, TreeName};
use reprise_trace::{BlobReader, Name};

use super::attributes::{Circumstances, Remark};
use super::content::{Bytes, Comparer, Failure, Outcome};
use super::expected::Expected;
use super::{Kind, Notes, attributes, found};
use crate::error::VerifyError;
use crate::traces::kind_word;

/// Names in the root that a replay or a file system puts there.
const NOT_OURS: [&[u8]; 2] = [found::MARK_FILE.as_bytes(), b"lost+found"];

pub(super) struct Walk<'a> {
    pub dir: &'a Path,
    pub expected: &'a Expected,
    pub blobs: BlobReader,
    /// Owners can be what they should be.
    pub privileged: bool,
    /// A replay made what is there.
    pub replayed: bool,
    pub notes: Notes,
    pub bytes: Bytes,
    /// Expected directories that are directories: nothing else is looked into.
    pub directories: HashSet<Vec<u8>>,
    /// Device and inode found for a file, and the path.
    pub files: HashMap<NodeId, (u64, u64, Vec<u8>)>,
    /// The file expected where a device and inode was found.
    pub nodes: HashMap<(u64, u64), (NodeId, Vec<u8>)>,
}

fn mode_of(kind: FileKind) -> u32 {
    match kind {
        FileKind::Regular => libc::S_IFREG,
        FileKind::Directory => libc::S_IFDIR,
        FileKind::Symlink => libc::S_IFLNK,
        FileKind::Fifo => libc::S_IFIFO,
        FileKind::Socket => libc::S_IFSOCK,
        FileKind::CharDevice => libc::S_IFCHR,
        FileKind::BlockDevice => libc::S_IFBLK,
    }
}

fn parent(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|b| *b == b'/') {
        None | Some(0) => b"/",
        Some(at) => &path[..at],
    }
}

impl Walk<'_> {
    /// Compares one expected name; parents come before their children.
    pub fn name(&mut self, name: &TreeName) -> Result<(), VerifyError> {
        if name.nature == Nature::Pseudo {
            self.notes.excuse("pseudo file system");
            return Ok(());
        }
        let path = &name.path[..];
        let reachable = path == b"/" || self.directories.contains(parent(path));
        let place = if reachable { Some(found::place(self.dir, path)?) } else { None };
        let about = match &place {
            // The user's own spelling of the directory may be a link.
            Some(place) if path == b"/" => std::fs::metadata(&**place).ok(),
            Some(place) => found::look(place)?,
            None => None,
        };
        let (Some(about), Some(place)) = (about, place) else {
            self.notes.differs(Kind::Missing, path, "missing", kind_word(mode_of(name.kind)));
            return Ok(());
        };
        let wanted = mode_of(name.kind);
        if about.mode() & libc::S_IFMT != wanted {
            if matches!(name.kind, FileKind::CharDevice | FileKind::BlockDevice) {
                self.notes.excuse("device nodes are not made by a replay");
            } else {
                let text = format!("{}, traced {}", kind_word(about.mode()), kind_word(wanted));
                self.notes.differs(Kind::Type, path, "another type", text);
            }
            return Ok(());
        }
        if name.kind == FileKind::Directory {
            self.directories.insert(path.to_vec());
        } else if !self.links(name, &about) {
            // A further name of a file that was compared under its first.
            return Ok(());
        }
        self.attributes(name, &about, &place)?;
        match name.kind {
            FileKind::Regular => self.regular(name, &about, &place),
            FileKind::Symlink => {
                let text = found::target(&place)?;
                if text != name.target {
                    let (found, wanted) = (Name(text).to_text(), Name(name.target.clone()).to_text());
                    let text = format!("{found:?}, traced {wanted:?}");
                    self.notes.differs(Kind::Target, path, "link to another place", text);
                }
                Ok(())
            }
            FileKind::Directory | FileKind::Fifo | FileKind::Socket | FileKind::CharDevice | FileKind::BlockDevice => {
                Ok(())
            }
        }
    }

    /// Compares which names are one file; false if this is a further name, and one file with the first.
    fn links(&mut self, name: &TreeName, about: &Metadata) -> bool {
        let here = (about.dev(), about.ino());
        let path = &name.path;
        match self.files.get(&name.node) {
            Some((device, inode, _)) if (*device, *inode) == here => return false,
            Some((.., first)) => {
                let text = format!("not one file with {}", Name(first.clone()).to_text());
                self.notes.differs(Kind::Links, path, "a hard link is a file of its own", text);
            }
            None => {
                self.files.insert(name.node, (here.0, here.1, path.clone()));
            }
        }
        match self.nodes.get(&here) {
            Some((node, other)) if *node != name.node => {
                let text = format!("one file with {}", Name(other.clone()).to_text());
                self.notes.differs(Kind::Links, path, "a hard link that should not be", text);
            }
            Some(_) => {}
            None => {
                self.nodes.insert(here, (name.node, path.clone()));
            }
        }
        true
    }

    fn attributes(&mut self, name: &TreeName, about: &Metadata, place: &Path) -> Result<(), VerifyError> {
        let (path, wanted) = (&name.path, &name.attributes);
        let mode = about.mode() & 0o7777;
        if name.kind != FileKind::Symlink && mode != wanted.mode {
            let text = format!("{mode:04o}, traced {:04o}", wanted.mode);
            self.notes.differs(Kind::Mode, path, "another mode", text);
        }
        for (word, found, wanted) in [("owner", about.uid(), wanted.uid), ("group", about.gid(), wanted.gid)] {
            if found != wanted && self.privileged {
                let text = format!("{found}, traced {wanted}");
                self.notes.differs(Kind::Owner, path, &format!("another {word}"), text);
            } else if found != wanted {
                self.notes.excuse(&format!("{word} could not be set by this user"));
            }
        }
        let circumstances = Circumstances {
            privileged: self.privileged,
            is_unknown: &|name| self.expected.is_unknown(name),
            is_held: &|name| found::holds(place, name),
        };
        for remark in attributes::compare(&wanted.xattrs, &found::xattrs(place)?, &circumstances) {
            match remark {
                Remark::Differs(cause, text) => self.notes.differs(Kind::Attribute, path, cause, text),
                Remark::Excused(cause) => self.notes.excuse(cause),
                Remark::Uncompared(cause) => self.notes.uncompared(cause),
            }
        }
        Ok(())
    }

    fn regular(&mut self, name: &TreeName, about: &Metadata, place: &Path) -> Result<(), VerifyError> {
        let path = &name.path;
        if about.len() != name.size {
            let text = format!("{} bytes, traced {}", about.len(), name.size);
            self.notes.differs(Kind::Size, path, "another size", text);
            return Ok(());
        }
        let Some(file) = found::open(place)? else {
            self.notes.excuse("not readable by this user");
            return Ok(());
        };
        let mut comparer = Comparer {
            world: &self.expected.world,
            blobs: &mut self.blobs,
            bytes: &mut self.bytes,
            replayed: self.replayed,
            file: &file,
        };
        match comparer.file(&name.content, name.size) {
            Ok(Outcome::Same) => {}
            Ok(Outcome::DiffersAt(_)) if name.mapped => self.notes.excuse("written through a mapping"),
            Ok(Outcome::DiffersAt(byte)) => {
                let text = format!("from byte {byte} of {}", name.size);
                self.notes.differs(Kind::Content, path, "other content", text);
            }
            Err(Failure::Trace(e)) => return Err(e.into()),
            Err(Failure::File(source)) => {
                return Err(VerifyError::Io { path: place.to_owned(), action: "read", source });
            }
        }
        Ok(())
    }

    /// Finds names that should not be there, and returns their number.
    pub fn extra_names(&mut self, names: &[TreeName]) -> Result<u64, VerifyError> {
        let expected: HashSet<&[u8]> = names.iter().map(|n| &n.path[..]).collect();
        let mut extra = 0;
        let directories = names.iter().filter(|n| self.directories.contains(&n.path));
        for directory in directories {
            let is_root = directory.path == b"/";
            let prefix = if is_root { b"".as_slice() } else { &directory.path };
            for name in found::list(&found::place(self.dir, &directory.path)?)? {
                let path = [prefix, b"/", &name].concat();
                let ours = !(is_root && NOT_OURS.contains(&&name[..]));
                if ours && !expected.contains(&path[..]) {
                    extra += 1;
                    let about = found::look(&found::place(self.dir, &path)?)?;
                    let kind = about.map_or("gone meanwhile", |a| kind_word(a.mode()));
                    self.notes.differs(Kind::Extra, &path, "should not be there", kind);
                }
            }
        }
        Ok(extra)
    }
}
