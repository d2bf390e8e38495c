//! The validation of this machine, kept for whoever asks how far the times of a replay can be trusted.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use reprise_trace::Host;
use serde::{Deserialize, Serialize};

use crate::finding::{Statistic, Validation};
use crate::history::{MOST_KEPT, Past};

/// Name of the file in the state directory.
pub const STORE_FILE: &str = "validation.json";

/// Why a validation could not be kept or read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {cause}; validate again (reprise validate)", path.display())]
pub struct StoreError {
    path: PathBuf,
    cause: String,
}

/// What is known of an instrument and a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Known {
    /// The instrument.
    pub instrument: String,
    /// The workload, and its level.
    pub workload: String,
    /// Number of threads.
    pub level: u32,
    /// Time between requests, in microseconds.
    pub pause_us: u64,
    /// The state of the caches.
    pub caches: String,
    /// The memory that the reference had, if it was limited.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// The file system.
    pub file_system: String,
    /// The call.
    pub call: String,
    /// Mean response time of the reference, in nanoseconds.
    pub reference_ns: f64,
    /// Combined standard uncertainty, relative.
    pub u_c: f64,
    /// Relative bias.
    pub bias: f64,
    /// When, nanoseconds since the epoch.
    pub when_ns: u64,
    /// What was found of the same before, the earliest first.
    #[serde(default)]
    pub history: Vec<Past>,
}

impl Known {
    /// Follows what was known of the same; a measurement that is told once more (of a series) is no new one.
    fn after(mut self, old: Known) -> Known {
        if self.when_ns == old.when_ns {
            return Known { history: old.history, ..self };
        }
        let past = Past { when_ns: old.when_ns, reference_ns: old.reference_ns, u_c: old.u_c, bias: old.bias };
        self.history = old.history;
        self.history.push(past);
        let beyond = self.history.len().saturating_sub(MOST_KEPT);
        self.history.drain(..beyond);
        self
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct File {
    /// Host and kernel: what is known of another says nothing.
    machines: BTreeMap<String, Vec<Known>>,
}

/// `$XDG_STATE_HOME/reprise`, or `~/.local/state/reprise`.
pub fn state_directory() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("reprise"))
}

fn machine(host: &str, kernel: &str) -> String {
    format!("{host} {kernel}")
}

/// Keeps what a validation found by means, in place of what was known of the same.
///
/// # Errors
/// When the file cannot be read or written.
pub fn store(validation: &Validation, directory: &Path) -> Result<PathBuf, StoreError> {
    let path = directory.join(STORE_FILE);
    let failed = |e: &dyn ToString| StoreError { path: path.clone(), cause: e.to_string() };
    fs::create_dir_all(directory).map_err(|e| failed(&e))?;
    let mut file = read(&path)?;
    let known = file.machines.entry(machine(&validation.host, &validation.kernel)).or_default();
    for new in known_of(validation) {
        let new = match known.iter().position(|old| is_same(old, &new)) {
            Some(place) => new.after(known.remove(place)),
            None => new,
        };
        known.push(new);
    }
    let text = serde_json::to_vec_pretty(&file).map_err(|e| failed(&e))?;
    // A reader sees the old or the new file, never a part.
    let fresh = path.with_extension("new");
    fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, &path)).map_err(|e| failed(&e))?;
    Ok(path)
}

/// What is known of this machine, with this kernel; empty if it was never validated.
///
/// # Errors
/// When the file cannot be read.
pub fn stored(directory: &Path) -> Result<Vec<Known>, StoreError> {
    stored_of(directory, &Host::this())
}

/// What is known of a machine, with the kernel that it had; empty if it was never validated here.
///
/// # Errors
/// When the file cannot be read.
pub fn stored_of(directory: &Path, host: &Host) -> Result<Vec<Known>, StoreError> {
    Ok(read(&directory.join(STORE_FILE))?.machines.remove(&machine(&host.name, &host.kernel)).unwrap_or_default())
}

/// A replay whose response times are to be judged.
#[derive(Debug, Clone, Copy)]
pub struct Replayed<'a> {
    /// The instrument, as [`crate::Instrument::name`] calls it.
    pub instrument: &'a str,
    /// Its file system.
    pub file_system: &'a str,
    /// The state of the caches before it, if it was brought about.
    pub caches: Option<&'a str>,
    /// The memory it had, if it was limited.
    pub memory_bytes: Option<u64>,
    /// Its threads.
    pub threads: u32,
    /// The call.
    pub call: &'a str,
    /// Its mean response time.
    pub mean_ns: f64,
}

/// What is known of replays of this kind that is most like this one: the same instrument, file system and call; then the same
/// state of the caches, a response time and a number of threads that are near.
pub fn nearest<'a>(known: &'a [Known], replayed: &Replayed<'_>) -> Option<&'a Known> {
    let is_of_kind = |k: &&Known| {
        k.instrument == replayed.instrument && k.file_system == replayed.file_system && k.call == replayed.call
    };
    let distance = |k: &Known| {
        let caches = f64::from(u8::from(replayed.caches.is_some_and(|caches| caches != k.caches)));
        let memory = f64::from(u8::from(replayed.memory_bytes.is_some() != k.memory_bytes.is_some()));
        let time = (k.reference_ns / replayed.mean_ns.max(1.0)).ln().abs();
        // A time of another magnitude says less than another number of threads.
        100.0 * (caches + memory) + time + 0.1 * (f64::from(k.level) - f64::from(replayed.threads)).abs()
    };
    known.iter().filter(is_of_kind).min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

fn read(path: &Path) -> Result<File, StoreError> {
    let failed = |e: &dyn ToString| StoreError { path: path.into(), cause: e.to_string() };
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| failed(&e)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(File::default()),
        Err(e) => Err(failed(&e)),
    }
}

fn known_of(validation: &Validation) -> impl Iterator<Item = Known> {
    validation.findings.iter().filter(|finding| finding.statistic == Statistic::Mean).filter_map(|finding| {
        let uncertainty = finding.uncertainty.as_ref()?;
        Some(Known {
            instrument: finding.instrument.clone(),
            workload: finding.setting.workload.clone(),
            level: finding.setting.level,
            pause_us: finding.setting.pause_us,
            caches: finding.setting.caches.word().to_owned(),
            memory_bytes: finding.setting.memory_bytes,
            file_system: validation.file_system.clone(),
            call: finding.call.clone(),
            reference_ns: uncertainty.reference,
            u_c: uncertainty.u_c,
            bias: finding.bias.map_or(0.0, |bias| bias.relative),
            when_ns: finding.started_ns,
            history: Vec::new(),
        })
    })
}

fn is_same(a: &Known, b: &Known) -> bool {
    let key = |k: &Known| {
        let names = [&k.instrument, &k.workload, &k.caches, &k.file_system, &k.call].map(String::clone);
        (names, k.level, k.pause_us, k.memory_bytes)
    };
    key(a) == key(b)
}

#[cfg(test)]
mod tests {
    use reprise_measure::metrology::Signal;

    use super::*;
    use crate::history::{Charted, drifts};

    fn known(level: u32, reference_ns: f64, caches: &str) -> Known {
        Known {
            instrument: "root afap sync".into(),
            workload: "random-read".into(),
            level,
            pause_us: 0,
            caches: caches.into(),
            memory_bytes: None,
            file_system: "ext4".into(),
            call: "pread64".into(),
            reference_ns,
            u_c: 0.01,
            bias: 0.0,
            when_ns: 0,
            history: Vec::new(),
        }
    }

    #[test]
    fn what_was_known_becomes_history_and_what_drifts_is_told() {
        let mut now = known(1, 1000.0, "warm");
        for run in 0..150_u64 {
            let next = Known { reference_ns: 1000.0 + (run % 2) as f64, when_ns: run + 1, ..known(1, 0.0, "warm") };
            now = next.after(now);
        }
        assert_eq!((now.history.len(), now.history[99].when_ns), (MOST_KEPT, 149));
        assert!(drifts(std::slice::from_ref(&now)).is_empty());
        let told_again = now.clone().after(now.clone());
        assert_eq!(told_again.history, now.history);
        now.reference_ns = 1100.0;
        let found = drifts(&[now.clone()]);
        assert_eq!((found.len(), found[0].charted, found[0].signal), (1, Charted::Reference, Signal::BeyondLimits));
        assert!(found[0].lower < 1000.0 && found[0].upper > 1001.0 && found[0].upper < 1010.0, "{found:?}");
        now.history.truncate(3);
        assert!(drifts(&[now]).is_empty(), "three validations make no limits");
    }

    #[test]
    fn the_most_alike_is_taken_and_another_instrument_never() {
        let all = [known(1, 1e3, "warm"), known(2, 1e3, "warm"), known(1, 1e5, "cold")];
        let of = |threads, mean_ns, caches| {
            let instrument = "root afap sync";
            Replayed { instrument, file_system: "ext4", caches, memory_bytes: None, threads, call: "pread64", mean_ns }
        };
        assert_eq!(nearest(&all, &of(2, 1.1e3, Some("warm"))), Some(&all[1]));
        assert_eq!(nearest(&all, &of(1, 8e4, None)), Some(&all[2]));
        assert_eq!(nearest(&all, &of(1, 1e5, Some("warm"))), Some(&all[0]));
        for other in [
            Replayed { instrument: "temporal afap sync", ..of(1, 1e3, None) },
            Replayed { file_system: "xfs", ..of(1, 1e3, None) },
            Replayed { call: "read", ..of(1, 1e3, None) },
        ] {
            assert_eq!(nearest(&all, &other), None);
        }
    }

    #[test]
    fn a_damaged_file_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        assert!(stored(dir.path()).unwrap().is_empty());
        fs::write(dir.path().join(STORE_FILE), "{").unwrap();
        let said = stored(dir.path()).unwrap_err().to_string();
        assert!(said.contains(STORE_FILE) && said.contains("reprise validate"), "{said}");
    }
}
