//! Results of `verify` as text.

use std::collections::BTreeMap;

use reprise_verify::{Comparison, TreeComparison};

use crate::style::Style;
use crate::table::{Align, Table};
use crate::units::{bytes, count};

fn verdict(same: bool, style: Style, good: &str, bad: &str) -> String {
    if same { style.good(good) } else { style.bad(bad) }
}

fn counts(lines: &[(u64, &str)], style: Style) -> String {
    let mut table = Table::new(2, &[Align::Right, Align::Left]);
    for (number, what) in lines.iter().filter(|(number, _)| *number > 0) {
        let wrong = ["diverged", "never replayed", "extra"].iter().any(|w| what.starts_with(w));
        let number = count(*number);
        table.row([if wrong { style.bad(&number) } else { number }, (*what).to_owned()]);
    }
    table.text()
}

fn section(title: &str, causes: &BTreeMap<String, u64>, style: Style) -> String {
    if causes.is_empty() {
        return String::new();
    }
    let mut table = Table::new(2, &[Align::Right, Align::Left]);
    let mut sorted: Vec<_> = causes.iter().collect();
    sorted.sort_by_key(|(_, number)| std::cmp::Reverse(**number));
    for (cause, number) in sorted {
        table.row([count(*number), cause.clone()]);
    }
    format!("\n{}\n{}", style.heading(title), table.text())
}

fn more(total: u64, shown: usize, style: Style) -> String {
    match total.saturating_sub(shown as u64) {
        0 => String::new(),
        rest => format!("      {}\n", style.faint(&format!("and {} more", count(rest)))),
    }
}

/// A comparison of two traces as text of several lines.
pub fn comparison_text(c: &Comparison, style: Style) -> String {
    let good = "the replay did the same";
    let mut out = format!("{}\n", verdict(c.is_same(), style, good, "the replay went differently"));
    let lines = [
        (c.actions, "actions"),
        (c.before, "before the first of this replay: in the result that it continues"),
        (c.same, "the same"),
        (c.excused, "different, as in any replay"),
        (c.simulated, "simulated: taken from the trace"),
        (c.skipped, "skipped on purpose"),
        (c.unsupported, "unsupported"),
        (c.diverged, "diverged"),
        (c.missing, "never replayed"),
        (c.extra, "extra rows in the replay's trace"),
    ];
    out += &counts(&lines, style);
    if !c.complete {
        out += &style.notable("  a trace was not closed in order: what is missing may have been lost with its end\n");
    }
    if !c.groups.is_empty() {
        out += &format!("\n{}\n", style.heading("Differences, the worst first"));
    }
    for group in &c.groups {
        out += &format!("  {} {}: {}\n", style.bad(&count(group.count)), group.call, group.cause);
        let mut table = Table::new(6, &[Align::Right, Align::Left, Align::Left, Align::Left]);
        for e in &group.first {
            table.row([format!("#{}", e.origin), format!("T{}", e.thread), e.text.clone(), e.path.clone()]);
        }
        out += &table.text();
        out += &more(group.count, group.first.len(), style);
    }
    out += &section("Differences that no replay can avoid", &c.unavoidable, style);
    out += &section("Not compared, because a trace does not hold it", &c.uncompared, style);
    out
}

/// A comparison of a trace with a tree as text of several lines.
pub fn tree_text(c: &TreeComparison, style: Style) -> String {
    let good = match c.uncompared_attributes.is_empty() {
        true => "the tree is as it should be",
        false => "the tree is as it should be, as far as it was compared",
    };
    let mut out = format!("{}\n", verdict(c.is_same(), style, good, "the tree differs"));
    let lines = [
        (c.names, "names"),
        (c.same, "the same"),
        (c.excused, "different, as after any replay"),
        (c.diverged, "diverged: different or missing"),
        (c.extra, "extra names"),
    ];
    out += &counts(&lines, style);
    let mut content = format!("  {} of content compared", bytes(c.compared_bytes));
    if c.unknown_bytes > 0 {
        content += &format!(", {} never read by the program and so unknown", bytes(c.unknown_bytes));
    }
    if c.unrecorded_bytes > 0 {
        content += &format!(", {} written but not recorded", bytes(c.unrecorded_bytes));
    }
    out += &format!("{content}\n");
    if !c.groups.is_empty() {
        out += &format!("\n{}\n", style.heading("Differences, the worst first"));
    }
    for group in &c.groups {
        out += &format!("  {} {}\n", style.bad(&count(group.count)), group.cause);
        let mut table = Table::new(6, &[Align::Left, Align::Left]);
        for e in &group.first {
            table.row([e.path.clone(), e.text.clone()]);
        }
        out += &table.text();
        out += &more(group.count, group.first.len(), style);
    }
    out += &section("Differences that no replay can avoid", &c.unavoidable, style);
    out += &section("Attributes that were not compared", &c.uncompared_attributes, style);
    out += &section("Where the trace did not fit the model", &c.surprises, style);
    out
}
