//! What the number of names of an open file tells: whether that by which it was opened still leads to it.
//!
//! Non-goals: files with several names, of which any may have gone.

use foldhash::HashMap;
use reprise_calls::Effect;

use super::super::decode::Pending;
use super::super::facts;
use super::super::told::{Change, Condition, Found, Told};
use super::content::is_regular;
use crate::arguments::failed;

/// More are not remembered.
const MOST: usize = 1 << 14;

/// By which names files were opened.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// By open file, and by the number of its file, for the memory of one that is closed is given to the next before calls have their
    /// places: which file stands under that name, as a thing.
    names: HashMap<(u64, u64), u64>,
}

impl Links {
    /// A call opened a file by a name.
    pub(super) fn opened(&mut self, pending: &Pending, named: Option<u64>) {
        if pending.call.effect != Effect::Open || failed(pending.action.result) {
            return;
        }
        let Some(object) = pending.object(pending.action.result as u64) else { return };
        match named.filter(|_| is_regular(object)) {
            Some(named) => {
                if self.names.len() >= MOST {
                    self.names.clear();
                }
                self.names.insert((object.id, object.inode), named);
            }
            None => _ = self.names.remove(&(object.id, object.inode)),
        }
    }

    /// What a call told of an open file.
    pub(super) fn told(&self, pending: &Pending, out: &mut Told) {
        let action = &pending.action;
        let by_path = action.path.as_ref().is_some_and(|path| !path.is_empty());
        if pending.call.effect != Effect::GetMetadata || failed(action.result) || by_path {
            return;
        }
        let Some(object) = pending.object(action.args[0]) else { return };
        let Some(name) = self.names.get(&(object.id, object.inode)) else { return };
        let found = match facts::stat(pending.call, &action.output).and_then(|stat| stat.links) {
            // A rename takes the number of what it replaces down first: for a moment the name still leads there.
            Some(0) => Found::Not(object.inode),
            // It may have another name, and another file this one.
            Some(1) => Found::Exactly(object.inode),
            _ => return,
        };
        out.likely.push(Condition::new(*name, found, Change::Nothing));
    }
}
