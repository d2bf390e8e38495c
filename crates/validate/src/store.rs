//! The validation of this machine, kept for whoever asks how far the times of a replay can be trusted.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use reprise_trace::Host;
use serde::{Deserialize, Serialize};

use crate::finding::{Statistic, Validation};
use crate::history::{MOST_KEPT, Past};
use crate::micros::Micros;

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
    pub pause_us: Micros,
    /// The state of the caches.
    pub caches: String,
    /// The memory that the reference had, if it was limited.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// The file system.
    pub file_system: String,
    /// The device that it is on.
    pub device: String,
    /// All that made the reference program what it was.
    pub program: String,
    /// The call.
    pub call: String,
    /// Replications.
    pub runs: usize,
    /// Mean response time of the reference, in nanoseconds.
    pub reference_ns: f64,
    /// That of the instrument.
    pub measured_ns: f64,
    /// Combined standard uncertainty, relative.
    pub u_c: f64,
    /// Its effective degrees of freedom; `None` if there is no end to them.
    pub degrees: Option<f64>,
    /// Relative bias; `None` where it could not be determined.
    pub bias: Option<f64>,
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

/// Of the form of the file: raised with every change of what is known.
const VERSION: u32 = 2;

#[derive(Debug, Default, Serialize, Deserialize)]
struct File {
    version: u32,
    /// Host and kernel: what is known of another says nothing.
    machines: BTreeMap<String, Vec<Known>>,
}

/// What every version of the file says.
#[derive(Deserialize)]
struct Form {
    #[serde(default)]
    version: u32,
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

/// What is known, with what a validation adds to it.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    file: File,
    set_aside: Option<PathBuf>,
}

impl Store {
    /// Opens it, so that it can be written. A file that cannot be understood is set aside, under a name that says so.
    ///
    /// # Errors
    /// When nothing can be written there.
    pub fn open(directory: &Path) -> Result<Store, StoreError> {
        let path = directory.join(STORE_FILE);
        let failed = |e: &dyn ToString| StoreError { path: path.clone(), cause: e.to_string() };
        fs::create_dir_all(directory).map_err(|e| failed(&e))?;
        let fresh = fresh(&path);
        fs::write(&fresh, []).and_then(|()| fs::remove_file(&fresh)).map_err(|e| failed(&e))?;
        let bytes = match fs::read(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            bytes => Some(bytes.map_err(|e| failed(&e))?),
        };
        let (file, set_aside) = match bytes.as_deref().map(understood) {
            None => (File::default(), None),
            Some(Ok(file)) => (file, None),
            Some(Err(_)) => {
                let aside = path.with_extension("json.unreadable");
                fs::rename(&path, &aside).map_err(|e| failed(&e))?;
                (File::default(), Some(aside))
            }
        };
        Ok(Store { path, file, set_aside })
    }

    /// Where a file is now that could not be understood.
    pub fn set_aside(&self) -> Option<&Path> {
        self.set_aside.as_deref()
    }

    /// Takes in what a validation found by means, in place of what was known of the same; gives what is known of that now.
    pub fn learn(&mut self, validation: &Validation) -> Vec<Known> {
        let known = self.file.machines.entry(machine(&validation.host, &validation.kernel)).or_default();
        let mut learnt = Vec::new();
        for new in known_of(validation) {
            let new = match known.iter().position(|old| is_same(old, &new)) {
                Some(place) => new.after(known.remove(place)),
                None => new,
            };
            learnt.push(new.clone());
            known.push(new);
        }
        learnt
    }

    /// Keeps it; a reader sees what was before or what is now, never a part. Says where it is.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(self) -> Result<PathBuf, StoreError> {
        let failed = |e: &dyn ToString| StoreError { path: self.path.clone(), cause: e.to_string() };
        let file = File { version: VERSION, ..self.file };
        let text = serde_json::to_vec_pretty(&file).map_err(|e| failed(&e))?;
        let fresh = fresh(&self.path);
        fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, &self.path)).map_err(|e| failed(&e))?;
        Ok(self.path)
    }
}

/// What is written before it takes the file's place.
fn fresh(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// A file as it was written; one of another version says nothing.
fn understood(bytes: &[u8]) -> serde_json::Result<File> {
    match serde_json::from_slice::<Form>(bytes)?.version {
        VERSION => serde_json::from_slice(bytes),
        _ => Ok(File::default()),
    }
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

fn read(path: &Path) -> Result<File, StoreError> {
    let failed = |e: &dyn ToString| StoreError { path: path.into(), cause: e.to_string() };
    match fs::read(path) {
        Ok(bytes) => understood(&bytes).map_err(|e| failed(&e)),
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
            device: validation.device.clone(),
            program: finding.program.clone(),
            call: finding.call.clone(),
            runs: finding.blocks,
            reference_ns: uncertainty.reference,
            measured_ns: uncertainty.mean,
            u_c: uncertainty.u_c,
            degrees: Some(uncertainty.degrees).filter(|degrees| degrees.is_finite()),
            bias: finding.bias.map(|bias| bias.relative).filter(|bias| bias.is_finite()),
            when_ns: finding.started_ns,
            history: Vec::new(),
        })
    })
}

/// Whether two are results of one experiment: only those say by their difference that the machine has changed.
fn is_same(a: &Known, b: &Known) -> bool {
    let key = |k: &Known| {
        let names = [&k.instrument, &k.program, &k.caches, &k.file_system, &k.device, &k.call].map(String::clone);
        (names, k.memory_bytes, k.runs)
    };
    key(a) == key(b)
}

#[cfg(test)]
mod tests {
    use reprise_measure::metrology::Signal;

    use super::*;
    use crate::history::{Charted, drifts};

    fn known(reference_ns: f64) -> Known {
        Known {
            instrument: "root afap sync".into(),
            workload: "random-read".into(),
            level: 1,
            pause_us: Micros::default(),
            caches: "warm".into(),
            memory_bytes: None,
            file_system: "ext4".into(),
            device: "vda1".into(),
            program: "micro random-read --threads 1".into(),
            call: "pread64".into(),
            runs: 10,
            reference_ns,
            measured_ns: reference_ns,
            u_c: 0.01,
            degrees: Some(12.0),
            bias: Some(0.0),
            when_ns: 0,
            history: Vec::new(),
        }
    }

    #[test]
    fn what_was_known_becomes_history_and_what_drifts_is_told() {
        let mut now = known(1000.0);
        for run in 0..150_u64 {
            let next = Known { when_ns: run + 1, ..known(1000.0 + (run % 2) as f64) };
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
        // A bias that could not be determined is no value of a chart.
        now.history.iter_mut().for_each(|past| past.bias = None);
        assert_eq!(drifts(&[now.clone()]).len(), 1);
        now.history.truncate(3);
        assert!(drifts(&[now]).is_empty(), "three validations make no limits");
    }

    #[test]
    fn another_experiment_is_not_the_same() {
        let one = known(1e3);
        assert!(is_same(&one, &Known { when_ns: 9, reference_ns: 7.0, ..one.clone() }));
        for other in [
            Known { program: "micro random-read --threads 1 --file-size 4096".into(), ..one.clone() },
            Known { runs: 3, ..one.clone() },
            Known { device: "vdb1".into(), ..one.clone() },
            Known { caches: "cold".into(), ..one.clone() },
        ] {
            assert!(!is_same(&one, &other), "{other:?}");
        }
    }

    #[test]
    fn a_damaged_file_is_an_error_that_names_it_and_is_set_aside_before_anything_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        assert!(stored(dir.path()).unwrap().is_empty());
        fs::write(dir.path().join(STORE_FILE), "{").unwrap();
        let said = stored(dir.path()).unwrap_err().to_string();
        assert!(said.contains(STORE_FILE) && said.contains("reprise validate"), "{said}");
        let store = Store::open(dir.path()).unwrap();
        assert_eq!(fs::read(store.set_aside().unwrap()).unwrap(), b"{");
        store.keep().unwrap();
        assert!(stored(dir.path()).unwrap().is_empty());
        assert!(Store::open(dir.path()).unwrap().set_aside().is_none());
    }

    #[test]
    fn a_file_of_another_version_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(STORE_FILE), r#"{"machines": {"here 6.1": [{"u_c": null}]}}"#).unwrap();
        assert!(stored(dir.path()).unwrap().is_empty());
        assert!(Store::open(dir.path()).unwrap().set_aside().is_none());
    }
}
