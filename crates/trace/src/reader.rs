//! Reading a trace.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::blobs::BlobReader;
use crate::catalog::{self, Part};
use crate::error::ReadError;
use crate::ledger::Ledger;
use crate::manifest::Manifest;
use crate::part::PartRows;
use crate::place::{TABLES, contents_elsewhere};
use crate::rows::{Action, BlobRow, Content, Descriptor, Lock, Mapping, Process, ThreadRow, TreeNode};
use crate::table::Row;

/// A trace that was opened: manifest, catalog and ledger are read, parts are read as they are asked for.
pub struct TraceReader {
    dir: PathBuf,
    manifest: Manifest,
    ledger: Ledger,
    parts: Vec<Part>,
    watch: Option<Watch>,
}

/// Is told how many actions of how many were read.
type Watch = Arc<dyn Fn(u64, u64) + Send + Sync>;

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
        Ok(TraceReader { dir: dir.to_owned(), manifest, ledger, parts, watch: None })
    }

    /// From now on tells how many actions of how many a pass has read: part by part, and all at its end.
    #[must_use]
    pub fn watched(self, watch: impl Fn(u64, u64) + Send + Sync + 'static) -> TraceReader {
        TraceReader { watch: Some(Arc::new(watch)), ..self }
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
        self.parts.iter().map(|p| p.table.as_str()).filter(|t| !TABLES.contains(t)).collect()
    }

    /// Rows of a table, part by part.
    pub fn rows<R: Row>(&self) -> Rows<R> {
        let parts: Vec<Part> = self.parts.iter().filter(|p| p.table == R::TABLE).cloned().collect();
        let watch = self.watch.clone().filter(|_| R::TABLE == Action::TABLE);
        let told = watch.map(|watch| (watch, parts.iter().map(|part| part.rows).sum()));
        Rows { dir: self.dir.clone(), parts: parts.into_iter(), left_out: &[], rows: None, failed: false, told }
    }

    /// All actions, in order of effect.
    pub fn actions(&self) -> Rows<Action> {
        self.rows()
    }

    /// All threads.
    pub fn threads(&self) -> Result<Vec<ThreadRow>, ReadError> {
        self.rows().collect()
    }

    /// All processes; none shares with a later one.
    pub fn processes(&self) -> Result<Vec<Process>, ReadError> {
        self.process_rows().collect()
    }

    /// The same, a batch of them in memory at a time.
    pub fn process_rows(&self) -> impl Iterator<Item = Result<Process, ReadError>> {
        self.rows::<Process>().map(|row| match row {
            Ok(row) if !row.shares_with_earlier() => {
                let cause = format!("process {} shares with one that is not earlier", row.process);
                Err(ReadError::damaged(&self.dir, cause))
            }
            row => row,
        })
    }

    /// All descriptors that existed before the start.
    pub fn descriptors(&self) -> Result<Vec<Descriptor>, ReadError> {
        self.rows().collect()
    }

    /// All locks on files that were held before the start.
    pub fn locks(&self) -> Result<Vec<Lock>, ReadError> {
        self.rows().collect()
    }

    /// All mappings of files that existed before the start.
    pub fn mappings(&self) -> Result<Vec<Mapping>, ReadError> {
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
        self.parts.iter().try_for_each(|part| read_checked(&self.dir, part).map(drop))?;
        self.process_rows().try_for_each(|row| row.map(drop))
    }
}

fn read_checked(dir: &Path, part: &Part) -> Result<Vec<u8>, ReadError> {
    let path = dir.join(&part.file);
    let bytes = fs::read(&path).map_err(|e| match (e.kind(), contents_elsewhere(dir)) {
        (std::io::ErrorKind::NotFound, Some(place)) if part.table == BlobRow::TABLE && !place.exists() => {
            ReadError::NoContents { path: dir.to_owned(), place }
        }
        (std::io::ErrorKind::NotFound, _) => ReadError::damaged(&path, "missing, though the catalog lists it"),
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

/// The rows of one part.
pub(crate) fn read_part<R: Row>(dir: &Path, part: &Part) -> Result<PartRows<R>, ReadError> {
    let path = dir.join(&part.file);
    PartRows::new(&path, read_checked(dir, part)?, part.rows)
}

/// Rows of a table, a batch of them in memory at a time.
pub struct Rows<R> {
    dir: PathBuf,
    parts: std::vec::IntoIter<Part>,
    /// Columns that are not read.
    left_out: &'static [&'static str],
    rows: Option<PartRows<R>>,
    failed: bool,
    /// Who is told how far it is, and of how many rows.
    told: Option<(Watch, u64)>,
}

impl<R: Row> Rows<R> {
    /// The same without some columns, which save the time of decoding: optional ones and lists, that are empty then.
    pub fn without(self, columns: &'static [&'static str]) -> Rows<R> {
        Rows { left_out: columns, ..self }
    }

    /// Puts the next row in place of this one, whose memory is used again; `false` at the end, which is also after an error.
    ///
    /// # Errors
    /// When a part cannot be read.
    pub fn read(&mut self, row: &mut R) -> Result<bool, ReadError> {
        let found = if self.failed { Ok(false) } else { self.read_next(row) };
        self.failed |= found.is_err();
        found
    }

    fn read_next(&mut self, row: &mut R) -> Result<bool, ReadError> {
        loop {
            if let Some(rows) = &mut self.rows
                && rows.read(row)?
            {
                return Ok(true);
            }
            // Its memory is free before the next part takes some.
            self.rows = None;
            if let Some((watch, total)) = &self.told {
                let left: u64 = self.parts.as_slice().iter().map(|part| part.rows).sum();
                watch(total.saturating_sub(left), *total);
            }
            let Some(part) = self.parts.next() else { return Ok(false) };
            self.rows = Some(read_part(&self.dir, &part)?.without(self.left_out));
        }
    }
}

impl<R: Row> Iterator for Rows<R> {
    type Item = Result<R, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut row = R::default();
        self.read(&mut row).map(|found| found.then_some(row)).transpose()
    }
}
