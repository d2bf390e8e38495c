//! Two traces: the original and its replay, action by action.
//!
//! Goals: both streamed and joined by the original's sequence numbers, only actions whose replay has not come yet in memory;
//! every action of the original ends up in exactly one count. Non-goals: trees.

mod comparison;
mod contents;
mod context;
mod judge;
mod listings;
mod metadata;
mod tally;

use std::collections::HashMap;

use reprise_calls::{Call, Effect};
use reprise_trace::{Action, Kind as TraceKind, ReadError, Rows, TraceReader};

use crate::error::VerifyError;
use contents::Contents;
use context::{Context, Follower};
use judge::{Kind, Verdict};
use listings::Listings;
use tally::{Tally, passed_path};

pub use comparison::Comparison;
pub(crate) use metadata::kind_word;

/// Compares a trace with the trace of its replay.
///
/// # Errors
/// A trace cannot be read, or the second is not a replay of the first. A difference is never an error.
pub fn compare(original: &TraceReader, result: &TraceReader) -> Result<Comparison, VerifyError> {
    let (about, other) = (original.manifest(), result.manifest());
    if other.kind != TraceKind::Replay {
        return Err(VerifyError::NotAReplay { path: result.path().to_owned() });
    }
    if other.origin.as_deref() != Some(&about.id) {
        return Err(VerifyError::OtherOrigin {
            path: result.path().to_owned(),
            found: other.origin.clone().unwrap_or_else(|| "unknown".to_owned()),
            wanted: about.id.clone(),
        });
    }
    let mut comparer = Comparer {
        follower: Follower::begin(original)?,
        originals: original.actions(),
        pending: HashMap::new(),
        next: 0,
        first: other.first_action().unwrap_or(0),
        total: original.count::<Action>(),
        exhausted: false,
        contents: Contents { original: original.blobs(), result: result.blobs() },
        listings: Listings::default(),
        tally: Tally::new(Comparison {
            original: about.id.clone(),
            complete: about.complete && other.complete,
            ..Comparison::default()
        }),
    };
    for row in result.actions() {
        comparer.row(&row?)?;
    }
    Ok(comparer.finish()?)
}

/// An action of the original whose replay has not come yet.
struct Waiting {
    call: Option<&'static Call>,
    action: Action,
    context: Context,
}

struct Comparer {
    follower: Follower,
    originals: Rows<Action>,
    pending: HashMap<u64, Waiting>,
    /// Sequence number of the next original.
    next: u64,
    /// What is before it stands in the result that this one continues.
    first: u64,
    /// Number of originals.
    total: u64,
    exhausted: bool,
    contents: Contents,
    listings: Listings,
    tally: Tally,
}

impl Comparer {
    fn row(&mut self, found: &Action) -> Result<(), ReadError> {
        let Some(origin) = found.origin else {
            self.tally.extra(found, 0, "a row that is the replay of no action");
            return Ok(());
        };
        // Numbers have no gaps: what lies behind the last is not worth reading on for.
        while !self.exhausted && self.next <= origin && origin < self.total {
            self.advance()?;
        }
        match self.pending.remove(&origin) {
            Some(waiting) => self.pair(&waiting, found),
            None => {
                let known = origin < self.next.min(self.total);
                let cause = if known { "replayed twice" } else { "an action that the trace does not have" };
                self.tally.extra(found, origin, cause);
                Ok(())
            }
        }
    }

    fn advance(&mut self) -> Result<(), ReadError> {
        let Some(action) = self.originals.next().transpose()? else {
            self.exhausted = true;
            return Ok(());
        };
        let call = reprise_calls::by_name(&action.call);
        let context = match call {
            Some(call) => self.follower.follow(call, &action)?,
            None => Context::default(),
        };
        self.tally.counts.actions += 1;
        self.next = action.seq + 1;
        if action.seq < self.first {
            self.tally.counts.before += 1;
            return Ok(());
        }
        self.pending.insert(action.seq, Waiting { call, action, context });
        Ok(())
    }

    fn pair(&mut self, waiting: &Waiting, found: &Action) -> Result<(), ReadError> {
        let Waiting { call, action: wanted, context } = waiting;
        if found.call != wanted.call {
            let text = format!("{} was done instead", found.call);
            self.tally.diverged(waiting, Verdict::differs(Kind::Outcome, "another call", text));
            return Ok(());
        }
        let handling = found.handling.as_deref().unwrap_or("issued");
        match handling {
            "issued" => return self.issued(waiting, found),
            "simulated" | "skipped" | "unsupported" => {}
            other => {
                let text = format!("handled as {other:?}, which this program does not know");
                self.tally.diverged(waiting, Verdict::differs(Kind::Extra, "handled in an unknown way", text));
                return Ok(());
            }
        }
        // What stands for a call must not be seen to go differently.
        if handling == "simulated"
            && let (Some(verdict), Some(call)) = (judge::outcome(found.result, wanted.result), call)
            && verdict.difference.as_ref().is_none_or(|d| context.excuse(call, wanted, d).is_none())
        {
            self.tally.diverged(waiting, verdict);
            return Ok(());
        }
        match handling {
            "simulated" => self.tally.counts.simulated += 1,
            "skipped" => self.tally.counts.skipped += 1,
            _ => self.tally.counts.unsupported += 1,
        }
        let by_call = self.tally.counts.not_issued.entry(handling.to_owned()).or_default();
        *by_call.entry(wanted.call.to_string()).or_default() += 1;
        Ok(())
    }

    fn issued(&mut self, waiting: &Waiting, found: &Action) -> Result<(), ReadError> {
        let Waiting { call, action: wanted, context } = waiting;
        let Some(call) = *call else {
            self.tally.counts.same += 1;
            return Ok(());
        };
        let mut verdict = judge::judge(call, wanted, found, &mut self.contents)?;
        let listed = wanted.result >= 0 && found.result >= 0 && call.effect == Effect::List;
        if listed {
            verdict = self.listings.add(call, context, wanted, found, &mut self.contents)?;
        }
        for own in &verdict.own {
            *self.tally.counts.unavoidable.entry((*own).to_owned()).or_default() += 1;
        }
        if let Some(why) = verdict.uncompared {
            *self.tally.counts.uncompared.entry(why.to_owned()).or_default() += 1;
        }
        let noted = found.difference.as_deref();
        let noted_excuse = noted.and_then(|text| text.strip_prefix("unavoidable: "));
        let excuse = match (&verdict.difference, noted) {
            (Some(d), _) => match context.excuse(call, wanted, d) {
                // Whether owners could be set only the replay knows.
                None if d.kind == Kind::Owner && noted_excuse.is_some() => Some("owner could not be set"),
                excuse => excuse,
            },
            (None, None) => {
                self.tally.counts.same += 1;
                return Ok(());
            }
            (None, Some(_)) if noted_excuse.is_some() => match (verdict.uncompared, noted_excuse) {
                (Some(_), Some(excuse)) => {
                    self.tally.excused(excuse);
                    return Ok(());
                }
                _ => {
                    self.tally.counts.same += 1;
                    return Ok(());
                }
            },
            (None, Some(text)) => {
                verdict = Verdict::differs(Kind::Noted, "the replay noted what its trace does not show", text);
                None
            }
        };
        match excuse {
            Some(excuse) => self.tally.excused(excuse),
            None => self.tally.diverged(waiting, verdict),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Comparison, ReadError> {
        let mut waiting: Vec<Waiting> = std::mem::take(&mut self.pending).into_values().collect();
        waiting.sort_by_key(|w| w.action.seq);
        for w in waiting {
            self.tally.missing(&w.action, w.context.path);
        }
        // The rest was never reached: the model is not needed any more.
        while let Some(action) = self.originals.next().transpose()? {
            self.tally.counts.actions += 1;
            let path = passed_path(&action);
            self.tally.missing(&action, path);
        }
        Ok(self.tally.finish())
    }
}
