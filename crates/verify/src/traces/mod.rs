//! Two traces: the original and its replay, action by action.
//!
//! Goals: both streamed and joined by the original's sequence numbers, only actions whose replay has not come yet in memory;
//! every action of the original ends up in exactly one count. Non-goals: trees.

mod context;
mod judge;
mod listings;
mod metadata;

use std::collections::{BTreeMap, HashMap};

use reprise_calls::{Call, Effect};
use reprise_trace::{Action, Kind as TraceKind, ReadError, Rows, TraceReader};
use serde::Serialize;

use crate::error::VerifyError;
use crate::group::{Example, Gathered, Group};
use context::{Context, Follower};
use judge::{Contents, Kind, Verdict};
use listings::Listings;

pub(crate) use metadata::kind_word;

/// What two traces have in common and where they differ. Every action of the original is in exactly one of `same`,
/// `excused`, `simulated`, `skipped`, `unsupported`, `diverged` and `missing`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Comparison {
    /// Identity of the original trace.
    pub original: String,
    /// Actions of the original.
    pub actions: u64,
    /// Issued, and the same but for the machine's own attributes (times, inode numbers …).
    pub same: u64,
    /// Issued, and different as in any replay.
    pub excused: u64,
    /// Taken from the trace instead of issued.
    pub simulated: u64,
    /// Left out on purpose.
    pub skipped: u64,
    /// Not replayed yet.
    pub unsupported: u64,
    /// Went differently.
    pub diverged: u64,
    /// Never replayed.
    pub missing: u64,
    /// Rows of the replay that are the replay of no action, or of one that was replayed before.
    pub extra: u64,
    /// Differences that no replay can avoid: cause, actions. An action may have several.
    pub unavoidable: BTreeMap<String, u64>,
    /// What of the actions could not be compared because a trace does not hold it: cause, actions.
    pub uncompared: BTreeMap<String, u64>,
    /// Actions that were not issued: how they were handled, call, actions.
    pub not_issued: BTreeMap<String, BTreeMap<String, u64>>,
    /// What differs, by cause and call, the worst first. Missing and extra rows are among it.
    pub groups: Vec<Group>,
    /// Both traces were closed in order; if not, what is missing may have been lost with the end of one.
    pub complete: bool,
}

impl Comparison {
    /// Whether nothing went differently that a replay could avoid.
    pub fn is_same(&self) -> bool {
        self.diverged == 0 && self.missing == 0 && self.extra == 0
    }
}

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
        exhausted: false,
        contents: Contents { original: original.blobs(), result: result.blobs() },
        listings: Listings::default(),
        groups: Gathered::new(),
        counts: Comparison {
            original: about.id.clone(),
            complete: about.complete && other.complete,
            ..Comparison::default()
        },
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
    exhausted: bool,
    contents: Contents,
    listings: Listings,
    groups: Gathered<(String, String), Example>,
    counts: Comparison,
}

impl Comparer {
    fn row(&mut self, found: &Action) -> Result<(), ReadError> {
        let Some(origin) = found.origin else {
            self.extra(found, 0, "a row that is the replay of no action");
            return Ok(());
        };
        while !self.exhausted && self.next <= origin {
            self.advance()?;
        }
        match self.pending.remove(&origin) {
            Some(waiting) => self.pair(&waiting, found),
            None => {
                let known = origin < self.next;
                let cause = if known { "replayed twice" } else { "an action that the trace does not have" };
                self.extra(found, origin, cause);
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
        self.counts.actions += 1;
        self.next = action.seq + 1;
        self.pending.insert(action.seq, Waiting { call, action, context });
        Ok(())
    }

    fn pair(&mut self, waiting: &Waiting, found: &Action) -> Result<(), ReadError> {
        let Waiting { call, action: wanted, context } = waiting;
        if found.call != wanted.call {
            let text = format!("{} was done instead", found.call);
            self.diverged(waiting, Verdict::differs(Kind::Outcome, "another call", text));
            return Ok(());
        }
        let counter = match found.handling.as_deref() {
            Some("simulated") => &mut self.counts.simulated,
            Some("skipped") => &mut self.counts.skipped,
            Some("unsupported") => &mut self.counts.unsupported,
            Some("issued") | None => return self.issued(waiting, found),
            Some(other) => {
                let text = format!("handled as {other:?}, which this program does not know");
                self.diverged(waiting, Verdict::differs(Kind::Extra, "handled in an unknown way", text));
                return Ok(());
            }
        };
        // What stands for a call must not be seen to go differently.
        let differs = (found.handling.as_deref() == Some("simulated"))
            .then(|| judge::outcome(found.result, wanted.result))
            .flatten();
        if let (Some(verdict), Some(call)) = (differs, call) {
            let excused = verdict.difference.as_ref().and_then(|d| context.excuse(call, wanted, d));
            if excused.is_none() {
                self.diverged(waiting, verdict);
                return Ok(());
            }
        }
        *counter += 1;
        let handling = found.handling.clone().unwrap_or_default();
        let by_call = self.counts.not_issued.entry(handling).or_default();
        *by_call.entry(wanted.call.clone()).or_default() += 1;
        Ok(())
    }

    fn issued(&mut self, waiting: &Waiting, found: &Action) -> Result<(), ReadError> {
        let Waiting { call, action: wanted, context } = waiting;
        let Some(call) = *call else {
            self.counts.same += 1;
            return Ok(());
        };
        let mut verdict = judge::judge(call, wanted, found, &mut self.contents)?;
        let listed = wanted.result >= 0 && found.result >= 0 && call.effect == Effect::List;
        if listed {
            verdict = self.listings.add(call, context, wanted, found, &mut self.contents)?;
        }
        for own in &verdict.own {
            *self.counts.unavoidable.entry((*own).to_owned()).or_default() += 1;
        }
        if let Some(why) = verdict.uncompared {
            *self.counts.uncompared.entry(why.to_owned()).or_default() += 1;
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
                self.counts.same += 1;
                return Ok(());
            }
            (None, Some(_)) if noted_excuse.is_some() => match (verdict.uncompared, noted_excuse) {
                (Some(_), Some(excuse)) => {
                    self.excused(excuse);
                    return Ok(());
                }
                _ => {
                    self.counts.same += 1;
                    return Ok(());
                }
            },
            (None, Some(text)) => {
                verdict = Verdict::differs(Kind::Noted, "the replay noted what its trace does not show", text);
                None
            }
        };
        match excuse {
            Some(excuse) => self.excused(excuse),
            None => self.diverged(waiting, verdict),
        }
        Ok(())
    }

    fn excused(&mut self, cause: &str) {
        self.counts.excused += 1;
        *self.counts.unavoidable.entry(cause.to_owned()).or_default() += 1;
    }

    fn diverged(&mut self, waiting: &Waiting, verdict: Verdict) {
        let Some(d) = verdict.difference else { return };
        self.counts.diverged += 1;
        let action = &waiting.action;
        self.groups.add(d.kind as u8, (d.cause, action.call.clone()), || Example {
            origin: action.seq,
            thread: action.thread,
            path: waiting.context.path.clone(),
            text: d.text,
        });
    }

    fn extra(&mut self, found: &Action, origin: u64, cause: &str) {
        self.counts.extra += 1;
        self.groups.add(Kind::Extra as u8, (cause.to_owned(), found.call.clone()), || Example {
            origin,
            thread: found.thread,
            path: passed_path(found),
            text: format!("row {} of the replay's trace", found.seq),
        });
    }

    fn missing(&mut self, action: &Action, path: String) {
        self.counts.missing += 1;
        let key = ("never replayed".to_owned(), action.call.clone());
        self.groups.add(Kind::Missing as u8, key, || Example {
            origin: action.seq,
            thread: action.thread,
            path,
            text: "never replayed".to_owned(),
        });
    }

    fn finish(mut self) -> Result<Comparison, ReadError> {
        let mut waiting: Vec<Waiting> = std::mem::take(&mut self.pending).into_values().collect();
        waiting.sort_by_key(|w| w.action.seq);
        for w in waiting {
            self.missing(&w.action, w.context.path);
        }
        // The rest was never reached: the model is not needed any more.
        while let Some(action) = self.originals.next().transpose()? {
            self.counts.actions += 1;
            let path = passed_path(&action);
            self.missing(&action, path);
        }
        let groups = self.groups.worst_first().into_iter();
        self.counts.groups = groups
            .map(|((cause, call), g)| Group { cause, call, count: g.count, first: g.first })
            .collect();
        Ok(self.counts)
    }
}

fn passed_path(action: &Action) -> String {
    action.path.as_ref().map(|p| p.to_text()).unwrap_or_default()
}
