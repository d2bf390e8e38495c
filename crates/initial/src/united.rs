//! What was met by two ways turns out to be one: a link leads from one to the other.
//!
//! Goals: a directory holds what was met in either, a file is what calls showed of either. Non-goals: what calls changed by
//! both ways, which no order tells apart; files of which one is open while that becomes known.

use foldhash::{HashMap, HashSet};

use super::World;
use super::names::{DEEPEST, Names};
use super::node::{Node, NodeId, Slot, kind};

/// A name of the initial tree and what stands there.
type Row = (NodeId, Box<[u8]>, NodeId);
/// A name of the initial tree.
type Place = (NodeId, Box<[u8]>);
/// Where a name stood instead; none if another stands for it.
type Moved = HashMap<Place, Option<Place>>;

impl World {
    /// Whether two files may be one.
    pub(super) fn may_be_one(&self, from: NodeId, to: NodeId) -> bool {
        let (a, b) = (self.names.node(from), self.names.node(to));
        let stood = |n: &Node| n.may_be_initial() && n.first_place.is_none();
        let identities = a.identity.is_none() || b.identity.is_none() || a.identity == b.identity;
        let is_below = from != Names::ROOT && to != Names::ROOT;
        from != to && is_below && stood(a) && stood(b) && a.kind == b.kind && a.kind != kind::SYMLINK && identities
    }

    /// Takes `from` for `to`: what stood in it stands there, and nothing under its own name.
    pub(super) fn unite(&mut self, from: NodeId, to: NodeId) {
        let mut moved = Moved::default();
        let n = self.names.node(from);
        let place = (n.parent, n.name.clone());
        self.names.node_mut(place.0).entries.remove(&place.1);
        moved.insert(place, None);
        let mut pairs = vec![(from, to)];
        while let Some((from, to)) = pairs.pop() {
            self.names.was_there(to);
            if self.names.node(from).kind == kind::DIRECTORY {
                pairs.extend(self.move_entries(from, to, &mut moved));
                self.names.united.insert(from, to);
            }
            self.absorb(from, to);
        }
        self.names.stand_elsewhere(&moved);
    }

    /// What stands in `from` stands in `to`; returns what stands in both.
    fn move_entries(&mut self, from: NodeId, to: NodeId, moved: &mut Moved) -> Vec<(NodeId, NodeId)> {
        let mut both = Vec::new();
        let entries = std::mem::take(&mut self.names.node_mut(from).entries);
        let mut entries: Vec<(Box<[u8]>, Slot)> = entries.into_iter().collect();
        entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (name, slot) in entries {
            let there = self.names.slot(to, &name);
            let stands = if there.is_none() { Some((to, name.clone())) } else { None };
            match (slot, there) {
                (Slot::File(a), Some(Slot::File(b))) if self.may_be_one(a, b) => both.push((a, b)),
                (Slot::File(file), None) => {
                    let n = self.names.node_mut(file);
                    if (n.parent, &n.name) == (from, &name) {
                        n.parent = to;
                    }
                    self.names.set(to, &name, slot);
                }
                (Slot::Absent, None) => self.names.set(to, &name, slot),
                (_, Some(_)) => {}
            }
            moved.insert((from, name), stands);
        }
        both
    }

    /// What is known of `from` is known of `to`.
    fn absorb(&mut self, from: NodeId, to: NodeId) {
        let mut a = self.names.node(from).clone();
        if let Some(identity) = a.identity {
            self.names.identities.insert(identity, to);
        }
        let b = self.names.node_mut(to);
        (b.sure, b.is_followed) = (b.sure || a.sure, b.is_followed || a.is_followed);
        if b.identity.is_none() && a.identity.is_some() {
            (b.identity, b.links, b.times, b.device) = (a.identity, a.links, a.times, a.device);
        }
        b.links_since += a.links_since;
        b.mode = b.mode.or(a.mode);
        b.owner = b.owner.or(a.owner);
        b.mode_changed |= a.mode_changed;
        b.times_changed |= a.times_changed;
        b.owner_changed |= a.owner_changed;
        for (name, value) in std::mem::take(&mut a.xattrs) {
            b.xattrs.entry(name).or_insert(value);
        }
        b.size.join(&a.size);
        b.touched.join(&a.touched);
        b.seen.join(&a.seen);
        b.told.join(&a.told);
        b.shown.extend(&a.shown);
        b.is_emptied |= a.is_emptied;
        b.is_listed |= a.is_listed;
        b.is_seeded |= a.is_seeded;
        b.is_looked_at |= a.is_looked_at;
    }
}

impl Names {
    /// The directory that stands for this one by now.
    pub fn now(&self, directory: NodeId) -> NodeId {
        let next = |at: &NodeId| self.united.get(at).copied();
        std::iter::successors(Some(directory), next).take(DEEPEST).last().unwrap_or(directory)
    }

    /// Rows of the initial tree stand elsewhere, each behind its directory.
    fn stand_elsewhere(&mut self, moved: &Moved) {
        let rows = std::mem::take(&mut self.initial);
        let place = |(parent, name, node): Row| match moved.get(&(parent, name.clone())) {
            None => Some((parent, name, node)),
            Some(place) => place.clone().map(|(parent, name)| (parent, name, node)),
        };
        self.initial = rows.into_iter().filter_map(place).collect();
        self.put_in_order();
    }

    /// Each row of the initial tree comes behind the one of its directory again.
    pub fn put_in_order(&mut self) {
        self.initial = behind_their_directories(std::mem::take(&mut self.initial));
    }
}

/// Rows in their order, but each behind the one of its directory.
fn behind_their_directories(rows: Vec<Row>) -> Vec<Row> {
    let has_row: HashSet<NodeId> = rows.iter().map(|(_, _, node)| *node).collect();
    let mut waiting: HashMap<NodeId, Vec<Row>> = HashMap::default();
    let (mut out, mut out_by_now) = (Vec::with_capacity(rows.len()), HashSet::default());
    for row in rows {
        if has_row.contains(&row.0) && row.0 != Names::ROOT && !out_by_now.contains(&row.0) {
            waiting.entry(row.0).or_default().push(row);
            continue;
        }
        let mut next = vec![row];
        while let Some(row) = next.pop() {
            if out_by_now.insert(row.2) {
                next.extend(waiting.remove(&row.2).unwrap_or_default().into_iter().rev());
            }
            out.push(row);
        }
    }
    out
}
