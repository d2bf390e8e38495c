//! Reading a trace.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::blobs::BlobReader;
use crate::catalog::{self, Part};
use crate::error::ReadError;
use crate::ledger::Ledger;
use crate::manifest::Manifest;
use crate::rows::{Action, Content, Descriptor, Process, ThreadRow, TreeNode};
use crate::table::{Row, decode_part};

/// A trace that was opened: manifest, catalog and ledger are read, parts are read as they are asked for.
pub struct TraceReader {
    dir: PathBuf,
    manifest: Manifest,
    ledger: Ledger,
    parts: Vec<Part>,
}

impl TraceReader {
    /// Opens a trace and checks its version and its catalog.
    pub fn open(dir: &Path) -> Result<TraceReader, ReadError> {
        let manifest = Manifest::load(dir)?;
        let parts = catalog::load(dir, manifest.complete)?;
        if manifest.complete && manifest.parts != Some(parts.len() as u64) {
            let expected = manifest.parts.map_or("no number".to_owned(), |n| n.to_string());
            let cause = format!("{} parts, the manifest says {expected}", parts.len());
            return Err(ReadError::damaged(dir.join("catalog.jsonl"), cause));
        }
        let path = dir.join("ledger.json");
        let ledger = match fs::read(&path) {
            Ok(bytes) if manifest.ledger.as_ref().is_some_and(|h| *h != blake3::hash(&bytes).to_hex().to_string()) => {
                return Err(ReadError::damaged(&path, "its checksum does not match"));
            }
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| ReadError::damaged(&path, e))?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && !manifest.complete => Ledger::default(),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(ReadError::damaged(&path, "missing"));
            }
            Err(e) => return Err(ReadError::io(&path, e)),
        };
        Ok(TraceReader { dir: dir.to_owned(), manifest, ledger, parts })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The loss ledger.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The finished parts.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Size of all parts on disk, in bytes.
    pub fn stored_bytes(&self) -> u64 {
        self.parts.iter().map(|p| p.bytes).sum()
    }

    /// Number of rows of a table.
    pub fn count<R: Row>(&self) -> u64 {
        self.parts.iter().filter(|p| p.table == R::TABLE).map(|p| p.rows).sum()
    }

    /// Tables of this trace that this program does not know (written by a newer minor version).
    pub fn unknown_tables(&self) -> BTreeSet<&str> {
        const KNOWN: [&str; 7] = ["actions", "threads", "processes", "descriptors", "tree", "contents", "blobs"];
        self.parts.iter().map(|p| p.table.as_str()).filter(|t| !KNOWN.contains(t)).collect()
    }

    /// Rows of a table, part by part.
    pub fn rows<R: Row>(&self) -> Rows<R> {
        let parts: Vec<Part> = self.parts.iter().filter(|p| p.table == R::TABLE).cloned().collect();
        Rows { dir: self.dir.clone(), parts: parts.into_iter(), rows: Vec::new().into_iter(), failed: false }
    }

    /// All actions, in order of effect.
    pub fn actions(&self) -> Rows<Action> {
        self.rows()
    }

    /// All threads.
    pub fn threads(&self) -> Result<Vec<ThreadRow>, ReadError> {
        self.rows().collect()
    }

    /// All processes.
    pub fn processes(&self) -> Result<Vec<Process>, ReadError> {
        self.rows().collect()
    }

    /// All descriptors that existed before the start.
    pub fn descriptors(&self) -> Result<Vec<Descriptor>, ReadError> {
        self.rows().collect()
    }

    /// All names of the initial tree, in the order they were met.
    pub fn tree(&self) -> Result<Vec<TreeNode>, ReadError> {
        self.rows().collect()
    }

    /// All observed contents, in order of observation.
    pub fn contents(&self) -> Result<Vec<Content>, ReadError> {
        self.rows().collect()
    }

    /// The blobs.
    pub fn blobs(&self) -> BlobReader {
        BlobReader::new(self.dir.clone(), self.parts.iter().filter(|p| p.table == "blobs").cloned().collect())
    }

    /// Reads every part and checks it; for `info --check`.
    pub fn check_all(&self) -> Result<(), ReadError> {
        self.parts.iter().try_for_each(|part| read_checked(&self.dir, part).map(drop))
    }
}

fn read_checked(dir: &Path, part: &Part) -> Result<Vec<u8>, ReadError> {
    let path = dir.join(&part.file);
    let bytes = fs::read(&path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => ReadError::damaged(&path, "missing, though the catalog lists it"),
        _ => ReadError::io(&path, e),
    })?;
    if bytes.len() as u64 != part.bytes {
        let cause = format!("truncated or grown: {} bytes, the catalog says {}", bytes.len(), part.bytes);
        return Err(ReadError::damaged(&path, cause));
    }
    if blake3::hash(&bytes).to_hex().as_str() != part.blake3 {
        return Err(ReadError::damaged(&path, "its checksum does not match"));
    }
    Ok(bytes)
}

pub(crate) fn read_part<R: Row>(dir: &Path, part: &Part) -> Result<Vec<R>, ReadError> {
    let path = dir.join(&part.file);
    decode_part(&path, read_checked(dir, part)?, part.rows)
}

/// Rows of a table, one part in memory at a time.
pub struct Rows<R> {
    dir: PathBuf,
    parts: std::vec::IntoIter<Part>,
    rows: std::vec::IntoIter<R>,
    failed: bool,
}

impl<R: Row> Iterator for Rows<R> {
    type Item = Result<R, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.rows.next() {
                return Some(Ok(row));
            }
            if self.failed {
                return None;
            }
            let part = self.parts.next()?;
            match read_part(&self.dir, &part) {
                Ok(rows) => self.rows = rows.into_iter(),
                Err(e) => {
                    self.failed = true;
                    return Some(Err(e));
                }
            }
        }
    }
}
