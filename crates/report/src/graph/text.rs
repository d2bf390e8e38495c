//! Dependencies in words.

use reprise_plan::graph::{CriticalPath, RuleTally, Tally, Why};

use crate::table::{Align, Table};
use crate::units::{count, counted, duration};

/// Edges by rule.
pub fn tally_text(tally: &Tally) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(0, &[Right, Right, Right, Right, Left]);
    table.row(["edges", "overlapping", "mean length", "longest", "rule"]);
    let row = |r: &RuleTally| {
        let (mean, longest) = (duration(r.length_ns_mean), duration(r.length_ns_max));
        [count(r.edges), count(r.overlapping), mean, longest, r.rule.to_owned()]
    };
    tally.rules.iter().for_each(|r| table.row(row(r)));
    table.row(row(&tally.between_threads));
    format!(
        "{} of {}, order {}\n\n{}",
        counted(tally.actions, "action"),
        counted(tally.threads, "thread"),
        tally.order,
        table.text()
    )
}

/// The critical path, with its longest links.
pub fn critical_text(path: &CriticalPath, most: usize) -> String {
    let mut out = format!(
        "\ncritical path: {} in {} actions ({} in all calls: at most {:.2} in flight on average; traced {})\n",
        duration(path.length_ns),
        count(path.links.len() as u64),
        duration(path.total_ns),
        path.concurrency,
        duration(path.traced_ns)
    );
    let mut calls: Vec<_> = path.by_call_ns.iter().collect();
    calls.sort_by_key(|(_, ns)| std::cmp::Reverse(**ns));
    for (call, ns) in calls.into_iter().take(most) {
        out += &format!("  {:>8}  {call}\n", duration(*ns));
    }
    for (rule, changes) in &path.changes_by_rule {
        out += &format!("  {:>8}  times on to another thread by {rule}\n", count(*changes));
    }
    out
}

/// What an action waits for.
pub fn why_text(why: &Why) -> String {
    let mut out =
        format!("action {} (thread {}) {} {}", why.action, why.thread, why.call, why.path.as_deref().unwrap_or(""));
    out = out.trim_end().to_owned();
    if let Some(predelay) = why.predelay_ns {
        out += &format!("\n  began {} after the last of what it depends on", duration(predelay));
    }
    if why.reasons.is_empty() {
        return out + "\n  waits for no other thread\n";
    }
    out += "\n  waits for:\n";
    for r in &why.reasons {
        let length = match r.length_ns {
            ns if ns < 0 => format!("overlapping by {}", duration(ns.unsigned_abs())),
            ns => format!("{} before", duration(ns as u64)),
        };
        out += &format!("    action {} (thread {}) {}", r.action, r.thread, r.call);
        out += &r.path.as_ref().map_or(String::new(), |p| format!(" {p}"));
        out += &format!(", {length}: {}", r.rule);
        out += &r.resource.as_ref().map_or(String::new(), |what| format!(" of {what}"));
        out += if r.implied { " (implied by an earlier wait)\n" } else { "\n" };
    }
    out
}
