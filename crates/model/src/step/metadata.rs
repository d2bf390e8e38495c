//! Attributes: looked at and changed.

use reprise_calls::credentials::CAPABILITIES;
use reprise_calls::{ArgKind, Effect, acl};
use reprise_trace::payload::{Side, split};

use super::{Step, how};
use crate::node::{FileKind, NodeId, SET_GROUP};
use crate::processes::Thread;
use crate::touch::{Resource, Touch};
use crate::world::World;

impl World {
    fn subject(&mut self, s: &mut Step<'_>) -> Option<NodeId> {
        if s.call.position(|k| matches!(k, ArgKind::Path(_))).is_some() {
            let kind = if s.call.effect == Effect::ReadLink { FileKind::Symlink } else { FileKind::Regular };
            self.existing(s, 0, kind)
        } else if s.call.is_about_working_directory(&s.action.args, s.action.result) {
            self.working_directory(s)
        } else {
            self.file(s, 0).map(|(_, node)| node)
        }
    }

    fn working_directory(&mut self, s: &mut Step<'_>) -> Option<NodeId> {
        let directories = self.directories[s.thread.directories as usize];
        if directories.shared {
            s.out.look(Resource::Directories(s.thread.directories));
        }
        let place = self.lead(s, 0, directories.beginning(), b".", true);
        self.existing_there(s, place, FileKind::Directory).map(|at| at.node)
    }

    pub(super) fn inspect(&mut self, s: &mut Step<'_>) {
        let Some(node) = self.subject(s) else { return };
        s.out.look(Resource::Attributes(node));
        if s.call.effect == Effect::GetMetadata {
            s.out.look(Resource::Size(node));
        }
    }

    pub(super) fn change_metadata(&mut self, s: &mut Step<'_>) {
        if s.action.path.is_some() && s.call.leaves_times(how(s)) {
            // Nothing need stand there.
            self.place(s, 0);
            return;
        }
        let Some(node) = self.subject(s) else { return };
        s.out.change(Resource::Attributes(node));
        // Who may pass through a directory decides about every path below it.
        if let Some(entry) = self.names.node(node).stood {
            s.out.change(Resource::Entry(entry));
        }
        if s.call.effect == Effect::SetXattr && named_attribute(s) == Some(CAPABILITIES) {
            // Changes of content before it take none away, those behind it do.
            s.out.flush(node);
        }
        if s.succeeded() {
            self.apply(s, node);
            // A replay has a stand-in for an open FIFO: the file itself is reached by its name.
            if s.out.streams[0].is_some() && self.names.node(node).kind == FileKind::Fifo {
                s.out.paths[0] = self.path_of(node);
            }
        }
    }

    fn apply(&mut self, s: &Step<'_>, node: NodeId) {
        let may_set_group = self.may_set_group(s, self.names.node(node).attributes.gid);
        let keeps_group = self.keeps_group(s, node);
        let n = self.names.node_mut(node);
        let owners = || {
            let mut at = s.call.args.iter().enumerate().filter(|(_, a)| matches!(a.kind, ArgKind::Owner));
            let mut next = || at.next().map_or(u32::MAX, |(i, _)| s.arg(i) as u32);
            (next(), next())
        };
        match s.call.effect {
            Effect::ChangeMode => {
                let mode = s.call.position(|k| matches!(k, ArgKind::Mode)).map_or(0, |i| s.arg(i));
                let group = if may_set_group { SET_GROUP } else { 0 };
                n.attributes.change_mode(mode as u32 & (0o5777 | group));
            }
            Effect::ChangeOwner => {
                let (uid, gid) = if s.out.foreign_users { (u32::MAX, u32::MAX) } else { owners() };
                if uid != u32::MAX {
                    n.attributes.uid = uid;
                }
                if gid != u32::MAX {
                    n.attributes.gid = gid;
                }
                if n.kind != FileKind::Directory {
                    n.attributes.lose_capabilities();
                    n.attributes.mode &= !n.attributes.set_ids(keeps_group);
                }
            }
            Effect::RemoveXattr => {
                n.attributes.xattrs.remove(named_attribute(s).unwrap_or_default());
            }
            // Values are fetched by whoever follows contents, see `World::attribute_set`.
            Effect::SetXattr | Effect::ChangeTimes => {}
            _ => {}
        }
    }

    /// Whether a thread may give a file of a group set-group-id (`in_group_or_capable` in fs/attr.c): for others the kernel leaves it out
    /// and says nothing.
    pub(super) fn may_set_group(&self, s: &Step<'_>, group: u32) -> bool {
        let Thread { process, users, groups, .. } = s.thread;
        let is_member =
            || groups.files == group || self.further_groups.get(&process).is_some_and(|all| all.contains(&group));
        // Who is who in a user namespace of its own, or below a mount with users of its own, is not known.
        s.out.foreign_users || users.files == 0 || is_member()
    }

    /// Whether a file that a thread changes keeps set-group-id where its group may not execute it.
    fn keeps_group(&self, s: &Step<'_>, node: NodeId) -> bool {
        !self.strangers_take_group || self.may_set_group(s, self.names.node(node).attributes.gid)
    }

    /// Whoever changes content takes capabilities away; without privilege set-user-id, too, and set-group-id where the group may execute
    /// or who changes it is not in the group.
    /// Where there was nothing to take there must be nothing in a replay either: not before a `chmod` that gives it.
    pub(super) fn drop_set_id(&mut self, s: &mut Step<'_>, node: NodeId) {
        let n = self.names.node_mut(node);
        if n.kind != FileKind::Regular {
            return;
        }
        if n.attributes.lose_capabilities() {
            s.out.change(Resource::Attributes(node));
        }
        // As `CAP_FSETID` goes with it.
        if s.thread.users.files == 0 {
            return;
        }
        let keeps_group = self.keeps_group(s, node);
        let n = self.names.node_mut(node);
        let dropped = n.attributes.set_ids(keeps_group);
        n.attributes.mode &= !dropped;
        let touch = if dropped == 0 { Touch::Look } else { Touch::Change };
        s.out.touches.push((Resource::Attributes(node), touch));
    }

    /// Tells the model the value that a successful `setxattr` gave.
    pub fn attribute_set(&mut self, call: &reprise_calls::Call, action: &reprise_trace::Action, value: Vec<u8>) {
        let Some(thread) = self.thread(action.thread) else {
            return;
        };
        let mut s = Step { call, action, thread, out: &mut crate::Interpretation::default() };
        let Some(node) = self.subject(&mut s) else {
            return;
        };
        let Some(name) = named_attribute(&s) else { return };
        let strips = name == acl::ACCESS && !self.may_set_group(&s, self.names.node(node).attributes.gid);
        let attributes = &mut self.names.node_mut(node).attributes;
        attributes.set(name.to_vec(), value);
        // As with `chmod` (`posix_acl_update_mode`).
        if strips {
            attributes.mode &= !SET_GROUP;
        }
    }

    pub(super) fn change_mask(&mut self, s: &mut Step<'_>) {
        if self.directories[s.thread.directories as usize].shared {
            s.out.change(Resource::Directories(s.thread.directories));
        }
        self.directories[s.thread.directories as usize].umask = s.arg(0) as u32 & 0o777;
    }
}

/// The extended attribute that a call is about.
fn named_attribute<'a>(s: &Step<'a>) -> Option<&'a [u8]> {
    let text = s.call.position(|k| matches!(k, ArgKind::Text))?;
    split(s.call, Side::Input, &s.action.input)[text]
}
