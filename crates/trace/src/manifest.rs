//! `manifest.json`: what a trace is, and whether it was closed.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{ReadError, WriteError};

/// Major version of the format: readers refuse any other.
pub const FORMAT_MAJOR: u32 = 1;
/// Minor version: a newer one only adds what older readers may ignore.
pub const FORMAT_MINOR: u32 = 7;

/// The fact that is `recorded` where stores to mappings of files stand in the trace as `mmap_pwrite`.
pub const MAPPED_STORES: &str = "mapped_stores";

/// The fact that says what the times of calls include, and its value where that is nothing but the calls.
pub const RESPONSE_TIME: &str = "response_time";
/// See [`RESPONSE_TIME`].
pub const IN_THE_KERNEL: &str = "measured in the kernel";

/// The fact of a replay's trace that is the first action that it was to perform, where it continues another replay.
pub const FIRST_ACTION: &str = "first_action";

/// The fact of a replay's trace, or of a recording that broke off, that says how it ended.
pub const END: &str = "end";
/// The value of [`END`] where all actions were performed.
pub const COMPLETE: &str = "complete";
/// The fact of a replay's trace that ended early: the first action that it did not complete.
pub const CUT: &str = "cut";

/// The fact that is the memory limit that the program, or the replay, had.
pub const MEMORY_LIMIT: &str = "memory_limit";

/// The value of [`MEMORY_LIMIT`], as `/proc/meminfo` writes sizes.
pub fn kib_text(bytes: u64) -> String {
    format!("{} kB", bytes / 1024)
}

/// The bytes that [`kib_text`] wrote; `None` of any other text.
pub fn bytes_of_kib(text: &str) -> Option<u64> {
    text.strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// In the directory of a trace: what was recorded and is not a trace yet.
pub const SPOOL: &str = "spool";

/// How much of the content that calls moved is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataPolicy {
    /// Every byte.
    Full,
    /// Length and hash.
    Hash,
    /// Length only.
    None,
}

/// Where the trace comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A program was recorded.
    Record,
    /// A replay recorded itself.
    Replay,
}

/// The machine it was made on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Host {
    /// `uname -r`.
    pub kernel: String,
    /// `uname -n`.
    pub name: String,
    /// `uname -m`.
    pub machine: String,
    /// Number of processors on line.
    pub processors: u32,
}

/// How the recorded program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Exit code, if it exited.
    pub code: Option<i32>,
    /// Signal number, if one killed it.
    pub signal: Option<i32>,
}

/// The manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Always `reprise`.
    pub format: String,
    /// Major version.
    pub major: u32,
    /// Minor version.
    pub minor: u32,
    /// Program and version that wrote it.
    pub writer: String,
    /// A random identity, 32 hexadecimal digits.
    pub id: String,
    /// Where it comes from.
    pub kind: Kind,
    /// For a replay's trace: the identity of the trace that was replayed.
    pub origin: Option<String>,
    /// What was run.
    pub command: Vec<String>,
    /// Free facts (`order`, `target`, …).
    #[serde(default)]
    pub facts: std::collections::BTreeMap<String, String>,
    /// How content was kept.
    pub data: DataPolicy,
    /// Directories that were snapshot with content before the start.
    #[serde(default)]
    pub snapshots: Vec<String>,
    /// Start, nanoseconds since the epoch; times in the trace count from here.
    pub started_ns: u64,
    /// The machine.
    pub host: Host,
    /// Whether the trace was closed in order; if not it ends at the last flush.
    pub complete: bool,
    /// Number of parts in the catalog, of a trace that was closed.
    #[serde(default)]
    pub parts: Option<u64>,
    /// BLAKE3 of `ledger.json`, of a trace that was closed.
    #[serde(default)]
    pub ledger: Option<String>,
    /// BLAKE3 of this manifest without this field, as compact JSON.
    #[serde(default)]
    pub seal: Option<String>,
    /// How the program ended.
    pub end: Option<End>,
}

impl Manifest {
    /// A manifest of the present format for a trace that begins now.
    pub fn new(kind: Kind, data: DataPolicy, command: Vec<String>, id: String, started_ns: u64, host: Host) -> Self {
        Manifest {
            format: "reprise".to_owned(),
            major: FORMAT_MAJOR,
            minor: FORMAT_MINOR,
            writer: concat!("reprise ", env!("CARGO_PKG_VERSION")).to_owned(),
            id,
            kind,
            origin: None,
            command,
            facts: Default::default(),
            data,
            snapshots: Vec::new(),
            started_ns,
            host,
            complete: false,
            parts: None,
            ledger: None,
            seal: None,
            end: None,
        }
    }

    /// Of a replay's trace: the first action of the original that it was to perform; 0 unless it continues another replay.
    /// `None` where that cannot be understood.
    pub fn first_action(&self) -> Option<u64> {
        self.facts.get(FIRST_ACTION).map_or(Some(0), |text| text.parse().ok())
    }

    /// How a replay ended, if that was before its last action, or a recording that broke off.
    pub fn ended_early(&self) -> Option<&str> {
        self.facts.get(END).map(String::as_str).filter(|end| *end != COMPLETE)
    }

    /// Of a replay's trace that ended early: the first action of the original that it did not complete.
    pub fn cut(&self) -> Option<u64> {
        self.facts.get(CUT)?.parse().ok()
    }

    pub(crate) fn load(dir: &Path) -> Result<Manifest, ReadError> {
        if dir.join(SPOOL).is_dir() {
            return Err(ReadError::Unfinished { path: dir.into() });
        }
        let path = dir.join("manifest.json");
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(_) if !dir.exists() => return Err(ReadError::Missing { path: dir.into() }),
            Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
                return Err(ReadError::NotATrace { path: dir.into() });
            }
            Err(e) => return Err(ReadError::io(path, e)),
        };
        let version: Version = serde_json::from_slice(&bytes).map_err(|e| ReadError::damaged(&path, e))?;
        if version.format != "reprise" {
            return Err(ReadError::OtherFormat { path: dir.into(), format: version.format });
        }
        let Version { major, minor, .. } = version;
        if major > FORMAT_MAJOR {
            return Err(ReadError::TooNew { path: dir.into(), major, minor });
        }
        if major < FORMAT_MAJOR {
            return Err(ReadError::TooOld { path: dir.into(), major, minor });
        }
        let manifest: Manifest = serde_json::from_slice(&bytes).map_err(|e| ReadError::damaged(&path, e))?;
        // A newer minor version may seal fields that are unknown here; the first did not seal at all.
        if (1..=FORMAT_MINOR).contains(&minor) && manifest.seal != Some(manifest.seal_text()) {
            return Err(ReadError::damaged(&path, "its checksum does not match"));
        }
        Ok(manifest)
    }

    fn seal_text(&self) -> String {
        let bare = Manifest { seal: None, ..self.clone() };
        blake3::hash(&serde_json::to_vec(&bare).expect("a manifest serializes")).to_hex().to_string()
    }

    pub(crate) fn store(&self, dir: &Path) -> Result<(), WriteError> {
        let sealed = Manifest { seal: Some(self.seal_text()), ..self.clone() };
        let text = serde_json::to_vec_pretty(&sealed).expect("a manifest serializes");
        replace_file(&dir.join("manifest.json"), &text)
    }
}

#[derive(Deserialize)]
struct Version {
    format: String,
    major: u32,
    minor: u32,
}

/// Writes a file so that a reader sees the old or the new content, never a part.
pub(crate) fn replace_file(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    let fresh = path.with_extension("new");
    fs::write(&fresh, bytes).and_then(|()| fs::rename(&fresh, path)).map_err(|e| {
        // What a full disk has taken of it is room for what is smaller.
        let _ = fs::remove_file(&fresh);
        WriteError::io(path, e)
    })
}
