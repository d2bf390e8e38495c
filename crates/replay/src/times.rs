//! Where the time of a replay went: the log, beside the original's times.
//!
//! Goals: one pass over both; the original's side only where its trace is at hand. Non-goals: the arithmetic (that is
//! `measure`'s).

use reprise_calls::Category;
use reprise_measure::{ReplayAccount, ReplaySample, ReplayTimes};
use reprise_trace::{Lookup, TraceReader};

use crate::emit::EmitError;
use crate::log::{Class, Handling, Record};
use crate::run::ReplayResult;

/// Adds up the times of a replay; `original` is the trace that was replayed.
///
/// # Errors
/// When the log or the original cannot be read.
pub fn times(result: &ReplayResult, original: Option<&TraceReader>) -> Result<ReplayTimes, EmitError> {
    let mut rows = original.map(|original| Lookup::starting(original, result.first_action()));
    let mut account = ReplayAccount::default();
    for record in result.log.merged() {
        let record = record?;
        let row = match &mut rows {
            Some(rows) => rows.take(record.origin)?,
            None => None,
        };
        let traced = row.map(|a| (a.begin_ns, a.end_ns()));
        account.add(&sample(&record, traced));
    }
    Ok(account.times())
}

fn sample(record: &Record, original: Option<(u64, u64)>) -> ReplaySample<'_> {
    let call = reprise_calls::by_number(record.number);
    let category = call.map_or(Category::Other, |c| c.category());
    ReplaySample {
        thread: record.thread,
        call: call.map_or("unknown", |c| c.name),
        category: category.word(),
        issued: record.handling == Handling::Issued,
        storage: category != Category::Process,
        diverged: record.difference.class == Class::Diverged,
        begin_ns: record.begin_ns,
        end_ns: record.end_ns,
        waited: record.blocked.map(|b| (b.rule.name(), b.ns)),
        paced_ns: record.pacing.map_or(0, |p| p.waited_ns),
        issue_error: record.pacing.map(|p| (p.error_ns, p.punctuality)),
        original,
    }
}
