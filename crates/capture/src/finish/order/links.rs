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
    /// By open file: which file stands under that name, as a thing, and the file that did.
    names: HashMap<u64, (u64, u64)>,
}

impl Links {
    /// A call opened a file by a name.
    pub(super) fn opened(&mut self, pending: &Pending, named: Option<(u64, u64)>) {
        if pending.call.effect != Effect::Open || failed(pending.action.result) {
            return;
        }
        let Some(object) = pending.object(pending.action.result as u64) else { return };
        match named.filter(|_| is_regular(object)) {
            Some(named) => {
                if self.names.len() >= MOST {
                    self.names.clear();
                }
                self.names.insert(object.id, named);
            }
            // The number of an open file that is gone is given again.
            None => _ = self.names.remove(&object.id),
        }
    }

    /// What a call told of an open file.
    pub(super) fn told(&self, pending: &Pending, out: &mut Told) {
        let action = &pending.action;
        let by_path = action.path.as_ref().is_some_and(|path| !path.is_empty());
        if pending.call.effect != Effect::GetMetadata || failed(action.result) || by_path {
            return;
        }
        let named = pending.object(action.args[0]).and_then(|object| self.names.get(&object.id));
        let (Some((name, file)), Some(stat)) = (named, facts::stat(pending.call, &action.output)) else { return };
        match stat.links {
            Some(0) => out.all.push(Condition::new(*name, Found::Not(*file), Change::Nothing)),
            // It may have another name, and another file this one.
            Some(1) => out.likely.push(Condition::new(*name, Found::Exactly(*file), Change::Nothing)),
            _ => {}
        }
    }
}
