//! A file, as far as calls have shown it.

use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;

use foldhash::HashMap;

use crate::touched::Touched;

/// Number of a file.
pub type NodeId = u32;

/// Type bits of `st_mode`.
pub mod kind {
    /// Regular file.
    pub const REGULAR: u32 = 0o100000;
    /// Directory.
    pub const DIRECTORY: u32 = 0o040000;
    /// Symbolic link.
    pub const SYMLINK: u32 = 0o120000;
    /// Character device.
    pub const CHARACTER: u32 = 0o020000;
    /// Named pipe.
    pub const FIFO: u32 = 0o010000;
    /// Socket.
    pub const SOCKET: u32 = 0o140000;
}

/// What stands under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// Surely nothing.
    Absent,
    /// A file.
    File(NodeId),
}

/// Where a file comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// It was there at the beginning.
    Initial,
    /// A call made it.
    Made,
    /// A call opened it and would have made it: until it shows content that nobody wrote it counts as made.
    Perhaps,
}

/// A file.
#[derive(Debug, Clone)]
pub struct Node {
    /// Type bits.
    pub kind: u32,
    /// Whether the type is more than a guess.
    pub sure: bool,
    /// Where it comes from.
    pub source: Source,
    /// The directory it was met in, and its name there.
    pub parent: NodeId,
    /// Its name there.
    pub name: Box<[u8]>,
    /// Permission bits, if shown before a call changed them.
    pub mode: Option<u32>,
    /// Whether a call changed them.
    pub mode_changed: bool,
    /// Whether a call set its times.
    pub times_changed: bool,
    /// Owner and group.
    pub owner: Option<(u32, u32)>,
    /// Whether a call changed them.
    pub owner_changed: bool,
    /// Hard links at the beginning.
    pub links: u64,
    /// How many more, or less, there are by now: names that calls gave it and took away.
    pub links_since: i64,
    /// Device number.
    pub device: u64,
    /// Access, modification and change time, nanoseconds.
    pub times: [i64; 3],
    /// Device and inode, if shown.
    pub identity: Option<(u64, u64)>,
    /// The same of a file that a call made.
    pub made_as: Option<(u64, u64)>,
    /// Type of file system.
    pub filesystem: u64,
    /// The number of what stands for a file system that a call brought, and in which it stands; 0 if in none.
    pub brought: u32,
    /// Whether the text of a link is a guess.
    pub target_guessed: bool,
    /// Whether a call reached it by a name at which it would have followed a link.
    pub is_followed: bool,
    /// What is known of its size.
    pub size: super::sizes::Size,
    /// Whether a call emptied it.
    pub is_emptied: bool,
    /// Whether its content at the beginning is known beside the calls, too.
    pub is_seeded: bool,
    /// Whether what it was at the beginning is known beside the calls.
    pub is_looked_at: bool,
    /// Whether all names that a directory had at the beginning, or when it was made, are known.
    pub is_listed: bool,
    more: Option<Box<More>>,
}

/// What is known of few files: a program may make very many, and of those it made there is nothing of this.
#[derive(Debug, Clone, Default)]
pub struct More {
    /// Directory and name before it was moved for the first time.
    pub first_place: Option<(NodeId, Box<[u8]>)>,
    /// Text of a link.
    pub target: Vec<u8>,
    /// Extended attributes at the beginning; those that a call set or removed first stand as `None`.
    pub xattrs: HashMap<Vec<u8>, Option<Vec<u8>>>,
    /// What calls changed of its content.
    pub touched: Touched,
    /// What calls showed of its content.
    pub seen: Touched,
    /// Content that is told beside the calls, as it was before they changed it.
    pub told: Touched,
    /// Ranges that became visible without a call that carries them, with why.
    pub shown: Vec<(u64, u64, &'static str)>,
    /// Names of a directory.
    pub entries: HashMap<Box<[u8]>, Slot>,
}

static NOTHING: LazyLock<More> = LazyLock::new(More::default);

impl Deref for Node {
    type Target = More;

    fn deref(&self) -> &More {
        self.more.as_deref().unwrap_or(&NOTHING)
    }
}

impl DerefMut for Node {
    fn deref_mut(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }
}

impl Node {
    /// A file of which nothing more is known.
    pub fn new(kind: u32, sure: bool, source: Source, parent: NodeId, name: &[u8]) -> Node {
        Node {
            kind,
            sure,
            source,
            parent,
            name: name.into(),
            mode: None,
            mode_changed: false,
            times_changed: false,
            owner: None,
            owner_changed: false,
            links: 1,
            links_since: 0,
            device: 0,
            times: [0; 3],
            identity: None,
            made_as: None,
            filesystem: 0,
            brought: 0,
            target_guessed: false,
            is_followed: false,
            size: Default::default(),
            is_emptied: false,
            is_seeded: false,
            is_looked_at: false,
            is_listed: false,
            more: None,
        }
    }

    /// Whether its file system shows the kernel's state.
    pub fn filesystem_is_pseudo(&self) -> bool {
        super::names::is_pseudo(self.filesystem)
    }

    /// Whether it is a link by which the kernel shows a file (`/proc/PID/exe`), which is not found by the link's text.
    pub fn leads_by_itself(&self) -> bool {
        let is_made = self.filesystem == super::names::MOUNTED && !self.target.is_empty();
        self.filesystem_is_pseudo() && !is_made && (self.target.is_empty() || self.target.starts_with(b"/"))
    }

    /// Whether anything is known to be in it.
    pub fn holds_files(&self) -> bool {
        self.entries.values().any(|slot| matches!(slot, Slot::File(_)))
    }

    /// Its hard links at the beginning, if it has so many now.
    pub fn links_before(&self, now: u64) -> u64 {
        now.saturating_add_signed(self.links_since.saturating_neg()).max(1)
    }

    /// Whether it has no second name by now, as far as that is known.
    pub fn has_one_name(&self) -> bool {
        self.links.saturating_add_signed(self.links_since) <= 1
    }

    /// Whether it may be part of the initial tree.
    pub fn may_be_initial(&self) -> bool {
        self.source != Source::Made
    }
}
