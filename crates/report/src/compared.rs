//! Groups of results beside each other, as a table.

use reprise_measure::metrology::{Difference, Verdict};
use reprise_validate::{Comparison, Quantity};

use crate::style::Style;
use crate::table::{Align, Table};
use crate::units::duration;

/// What was compared, as text.
pub fn compared_text(comparison: &Comparison, style: Style) -> String {
    use Align::{Left, Right};
    let mut text = String::new();
    let mut means = Table::new(2, &[Left, Left, Right, Right, Right, Right, Right]);
    means.row(["", "group", "results", "mean", "u of the mean", "scatter", "u_c of one"]);
    let mut pairs = Table::new(2, &[Left, Left, Right, Left, Right, Left]);
    pairs.row(["", "groups", "difference", "interval of 95 %", "p", "verdict"]);
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
        for pair in &compared.differences {
            pairs.row(pair_row(name, pair, &comparison.groups, style));
        }
    }
    text += &format!("{}\n{}", style.heading("Elapsed and mean response times"), means.text());
    let responses = comparison.quantities.iter().filter(|compared| compared.quantity != Quantity::Elapsed);
    if responses.flat_map(|compared| &compared.u_c).any(Option::is_none) {
        let note = "  u_c not known: no such replay was validated on this machine (`reprise validate`)\n";
        text += &style.faint(note);
    }
    let judged = comparison.quantities.iter().any(|compared| !compared.differences.is_empty());
    text += &match judged {
        true => format!("\n{}\n{}", style.heading("Differences"), pairs.text()),
        false => "\nNo difference can be told: each group needs two results at least that are not all alike\n".into(),
    };
    for path in &comparison.other_traces {
        text += &style.notable(&format!("{path}: is of another trace; what differs may be the work\n"));
    }
    text
}

fn pair_row(name: &str, pair: &Difference, groups: &[String], style: Style) -> Vec<String> {
    let (first, second) = (&groups[pair.first], &groups[pair.second]);
    let d = &pair.difference;
    let base = d.bias / d.relative;
    let share = |x: f64| format!("{:+.1} %", 100.0 * x / base);
    let verdict = match pair.verdict {
        Verdict::Greater => style.notable(&format!("{second} takes longer")),
        Verdict::Less => style.notable(&format!("{second} takes less")),
        Verdict::Equal => style.good("equal within 5 %"),
        Verdict::CannotBeTold => "cannot be told".to_owned(),
    };
    let interval = format!("{} to {}", share(d.from), share(d.to));
    vec![
        name.to_owned(),
        format!("{first}, {second}"),
        share(d.bias),
        interval,
        format!("{:.3}", pair.p_adjusted),
        verdict,
    ]
}

fn time(ns: f64) -> String {
    duration(ns.max(0.0) as u64)
}
