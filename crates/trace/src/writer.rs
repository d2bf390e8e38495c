//! Writing a trace: rows are gathered, and sent to be encoded and stored part by part.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::blobs::{CHUNK_BYTES, Shelf};
use crate::dedup::Deduplicator;
use crate::environment::{DeviceSample, Environment, Mount, QueueSetting};
use crate::error::WriteError;
use crate::gathered::Gathered;
use crate::ledger::{Ledger, Loss};
use crate::manifest::{DataPolicy, End, Manifest, replace_file};
use crate::place;
use crate::rows::{Action, BlobRow, Content, Descriptor, Lock, Mapping, Process, ThreadRow, TreeNode};
use crate::sink::Sink;
use crate::table::Row;

/// Time whose samples of the environment are a part, in nanoseconds.
const SAMPLES_TOGETHER_NS: u64 = 10_000_000_000;

/// Whether content follows the trace's policy or is needed for the trace to be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Keep {
    /// Content of files: as the policy says.
    ByPolicy,
    /// Names and attributes: always.
    Always,
}

/// Bounds on what is held in memory and on disk, and where and by whom it is written.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// Rows of a part at most.
    pub rows: usize,
    /// Weight of a part's rows in bytes at which it is finished.
    pub bytes: usize,
    /// Age of unwritten rows at which all are written.
    pub age: Duration,
    /// Threads that encode. Each holds a part.
    pub encoders: usize,
    /// Called by each of them as it begins.
    pub begin_encoder: fn(),
    /// Directory, on another device perhaps, in which the contents get a directory of their own.
    pub contents: Option<PathBuf>,
    /// Bytes that the trace may take on disk: what comes after is dropped, and counted.
    pub max_bytes: Option<u64>,
}

impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions {
            rows: 1 << 16,
            bytes: 16 << 20,
            age: Duration::from_secs(2),
            encoders: std::thread::available_parallelism().map_or(1, |n| n.get().min(4)),
            begin_encoder: || {},
            contents: None,
            max_bytes: None,
        }
    }
}

/// Writes a trace. Dropping it without [`TraceWriter::close`] leaves a trace that ends at the last flush.
pub struct TraceWriter {
    dir: PathBuf,
    manifest: Manifest,
    options: WriterOptions,
    ledger: Ledger,
    dedup: Deduplicator,
    shelf: Shelf,
    actions: Gathered<Action>,
    threads: Gathered<ThreadRow>,
    processes: Gathered<Process>,
    descriptors: Gathered<Descriptor>,
    locks: Gathered<Lock>,
    mappings: Gathered<Mapping>,
    tree: Gathered<TreeNode>,
    contents: Gathered<Content>,
    blobs: Gathered<BlobRow>,
    environment: Gathered<Environment>,
    devices: Gathered<DeviceSample>,
    mounts: Gathered<Mount>,
    queues: Gathered<QueueSetting>,
    /// Actions that were given and are not counted as dropped yet.
    given: u64,
    oldest: Option<Instant>,
    sink: Sink,
}

impl TraceWriter {
    /// Begins a trace in a directory that must not exist (an empty one is taken, or one with a raw recording only).
    pub fn create(dir: &Path, manifest: Manifest, options: WriterOptions) -> Result<TraceWriter, WriteError> {
        place::make(dir, options.contents.as_deref(), &manifest.id)?;
        manifest.store(dir)?;
        let sink = Sink::create(dir, options.max_bytes, options.encoders, options.begin_encoder)?;
        // Parts are small beside the limit, so that little of it is left when one no longer fits.
        let bytes = options.max_bytes.map_or(options.bytes, |most| options.bytes.min((most / 16) as usize));
        let options = WriterOptions { bytes, ..options };
        Ok(TraceWriter {
            dir: dir.to_owned(),
            manifest,
            options,
            ledger: Ledger::default(),
            dedup: Deduplicator::default(),
            shelf: Shelf::default(),
            actions: Gathered::default(),
            threads: Gathered::default(),
            processes: Gathered::default(),
            descriptors: Gathered::default(),
            locks: Gathered::default(),
            mappings: Gathered::default(),
            tree: Gathered::default(),
            contents: Gathered::default(),
            blobs: Gathered::default(),
            environment: Gathered::default(),
            devices: Gathered::default(),
            mounts: Gathered::default(),
            queues: Gathered::default(),
            given: 0,
            oldest: None,
            sink,
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

    /// Whether the trace has reached [`WriterOptions::max_bytes`]: what is added from then on is dropped.
    pub fn is_full(&self) -> bool {
        self.sink.is_full()
    }

    /// Whether little more than an eighth of what the trace may take is left when all that is under way is stored: whoever
    /// writes names and contents of the initial tree last is to end with actions here.
    pub fn is_nearly_full(&self) -> bool {
        /// Parts that wait, are encoded, or are gathered; in each table but contents and actions there is little.
        const UNDER_WAY: u64 = 4;
        let under_way = (self.options.encoders as u64 + UNDER_WAY) * self.options.bytes as u64;
        self.options.max_bytes.is_some_and(|most| self.sink.bytes() + under_way > most - most / 8)
    }

    /// Changes how many bytes the trace may take on disk.
    pub fn limit(&mut self, most: u64) {
        self.options.max_bytes = Some(most);
        self.options.bytes = self.options.bytes.min((most / 16) as usize);
        self.sink.limit(most);
    }

    /// Adds an action. Sequence numbers must ascend without gaps.
    pub fn action(&mut self, mut action: Action) -> Result<(), WriteError> {
        self.take_action(&mut action)
    }

    /// The same of an action that is left empty, unless nothing is written any more: actions are large, and what this one has is
    /// moved once.
    pub fn take_action(&mut self, action: &mut Action) -> Result<(), WriteError> {
        self.given += 1;
        if self.is_full() {
            return Ok(());
        }
        if action.result < 0 && action.errno.is_none() {
            action.errno = i32::try_from(-action.result).ok().and_then(reprise_calls::errno_name).map(str::to_owned);
        }
        self.touch();
        if self.actions.add_from(action, &self.options) { self.flush() } else { Ok(()) }
    }

    /// Adds a sample of the environment. Nothing refers to samples: they go by themselves, some seconds together.
    pub fn environment(&mut self, row: Environment) -> Result<(), WriteError> {
        let now_ns = row.time_ns;
        let is_full = self.environment.add(row, &self.options);
        // The key of a sample is its time.
        let first_ns = self.environment.first();
        if is_full || now_ns.saturating_sub(first_ns) >= SAMPLES_TOGETHER_NS { self.flush_samples() } else { Ok(()) }
    }

    /// Adds a sample of a device.
    pub fn device(&mut self, row: DeviceSample) -> Result<(), WriteError> {
        if self.devices.add(row, &self.options) { self.flush_samples() } else { Ok(()) }
    }

    /// Stores content and returns its blobs: none if the policy keeps only lengths.
    pub fn blob(&mut self, content: &[u8], keep: Keep) -> Result<Vec<u32>, WriteError> {
        let policy = if keep == Keep::Always { DataPolicy::Full } else { self.manifest.data };
        if policy == DataPolicy::None || self.is_full() {
            return Ok(Vec::new());
        }
        let mut out = Vec::with_capacity(content.len().div_ceil(CHUNK_BYTES));
        for chunk in content.chunks(CHUNK_BYTES) {
            let hash = blake3::hash(chunk);
            let stored = (policy == DataPolicy::Full).then_some(chunk);
            out.push(self.blob_row(&hash, chunk.len() as u32, stored)?);
        }
        Ok(out)
    }

    /// Refers to content that is known by hash alone (a replay's trace: content equal to the original's).
    pub fn blob_by_hash(&mut self, blake3: [u8; 32], length: u32) -> Result<u32, WriteError> {
        self.blob_row(&blake3::Hash::from_bytes(blake3), length, None)
    }

    fn blob_row(&mut self, hash: &blake3::Hash, length: u32, content: Option<&[u8]>) -> Result<u32, WriteError> {
        let (blob, new) = self.dedup.number(hash);
        if new {
            self.touch();
            let content = content.map(|content| self.shelf.keep(content));
            let row = BlobRow { blob, blake3: *hash.as_bytes(), length, content };
            if self.blobs.add(row, &self.options) {
                // Under a limit, contents are worth their room only with the rows that refer to them.
                match self.options.max_bytes {
                    Some(_) => self.flush()?,
                    None => self.flush_blobs()?,
                }
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

    fn flush_blobs(&mut self) -> Result<(), WriteError> {
        send(&mut self.blobs, &mut self.sink)
    }

    /// Hands all rows to the encoder. What is referred to goes first, so that a trace cut off anywhere is consistent.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        self.flush_blobs()?;
        let sink = &mut self.sink;
        send(&mut self.processes, sink)?;
        send(&mut self.threads, sink)?;
        send(&mut self.descriptors, sink)?;
        send(&mut self.locks, sink)?;
        send(&mut self.mappings, sink)?;
        send(&mut self.tree, sink)?;
        send(&mut self.contents, sink)?;
        send(&mut self.actions, sink)?;
        send(&mut self.mounts, sink)?;
        send(&mut self.queues, sink)?;
        self.oldest = None;
        self.store_ledger().map(drop)
    }

    fn flush_samples(&mut self) -> Result<(), WriteError> {
        send(&mut self.environment, &mut self.sink)?;
        send(&mut self.devices, &mut self.sink)
    }

    /// Writes the ledger; returns its checksum.
    fn store_ledger(&self) -> Result<String, WriteError> {
        let text = serde_json::to_vec_pretty(&self.ledger).expect("a ledger serializes");
        replace_file(&self.dir.join("ledger.json"), &text)?;
        Ok(blake3::hash(&text).to_hex().to_string())
    }

    /// Writes what remains, after which nothing may be added and the ledger is complete. Returns how many actions are in
    /// the trace.
    pub fn finish(&mut self) -> Result<u64, WriteError> {
        self.flush_samples()?;
        self.flush()?;
        let stored = self.sink.finish()?.actions;
        if let Some(most) = self.options.max_bytes.filter(|_| stored < self.given && self.sink.is_full()) {
            let cause = format!("came after the trace had reached its limit of {most} bytes");
            self.ledger.count_several(Loss::Dropped, cause, self.given - stored, 0, Some(stored));
            self.given = stored;
        }
        Ok(stored)
    }

    /// After an error: of so many actions those that are not in the trace are counted as dropped, in the ledger that is left beside it
    /// if there is room. Returns how many are in it.
    pub fn give_up(&mut self, actions: u64, cause: &str) -> u64 {
        let stored = self.sink.end().actions;
        let lost = actions.saturating_sub(stored);
        if lost > 0 {
            self.ledger.count_several(Loss::Dropped, cause, lost, 0, Some(stored));
        }
        // Whoever asked knows of an error already.
        let _ = self.store_ledger();
        stored
    }

    /// Writes what remains and marks the trace complete.
    pub fn close(mut self, end: Option<End>) -> Result<Manifest, WriteError> {
        self.finish()?;
        let stored = self.sink.finish()?;
        let ledger = self.store_ledger()?;
        self.manifest.end = end;
        self.manifest.parts = Some(stored.parts);
        self.manifest.ledger = Some(ledger);
        self.manifest.complete = true;
        self.manifest.store(&self.dir)?;
        Ok(self.manifest.clone())
    }
}

/// Methods that add a row which is written with all others.
macro_rules! adders {
    ($($(#[$doc:meta])* $name:ident($table:ident: $row:ty);)*) => {
        impl TraceWriter {
            $($(#[$doc])* pub fn $name(&mut self, row: $row) -> Result<(), WriteError> {
                self.touch();
                if self.$table.add(row, &self.options) { self.flush() } else { Ok(()) }
            })*
        }
    };
}

adders! {
    /// Adds a thread.
    thread(threads: ThreadRow);
    /// Adds a process.
    process(processes: Process);
    /// Adds a descriptor that existed before the start.
    descriptor(descriptors: Descriptor);
    /// Adds a lock on a file that was held before the start.
    lock(locks: Lock);
    /// Adds a mapping of a file that existed before the start.
    mapping(mappings: Mapping);
    /// Adds a name of the initial tree.
    node(tree: TreeNode);
    /// Adds observed content.
    content(contents: Content);
    /// Adds a mount.
    mount(mounts: Mount);
    /// Adds a setting of a device's queue.
    queue(queues: QueueSetting);
}

/// Hands what was gathered of a table to the encoder.
fn send<R: Row>(rows: &mut Gathered<R>, sink: &mut Sink) -> Result<(), WriteError> {
    if rows.is_empty() {
        return Ok(());
    }
    let part = rows.take(sink.emptied::<R>());
    if sink.is_full() { Ok(()) } else { sink.send(part) }
}
