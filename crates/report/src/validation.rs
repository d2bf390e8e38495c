//! A validation as tables.

use reprise_measure::metrology::{Component, Signal, Strength, Trend, Uncertainty};
use reprise_validate::{
    Charted, Disturbance, Drift, Finding, Influence, Limits, Linearity, Measure, Origin, Statistic, Validation,
};

use crate::style::Style;
use crate::table::{Align, Table};
use crate::units::{duration, probability};
use crate::validation_details::{corrections, details};

/// Findings whose budget is told: those of the greatest uncertainty.
const BUDGETS: usize = 5;
/// With fewer runs the numbers say little.
const FEW_RUNS: usize = 10;

/// What was found, as text.
pub fn validation_text(validation: &Validation, style: Style) -> String {
    let mut text = format!(
        "{} of Linux {}, {} processors; {} on {}\n",
        validation.host, validation.kernel, validation.processors, validation.directory, validation.file_system
    );
    for (statistic, what) in [(Statistic::Mean, "Mean response times"), (Statistic::Median, "Median response times")] {
        let of: Vec<&Finding> = validation.findings.iter().filter(|f| f.statistic == statistic).collect();
        if !of.is_empty() {
            text += &format!("\n{}\n", style.heading(what));
            text += &findings(&of, style);
        }
    }
    text += &details(&validation.findings, style);
    text += &corrections(&validation.findings, style);
    text += &distributions(validation, style);
    text += &linearity(&validation.linearity, style);
    text += &budgets(validation, style);
    text + &disturbances(validation, style) + &drifts(&validation.drifts, style)
}

/// What a row is about: titles and cells.
pub(crate) const ABOUT: [&str; 5] = ["workload", "pause", "level", "call", "instrument"];

pub(crate) fn about(f: &Finding) -> [String; 5] {
    let (workload, level) = (f.setting.workload.clone(), f.setting.level.to_string());
    [workload, format!("{} µs", f.setting.pause_us), level, f.call.clone(), f.instrument.clone()]
}

fn findings(findings: &[&Finding], style: Style) -> String {
    use Align::{Left, Right};
    let columns = [Left, Right, Right, Left, Left, Right, Right, Right, Right, Right, Right, Right, Left];
    let mut table = Table::new(2, &columns);
    table.row(ABOUT.into_iter().chain(["reference", "measured", "bias", "F", "U (k=2)", "floor", "undisturbed", ""]));
    for f in findings {
        let expanded = |u: &Option<Uncertainty>| u.as_ref().map_or("-".to_owned(), |u| percent(u.expanded[1].relative));
        let f_test = f.precision.and_then(|p| p.ratio).map_or("-".to_owned(), |ratio| {
            let text = format!("{:.2}", ratio.f);
            if ratio.is_greater { style.notable(&(text + "!")) } else { text }
        });
        let bias = f.bias.map_or("-".to_owned(), |bias| {
            let text = signed_percent(bias.relative);
            if bias.is_significant { style.notable(&(text + "!")) } else { text }
        });
        table.row(about(f).into_iter().chain([
            f.uncertainty.as_ref().map_or("-".into(), |u| time(u.reference)),
            f.uncertainty.as_ref().map_or("-".into(), |u| time(u.mean)),
            bias,
            f_test,
            expanded(&f.uncertainty),
            expanded(&f.floor),
            undisturbed(f),
            remarks(f),
        ]));
    }
    let mut notes = "  bias!: significant (Student, 5 %); F!: scatters more than the reference (5 %)\n".to_owned();
    if findings.iter().any(|f| f.blocks < FEW_RUNS) {
        notes += "  fewer than ten runs say little: k = 2 then covers less than 95 %; U95 below takes their number into account\n";
    }
    table.text() + &style.faint(&notes)
}

/// U of the calm blocks, or why there is none.
fn undisturbed(f: &Finding) -> String {
    let calm = f.blocks - f.disturbed_blocks - f.unknown_blocks;
    match &f.undisturbed {
        Some(u) => percent(u.expanded[1].relative),
        None if calm == f.blocks => "all calm".to_owned(),
        None if f.unknown_blocks > 0 => "not known".to_owned(),
        None => format!("{calm} calm"),
    }
}

/// What is to be known beside the numbers.
fn remarks(f: &Finding) -> String {
    let mut out = Vec::new();
    if let Some(equivalence) = &f.equivalence {
        let margin = f.uncertainty.as_ref().map(|u| equivalence.least_margin / u.reference);
        match (equivalence.is_equivalent, margin) {
            (true, Some(margin)) => out.push(format!("equal within {}", percent(margin))),
            (false, Some(margin)) => out.push(format!("not shown equal (within {} only)", percent(margin))),
            (_, None) => {}
        }
    }
    if f.disturbed_blocks > 0 {
        out.push(format!("{} of {} blocks disturbed", f.disturbed_blocks, f.blocks));
    }
    if f.changed_blocks > 0 {
        out.push(format!("{} of {} blocks under other settings", f.changed_blocks, f.blocks));
    }
    if f.unknown_blocks > 0 {
        out.push(format!("{} of {} blocks: not known whether disturbed", f.unknown_blocks, f.blocks));
    }
    if f.unlike_trace > 0 {
        out.push(format!("other requests than the trace's in {} of {} runs", f.unlike_trace, f.blocks));
    }
    for (what, outlier) in [("run", &f.stability.outlier), ("reference run", &f.stability.reference_outlier)] {
        out.extend(
            outlier.as_ref().map(|outlier| format!("{what} {} is {}", outlier.index, strength(outlier.strength))),
        );
    }
    let signals = f.stability.chart.iter().flat_map(|chart| &chart.signals);
    out.extend(signals.map(|(place, signal)| format!("run {place} {}", why(*signal))));
    if let Some(more) = f.stability.further_runs.filter(|more| *more > 0) {
        out.push(format!("{more} more runs for 1 %"));
    }
    out.join("; ")
}

fn strength(strength: Strength) -> &'static str {
    match strength {
        Strength::Straggler => "a straggler (Grubbs, 5 %)",
        Strength::Outlier => "an outlier (Grubbs, 1 %)",
    }
}

/// Why a value does not go with those before.
fn why(signal: Signal) -> &'static str {
    match signal {
        Signal::BeyondLimits => "is beyond the limits",
        Signal::TwoOfThree | Signal::FourOfFive => "is once more near a limit",
        Signal::Run => "is on one side of the centre for long",
    }
}

fn distributions(validation: &Validation, style: Style) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(2, &[[Left, Right, Right, Left, Left].as_slice(), &[Right; 8]].concat());
    table.row(ABOUT.into_iter().chain([
        "response KS",
        "Wasserstein",
        "issues KS",
        "in flight KS",
        "by slice KS",
        "rate",
        "reordered",
        "(reference)",
    ]));
    let is_mean = |f: &&Finding| f.statistic == Statistic::Mean;
    for f in validation.findings.iter().filter(is_mean) {
        let ks = |d: &Option<reprise_measure::metrology::Distance>| {
            d.map_or("-".to_owned(), |d| format!("{:.3}", d.kolmogorov_smirnov))
        };
        let share = |r: &Option<reprise_measure::metrology::Reordering>| r.map_or("-".to_owned(), |r| percent(r.ratio));
        table.row(about(f).into_iter().chain([
            ks(&f.distances.response_ns),
            f.distances.response_ns.map_or("-".into(), |d| time(d.wasserstein)),
            ks(&f.distances.between_issues_ns),
            ks(&f.distances.in_flight),
            ks(&f.distances.issued_by_slice),
            f.rate_ratio.map_or("-".into(), |ratio| format!("{ratio:.3}")),
            share(&f.reordering),
            share(&f.reference_reordering),
        ]));
    }
    if validation.findings.is_empty() {
        return String::new();
    }
    format!("\n{}\n{}", style.heading("Distributions, all runs together, beside the reference's"), table.text())
}

fn linearity(lines: &[Linearity], style: Style) -> String {
    use Align::{Left, Right};
    if lines.is_empty() {
        return String::new();
    }
    let mut table = Table::new(2, &[Left, Right, Left, Left, Left, Left]);
    table.row([
        "workload",
        "pause",
        "call",
        "instrument",
        "coefficient of variation by level",
        "relative bias by level",
    ]);
    for line in lines.iter().filter(|line| line.statistic == Statistic::Mean) {
        let course = |of: &dyn Fn(&(u32, f64, f64)) -> String, trend: &Option<Trend>| {
            let levels: Vec<String> = line.levels.iter().map(of).collect();
            let word = trend.map_or("too few levels for a trend".to_owned(), |trend| seen(&trend, levels.len(), style));
            format!("{}: {word}", levels.join(" "))
        };
        table.row([
            line.workload.clone(),
            format!("{} µs", line.pause_us),
            line.call.clone(),
            line.instrument.clone(),
            course(&|level| percent(level.1), &line.precision) + &outlier(line),
            course(&|level| signed_percent(level.2), &line.bias),
        ]);
    }
    format!("\n{}\n{}", style.heading("Linearity"), table.text())
}

/// A line through the values of levels; that no trend is seen proves none away, so its interval stands beside.
fn seen(trend: &Trend, levels: usize, style: Style) -> String {
    let line = format!(
        "{} at none, {} a level, 95 %: {} to {}; p {}",
        signed_percent(trend.intercept),
        signed_percent(trend.slope),
        signed_percent(trend.from),
        signed_percent(trend.to),
        probability(trend.p)
    );
    match trend.is_significant {
        true => style.notable(&format!("trend ({line})")),
        false => format!("no trend seen ({levels} levels; {line})"),
    }
}

/// The level that scatters unlike the others.
fn outlier(line: &Linearity) -> String {
    let level = line.variance_outlier.as_ref().and_then(|outlier| line.levels.get(outlier.index));
    level.map_or(String::new(), |level| format!("; level {} scatters unlike the others (Cochran)", level.0))
}

fn budgets(validation: &Validation, style: Style) -> String {
    let mut of: Vec<(&Finding, &Uncertainty)> = validation
        .findings
        .iter()
        .filter(|f| f.statistic == Statistic::Mean)
        .filter_map(|f| Some((f, f.uncertainty.as_ref()?)))
        .collect();
    of.sort_by(|a, b| b.1.u_c.total_cmp(&a.1.u_c));
    let mut text = String::new();
    for (f, u) in of.into_iter().take(BUDGETS) {
        let parts: Vec<String> = u
            .budget
            .iter()
            .map(|part| format!("{} {} ({:.0} %)", word(part.component), percent(part.u), 100.0 * part.share))
            .collect();
        let name = format!("{} level {} {} {}", f.setting.workload, f.setting.level, f.call, f.instrument);
        text += &format!(
            "  {name}: u_c {} with {:.0} degrees of freedom: {}\n",
            percent(u.u_c),
            u.degrees,
            parts.join(", ")
        );
        text += &influences(&f.influences);
    }
    if text.is_empty() {
        text
    } else {
        format!("\n{}\n{text}", style.heading("Greatest uncertainties, and what they are made of"))
    }
}

fn word(component: Component) -> &'static str {
    match component {
        Component::Precision => "scatter of the replays",
        Component::Bias => "bias",
        Component::Reference => "reference",
    }
}

/// A line, the greatest first.
fn influences(influences: &[Influence]) -> String {
    let part = |influence: &Influence| {
        let u = influence.u.map_or("not known".to_owned(), percent);
        format!("{} {u}", origin(influence.origin))
    };
    let parts: Vec<String> = influences.iter().map(part).collect();
    if parts.is_empty() { String::new() } else { format!("    from: {}\n", parts.join(", ")) }
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Clock => "clock",
        Origin::Recorder => "reading the clock",
        Origin::Engine => "engine",
        Origin::Scheduler => "scheduler",
        Origin::CacheState => "cache state",
        Origin::Device => "device and file system",
        Origin::Rest => "not explained",
    }
}

/// What each measure is called, and how its values are written.
fn measure(measure: Measure) -> (&'static str, fn(f64) -> String) {
    let rate = |by_second: f64| format!("{}/s", crate::units::bytes(by_second as u64));
    match measure {
        Measure::OtherPrograms => ("processor time of other programs", percent),
        Measure::Steal => ("processor time kept by the host", percent),
        Measure::MemoryPressure => ("time short of memory", percent),
        Measure::OtherReads => ("reads of others from the device", rate),
        Measure::OtherWrites => ("writes of others to the device", rate),
        Measure::Throttling => ("slowed down by heat", |by_second| format!("{by_second:.1}/s")),
    }
}

/// How the machine was, what counts as disturbed, and how much of it there was.
fn disturbances(validation: &Validation, style: Style) -> String {
    let all: Vec<_> = validation.runs.iter().flat_map(|(_, runs)| runs).collect();
    let disturbed = all.iter().filter(|run| !run.disturbances.is_empty()).count();
    let unknown = all.iter().filter(|run| run.disturbances.is_empty() && !run.unknown.is_empty()).count();
    let others = if unknown > 0 { format!("; of {unknown} it is not known") } else { String::new() };
    let summary = match disturbed {
        0 if unknown > 0 => format!("{} runs, none seen disturbed{others}", all.len()),
        0 => format!("{} runs, none disturbed", all.len()),
        _ => style.notable(&format!("{} runs, {disturbed} disturbed; they are counted in{others}", all.len())),
    };
    let mut text = format!("\n{}\n{summary}\n", style.heading("Disturbances"));
    for which in Measure::ALL {
        let (name, show) = measure(which);
        let of: Vec<&Disturbance> =
            all.iter().flat_map(|run| &run.disturbances).filter(|d| d.measure == which).collect();
        let Some(limit) = validation.limits.0.iter().find(|limit| limit.measure == which) else {
            text += &format!("  {name}: this machine does not tell\n");
            continue;
        };
        let base = format!("before the runs {}, limit {}", show(limit.base), show(limit.limit));
        if !limit.can_be_judged() {
            text += &format!("  {name}: cannot be judged; before the runs {} already\n", show(limit.base));
            continue;
        }
        let unknown = all.iter().filter(|run| run.unknown.contains(&which)).count();
        let short = if unknown > 0 { format!("; {unknown} runs too short to say") } else { String::new() };
        let most = of.iter().map(|d| d.value).fold(0.0, f64::max);
        text += &match of.len() {
            0 => format!("  {name}: no run ({base}){short}\n"),
            n => format!("  {name}: {n} runs, at most {} ({base}){short}\n", show(most)),
        };
    }
    text + &busy(&validation.limits, style) + &changed(validation, style)
}

/// A machine that does other things all the while marks nothing by a limit that follows from it.
fn busy(limits: &Limits, style: Style) -> String {
    let is_busy = limits.0.iter().any(|l| l.measure == Measure::OtherPrograms && l.base > 0.05);
    let text = "this machine was busy before the runs, too: what is not marked was disturbed as usual";
    if is_busy { style.notable(text) + "\n" } else { String::new() }
}

/// Settings that were not the same for all runs.
fn changed(validation: &Validation, style: Style) -> String {
    let of_runs = validation.runs.iter().flat_map(|(_, runs)| runs).flat_map(|run| &run.changed_rules);
    let mut all: Vec<&String> = of_runs.chain(&validation.changed_rules).collect();
    all.sort_unstable();
    all.dedup();
    all.iter().map(|change| style.notable(&format!("not the same for all runs: {change}")) + "\n").collect()
}

/// What does not go with the validations before, a line each; empty where all does.
fn drifts(drifts: &[Drift], style: Style) -> String {
    let line = |d: &Drift| {
        let (what, show): (_, fn(f64) -> String) = match d.charted {
            Charted::Reference => ("reference", time),
            Charted::Bias => ("bias", signed_percent),
        };
        let why = why(d.signal);
        let limits = format!("{} to {}, of {} validations before", show(d.lower), show(d.upper), d.before);
        style.notable(&format!("{}: {what} {} {why} ({limits})", d.of, show(d.value))) + "\n"
    };
    drifts.iter().map(line).collect()
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

pub(crate) fn signed_percent(share: f64) -> String {
    format!("{:+.1} %", 100.0 * share)
}

pub(crate) fn time(ns: f64) -> String {
    duration(ns.max(0.0) as u64)
}
