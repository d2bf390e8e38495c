//! Whose a file was that goes before anything told of it: he who took its name away could do that.
//!
//! Where everybody may make names, only a file's owner takes them away (`/tmp`, `S_ISVTX` in inode(7)). Non-goals: capabilities,
//! and threads of one process with different users.

use super::{Seat, Seen};
use crate::World;
use crate::node::{NodeId, Source};

const KEEPS: u32 = u32::MAX;

impl World {
    /// The user and group with which a process meets files from now on.
    pub fn belongs(&mut self, seat: Seat, (user, group): (u32, u32)) {
        self.tables[seat.table as usize].owner = (Some(user), Some(group));
    }

    pub(super) fn changes_owner(&mut self, s: &Seen<'_>) {
        let id = match s.call.name {
            "setuid" | "setgid" | "setfsuid" | "setfsgid" => s.arg(0) as u32,
            "setreuid" | "setregid" | "setresuid" | "setresgid" => s.arg(1) as u32,
            _ => return,
        };
        let owner = &mut self.tables[s.seat.table as usize].owner;
        if !s.ok() || id == KEEPS {
            return;
        }
        if s.call.name.ends_with("uid") { owner.0 = Some(id) } else { owner.1 = Some(id) }
    }

    /// A call took a name of the file away.
    pub(super) fn taken_away(&mut self, s: &Seen<'_>, node: NodeId) {
        let (user, group) = self.tables[s.seat.table as usize].owner;
        let n = self.names.node_mut(node);
        if let (Source::Initial, None, Some(user @ 1..)) = (n.source, n.owner, user) {
            n.owner = Some((user, group.unwrap_or(user)));
        }
    }
}
