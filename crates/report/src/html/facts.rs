//! What is known of a run: machine, file system, device, settings; and what a validation of that machine says of it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use reprise_trace::{MEMORY_LIMIT, Mount, ReadError, TraceReader, bytes_of_kib};
use reprise_validate::{Known, Replayed, nearest};

/// The facts of a trace.
///
/// # Errors
/// The trace cannot be read.
pub fn facts(trace: &TraceReader) -> Result<BTreeMap<String, String>, ReadError> {
    let manifest = trace.manifest();
    let mut facts = manifest.facts.clone();
    facts.insert("host".to_owned(), manifest.host.name.clone());
    facts.insert("kernel".to_owned(), manifest.host.kernel.clone());
    facts.insert("processors".to_owned(), manifest.host.processors.to_string());
    facts.insert("command".to_owned(), manifest.command.join(" "));
    if let Some(target) = manifest.facts.get("target")
        && let Some(device) = device(trace, target)?
    {
        facts.insert("device".to_owned(), device);
    }
    Ok(facts)
}

/// What is mounted where a target is. Loop devices have no name of their own: file systems in files are made anew for each run.
fn device(trace: &TraceReader, target: &str) -> Result<Option<String>, ReadError> {
    let mut found: Option<Mount> = None;
    for mount in trace.rows::<Mount>() {
        let mount = mount?;
        let is_above = Path::new(target).starts_with(Path::new(OsStr::from_bytes(&mount.point.0)));
        // Of those at the same place the last one hides the others.
        if is_above && found.as_ref().is_none_or(|best| best.point.0.len() <= mount.point.0.len()) {
            found = Some(mount);
        }
    }
    let source = found.map(|mount| mount.source.to_text());
    Ok(source.map(|source| if source.starts_with("/dev/loop") { "loop device".to_owned() } else { source }))
}

/// What is known of the response times of a call in replays like this one.
pub fn validated(
    known: &[Known],
    facts: &BTreeMap<String, String>,
    threads: usize,
    call: &str,
    mean_ns: f64,
) -> Option<Known> {
    let fact = |name: &str| facts.get(name).map(String::as_str);
    let instrument = format!("{} {} {}", fact("order")?, fact("pace")?, fact("io")?);
    let replayed = Replayed {
        instrument: &instrument,
        file_system: fact("filesystem")?,
        caches: fact("cache").filter(|words| ["cold", "warm"].contains(words)),
        memory_bytes: fact(MEMORY_LIMIT).and_then(bytes_of_kib),
        threads: u32::try_from(threads).unwrap_or(u32::MAX),
        call,
        mean_ns,
    };
    nearest(known, &replayed).ok().cloned()
}
