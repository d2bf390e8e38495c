//! Where a replay that ended early can go on, by the trace that it left behind.
//!
//! Threads do not end side by side: at the end some are far ahead. The *cut* is the first action that was not completed;
//! what others did beyond it is done again, after the tree was brought back to the cut. So a result is enough, whatever
//! state the target is in. Goals: nothing left out, nothing counted twice, a bit or two of memory for an action. Non-goals: the
//! state at the cut (that is what `slice` knows).

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use reprise_calls::{Call, Effect};
use reprise_trace::{Action, COMPLETE, END, FIRST_ACTION, Kind, ReadError, TraceReader};
use serde::{Deserialize, Serialize};

use crate::emit::UNAVOIDABLE;
use crate::log::Numbers;

/// In a result's facts: the result that it continues.
pub const CONTINUES: &str = "continues";

/// What a replay that continues another one replays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rest {
    /// Identity of the trace.
    pub of: String,
    /// Identity of the result that is continued.
    pub continues: String,
    /// How the trace counts what the plan counts from 0.
    pub numbers: Numbers,
}

/// Where a replay goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Identity of the result.
    pub result: String,
    /// The first action that was not completed: all before it were.
    pub action: u64,
    /// Actions beyond it that were completed, and are done again.
    pub again: u64,
}

/// Why a replay cannot be resumed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ResumeError {
    /// One of the two cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It is a recording.
    #[error("{} is not a replay's result; give the directory that `reprise replay -o` wrote", path.display())]
    NotAResult { path: PathBuf },
    /// Another trace was replayed.
    #[error("{} is the result of replaying the trace {found}, not {wanted}; give the trace that was replayed", path.display())]
    OtherTrace { path: PathBuf, found: String, wanted: String },
    /// All was done.
    #[error(
        "nothing to resume: {} goes to the end of the trace; compare it with `reprise verify {} {}`",
        path.display(), trace.display(), path.display()
    )]
    Complete { path: PathBuf, trace: PathBuf },
    /// It says what cannot be.
    #[error("{} cannot be continued: {cause}; replay the trace from its beginning", path.display())]
    Malformed { path: PathBuf, cause: String },
}

/// Which actions were completed: one bit each, in words that there are only once something is entered, since how many actions there
/// are is said by files that may be damaged.
#[derive(Debug)]
pub(crate) struct Completed {
    range: Range<u64>,
    words: BTreeMap<u64, u64>,
    count: u64,
}

impl Completed {
    /// None yet of these actions.
    pub fn none_of(range: Range<u64>) -> Completed {
        Completed { range, words: BTreeMap::new(), count: 0 }
    }

    /// Enters one; `false` if it was entered before, or is not among them.
    pub fn enter(&mut self, action: u64) -> bool {
        if !self.range.contains(&action) {
            return false;
        }
        let at = action - self.range.start;
        let word = self.words.entry(at / 64).or_default();
        let before = std::mem::replace(word, *word | 1 << (at % 64));
        let is_new = before != *word;
        self.count += u64::from(is_new);
        is_new
    }

    /// The first action that is not entered.
    pub fn cut(&self) -> u64 {
        let in_a_row = (0..).zip(&self.words).take_while(|(place, (at, _))| place == *at);
        let full = in_a_row.take_while(|(_, (_, word))| **word == u64::MAX).count() as u64;
        let rest = self.words.get(&full).map_or(0, |word| word.trailing_ones());
        self.range.start + full * 64 + u64::from(rest)
    }

    /// Actions beyond the cut that are entered.
    pub fn beyond(&self) -> u64 {
        self.count - (self.cut() - self.range.start)
    }
}

/// Whether it was the target or the machine that refused an action which went differently: what ended a replay so was not done.
pub(crate) fn is_refusal(call: Option<&Call>, result: i64) -> bool {
    use libc::{EDQUOT, EIO, EMFILE, ENFILE, ENOSPC, ENOTCONN, EROFS, ESTALE, EUCLEAN};
    let of_environment = [ENOSPC, EDQUOT, EIO, EROFS, EUCLEAN, ESTALE, ENOTCONN, EMFILE, ENFILE];
    of_environment.iter().any(|error| result == -i64::from(*error)) && !lacks_room_for_attributes(call, result)
}

/// Whether it is only what file systems have for a file's attributes that is too small (a block of ext4): no full target.
pub(crate) fn lacks_room_for_attributes(call: Option<&Call>, result: i64) -> bool {
    let no_room = [libc::ENOSPC, libc::EDQUOT].iter().any(|error| result == -i64::from(*error));
    no_room && call.is_some_and(|call| call.effect == Effect::SetXattr)
}

/// Where the replay of `trace` goes on that left `result` behind.
///
/// # Errors
/// It is no result of this trace, cannot be read, or nothing is left to do.
pub fn cut(trace: &TraceReader, result: &TraceReader) -> Result<Cut, ResumeError> {
    let path = || result.path().to_owned();
    let (about, wanted) = (result.manifest(), &trace.manifest().id);
    let found = about.origin.as_ref().filter(|_| about.kind == Kind::Replay);
    let found = found.ok_or_else(|| ResumeError::NotAResult { path: path() })?;
    if found != wanted {
        return Err(ResumeError::OtherTrace { path: path(), found: found.clone(), wanted: wanted.clone() });
    }
    let end = trace.count::<Action>();
    let malformed = |cause: String| ResumeError::Malformed { path: path(), cause };
    let first = about.first_action().filter(|first| *first <= end);
    let first = first.ok_or_else(|| malformed(format!("its fact `{FIRST_ACTION}` is no action of the trace")))?;
    let mut completed = Completed::none_of(first..end);
    for row in result.actions() {
        let row = row?;
        let diverged = row.difference.as_ref().is_some_and(|text| !text.starts_with(UNAVOIDABLE));
        if diverged && is_refusal(reprise_calls::by_name(&row.call), row.result) {
            continue;
        }
        if !row.origin.is_some_and(|origin| origin < end && completed.enter(origin)) {
            return Err(malformed(format!("its action {} is none that the trace has, or stands twice", row.seq)));
        }
    }
    let all_done = about.facts.get(END).is_some_and(|text| text == COMPLETE);
    match completed.cut() {
        all if all >= end || all_done => Err(ResumeError::Complete { path: path(), trace: trace.path().to_owned() }),
        action => Ok(Cut { result: about.id.clone(), action, again: completed.beyond() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cut_is_the_first_that_is_missing() {
        for (first, end, done, cut, beyond) in [
            (0, 0, &[][..], 0, 0),
            (0, 3, &[][..], 0, 0),
            (0, 3, &[0, 2], 1, 1),
            (0, 3, &[2, 1, 0], 3, 0),
            (0, u64::MAX, &[0, u64::MAX - 1], 1, 1),
            (0, 300, &(0..64).chain(128..192).collect::<Vec<_>>()[..], 64, 64),
            (70, 80, &[71, 70, 79], 72, 1),
            (5, 200, &(5..200).filter(|n| *n != 133).collect::<Vec<_>>()[..], 133, 66),
        ] {
            let mut completed = Completed::none_of(first..end);
            assert!(done.iter().all(|n| completed.enter(*n)), "{done:?}");
            assert_eq!((completed.cut(), completed.beyond()), (cut, beyond), "{first}..{end}: {done:?}");
        }
    }

    #[test]
    fn no_room_for_an_attribute_is_no_refusal() {
        let row = reprise_calls::by_name;
        for (call, error, refused) in [
            ("write", libc::ENOSPC, true),
            ("mkdir", libc::EDQUOT, true),
            ("setxattr", libc::ENOSPC, false),
            ("fsetxattr", libc::EDQUOT, false),
            ("setxattr", libc::EROFS, true),
            ("setxattr", libc::E2BIG, false),
        ] {
            assert_eq!(is_refusal(row(call), -i64::from(error)), refused, "{call} {error}");
        }
        assert!(is_refusal(None, -i64::from(libc::ENOSPC)));
    }

    #[test]
    fn what_is_not_there_or_stands_twice_is_told() {
        let mut completed = Completed::none_of(64..130);
        assert!(completed.enter(64) && completed.enter(129));
        for wrong in [64, 129, 63, 0, 64 + 192, u64::MAX] {
            assert!(!completed.enter(wrong), "{wrong}");
        }
        assert_eq!((completed.cut(), completed.beyond()), (65, 1));
    }
}
