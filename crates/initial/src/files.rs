//! The files of the initial tree, for whoever can look at what became of them.

use super::node::{NodeId, Source, kind};
use super::touched::Touched;
use super::{Copied, Looked, Seat, World};

/// A file of the initial tree, and what calls did to it.
#[derive(Debug, Clone, Copy)]
pub struct File<'a> {
    /// Its number.
    pub number: NodeId,
    /// Type bits.
    pub kind: u32,
    /// Whether it shows the kernel's state, and holds nothing.
    pub is_pseudo: bool,
    /// Whether it is in a file system that a call brought.
    pub is_mounted: bool,
    /// Device and inode, if known.
    pub identity: Option<(u64, u64)>,
    /// Its size at the beginning, as well as it is known.
    pub size: u64,
    /// Whether it is known beside the calls what it was: it has not changed.
    pub is_unchanged: bool,
    /// What calls changed of its content.
    pub touched: &'a Touched,
    /// What calls showed of its content.
    pub seen: &'a Touched,
    /// Whether a call set its times.
    pub is_stamped: bool,
    /// Whether a call emptied it.
    pub is_emptied: bool,
    /// Whether its content is known beside the calls.
    pub is_seeded: bool,
    /// Content that is told beside the calls, as it was before they changed it.
    pub told: &'a Touched,
    /// Ranges that became visible without a call that carries them, with why: `opened`, `mapped`, `loaded`, `cloned`.
    pub shown: &'a [(u64, u64, &'static str)],
}

impl World {
    /// Every file of the initial tree, once.
    pub fn files(&self) -> Vec<NodeId> {
        let mut out: Vec<NodeId> = self.names.initial.iter().map(|(.., node)| *node).collect();
        out.push(super::names::Names::ROOT);
        out.sort_unstable();
        out.dedup();
        out
    }

    /// What is known of the root directory.
    pub fn root_is(&mut self, now: Option<Looked>) {
        if let Some(now) = now {
            self.settle_file(super::names::Names::ROOT, now);
        }
    }

    /// What is known of a file.
    pub fn known(&self, number: NodeId) -> File<'_> {
        let n = self.names.node(number);
        File {
            number,
            kind: n.kind,
            is_pseudo: n.filesystem_is_pseudo(),
            is_mounted: n.brought > 0,
            identity: n.identity,
            size: n.size.best(),
            is_unchanged: n.is_looked_at,
            touched: &n.touched,
            seen: &n.seen,
            is_stamped: n.times_changed,
            is_emptied: n.is_emptied,
            is_seeded: n.is_seeded,
            told: &n.told,
            shown: &n.shown,
        }
    }

    /// The size of a regular file, by its identity, if that is still what it was at the beginning.
    pub fn unchanged_size(&self, identity: (u64, u64)) -> Option<u64> {
        let node = self.names.node(*self.names.identities.get(&identity)?);
        // The number of one with more names may have come back.
        let is_plain = node.kind == kind::REGULAR && node.links == 1 && node.touched.is_empty();
        node.size.unchanged().filter(|_| is_plain)
    }

    /// Whether a file, by its identity, is one that holds what is written to it: a call made, emptied or wrote it, where no kernel's
    /// state is shown.
    pub fn holds_what_is_written(&self, identity: (u64, u64)) -> bool {
        let Some(node) = self.names.identified(identity).map(|node| self.names.node(node)) else { return false };
        let was_written = node.source == Source::Made || node.is_emptied || !node.touched.is_empty();
        was_written && !node.filesystem_is_pseudo()
    }

    /// Where it stands by now; `None` if it has no name any more.
    pub fn path_now(&self, number: NodeId) -> Option<Vec<u8>> {
        let is_pseudo = self.names.node(number).filesystem_is_pseudo();
        (self.names.stands(number) && !is_pseudo).then(|| self.names.path(number))
    }

    /// Content of the initial tree that was moved unseen: where it still stands, and the lengths of what does not.
    pub fn copied(&self) -> (Vec<Copied>, &[u64]) {
        (self.copies.standing(), &self.copies.gone)
    }

    /// How much of what the last call moved unseen stands neither in what calls showed or wrote, nor in a file that could be looked at
    /// in the end.
    pub fn lacking_of_move(&self) -> u64 {
        self.copies.lacking
    }

    /// Where the file behind a descriptor stands by now. Of a number that no call opened here, that file is the one that the kernel
    /// says it is. Nothing is learnt from asking.
    pub fn path_of(&self, seat: Seat, fd: u32, identity: (u64, u64)) -> Option<Vec<u8>> {
        self.path_now(self.peek(seat, fd).or_else(|| self.names.identified(identity))?)
    }

    /// Takes in what became of a file of the initial tree, where no call changed that. Size and times are to be given
    /// only if they are still those of the beginning.
    pub fn settle_file(&mut self, number: NodeId, now: Looked) {
        let n = self.names.node_mut(number);
        let Some(stat) = now.stat else { return };
        let told = stat.mode & 0o170000;
        // What calls went through, or into, cannot have been a link, or a file.
        let is_another = n.is_followed && told == kind::SYMLINK || n.holds_files() && told != kind::DIRECTORY;
        if n.is_looked_at || (n.sure && n.kind != told) || n.kind != told && is_another {
            return;
        }
        (n.kind, n.sure) = (told, true);
        if !n.mode_changed {
            n.mode = Some(stat.mode & 0o7777);
        }
        if !n.owner_changed {
            n.owner = stat.owner;
        }
        if let Some(size) = stat.size {
            n.size.initial.get_or_insert(size);
        }
        if n.times == [0; 3] {
            n.times = stat.times.map(|time| time.unwrap_or(0));
        }
        n.device = stat.device.unwrap_or(n.device);
        n.identity = n.identity.or(stat.identity);
        for (name, value) in now.xattrs {
            n.xattrs.entry(name).or_insert(Some(value));
        }
        if now.filesystem != 0 {
            n.filesystem = now.filesystem;
        }
        if let Some(text) = now.target {
            self.text_is(number, text);
        }
    }
}
