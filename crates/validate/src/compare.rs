//! Results of replays beside each other: groups of replicated ones, of one trace on several systems or in several ways.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use reprise_measure::metrology::{Difference, Summary, Verdict, differences};
use reprise_trace::{MEMORY_LIMIT, TraceReader, bytes_of_kib};
use serde::Serialize;

use crate::ValidateError;
use crate::log::trace;
use crate::observed::Observed;
use crate::store::{Known, Replayed, nearest};

/// The relative difference that would not matter.
const MARGIN: f64 = 0.05;

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
    /// A quantity with its values in each group, in nanoseconds.
    pub fn of(quantity: Quantity, values: Vec<Vec<f64>>) -> Compared {
        let groups: Vec<&[f64]> = values.iter().map(Vec::as_slice).collect();
        Compared {
            quantity,
            total_ns: values.iter().flatten().sum(),
            summaries: groups.iter().map(|values| Summary::of(values)).collect(),
            differences: differences(&groups, MARGIN),
            u_c: vec![None; values.len()],
            values,
        }
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
            let origin = manifest.origin.unwrap_or(manifest.id);
            first.get_or_insert(origin.clone());
            origins.entry(origin).or_default().push(path.display().to_string());
            of_group.push(trace(path)?);
        }
        runs.push(of_group);
    }
    let calls: BTreeSet<&str> = runs.iter().flatten().flat_map(Observed::calls).collect();
    let mut quantities = vec![compared(Quantity::Elapsed, &runs, &|run| run.elapsed_ns())];
    for call in calls {
        let mean = |run: &Observed| {
            let times = run.times_ns(call);
            (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)
        };
        let mut found = compared(Quantity::MeanResponse(call.to_owned()), &runs, &mean);
        found.u_c =
            found.values.iter().zip(&ways).map(|(values, way)| u_c(known, way.as_ref()?, call, values)).collect();
        found.total_ns = runs.iter().flatten().flat_map(|run| run.times_ns(call)).sum();
        quantities.push(found);
    }
    quantities[1..].sort_by(|a, b| b.total_ns.total_cmp(&a.total_ns));
    let others = origins.into_iter().filter(|(origin, _)| Some(origin) != first.as_ref());
    Ok(Comparison {
        groups: groups.iter().map(|group| group.name.clone()).collect(),
        other_traces: others.flat_map(|(_, paths)| paths).collect(),
        quantities,
    })
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
    Some(nearest(known, &replayed)?.u_c)
}

fn compared(quantity: Quantity, runs: &[Vec<Observed>], of: &dyn Fn(&Observed) -> Option<f64>) -> Compared {
    Compared::of(quantity, runs.iter().map(|group| group.iter().filter_map(of).collect()).collect())
}
