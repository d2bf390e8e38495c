//! The second block of a validation's text: what the judgements of the first rest on, and what corrects a recorder.

use reprise_validate::{Finding, Statistic};

use crate::style::Style;
use crate::table::{Align, Table};
use crate::units::probability;
use crate::validation::{ABOUT, about, percent, time};

/// Of each finding about means: scatter, the bias with its uncertainty, and U for every coverage.
pub(crate) fn details(findings: &[Finding], style: Style) -> String {
    use Align::{Left, Right};
    let about_columns = vec![Left, Right, Right, Left, Left];
    let columns = [about_columns, vec![Right; 6], vec![Left], vec![Right; 7], vec![Left]].concat();
    let mut table = Table::new(2, &columns);
    let titles =
        ["runs", "sd ref.", "sd", "CV", "bias", "u", "95 %", "p", "by u", "U (k=1)", "k=2", "k=3", "ν", "U95", "chart"];
    table.row(ABOUT.into_iter().chain(titles));
    let means: Vec<&Finding> = findings.iter().filter(|f| f.statistic == Statistic::Mean).collect();
    if means.is_empty() {
        return String::new();
    }
    for f in means {
        let cells = [vec![f.blocks.to_string()], scatter(f), bias(f), uncertainty(f), vec![chart(f)]];
        table.row(about(f).into_iter().chain(cells.concat()));
    }
    let note = "  by u: |bias| / u, which Pereira et al. call significant above 2; ν: effective degrees of freedom; U95: U with the k that \
                they need for 95 %; chart: limits of the mean\n";
    format!("\n{}\n{}{}", style.heading("Details of the means"), table.text(), style.faint(note))
}

fn none<const N: usize>() -> Vec<String> {
    vec!["-".to_owned(); N]
}

fn scatter(f: &Finding) -> Vec<String> {
    f.precision.map_or_else(none::<3>, |p| vec![time(p.reference.sd), time(p.measured.sd), percent(p.measured.cv)])
}

fn bias(f: &Finding) -> Vec<String> {
    f.bias.map_or_else(none::<5>, |b| {
        let interval = format!("{} to {}", signed_time(b.from), signed_time(b.to));
        let by_u = format!("{:.1}", b.bias.abs() / b.u);
        vec![signed_time(b.bias), time(b.u), interval, probability(b.p), by_u]
    })
}

fn uncertainty(f: &Finding) -> Vec<String> {
    f.uncertainty.as_ref().map_or_else(none::<5>, |u| {
        let of_k = u.expanded.map(|e| format!("{} ({})", percent(e.relative), time(e.absolute)));
        let degrees = if u.degrees.is_finite() { format!("{:.0}", u.degrees) } else { "∞".to_owned() };
        of_k.into_iter().chain([degrees, percent(u.expanded_95.relative)]).collect()
    })
}

fn chart(f: &Finding) -> String {
    let limit = |ns: f64| if ns < 0.0 { signed_time(ns) } else { time(ns) };
    let limits = f.stability.chart.as_ref().map(|chart| format!("{} to {}", limit(chart.lower), limit(chart.upper)));
    limits.unwrap_or_else(|| "-".to_owned())
}

/// What takes the bias of recorders away, a line for each call.
pub(crate) fn corrections(findings: &[Finding], style: Style) -> String {
    let lines: String = findings
        .iter()
        .filter(|f| f.statistic == Statistic::Mean)
        .filter_map(|f| Some((f, f.correction?)))
        .map(|(f, c)| {
            format!(
                "  {} in {} of {} threads, pause {} µs: {}: add {} (u {}), or multiply by {:.4}\n",
                f.call,
                f.setting.workload,
                f.setting.level,
                f.setting.pause_us,
                f.instrument,
                signed_time(c.add_ns),
                time(c.u_ns),
                c.factor
            )
        })
        .collect();
    if lines.is_empty() {
        return lines;
    }
    format!("\n{}\n{lines}", style.heading("Corrections of recorded response times"))
}

fn signed_time(ns: f64) -> String {
    format!("{}{}", if ns < 0.0 { '-' } else { '+' }, time(ns.abs()))
}
