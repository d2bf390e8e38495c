//! Requests that were complete when there was no room for what they moved, which follows in a record of its own.
//!
//! Goals: such a request has its row when all of it is there, with the times that it had. Non-goals: when that is
//! (`bpf/owed.h`).

use super::{Asynchronous, Outcome};
use crate::kept::Kept;
use crate::log::Log;
use crate::requests::{Asked, Flight, Key};
use crate::spool::layout::state;
use crate::spool::record::Completion;

/// Why content is lacking that never followed.
const NEVER: &str = "it found no room while the program ran";
const STALE: &str = "the program had taken its completion before there was room for it";

/// A request that is complete, and has no row yet.
#[derive(Debug)]
pub(super) struct Later {
    pub lane: (Key, u32),
    pub asked: Asked,
    pub flight: Flight,
    pub outcome: Outcome,
}

impl Asynchronous {
    /// What a request moved is here.
    pub(super) fn settled(&mut self, completion: &Completion, kept: &Kept, log: &mut Log) {
        let Some(mut later) = self.later.remove(&completion.request) else { return };
        if completion.state & state::STALE == 0 {
            return self.row_of(later, kept, log);
        }
        later.outcome.lacks = STALE;
        self.row_of(later, &Kept::default(), log);
    }

    /// Nothing more comes.
    pub(super) fn never_settled(&mut self, log: &mut Log) {
        let mut left: Vec<(u64, Later)> = self.later.drain().collect();
        left.sort_unstable_by_key(|(request, _)| *request);
        for (_, mut later) in left {
            later.outcome.lacks = NEVER;
            self.row_of(later, &Kept::default(), log);
        }
    }

    fn row_of(&mut self, later: Later, kept: &Kept, log: &mut Log) {
        self.row(later.lane, later.asked, later.flight, &later.outcome, kept, log);
    }
}
