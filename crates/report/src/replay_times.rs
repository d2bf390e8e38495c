//! Where the time of a replay went: from its trace, and as text.
//!
//! Goals: about ten lines by default, all on demand. Non-goals: the arithmetic (that is `measure`'s).

use reprise_calls::Category;
use reprise_measure::{
    Distribution, IssueErrorBy, Overlap, Punctuality, ReplayAccount, ReplaySample, ReplayTimes, SignedDistribution,
    ThreadTimes,
};
use reprise_trace::{Action, Lookup, ReadError, TraceReader};

use crate::style::Style;
use crate::table::{Align, Table};
use crate::units::{count, duration};

/// How much of it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The lines that matter most.
    Short,
    /// Every thread, kind of work, call and rule.
    Full,
}

/// Calls shown in short.
const FEW_CALLS: usize = 4;

/// Adds up the times of a replay's trace, beside those of the original if it is given.
///
/// # Errors
/// A trace cannot be read.
pub fn replay_times(result: &TraceReader, original: Option<&TraceReader>) -> Result<ReplayTimes, ReadError> {
    let first = result.manifest().first_action().unwrap_or(0);
    let mut rows = original.map(|original| Lookup::starting(original, first));
    let mut account = ReplayAccount::default();
    for action in result.actions() {
        let action = action?;
        let row = match (&mut rows, action.origin) {
            (Some(rows), Some(origin)) => rows.take(origin)?,
            _ => None,
        };
        account.add(&sample(&action, row.as_ref().map(span)));
    }
    Ok(account.times())
}

fn span(action: &Action) -> (u64, u64) {
    (action.begin_ns, action.end_ns())
}

pub(crate) fn sample(action: &Action, original: Option<(u64, u64)>) -> ReplaySample<'_> {
    let category = reprise_calls::by_name(&action.call).map_or(Category::Other, |c| c.category());
    let (begin_ns, end_ns) = span(action);
    ReplaySample {
        thread: action.thread,
        call: &action.call,
        category: category.word(),
        issued: action.handling.as_deref() == Some("issued"),
        storage: category != Category::Process,
        diverged: action.difference.as_ref().is_some_and(|d| !d.starts_with("unavoidable: ")),
        begin_ns,
        end_ns,
        waited: action.waited_ns.map(|ns| (action.waited_for.as_deref().unwrap_or("unknown"), ns)),
        paced_ns: action.paced_ns.unwrap_or(0),
        issue_error: action.issue_error_ns.map(|ns| (ns, Punctuality::of(action.punctuality.as_deref()))),
        original,
    }
}

/// The times as text of several lines, each indented by two.
pub fn replay_times_text(times: &ReplayTimes, detail: Detail, style: Style) -> String {
    let mut table = Table::new(2, &[Align::Left, Align::Left]);
    let mut line = |title: &str, text: String| table.row([style.faint(title), text]);
    line("elapsed", elapsed(times));
    line("threads", threads(&times.total));
    line("in flight", in_flight(times));
    line("matched", format!("{:.2} % of what was issued", times.match_rate * 100.0));
    if let Some(e) = &times.issue_error {
        line("issue error", quantiles(e));
    }
    for (title, e) in times.issue_error_by.iter().flat_map(by_punctuality).filter(|(_, e)| e.count > 0) {
        line(title, format!("{} of {} actions", quantiles(&e), count(e.count)));
    }
    if !times.waits.is_empty() {
        let rule = |w: &reprise_measure::RuleTimes| format!("{} {}", w.rule, duration(w.blocked.total_ns));
        line("waited for", times.waits.iter().map(rule).collect::<Vec<_>>().join(", "));
    }
    let work = times.categories.iter().map(|c| format!("{} {}", c.category, duration(c.replay_ns)));
    line("in calls", work.collect::<Vec<_>>().join(", "));
    let mut out = table.text();
    match detail {
        Detail::Short => out += &calls(times, FEW_CALLS, style),
        Detail::Full => {
            out += &calls(times, usize::MAX, style);
            out += &kinds_of_work(times, style);
            out += &each_thread(times, style);
            out += &rules(times, style);
            out += &course(times, style);
        }
    }
    out
}

fn elapsed(times: &ReplayTimes) -> String {
    let own = duration(times.elapsed_ns);
    match times.original_elapsed_ns {
        Some(original) if original > 0 => {
            let ratio = times.elapsed_ns as f64 / original as f64;
            format!("{own}, traced {} (ratio {ratio:.3})", duration(original))
        }
        _ => own,
    }
}

fn threads(total: &ThreadTimes) -> String {
    let parts = [
        (total.in_calls_ns, "in calls"),
        (total.waiting_ns, "waiting for dependencies"),
        (total.pacing_ns, "pacing"),
        (total.engine_ns, "in the engine"),
    ];
    let shown = parts.into_iter().filter(|(ns, _)| *ns > 0);
    shown.map(|(ns, what)| format!("{} {what}", duration(ns))).collect::<Vec<_>>().join(", ")
}

fn in_flight(times: &ReplayTimes) -> String {
    let own = format!("{:.2} storage calls on average", times.in_flight.mean);
    match (&times.original_in_flight, times.concurrency_ratio) {
        (Some(original), Some(ratio)) => format!("{own}, traced {:.2} (ratio {ratio:.3})", original.mean),
        _ => own,
    }
}

fn by_punctuality(by: &IssueErrorBy) -> [(&'static str, SignedDistribution); 3] {
    [("  on time", by.on_time), ("  behind", by.behind), ("  disturbed", by.disturbed)]
}

fn quantiles(e: &SignedDistribution) -> String {
    let of = [("p50", e.p50_ns), ("p90", e.p90_ns), ("p99", e.p99_ns), ("max", e.max_ns)];
    of.map(|(name, ns)| format!("{name} {}", signed(ns))).join(", ")
}

fn signed(ns: i64) -> String {
    format!("{}{}", if ns < 0 { "-" } else { "" }, duration(ns.unsigned_abs()))
}

fn section(title: &str, table: &Table, style: Style) -> String {
    format!("\n{}\n{}", style.heading(title), table.text())
}

fn calls(times: &ReplayTimes, most: usize, style: Style) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(2, &[Left, Right, Right, Right, Right, Right, Right, Right]);
    let titles = ["call", "actions", "p50", "p99", "total", "traced p50", "p99", "total"];
    table.row(titles.map(|t| style.faint(t)));
    let three = |d: &Distribution| [d.p50_ns, d.p99_ns, d.total_ns].map(duration);
    for row in times.calls.iter().take(most) {
        let original = row.original.as_ref().map_or_else(Default::default, three);
        let cells = [row.call.clone(), count(row.replay.count)].into_iter().chain(three(&row.replay)).chain(original);
        table.row(cells);
    }
    let mut out = table.text();
    let rest = times.calls.len().saturating_sub(most);
    if rest > 0 {
        out += &style.faint(&format!("  {rest} calls more\n"));
    }
    out
}

fn kinds_of_work(times: &ReplayTimes, style: Style) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(2, &[Left, Right, Right, Right]);
    table.row(["kind", "actions", "time", "traced"].map(|t| style.faint(t)));
    for row in &times.categories {
        let original = row.original_ns.map_or_else(String::new, duration);
        table.row([row.category.to_owned(), count(row.actions), duration(row.replay_ns), original]);
    }
    section("Time in calls, by kind of work", &table, style)
}

fn each_thread(times: &ReplayTimes, style: Style) -> String {
    let mut table = Table::new(2, &[Align::Left, Align::Left]);
    for t in &times.threads {
        table.row([format!("T{}", t.thread), format!("{}: {}", duration(t.wall_ns), threads(t))]);
    }
    section("Threads", &table, style)
}

fn rules(times: &ReplayTimes, style: Style) -> String {
    use Align::{Left, Right};
    if times.waits.is_empty() {
        return String::new();
    }
    let mut table = Table::new(2, &[Left, Right, Right, Right, Right, Right]);
    table.row(["rule", "actions", "time", "p50", "p99", "max"].map(|t| style.faint(t)));
    for row in &times.waits {
        let b = &row.blocked;
        let cells = [b.total_ns, b.p50_ns, b.p99_ns, b.max_ns].map(duration);
        table.row([row.rule.clone(), count(b.count)].into_iter().chain(cells));
    }
    section("Waiting for dependencies, by rule", &table, style)
}

fn course(times: &ReplayTimes, style: Style) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(2, &[Left, Right, Right, Right, Right, Right, Right]);
    table.row(["", "mean", "p10", "p50", "p90", "max", "slice"].map(|t| style.faint(t)));
    let mut row = |name: &str, o: &Overlap| {
        let levels = [o.mean, o.p10, o.p50, o.p90, o.max].map(|level| format!("{level:.2}"));
        table.row([name.to_owned()].into_iter().chain(levels).chain([duration(o.slice_ns)]));
    };
    row("replay", &times.in_flight);
    if let Some(original) = &times.original_in_flight {
        row("traced", original);
    }
    section("Storage calls in flight, over time", &table, style)
}
