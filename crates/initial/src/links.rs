//! What stood under a name turns out to be a symbolic link, after calls have passed it without telling.
//!
//! Goals: what they reached by it stands on where the link leads, so that every call so far still finds it; what was met
//! there under its own name is the same (`united`). Non-goals: links to what no call reached.

use super::World;
use super::names::{DEEPEST, Names};
use super::node::{NodeId, Slot, Source, kind};
use reprise_calls::mounts::Mounts;

/// Made-up texts of links have this behind their number.
const TEXT: &[u8] = b"-not-in-the-log";

impl World {
    /// The link that stands where calls went through one to a file that they took for what stands there. A text that
    /// nobody tells is made up, of a length. Returns none, and changes nothing, if that was no such file.
    pub(super) fn was_a_link(&mut self, node: NodeId, text: Option<&[u8]>, length: u64) -> Option<NodeId> {
        let n = self.names.node(node);
        let (directory, name) = (n.parent, n.name.clone());
        let passed = n.is_followed && n.kind != kind::SYMLINK && n.source != Source::Made && n.first_place.is_none();
        if !passed || n.filesystem_is_pseudo() || self.names.slot(directory, &name) != Some(Slot::File(node)) {
            return None;
        }
        let target = match text {
            Some(text) if self.stood_where(node, directory, text) => text.to_vec(),
            Some(_) => return None,
            None => {
                // A path that goes on with `..` comes back to where it was.
                let beside = self.names.node(node).kind == kind::DIRECTORY && !self.names.node(directory).is_listed;
                let made_up = self.made_up(length, if beside { b"" } else { b"/" });
                let (to, name) = leads(directory, &made_up);
                self.stood_at(node, (to, name.to_vec()));
                made_up
            }
        };
        let link = self.names.add(directory, &name, kind::SYMLINK, true, Source::Initial);
        let l = self.names.node_mut(link);
        (l.target, l.target_guessed) = (target, text.is_none());
        Some(link)
    }

    /// Whether there is no link of which nothing is told where a file stands: who looks from outside does not see into what the
    /// program mounted.
    pub(super) fn knows_links(&self, node: NodeId) -> bool {
        self.outside.knows_links() && self.names.node(node).brought == 0
    }

    /// Whether two files stand in the same mounted file system, or both in none.
    pub(super) fn are_beside(&self, one: NodeId, other: NodeId) -> bool {
        self.names.node(one).brought == self.names.node(other).brought
    }

    /// Two files are one that has one name: that, or a directory on the way to it, is a link to the other, or to the way to
    /// the other. Returns whether that is settled.
    pub(super) fn is_behind_a_link(&mut self, one: NodeId, other: NodeId) -> bool {
        if self.knows_links(one) || !self.are_beside(one, other) || !self.may_be_one(one, other) {
            return false;
        }
        let (a, b) = match self.names.node(one).kind {
            kind::DIRECTORY => self.highest_alike(one, other),
            _ => (one, other),
        };
        // Links are short as a rule.
        let length = |node| {
            let path = self.names.path(node);
            (path.iter().filter(|byte| **byte == b'/').count(), path.len())
        };
        let ways = if length(a) <= length(b) { [(a, b), (b, a)] } else { [(b, a), (a, b)] };
        let stands = |node: NodeId| {
            let n = self.names.node(node);
            self.names.slot(n.parent, &n.name) == Some(Slot::File(node))
        };
        let is_possible = |(from, to): &(NodeId, NodeId)| {
            self.names.node(*from).is_followed && stands(*to) && !self.are_nested(*from, *to)
        };
        let Some((from, to)) = ways.into_iter().find(is_possible) else { return false };
        // Below what was mounted the root of whoever follows it may be another.
        let text = if self.names.node(to).brought > 0 { self.between(from, to) } else { self.names.path(to) };
        self.was_a_link(from, Some(&text), 0).is_some()
    }

    /// The path from the directory of a file to another.
    fn between(&self, from: NodeId, to: NodeId) -> Vec<u8> {
        let names = |node| {
            let path = self.names.path(node);
            path.split(|b| *b == b'/').skip(1).map(<[u8]>::to_vec).collect::<Vec<_>>()
        };
        let (here, there) = (names(self.names.node(from).parent), names(to));
        let common = here.iter().zip(&there).take_while(|(a, b)| a == b).count();
        let up = here[common..].iter().map(|_| b"..".to_vec());
        up.chain(there[common..].iter().cloned()).collect::<Vec<_>>().join(&b'/')
    }

    /// Of directories that are one, the highest above both that have the same names down to them, and may be one, too.
    fn highest_alike(&self, mut a: NodeId, mut b: NodeId) -> (NodeId, NodeId) {
        loop {
            let (x, y) = (self.names.node(a), self.names.node(b));
            let above = (x.parent, y.parent);
            if x.name != y.name || above.0 == above.1 || !self.may_be_one(above.0, above.1) {
                return (a, b);
            }
            (a, b) = above;
        }
    }

    /// A link's text is told. What was put where a made-up one leads stands where this one does.
    pub(super) fn text_is(&mut self, link: NodeId, text: Vec<u8>) {
        let n = self.names.node(link);
        if !n.target.is_empty() && !n.target_guessed {
            return;
        }
        let directory = n.first_place.as_ref().map_or(n.parent, |(directory, _)| *directory);
        let (to, name) = leads(directory, &n.target);
        let made_up = self.names.slot(to, name);
        let n = self.names.node_mut(link);
        (n.target, n.target_guessed) = (text.clone(), false);
        if let Some(Slot::File(node)) = made_up {
            self.stood_where(node, directory, &text);
        }
    }

    /// A file of the initial tree stood where the text of a link in a directory leads: if nothing is known to stand there, or
    /// what may be the same, and neither is within the other. Returns whether it did.
    fn stood_where(&mut self, node: NodeId, directory: NodeId, text: &[u8]) -> bool {
        if let Some(place) = self.free_place(node, directory, text) {
            self.stood_at(node, place);
            return true;
        }
        let there = self.resolve(Mounts::first(directory), Mounts::first(Names::ROOT), text, true, true).node;
        let one = there.filter(|there| self.may_be_one(node, *there) && !self.are_nested(node, *there));
        one.map(|there| self.unite(node, there)).is_some()
    }

    /// A file of the initial tree stood elsewhere.
    fn stood_at(&mut self, node: NodeId, (directory, name): (NodeId, Vec<u8>)) {
        self.names.was_there(node);
        let n = self.names.node_mut(node);
        let left =
            (std::mem::replace(&mut n.parent, directory), std::mem::replace(&mut n.name, name.as_slice().into()));
        self.names.node_mut(left.0).entries.remove(&left.1);
        self.names.initial.retain(|(parent, name, _)| (parent, name) != (&left.0, &left.1));
        self.names.add_name(directory, &name, node);
        if !self.names.node(node).entries.is_empty() {
            self.names.put_in_order();
        }
    }

    /// Where the text of a link in a directory leads, if nothing is known to stand there, and it is not within `node`.
    fn free_place(&mut self, node: NodeId, directory: NodeId, text: &[u8]) -> Option<(NodeId, Vec<u8>)> {
        let found = self.resolve(Mounts::first(directory), Mounts::first(Names::ROOT), text, false, true);
        let (to, name) = found.entry.filter(|_| found.node.is_none())?;
        let free = self.names.slot(to, &name).is_none() && self.names.node(to).source == Source::Initial;
        (free && !self.is_within(to, node)).then_some((to, name))
    }

    /// Whether one of two files is in the other.
    fn are_nested(&self, one: NodeId, other: NodeId) -> bool {
        self.is_within(one, other) || self.is_within(other, one)
    }

    /// Whether a file is another, or stands in it at any depth.
    fn is_within(&self, file: NodeId, other: NodeId) -> bool {
        let above = std::iter::successors(Some(file), |at| (*at != Names::ROOT).then(|| self.names.node(*at).parent));
        above.take(DEEPEST).any(|at| at == other)
    }

    /// A text for a link that begins so, of a length if that is known (1 if not): where no other leads, if that is long enough.
    fn made_up(&mut self, length: u64, beginning: &[u8]) -> Vec<u8> {
        let number = self.made_up.to_string();
        self.made_up += 1;
        let text = [beginning, number.as_bytes(), TEXT].concat();
        match length {
            ..=1 => text,
            _ => text.into_iter().chain(TEXT.iter().copied().cycle()).take(length.min(255) as usize).collect(),
        }
    }

    /// The text of a link is not known: one of its length is made up.
    pub(super) fn guess_target(&mut self, node: NodeId, length: u64) {
        let n = self.names.node(node);
        if n.target.is_empty() && !n.filesystem_is_pseudo() {
            let text = self.made_up(length, b"/");
            let n = self.names.node_mut(node);
            (n.target, n.target_guessed) = (text, true);
        }
    }
}

/// Where the made-up text of a link in a directory leads.
fn leads(directory: NodeId, text: &[u8]) -> (NodeId, &[u8]) {
    text.strip_prefix(b"/").map_or((directory, text), |name| (Names::ROOT, name))
}
