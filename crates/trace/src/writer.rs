//! Writing a trace: rows are gathered, encoded by a second thread, and finished part by part.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::blobs::{CHUNK_BYTES, Deduplicator};
use crate::catalog::{CatalogWriter, Part};
use crate::error::WriteError;
use crate::ledger::Ledger;
use crate::manifest::{DataPolicy, End, Manifest, SPOOL, replace_file};
use crate::rows::{Action, BlobRow, Content, Descriptor, Process, ThreadRow, TreeNode};
use crate::table::{Row, encode_part};

/// Whether content follows the trace's policy or is needed for the trace to be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Content of files: as the policy says.
    ByPolicy,
    /// Names and attributes: always.
    Always,
}

/// Bounds on what is held in memory.
#[derive(Debug, Clone, Copy)]
pub struct WriterOptions {
    /// Rows of a part at most.
    pub rows: usize,
    /// Weight of a part's rows in bytes at which it is finished.
    pub bytes: usize,
    /// Age of unwritten rows at which all are written.
    pub age: Duration,
}

impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions { rows: 1 << 16, bytes: 16 << 20, age: Duration::from_secs(2) }
    }
}

type Job = Box<dyn FnOnce(&mut Sink) -> Result<(), WriteError> + Send>;

struct Sink {
    dir: PathBuf,
    catalog: CatalogWriter,
    next: u64,
}

impl Sink {
    fn part<R: Row>(&mut self, rows: &[R]) -> Result<(), WriteError> {
        let Some(first) = rows.first() else {
            return Ok(());
        };
        let bytes = encode_part(rows)?;
        let file = format!("{}/{:06}.parquet", R::TABLE, self.next);
        self.next += 1;
        let path = self.dir.join(&file);
        replace_file(&path, &bytes)?;
        self.catalog.add(Part {
            file,
            table: R::TABLE.to_owned(),
            rows: rows.len() as u64,
            first: first.key(),
            bytes: bytes.len() as u64,
            blake3: blake3::hash(&bytes).to_hex().to_string(),
        })
    }
}

struct Pending<R> {
    rows: Vec<R>,
    weight: usize,
}

impl<R> Default for Pending<R> {
    fn default() -> Self {
        Pending { rows: Vec::new(), weight: 0 }
    }
}

impl<R: Row> Pending<R> {
    /// Adds a row; true if the part is full.
    fn add(&mut self, row: R, options: &WriterOptions) -> bool {
        self.weight += row.weight();
        self.rows.push(row);
        self.rows.len() >= options.rows || self.weight >= options.bytes
    }
}

/// Writes a trace. Dropping it without [`TraceWriter::close`] leaves a trace that ends at the last flush.
pub struct TraceWriter {
    dir: PathBuf,
    manifest: Manifest,
    options: WriterOptions,
    ledger: Ledger,
    dedup: Deduplicator,
    actions: Pending<Action>,
    threads: Pending<ThreadRow>,
    processes: Pending<Process>,
    descriptors: Pending<Descriptor>,
    tree: Pending<TreeNode>,
    contents: Pending<Content>,
    blobs: Pending<BlobRow>,
    oldest: Option<Instant>,
    jobs: Option<SyncSender<Job>>,
    worker: Option<JoinHandle<Result<u64, WriteError>>>,
}

impl TraceWriter {
    /// Begins a trace in a directory that must not exist (an empty one is taken, or one with a raw recording only).
    pub fn create(dir: &Path, manifest: Manifest, options: WriterOptions) -> Result<TraceWriter, WriteError> {
        let occupied = || WriteError::Exists { path: dir.to_owned() };
        if fs::symlink_metadata(dir).is_ok() {
            let mut entries = fs::read_dir(dir).map_err(|_| occupied())?;
            if entries.any(|entry| !entry.is_ok_and(|e| e.file_name() == SPOOL)) {
                return Err(occupied());
            }
        }
        for table in ["actions", "threads", "processes", "descriptors", "tree", "contents", "blobs"] {
            let path = dir.join(table);
            fs::create_dir_all(&path).map_err(|e| WriteError::io(path, e))?;
        }
        manifest.store(dir)?;
        let mut sink = Sink { dir: dir.to_owned(), catalog: CatalogWriter::create(dir)?, next: 0 };
        let (jobs, queue): (SyncSender<Job>, Receiver<Job>) = sync_channel(4);
        let worker = std::thread::Builder::new()
            .name("reprise-writer".into())
            .spawn(move || queue.into_iter().try_for_each(|job| job(&mut sink)).map(|()| sink.next))
            .map_err(|e| WriteError::io(dir, e))?;
        Ok(TraceWriter {
            dir: dir.to_owned(),
            manifest,
            options,
            ledger: Ledger::default(),
            dedup: Deduplicator::default(),
            actions: Pending::default(),
            threads: Pending::default(),
            processes: Pending::default(),
            descriptors: Pending::default(),
            tree: Pending::default(),
            contents: Pending::default(),
            blobs: Pending::default(),
            oldest: None,
            jobs: Some(jobs),
            worker: Some(worker),
        })
    }

    /// Where it is written.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The manifest as it will be closed; facts may be added until then.
    pub fn manifest_mut(&mut self) -> &mut Manifest {
        &mut self.manifest
    }

    /// The loss ledger.
    pub fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// Adds an action. Sequence numbers must ascend without gaps.
    pub fn action(&mut self, mut action: Action) -> Result<(), WriteError> {
        if action.result < 0 && action.errno.is_none() {
            action.errno = i32::try_from(-action.result).ok().and_then(reprise_calls::errno_name).map(str::to_owned);
        }
        self.touch();
        if self.actions.add(action, &self.options) { self.flush() } else { Ok(()) }
    }

    /// Adds a thread.
    pub fn thread(&mut self, row: ThreadRow) -> Result<(), WriteError> {
        self.touch();
        if self.threads.add(row, &self.options) { self.flush() } else { Ok(()) }
    }

    /// Adds a process.
    pub fn process(&mut self, row: Process) -> Result<(), WriteError> {
        self.touch();
        if self.processes.add(row, &self.options) { self.flush() } else { Ok(()) }
    }

    /// Adds a descriptor that existed before the start.
    pub fn descriptor(&mut self, row: Descriptor) -> Result<(), WriteError> {
        self.touch();
        if self.descriptors.add(row, &self.options) { self.flush() } else { Ok(()) }
    }

    /// Adds a name of the initial tree.
    pub fn node(&mut self, row: TreeNode) -> Result<(), WriteError> {
        self.touch();
        if self.tree.add(row, &self.options) { self.flush() } else { Ok(()) }
    }

    /// Adds observed content.
    pub fn content(&mut self, row: Content) -> Result<(), WriteError> {
        self.touch();
        if self.contents.add(row, &self.options) { self.flush() } else { Ok(()) }
    }

    /// Stores content and returns its blobs: none if the policy keeps only lengths.
    pub fn blob(&mut self, content: &[u8], keep: Keep) -> Result<Vec<u32>, WriteError> {
        let policy = if keep == Keep::Always { DataPolicy::Full } else { self.manifest.data };
        let mut out = Vec::with_capacity(content.len().div_ceil(CHUNK_BYTES));
        if policy == DataPolicy::None {
            return Ok(out);
        }
        for chunk in content.chunks(CHUNK_BYTES) {
            let hash = blake3::hash(chunk);
            let stored = (policy == DataPolicy::Full).then(|| chunk.to_vec());
            out.push(self.blob_row(&hash, chunk.len() as u32, || stored)?);
        }
        Ok(out)
    }

    /// Refers to content that is known by hash alone (a replay's trace: content equal to the original's).
    pub fn blob_by_hash(&mut self, blake3: [u8; 32], length: u32) -> Result<u32, WriteError> {
        self.blob_row(&blake3::Hash::from_bytes(blake3), length, || None)
    }

    fn blob_row(
        &mut self,
        hash: &blake3::Hash,
        length: u32,
        content: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Result<u32, WriteError> {
        let (blob, new) = self.dedup.number(hash);
        if new {
            self.touch();
            let row = BlobRow { blob, blake3: hash.as_bytes().to_vec(), length, content: content() };
            if self.blobs.add(row, &self.options) {
                self.flush_blobs()?;
            }
        }
        Ok(blob)
    }

    fn touch(&mut self) {
        self.oldest.get_or_insert_with(Instant::now);
    }

    /// Writes everything if the oldest unwritten row is old. To be called now and then.
    pub fn flush_if_due(&mut self) -> Result<(), WriteError> {
        match self.oldest {
            Some(oldest) if oldest.elapsed() >= self.options.age => self.flush(),
            _ => Ok(()),
        }
    }

    fn send<R: Row>(&mut self, pending: Pending<R>) -> Result<(), WriteError> {
        if pending.rows.is_empty() {
            return Ok(());
        }
        let job: Job = Box::new(move |sink| sink.part(&pending.rows));
        match self.jobs.as_ref().map(|jobs| jobs.send(job)) {
            Some(Ok(())) => Ok(()),
            // The worker ends early only by an error of its own: that is the one to report.
            _ => Err(self.join().err().unwrap_or_else(|| WriteError::io(&self.dir, std::io::ErrorKind::Other.into()))),
        }
    }

    fn flush_blobs(&mut self) -> Result<(), WriteError> {
        let blobs = std::mem::take(&mut self.blobs);
        self.send(blobs)
    }

    /// Hands all rows to the encoder. What is referred to goes first, so that a trace cut off anywhere is consistent.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        self.flush_blobs()?;
        let (processes, threads) = (std::mem::take(&mut self.processes), std::mem::take(&mut self.threads));
        self.send(processes)?;
        self.send(threads)?;
        let (descriptors, tree) = (std::mem::take(&mut self.descriptors), std::mem::take(&mut self.tree));
        self.send(descriptors)?;
        self.send(tree)?;
        let (contents, actions) = (std::mem::take(&mut self.contents), std::mem::take(&mut self.actions));
        self.send(contents)?;
        self.send(actions)?;
        self.oldest = None;
        self.store_ledger().map(drop)
    }

    /// Writes the ledger; returns its checksum.
    fn store_ledger(&self) -> Result<String, WriteError> {
        let text = serde_json::to_vec_pretty(&self.ledger).expect("a ledger serializes");
        replace_file(&self.dir.join("ledger.json"), &text)?;
        Ok(blake3::hash(&text).to_hex().to_string())
    }

    /// Awaits the encoder; returns the number of parts it has written.
    fn join(&mut self) -> Result<u64, WriteError> {
        self.jobs = None;
        match self.worker.take().map(JoinHandle::join) {
            None => Ok(0),
            Some(Ok(done)) => done,
            Some(Err(_)) => Err(WriteError::Encode { table: "parts", cause: "the encoder stopped".into() }),
        }
    }

    /// Writes what remains and marks the trace complete.
    pub fn close(mut self, end: Option<End>) -> Result<Manifest, WriteError> {
        self.flush()?;
        let parts = self.join()?;
        let ledger = self.store_ledger()?;
        self.manifest.end = end;
        self.manifest.parts = Some(parts);
        self.manifest.ledger = Some(ledger);
        self.manifest.complete = true;
        self.manifest.store(&self.dir)?;
        Ok(self.manifest.clone())
    }
}

impl Drop for TraceWriter {
    fn drop(&mut self) {
        // Errors have been reported by the call that met them.
        let _ = self.join();
    }
}
