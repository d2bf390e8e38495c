//! Replays beside each other: those with the same settings are replications of each other, and say by their scatter which
//! differences between settings are real. Where each setting was replayed once, a stored validation says it, if there is one.
//!
//! Non-goals: the statistics (`measure::metrology`), which quantities are compared (`validate`).

use std::collections::BTreeSet;

use reprise_measure::metrology::{Difference, Verdict as Judgement};
use reprise_trace::MEMORY_LIMIT;
use reprise_validate::{Compared, Quantity};
use serde::Serialize;

use super::side::Side;
use crate::units::duration;

/// Facts that make one setting of a replay another than the next one.
const SETTINGS: [&str; 9] = ["host", "kernel", "filesystem", "device", "order", "pace", "io", "cache", MEMORY_LIMIT];
/// Calls that are compared: those with most time.
const CALLS: usize = 8;
/// Coverage factor of uncertainties that a validation gives.
const COVERAGE: f64 = 2.0;

/// Replays with the same settings.
#[derive(Debug, Serialize)]
pub struct Group {
    /// What tells it from the others.
    pub name: String,
    /// Places of its replays among the sides.
    pub members: Vec<usize>,
}

/// Where an uncertainty is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The replications scatter so.
    Replications,
    /// The validation of the machine found it for replays of this kind.
    Validation,
    /// One run, and no validation.
    Nothing,
}

/// A quantity of a group.
#[derive(Debug, Serialize)]
pub struct Estimate {
    /// Of each run, in nanoseconds.
    pub values: Vec<f64>,
    /// Their mean.
    pub mean: f64,
    /// Its expanded uncertainty: between `mean − expanded` and `mean + expanded` it lies with 95 %.
    pub expanded: Option<f64>,
    /// Where that is from.
    pub source: Source,
}

/// Two groups of which a stored validation says whether they differ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ByValidation {
    /// Place of the first group.
    pub first: usize,
    /// Place of the second.
    pub second: usize,
    /// The second minus the first, by the first.
    pub relative: f64,
    /// Expanded uncertainty of that (k = 2).
    pub expanded: f64,
    /// Whether the difference is greater than it.
    pub is_real: bool,
}

/// A quantity of all groups.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Of what.
    pub quantity: Quantity,
    /// Of each group.
    pub estimates: Vec<Estimate>,
    /// Pairs that their replications judge.
    pub differences: Vec<Difference>,
    /// The other pairs, if they are validated.
    pub by_validation: Vec<ByValidation>,
}

/// All of it.
#[derive(Debug, Serialize)]
pub struct Beside {
    pub groups: Vec<Group>,
    pub rows: Vec<Row>,
}

/// Groups of the replays among the sides, and what differs between them; nothing of fewer than two replays. Of each side the
/// group that it was given, if it was.
pub fn beside(sides: &[Side], given: &[Option<String>]) -> Option<Beside> {
    let replays: Vec<usize> = (0..sides.len()).filter(|i| sides[*i].replay).collect();
    if replays.len() < 2 {
        return None;
    }
    let groups = groups(sides, &replays, given);
    let values = |of: &dyn Fn(&Side) -> Option<f64>| -> Vec<Vec<f64>> {
        groups.iter().map(|group| group.members.iter().filter_map(|i| of(&sides[*i])).collect()).collect()
    };
    let elapsed = (Quantity::Elapsed, values(&|side| Some(side.reached_ns as f64)));
    let calls: BTreeSet<&str> = replays.iter().flat_map(|i| &sides[*i].calls).map(|c| c.call.as_str()).collect();
    let mut of_calls: Vec<(u64, _)> = calls
        .into_iter()
        .map(|call| {
            let find = |side: &Side| side.calls.iter().find(|c| c.call == call).map(|c| c.times);
            let total = replays.iter().filter_map(|i| find(&sides[*i])).map(|times| times.total_ns).sum();
            let mean = |side: &Side| find(side).map(|times| times.mean_ns);
            (total, (Quantity::MeanResponse(call.to_owned()), values(&mean)))
        })
        .collect();
    of_calls.sort_by_key(|(total, _)| std::cmp::Reverse(*total));
    let quantities = std::iter::once(elapsed).chain(of_calls.into_iter().take(CALLS).map(|(_, of_call)| of_call));
    let rows = Compared::all(quantities.collect()).into_iter().map(|compared| row(compared, sides, &groups)).collect();
    Some(Beside { groups, rows })
}

fn groups(sides: &[Side], replays: &[usize], given: &[Option<String>]) -> Vec<Group> {
    let fact = |i: usize, name: &str| sides[i].facts.get(name).map_or("", String::as_str);
    let telling: Vec<&str> = SETTINGS
        .into_iter()
        .filter(|name| replays.iter().map(|i| fact(*i, name)).collect::<BTreeSet<_>>().len() > 1)
        .collect();
    let mut out: Vec<Group> = Vec::new();
    for i in replays {
        let settings = || telling.iter().map(|name| fact(*i, name)).filter(|text| !text.is_empty());
        let name = given.get(*i).cloned().flatten().unwrap_or_else(|| settings().collect::<Vec<_>>().join(", "));
        match out.iter_mut().find(|group| group.name == name) {
            Some(group) => group.members.push(*i),
            None => out.push(Group { name, members: vec![*i] }),
        }
    }
    // One replay of each setting is called what it is called elsewhere in the report.
    for group in &mut out {
        if let ([only], true) = (&group.members[..], given.iter().all(Option::is_none)) {
            group.name.clone_from(&sides[*only].name);
        } else if group.name.is_empty() {
            "the same settings".clone_into(&mut group.name);
        }
    }
    out
}

fn row(compared: Compared, sides: &[Side], groups: &[Group]) -> Row {
    let validated = |group: &Group| match (&compared.quantity, &group.members[..]) {
        (Quantity::MeanResponse(call), [only]) => {
            let known = sides[*only].calls.iter().find(|c| c.call == *call)?.validated.as_ref()?;
            Some(known.u_c)
        }
        _ => None,
    };
    let estimates: Vec<Estimate> = groups
        .iter()
        .zip(compared.values.iter().zip(&compared.summaries))
        .map(|(group, (values, summary))| {
            let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
            let of_scatter = summary.and_then(|summary| summary.expanded());
            let of_store = || validated(group).map(|u_c| COVERAGE * u_c * mean);
            let (expanded, source) = match (of_scatter, of_store()) {
                (Some(expanded), _) => (Some(expanded), Source::Replications),
                (None, Some(expanded)) => (Some(expanded), Source::Validation),
                (None, None) => (None, Source::Nothing),
            };
            Estimate { values: values.clone(), mean, expanded, source }
        })
        .collect();
    let by_validation = pairs(groups.len()).filter_map(|pair| by_validation(pair, &estimates)).collect();
    Row { quantity: compared.quantity, estimates, differences: compared.differences, by_validation }
}

fn pairs(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).flat_map(move |first| (first + 1..count).map(move |second| (first, second)))
}

fn by_validation((first, second): (usize, usize), estimates: &[Estimate]) -> Option<ByValidation> {
    let (a, b) = (&estimates[first], &estimates[second]);
    if a.source != Source::Validation || b.source != Source::Validation || a.mean <= 0.0 {
        return None;
    }
    let expanded = a.expanded?.hypot(b.expanded?);
    let difference = b.mean - a.mean;
    let is_real = difference.abs() > expanded;
    Some(ByValidation { first, second, relative: difference / a.mean, expanded: expanded / a.mean, is_real })
}

impl Beside {
    /// In a sentence: the elapsed times, those of replications in their mean, and whether they were asked for.
    pub fn elapsed(&self, replays: &[&Side]) -> String {
        let Some(row) = self.rows.first() else { return String::new() };
        let took = |i: usize| {
            let (runs, mean) = (row.estimates[i].values.len(), duration(row.estimates[i].mean as u64));
            if runs > 1 { format!("{mean} in the mean of {runs}") } else { mean }
        };
        let by_mean = |a: &usize, b: &usize| row.estimates[*a].mean.total_cmp(&row.estimates[*b].mean);
        let all = 0..self.groups.len();
        let text = match (all.clone().min_by(by_mean), all.max_by(by_mean)) {
            (Some(least), Some(most)) if least != most => {
                let (a, b) = (&self.groups[least].name, &self.groups[most].name);
                format!(" Elapsed times go from {} ({a}) to {} ({b}).", took(least), took(most))
            }
            (Some(only), _) => format!(" They took {}.", took(only)),
            _ => String::new(),
        };
        let paces: BTreeSet<&str> = replays.iter().filter_map(|r| r.facts.get("pace")).map(String::as_str).collect();
        match paces.len() {
            0 | 1 => text,
            _ => {
                let paces = paces.into_iter().collect::<Vec<_>>().join(", ");
                format!("{text} They were replayed at different paces ({paces}), which elapsed times follow.")
            }
        }
    }

    /// In a sentence: what is known of the elapsed times.
    pub fn sentence(&self) -> String {
        let Some(row) = self.rows.first().filter(|_| self.groups.len() > 1) else {
            return String::new();
        };
        let name = |i: usize| &self.groups[i].name;
        let percent = |x: f64| format!("{:.1} %", 100.0 * x);
        match &row.differences[..] {
            [] => {
                let once = self.groups.iter().filter(|group| group.members.len() == 1);
                let once: Vec<&str> = once.map(|group| &*group.name).collect();
                let what = if once.len() == self.groups.len() { "Each".to_owned() } else { once.join(" and ") };
                format!(
                    " {what} was replayed once: nothing says how much elapsed times vary; replay each three times or more."
                )
            }
            [one] => {
                let base = row.estimates[one.first].mean;
                let (from, to) = (one.difference.from / base, one.difference.to / base);
                let interval = format!("95 %: {} to {}", percent(from), percent(to));
                let (a, b) = (name(one.first), name(one.second));
                match one.verdict {
                    Judgement::Greater => {
                        format!(
                            " In elapsed time {b} takes {} longer than {a} ({interval}).",
                            percent(one.difference.relative)
                        )
                    }
                    Judgement::Less => {
                        format!(
                            " In elapsed time {b} takes {} less than {a} ({interval}).",
                            percent(-one.difference.relative)
                        )
                    }
                    Judgement::Equal => format!(" In elapsed time {a} and {b} are equal within 5 %."),
                    Judgement::CannotBeTold => format!(" Whether {a} or {b} is faster cannot be told ({interval})."),
                }
            }
            several => {
                let real = several.iter().filter(|d| matches!(d.verdict, Judgement::Greater | Judgement::Less)).count();
                format!(" Of {} pairs {real} differ in elapsed time by more than chance.", several.len())
            }
        }
    }
}
