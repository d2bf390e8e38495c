//! How much memory a replay is given, and what is said of memory and cache afterwards.
//!
//! `recorded`: the memory limit of the recorded program's control group, if the trace knows one. Else the median over the
//! samples of what the machine could still give to programs (`available_bytes`: free, or page cache that can be dropped)
//! and what the program itself held (`resident_bytes`).

use reprise_replay::cache::{CacheReport, Start};
use reprise_replay::limit::MemoryGroup;
use reprise_replay::run::ReplayError;
use reprise_trace::{Environment, MEMORY_LIMIT, ReadError, TraceReader, bytes_of_kib};
use serde_json::{Value, json};

use super::replay;
use crate::amounts::Memory;
use crate::args::Replay;
use crate::exit::{Exit, Failure};

/// How the cache is to be at the start.
pub(super) fn start(args: &Replay) -> Start {
    match (args.cold, args.warm) {
        (true, _) => Start::Cold,
        (_, true) => Start::Warm,
        _ => Start::AsItWas,
    }
}

/// The limit that the arguments ask for, which can be had: said before a long trace is compiled and a tree is built.
pub(super) fn limit_bytes(args: &Replay, traces: &[Option<&TraceReader>]) -> Result<Option<u64>, Failure> {
    let bytes = match (args.memory, traces) {
        (None, _) => return Ok(None),
        (Some(Memory::Bytes(bytes)), _) => bytes,
        (Some(Memory::Recorded), [Some(trace)]) => recorded_bytes(trace)?,
        (Some(Memory::Recorded), [None]) => {
            return Err(unknown("a plan does not know it; replay the trace itself, or"));
        }
        (Some(Memory::Recorded), _) => return Err(unknown("each of several traces had its own;")),
    };
    MemoryGroup::probe(bytes).map_err(|error| replay::failure(ReplayError::Limit(error)))?;
    Ok(Some(bytes))
}

fn unknown(why: &str) -> Failure {
    Failure::new(Exit::Usage, format!("--memory recorded: {why} give a size: --memory 64M"))
}

fn recorded_bytes(trace: &TraceReader) -> Result<u64, Failure> {
    let limit = trace.manifest().facts.get(MEMORY_LIMIT).and_then(|text| bytes_of_kib(text));
    let found = if limit.is_some() { limit } else { sampled_bytes(trace)? };
    match found {
        Some(bytes) if bytes >= Memory::LEAST_BYTES => Ok(bytes),
        Some(bytes) => Err(unknown(&format!("{bytes} bytes, as the trace says, are too little for a replay;"))),
        None => Err(unknown("the trace has no samples of memory; record again with --sample-every 100, or")),
    }
}

/// The median of the samples; a sample in which nothing is known of the machine's memory says nothing.
fn sampled_bytes(trace: &TraceReader) -> Result<Option<u64>, ReadError> {
    let all: Result<Vec<Environment>, ReadError> = trace.rows::<Environment>().collect();
    let had = |e: &Environment| e.available_bytes.saturating_add(e.resident_bytes);
    let mut sums: Vec<u64> = all?.iter().filter(|e| e.available_bytes > 0).map(had).collect();
    sums.sort_unstable();
    Ok(sums.get(sums.len() / 2).copied())
}

/// For the document of a result.
pub(super) fn document(cache: &CacheReport) -> Value {
    json!({
        "start": cache.start.words(),
        "cached_at_start_bytes": cache.cached_bytes,
        "memory_limit_bytes": cache.limit_bytes,
        "memory_peak_bytes": cache.peak_bytes,
        "read_bytes": cache.read_bytes,
        "device_bytes": cache.device_bytes,
        "hit_ratio": cache.hit_ratio(),
    })
}

/// For people.
pub(super) fn text(cache: &CacheReport) -> String {
    let bytes = reprise_report::bytes;
    let mut text = format!("  cache {} at the start", cache.start.words());
    if let Some(cached) = cache.cached_bytes {
        text += &format!(" ({} of the tree)", bytes(cached));
    }
    if let Some(limit) = cache.limit_bytes {
        text += &format!(", memory limited to {}", bytes(limit));
    }
    if let (Some(device), true) = (cache.device_bytes, cache.read_bytes > 0) {
        text += &format!(", {} of {} read came from devices", bytes(device), bytes(cache.read_bytes));
    }
    if let Some(ratio) = cache.hit_ratio() {
        text += &format!(" (hit ratio {ratio:.3})");
    }
    text + "\n"
}
