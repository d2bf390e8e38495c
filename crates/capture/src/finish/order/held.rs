//! Which file a call wrote to whose number another thread closed meanwhile.
//!
//! The kernel tells which files stand behind the numbers of a call when that returns. A write that waited for the disk had its file
//! in hand since it began; behind the number there may be none by then, or another.

use foldhash::HashMap;
use reprise_calls::Effect;
use reprise_initial::Seat;

use super::super::decode::Pending;
use super::super::told::{Change, Condition, Found};
use super::content::{appends, given, is_regular, size_of};
use super::opened;
use crate::arguments::failed;
use crate::spool::record::Object;

/// A call so short had what was seen when it was over, unless nothing was.
const SHORT_NS: u64 = 50_000;

/// Open files by table and number, as calls that have their place opened and closed them.
#[derive(Debug, Default)]
pub(super) struct Held(HashMap<u32, HashMap<i32, Object>>);

impl Held {
    /// A call has its place.
    pub(super) fn took_place(&mut self, seat: Seat, pending: &Pending) {
        let (call, action) = (pending.call, &pending.action);
        if failed(action.result) {
            return;
        }
        let mut keep = |fd: i32, object: Option<&Object>| {
            let table = self.0.entry(seat.table()).or_default();
            match object {
                Some(object) => drop(table.insert(fd, *object)),
                None => drop(table.remove(&fd)),
            }
        };
        match call.effect {
            Effect::Close => keep(action.args[0] as i32, None),
            Effect::DuplicateTo => keep(action.args[1] as i32, pending.object(action.args[1])),
            _ => opened(pending).for_each(|fd| keep(fd as i32, pending.object(fd))),
        }
    }

    /// A table begins as a copy of another.
    pub(super) fn copied(&mut self, from: Seat, to: Seat) {
        if let Some(table) = self.0.get(&from.table()).cloned() {
            self.0.insert(to.table(), table);
        }
    }

    /// Nothing is known any more of the numbers of a table.
    pub(super) fn forget(&mut self, seat: Seat) {
        self.0.remove(&seat.table());
    }

    /// The file that a call wrote to, if behind its number there was another, or none, when it was over.
    fn lost(&self, seat: Seat, pending: &Pending) -> Option<&Object> {
        let action = &pending.action;
        if pending.call.effect != Effect::Write || action.result <= 0 {
            return None;
        }
        let held = self.0.get(&seat.table())?.get(&(action.args[0] as i32)).filter(|held| is_regular(held))?;
        match pending.object(action.args[0]) {
            Some(seen) if seen.id == held.id || action.duration_ns < SHORT_NS => None,
            _ => Some(held),
        }
    }

    /// What a write left of such a file; false: it was given no such file.
    pub(super) fn written(&self, seat: Seat, pending: &Pending, out: &mut Vec<Condition>) -> bool {
        let Some(held) = self.lost(seat, pending) else { return false };
        let moved = pending.action.result.unsigned_abs();
        let change = match given(pending) {
            _ if appends(pending, held) => Change::More(moved),
            Some(at) => Change::UpTo(at.saturating_add(moved)),
            None => Change::Unknown,
        };
        out.push(Condition::new(size_of(held), Found::Anything, change));
        true
    }
}
