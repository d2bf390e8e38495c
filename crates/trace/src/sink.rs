//! Encoding parts and putting them on disk, beside the thread that gathers the rows.
//!
//! Goals: parts are encoded by several threads and yet appear in the order they were sent, so that a trace cut off
//! anywhere is consistent; memory is bounded by the parts under way and room for one more of each table; a limit on the
//! trace's size is never passed. Non-goals: knowing tables, deciding when a part is full.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::catalog::{CatalogWriter, Part};
use crate::column::Column;
use crate::error::WriteError;
use crate::gathered::Gathered;
use crate::manifest::replace_file;
use crate::rows::Action;
use crate::table::Row;

/// Parts that wait for an encoder.
const WAITING: usize = 1;

/// What a file takes on disk is a multiple of this.
const BLOCK_BYTES: u64 = 4096;

/// Room for directories, manifest and ledger within a limit on the trace's size.
const RESERVE_BYTES: u64 = 256 << 10;

/// A part that is encoded.
struct Encoded {
    table: &'static str,
    rows: u64,
    first: u64,
    bytes: Vec<u8>,
    blake3: String,
    emptied: Vec<Column>,
}

impl Encoded {
    fn of<R: Row>(rows: Gathered<R>) -> Result<Encoded, WriteError> {
        let (count, first) = (rows.len() as u64, rows.first());
        let (bytes, emptied) = rows.encode()?;
        let blake3 = blake3::hash(&bytes).to_hex().to_string();
        Ok(Encoded { table: R::TABLE, rows: count, first, bytes, blake3, emptied })
    }
}

type Job = Box<dyn FnOnce() -> Result<Encoded, WriteError> + Send>;

/// What is on disk in the end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stored {
    /// Parts.
    pub parts: u64,
    /// Actions in them.
    pub actions: u64,
}

struct State {
    /// The job whose part is the next to be stored.
    turn: u64,
    stored: Stored,
    /// Bytes on disk, in whole blocks, and how many there may be.
    bytes: u64,
    limit: Option<u64>,
    catalog: CatalogWriter,
    error: Option<WriteError>,
}

struct Shared {
    dir: PathBuf,
    state: Mutex<State>,
    /// Columns whose rows are encoded, by their table.
    emptied: Mutex<HashMap<&'static str, Vec<Column>>>,
    turned: Condvar,
    full: AtomicBool,
    failed: AtomicBool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether parts are no longer stored.
    fn has_stopped(&self) -> bool {
        self.full.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed)
    }

    fn emptied(&self) -> MutexGuard<'_, HashMap<&'static str, Vec<Column>>> {
        self.emptied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Encodes, waits for its turn, stores.
    fn perform(&self, number: u64, job: Job) {
        let mut encoded = (!self.has_stopped()).then(|| {
            let stopped = || WriteError::Encode { table: "parts", cause: "the encoder stopped".into() };
            catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|_| Err(stopped()))
        });
        if let Some(Ok(part)) = &mut encoded {
            self.emptied().insert(part.table, std::mem::take(&mut part.emptied));
        }
        let mut state = self.state();
        while state.turn != number {
            state = self.turned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        // Parts before this one may have met the limit, or an error.
        if let Some(encoded) = encoded.filter(|_| !self.has_stopped())
            && let Err(error) = encoded.and_then(|part| self.store(&mut state, part))
        {
            state.error = Some(error);
            self.failed.store(true, Ordering::Relaxed);
        }
        state.turn += 1;
        self.turned.notify_all();
    }

    fn store(&self, state: &mut State, part: Encoded) -> Result<(), WriteError> {
        let size = (part.bytes.len() as u64).next_multiple_of(BLOCK_BYTES);
        if state.limit.is_some_and(|limit| state.bytes + size + RESERVE_BYTES + state.catalog.bytes() > limit) {
            self.full.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let file = format!("{}/{:06}.parquet", part.table, state.stored.parts);
        replace_file(&self.dir.join(&file), &part.bytes)?;
        state.bytes += size;
        state.stored.parts += 1;
        if part.table == Action::TABLE {
            state.stored.actions += part.rows;
        }
        state.catalog.add(Part {
            file,
            table: part.table.to_owned(),
            rows: part.rows,
            first: part.first,
            bytes: part.bytes.len() as u64,
            blake3: part.blake3,
        })
    }
}

/// Where parts go.
pub(crate) struct Sink {
    shared: Arc<Shared>,
    jobs: Option<SyncSender<(u64, Job)>>,
    sent: u64,
    threads: Vec<JoinHandle<()>>,
}

impl Sink {
    /// Begins a catalog in `dir`, with so many encoders; each calls `begin` first.
    pub fn create(dir: &Path, limit: Option<u64>, encoders: usize, begin: fn()) -> Result<Sink, WriteError> {
        let (stored, catalog) = (Stored::default(), CatalogWriter::create(dir)?);
        let state = State { turn: 0, stored, bytes: 0, limit, catalog, error: None };
        let shared = Arc::new(Shared {
            dir: dir.to_owned(),
            state: Mutex::new(state),
            emptied: Mutex::default(),
            turned: Condvar::new(),
            full: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        });
        let (jobs, queue) = sync_channel(WAITING);
        let queue = Arc::new(Mutex::new(queue));
        let mut sink = Sink { shared, jobs: Some(jobs), sent: 0, threads: Vec::new() };
        for _ in 0..encoders.max(1) {
            let (shared, queue) = (sink.shared.clone(), queue.clone());
            let encoder = std::thread::Builder::new().name("reprise-writer".into()).spawn(move || {
                begin();
                while let Some((number, job)) = next(&queue) {
                    shared.perform(number, job);
                }
            });
            sink.threads.push(encoder.map_err(|e| WriteError::io(dir, e))?);
        }
        Ok(sink)
    }

    /// Whether the limit was met: what is sent from then on is not stored.
    pub fn is_full(&self) -> bool {
        self.shared.full.load(Ordering::Relaxed)
    }

    /// Changes the bytes that there may be on disk.
    pub fn limit(&mut self, most: u64) {
        self.shared.state().limit = Some(most);
    }

    /// Bytes that parts take on disk so far.
    pub fn bytes(&self) -> u64 {
        self.shared.state().bytes
    }

    /// Columns of a table that were encoded before, empty.
    pub fn emptied<R: Row>(&self) -> Option<Vec<Column>> {
        self.shared.emptied().remove(R::TABLE)
    }

    /// Sends rows to be stored as a part; waits while too many are under way.
    pub fn send<R: Row>(&mut self, rows: Gathered<R>) -> Result<(), WriteError> {
        if self.shared.failed.load(Ordering::Relaxed) {
            return Err(self.error());
        }
        let job: Job = Box::new(move || Encoded::of(rows));
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send((self.sent, job)).is_ok());
        self.sent += 1;
        if sent { Ok(()) } else { Err(self.error()) }
    }

    /// The error that parts are no longer stored for; known once, to the first who asks.
    fn error(&self) -> WriteError {
        let known = self.shared.state().error.take();
        known.unwrap_or_else(|| WriteError::io(&self.shared.dir, std::io::ErrorKind::Other.into()))
    }

    /// Waits for what was sent, though it be not stored; says what is.
    pub fn end(&mut self) -> Stored {
        let _ = self.finish();
        self.shared.state().stored
    }

    /// Waits until all that was sent is stored.
    pub fn finish(&mut self) -> Result<Stored, WriteError> {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // Jobs that panic are caught; there is nothing else to learn.
            let _ = thread.join();
        }
        if self.shared.failed.load(Ordering::Relaxed) { Err(self.error()) } else { Ok(self.shared.state().stored) }
    }
}

fn next(queue: &Mutex<Receiver<(u64, Job)>>) -> Option<(u64, Job)> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

impl Drop for Sink {
    fn drop(&mut self) {
        // Errors have been reported by the call that met them.
        let _ = self.finish();
    }
}
