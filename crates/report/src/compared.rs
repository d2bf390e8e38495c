//! Groups of results beside each other, as a table.

use reprise_measure::metrology::Verdict;
use reprise_validate::{Compared, Comparison, Quantity};

use crate::style::Style;
use crate::table::{Align, Table};
use crate::units::{duration, probability};

/// What was compared, as text.
pub fn compared_text(comparison: &Comparison, style: Style) -> String {
    use Align::{Left, Right};
    let mut text = String::new();
    let mut means = Table::new(2, &[Left, Left, Right, Right, Right, Right, Right]);
    means.row(["", "group", "results", "mean", "u of the mean", "scatter", "u_c of one"]);
    let mut pairs = Table::new(2, &[Left, Left, Right, Left, Right, Left]);
    pairs.row(["", "groups", "difference", "95 %, this pair alone", "p", "verdict"]);
    for compared in &comparison.quantities {
        let name = match &compared.quantity {
            Quantity::Elapsed => "elapsed",
            Quantity::MeanResponse(call) => call,
        };
        let rows = compared.values.iter().zip(&compared.summaries).zip(&compared.u_c);
        for (group, ((values, summary), u_c)) in comparison.groups.iter().zip(rows) {
            let is_response = compared.quantity != Quantity::Elapsed;
            let u_c = match u_c {
                Some(u_c) => format!("{:.1} %", 100.0 * u_c),
                None if is_response => "not known".to_owned(),
                None => "-".to_owned(),
            };
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let cells = match summary {
                Some(s) => [time(s.mean), time(s.u_mean), format!("{:.1} %", 100.0 * s.cv)],
                None if values.is_empty() => ["-".into(), "-".into(), "-".into()],
                None => [time(mean), "not known".into(), "-".into()],
            };
            means.row(
                [vec![name.to_owned(), group.clone(), values.len().to_string()], cells.into(), vec![u_c]].concat(),
            );
        }
        for pair in places(comparison.groups.len()) {
            pairs.row(pair_row(name, pair, compared, &comparison.groups, style));
        }
    }
    text += &format!("{}\n{}", style.heading("Elapsed and mean response times"), means.text());
    let responses = comparison.quantities.iter().filter(|compared| compared.quantity != Quantity::Elapsed);
    if responses.flat_map(|compared| &compared.u_c).any(Option::is_none) {
        let note =
            "  u_c not known: no such replay, with such times, was validated on this machine (`reprise validate`)\n";
        text += &style.faint(note);
    }
    let judged: usize = comparison.quantities.iter().map(|compared| compared.differences.len()).sum();
    text += &match judged {
        1.. => {
            let calls = judged - comparison.quantities[0].differences.len();
            let note = format!(
                "  p and verdict: adjusted for all pairs of elapsed times, and for all {calls} of calls that can be judged (Holm)\n"
            );
            format!("\n{}\n{}{}", style.heading("Differences"), pairs.text(), style.faint(&note))
        }
        0 => "\nNo difference can be told: each group needs two results at least that are not all alike\n".into(),
    };
    if !comparison.left_out.is_empty() {
        let note = format!("  Not compared, with less than 1 % of the time: {}\n", comparison.left_out.join(", "));
        text += &style.faint(&note);
    }
    for path in &comparison.other_traces {
        text += &style.notable(&format!("{path}: is of another trace; what differs may be the work\n"));
    }
    text
}

fn places(groups: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..groups).flat_map(move |first| (first + 1..groups).map(move |second| (first, second)))
}

/// Every pair has a row: of one that is not judged nothing can be told.
fn pair_row(
    name: &str,
    (first, second): (usize, usize),
    compared: &Compared,
    groups: &[String],
    style: Style,
) -> Vec<String> {
    let title = [name.to_owned(), format!("{}, {}", groups[first], groups[second])];
    let judged = compared.differences.iter().find(|pair| (pair.first, pair.second) == (first, second));
    let base = compared.summaries[first].map(|summary| summary.mean);
    let cells = match judged.zip(base) {
        Some((pair, base)) => {
            let share = |x: f64| if base > 0.0 { format!("{:+.1} %", 100.0 * x / base) } else { "-".to_owned() };
            let interval = format!("{} to {}", share(pair.difference.from), share(pair.difference.to));
            let p = if pair.verdict == Verdict::Equal { pair.p_unequal_adjusted } else { pair.p_adjusted };
            [share(pair.difference.bias), interval, probability(p), verdict(pair.verdict, &groups[second], style)]
        }
        None => ["-", "-", "-", "cannot be told"].map(String::from),
    };
    title.into_iter().chain(cells).collect()
}

fn verdict(verdict: Verdict, second: &str, style: Style) -> String {
    match verdict {
        Verdict::Greater => style.notable(&format!("{second} takes longer")),
        Verdict::Less => style.notable(&format!("{second} takes less")),
        Verdict::Equal => style.good("equal within 5 %"),
        Verdict::CannotBeTold => "cannot be told".to_owned(),
    }
}

fn time(ns: f64) -> String {
    duration(ns.max(0.0) as u64)
}
