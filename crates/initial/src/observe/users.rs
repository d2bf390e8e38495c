//! Whose a file was that goes before anything told of it: he who took its name away could do that.
//!
//! Where everybody may make names, only a file's owner takes them away (`/tmp`, `S_ISVTX` in inode(7)). Non-goals: capabilities,
//! and threads of one process with different users.

use reprise_calls::Identity;
use reprise_calls::credentials::changed;

use super::{Seat, Seen};
use crate::World;
use crate::node::{NodeId, Source};

impl World {
    /// The users and groups that a process has from now on.
    pub fn belongs(&mut self, seat: Seat, users: Identity, groups: Identity) {
        self.tables[seat.table as usize].owner = Some((users, groups));
    }

    pub(super) fn changes_owner(&mut self, s: &Seen<'_>) {
        let args = [0, 1, 2].map(|i| s.arg(i) as u32);
        let owner = &mut self.tables[s.seat.table as usize].owner;
        if s.ok() {
            // Who is not known to be somebody else is root.
            *owner = Some(changed(owner.unwrap_or_default(), s.call.name, args, s.result as u32));
        }
    }

    /// A call took a name of the file away.
    pub(super) fn taken_away(&mut self, s: &Seen<'_>, node: NodeId) {
        let owner = self.tables[s.seat.table as usize].owner.map(|(users, groups)| (users.files, groups.files));
        let n = self.names.node_mut(node);
        if let (Source::Initial, None, Some((1.., _))) = (n.source, n.owner, owner) {
            n.owner = owner;
        }
    }
}
