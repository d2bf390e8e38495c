//! Results of replays beside each other: groups of replicated ones, of one trace on several systems or in several ways.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use reprise_measure::metrology::{Difference, Summary, Verdict, differences};
use reprise_trace::{MEMORY_LIMIT, TraceReader, bytes_of_kib};
use serde::Serialize;

use crate::ValidateError;
use crate::log::trace;
use crate::nearest::{Replayed, nearest};
use crate::observed::Observed;
use crate::store::Known;

/// The relative difference that would not matter.
const MARGIN: f64 = 0.05;
/// Calls that took less of all time in calls are not compared: each one more makes it harder to tell anything of the others.
const LEAST_SHARE: f64 = 0.01;

/// Replicated results of one system or way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// What it is called.
    pub name: String,
    /// Traces of replays, or recordings.
    pub results: Vec<PathBuf>,
}

/// What is compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// From the first issue to the last completion.
    Elapsed,
    /// Mean response time of a call.
    MeanResponse(String),
}

/// A quantity in all groups.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// Which.
    pub quantity: Quantity,
    /// Time in it, of all results: what matters most has most.
    pub total_ns: f64,
    /// Values of each group, in nanoseconds.
    pub values: Vec<Vec<f64>>,
    /// Of each group with two results at least.
    pub summaries: Vec<Option<Summary>>,
    /// Of each group: u_c of a single mean response time, relative, as this machine was validated with such replays; `None` where
    /// it was not, and of elapsed times.
    pub u_c: Vec<Option<f64>>,
    /// Every pair of groups that can be judged.
    pub differences: Vec<Difference>,
}

impl Compared {
    /// Quantities, each with its values in each group in nanoseconds. What is asked first, whether elapsed times differ, is judged
    /// by itself; response times of calls are judged together.
    pub fn all(quantities: Vec<(Quantity, Vec<Vec<f64>>)>) -> Vec<Compared> {
        let (elapsed, calls): (Vec<_>, Vec<_>) =
            quantities.into_iter().partition(|(quantity, _)| *quantity == Quantity::Elapsed);
        [elapsed, calls].into_iter().flat_map(Compared::together).collect()
    }

    /// Quantities whose differences are judged together.
    fn together(quantities: Vec<(Quantity, Vec<Vec<f64>>)>) -> Vec<Compared> {
        let (quantities, values): (Vec<Quantity>, Vec<Vec<Vec<f64>>>) = quantities.into_iter().unzip();
        let differences = differences(&values, MARGIN);
        let each = quantities.into_iter().zip(values).zip(differences);
        each.map(|((quantity, values), differences)| Compared {
            quantity,
            total_ns: values.iter().flatten().sum(),
            summaries: values.iter().map(|values| Summary::of(values)).collect(),
            differences,
            u_c: vec![None; values.len()],
            values,
        })
        .collect()
    }
}

/// All quantities, those with most time first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Names of the groups.
    pub groups: Vec<String>,
    /// Results that are not of the trace that the first is of: what differs may be the work.
    pub other_traces: Vec<String>,
    /// What was compared.
    pub quantities: Vec<Compared>,
    /// Calls that took too little of the time to be compared.
    pub left_out: Vec<String>,
}

impl Comparison {
    /// Whether the groups differ in anything that was compared.
    pub fn is_different(&self) -> bool {
        let pairs = self.quantities.iter().flat_map(|quantity| &quantity.differences);
        pairs.into_iter().any(|pair| matches!(pair.verdict, Verdict::Greater | Verdict::Less))
    }
}

/// Compares groups of results; `known` is what was validated on this machine.
///
/// # Errors
/// When a result cannot be read, or there are fewer than two groups.
pub fn compare(groups: &[Group], known: &[Known]) -> Result<Comparison, ValidateError> {
    if groups.len() < 2 {
        return Err(ValidateError::Settings(
            "give two groups of results at least: NAME=TRACE,TRACE NAME=TRACE,…".into(),
        ));
    }
    check_names(groups)?;
    let mut ids: Vec<(PathBuf, String)> = Vec::new();
    let mut origins: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut first = None;
    let mut runs: Vec<Vec<Observed>> = Vec::new();
    let mut ways: Vec<Option<Way>> = Vec::new();
    for group in groups {
        let mut of_group = Vec::new();
        for path in &group.results {
            let reader = TraceReader::open(path)?;
            let manifest = reader.manifest().clone();
            if of_group.is_empty() {
                ways.push(Way::of(&reader)?);
            }
            ids.push((path.clone(), manifest.id.clone()));
            let origin = manifest.origin.unwrap_or(manifest.id);
            first.get_or_insert(origin.clone());
            origins.entry(origin).or_default().push(path.display().to_string());
            of_group.push(trace(path)?);
        }
        runs.push(of_group);
    }
    different_results(&ids)?;
    let (calls, left_out) = calls_with_time(&runs);
    let mut quantities = Compared::all(values(&runs, calls.keys().copied()));
    for found in &mut quantities {
        let Quantity::MeanResponse(call) = &found.quantity else { continue };
        found.u_c =
            found.values.iter().zip(&ways).map(|(values, way)| u_c(known, way.as_ref()?, call, values)).collect();
        found.total_ns = calls[call.as_str()];
    }
    quantities[1..].sort_by(|a, b| b.total_ns.total_cmp(&a.total_ns));
    let others = origins.into_iter().filter(|(origin, _)| Some(origin) != first.as_ref());
    Ok(Comparison {
        groups: groups.iter().map(|group| group.name.clone()).collect(),
        other_traces: others.flat_map(|(_, paths)| paths).collect(),
        quantities,
        left_out,
    })
}

/// Calls with the time of all of them, where that is a share worth looking at in any group; and the others.
fn calls_with_time(runs: &[Vec<Observed>]) -> (BTreeMap<&str, f64>, Vec<String>) {
    let calls: BTreeSet<&str> = runs.iter().flatten().flat_map(Observed::calls).collect();
    let of_group = |group: &Vec<Observed>, call| group.iter().flat_map(|run| run.times_ns(call)).sum::<f64>();
    let of_groups = |call| (call, runs.iter().map(|group| of_group(group, call)).collect());
    let times: Vec<(&str, Vec<f64>)> = calls.into_iter().map(of_groups).collect();
    let all: Vec<f64> = (0..runs.len()).map(|group| times.iter().map(|(_, of)| of[group]).sum()).collect();
    let (mut kept, mut left_out) = (BTreeMap::new(), Vec::new());
    for (call, times) in times {
        match times.iter().zip(&all).any(|(time, all)| *time >= LEAST_SHARE * all) {
            true => drop(kept.insert(call, times.iter().sum())),
            false => left_out.push(call.to_owned()),
        }
    }
    (kept, left_out)
}

/// Elapsed times, and mean response times of calls, of each run of each group that has them.
fn values<'a>(runs: &[Vec<Observed>], calls: impl Iterator<Item = &'a str>) -> Vec<(Quantity, Vec<Vec<f64>>)> {
    let of_groups = |of: &dyn Fn(&Observed) -> Option<f64>| -> Vec<Vec<f64>> {
        runs.iter().map(|group| group.iter().filter_map(of).collect()).collect()
    };
    let mean = |run: &Observed, call: &str| {
        let times = run.times_ns(call);
        (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)
    };
    let responses = calls.map(|call| (Quantity::MeanResponse(call.to_owned()), of_groups(&|run| mean(run, call))));
    std::iter::once((Quantity::Elapsed, of_groups(&Observed::elapsed_ns))).chain(responses).collect()
}

fn check_names(groups: &[Group]) -> Result<(), ValidateError> {
    let mut names = BTreeSet::new();
    match groups.iter().find(|group| !names.insert(&group.name)) {
        Some(twice) => Err(ValidateError::Settings(format!(
            "two groups are called '{}'; give each a name of its own, or all results to one: NAME=TRACE,TRACE",
            twice.name
        ))),
        None => Ok(()),
    }
}

/// Results, given with their identities, are replications only if they are of different runs.
///
/// # Errors
/// Names a result that is there twice.
pub fn different_results(results: &[(PathBuf, String)]) -> Result<(), ValidateError> {
    let mut first: BTreeMap<&str, &PathBuf> = BTreeMap::new();
    for (path, id) in results {
        let Some(other) = first.insert(id, path) else { continue };
        let what = match other == path {
            true => format!("{} is there twice", path.display()),
            false => format!("{} is the same result as {}", path.display(), other.display()),
        };
        let why = "one run is no replication of itself; give each result once";
        return Err(ValidateError::Settings(format!("{what}: {why}")));
    }
    Ok(())
}

/// How results of a group were made, as they say themselves.
struct Way {
    instrument: String,
    file_system: String,
    caches: Option<String>,
    memory_bytes: Option<u64>,
    threads: u32,
}

impl Way {
    /// `None` of what is no replay.
    fn of(result: &TraceReader) -> Result<Option<Way>, ValidateError> {
        let fact = |name: &str| result.manifest().facts.get(name).cloned();
        let (Some(order), Some(pace), Some(io), Some(file_system)) =
            (fact("order"), fact("pace"), fact("io"), fact("filesystem"))
        else {
            return Ok(None);
        };
        Ok(Some(Way {
            instrument: format!("{order} {pace} {io}"),
            file_system,
            caches: fact("cache").filter(|words| ["cold", "warm"].contains(&words.as_str())),
            memory_bytes: fact(MEMORY_LIMIT).and_then(|text| bytes_of_kib(&text)),
            threads: u32::try_from(result.threads()?.len()).unwrap_or(u32::MAX),
        }))
    }
}

fn u_c(known: &[Known], way: &Way, call: &str, values: &[f64]) -> Option<f64> {
    let mean_ns = Summary::of(values).map(|summary| summary.mean).or(values.first().copied())?;
    let replayed = Replayed {
        instrument: &way.instrument,
        file_system: &way.file_system,
        caches: way.caches.as_deref(),
        memory_bytes: way.memory_bytes,
        threads: way.threads,
        call,
        mean_ns,
    };
    nearest(known, &replayed).ok().map(|known| known.u_c)
}
