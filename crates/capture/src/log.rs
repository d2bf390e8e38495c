//! The trace being written: numbering, clock and counting on top of the writer.
//!
//! Goals: one place that gives out `seq`, so that the order of rows is the order of effects; a trace that cannot be
//! written any further (a full disk) does not harm the program. Non-goals: deciding that order.

use std::sync::mpsc::Receiver;
use std::time::Instant;

use foldhash::{HashMap, HashMapExt};
use reprise_initial::Seeds;
use reprise_trace::{
    Action, Content, DataPolicy, Descriptor, End, Keep, Ledger, Lock, Loss, Manifest, Mapping, Process, ThreadRow,
    TraceWriter, TreeNode, WriteError,
};

use crate::arguments::UNREADABLE;
use crate::environment::{CORE_PATTERN, Observation, Surroundings};
use crate::kept::Place;
use crate::sys::FileId;

/// So many places are remembered, as many as a map of 2^18 buckets holds, which takes 10 MiB.
const SAID: usize = 7 << 15;

/// Why calls are lacking that were made when nothing could be written any more.
const UNWRITTEN: &str = "came after what could be written of the trace";

/// The log of a recording.
pub struct Log {
    writer: TraceWriter,
    started: Instant,
    next: u64,
    bytes: u64,
    policy: DataPolicy,
    /// Set once: nothing is written from then on.
    failed: Option<WriteError>,
    told: bool,
    /// Names written, where they are asked for.
    names: Option<Seeds>,
    /// Samples of the environment that wait to be written.
    samples: Option<Receiver<Observation>>,
    /// Whether what is observed is what was there at the beginning, whenever it is written.
    looks_back: bool,
    /// What is known of places of the spool.
    said: HashMap<(Place, Keep), u32>,
    /// Content that was observed later all the same: written last, since rows are in the order of observation.
    later: Option<Vec<Content>>,
    /// Devices that count as others.
    devices: HashMap<u64, u64>,
}

impl Log {
    /// Begins; times count from now.
    pub fn new(writer: TraceWriter, policy: DataPolicy) -> Log {
        Log {
            writer,
            started: Instant::now(),
            next: 0,
            bytes: 0,
            policy,
            failed: None,
            told: false,
            names: None,
            samples: None,
            looks_back: false,
            said: HashMap::new(),
            later: None,
            devices: HashMap::new(),
        }
    }

    /// Nanoseconds since the trace began.
    pub fn now(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// When it began.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Bytes of content moved so far, as long as they were recorded.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How content is kept.
    pub fn policy(&self) -> DataPolicy {
        self.policy
    }

    /// Writes, or from the first error on does nothing: a program under the filter needs its tracer to the end.
    fn write<T: Default>(&mut self, write: impl FnOnce(&mut TraceWriter) -> Result<T, WriteError>) -> T {
        if self.failed.is_some() {
            return T::default();
        }
        write(&mut self.writer).unwrap_or_else(|error| {
            self.failed = Some(error);
            T::default()
        })
    }

    /// Why nothing is written any more; once.
    pub fn news(&mut self) -> Option<String> {
        let news = match &self.failed {
            Some(error) => error.to_string(),
            None if self.writer.is_full() => "the trace has reached the size it may have".to_owned(),
            None => return None,
        };
        (!std::mem::replace(&mut self.told, true)).then_some(news)
    }

    /// The failure so far, if any: for the time before the program runs.
    pub fn check(&mut self) -> Result<(), WriteError> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Writes an action and returns its number.
    pub fn action(&mut self, mut action: Action) -> u64 {
        self.action_lacking(&mut action, UNREADABLE)
    }

    /// As [`Log::action`], of an action that is left empty, unless nothing is written any more: it is large, and moved once.
    /// Says why content is lacking, if any is.
    pub fn action_lacking(&mut self, action: &mut Action, why: &str) -> u64 {
        if action.truncated_bytes > 0 {
            let cause = format!("{}: {why}", action.call);
            self.loss(Loss::Truncated, cause, action.truncated_bytes);
        }
        self.action_accounted(action)
    }

    /// As [`Log::action_lacking`], of an action whose losses are counted elsewhere.
    pub fn action_accounted(&mut self, action: &mut Action) -> u64 {
        let seq = self.next;
        action.seq = seq;
        if !self.writer.is_full() && self.failed.is_none() {
            self.bytes += action.data_bytes;
        }
        self.write(|writer| writer.take_action(action));
        self.next += 1;
        seq
    }

    /// From now on what is observed was there at the beginning.
    pub fn look_back(&mut self) {
        self.looks_back = true;
    }

    fn observed_at(&self) -> u64 {
        if self.looks_back { 0 } else { self.next }
    }

    /// Files of a device count as those of another one from now on.
    pub fn renumber(&mut self, device: u64, other: u64) {
        self.devices.insert(device, other);
    }

    fn device(&self, device: u64) -> u64 {
        self.devices.get(&device).copied().unwrap_or(device)
    }

    /// Writes a name of the initial tree, observed now.
    pub fn node(&mut self, mut node: TreeNode) {
        node.seq = self.observed_at();
        (node.device, node.parent_device) = (self.device(node.device), self.device(node.parent_device));
        self.names.iter_mut().for_each(|names| names.rows.push(node.clone()));
        self.write(|writer| writer.node(node));
    }

    /// Writes content of the initial tree, observed now.
    pub fn content(&mut self, mut content: Content) {
        content.seq = self.observed_at();
        content.device = self.device(content.device);
        match &mut self.later {
            Some(later) if !self.looks_back => later.push(content),
            _ => self.write(|writer| writer.content(content)),
        }
    }

    /// What `observe` writes of content was seen now, and not at the beginning as all else.
    pub fn seen_now(&mut self, observe: impl FnOnce(&mut Log)) {
        self.later.get_or_insert_default();
        let looks_back = std::mem::replace(&mut self.looks_back, false);
        observe(self);
        self.looks_back = looks_back;
    }

    /// Writes a process.
    pub fn process(&mut self, row: Process) {
        self.write(|writer| writer.process(row));
    }

    /// Writes a thread.
    pub fn thread(&mut self, row: ThreadRow) {
        self.write(|writer| writer.thread(row));
    }

    /// Writes a descriptor that was there before the start.
    pub fn descriptor(&mut self, row: Descriptor) {
        self.write(|writer| writer.descriptor(row));
    }

    /// Writes a lock that was held before the start.
    pub fn lock(&mut self, row: Lock) {
        self.write(|writer| writer.lock(row));
    }

    /// Writes a mapping that was there before the start.
    pub fn mapping(&mut self, row: Mapping) {
        self.write(|writer| writer.mapping(row));
    }

    /// Writes what is around the program at the start.
    pub fn surroundings(&mut self, around: Surroundings) {
        self.manifest_mut().facts.extend(around.facts);
        around.mounts.into_iter().for_each(|mount| self.write(|writer| writer.mount(mount)));
        around.queues.into_iter().for_each(|setting| self.write(|writer| writer.queue(setting)));
    }

    /// Samples of the environment come from here.
    pub fn sampled_by(&mut self, samples: Receiver<Observation>) {
        self.samples = Some(samples);
    }

    fn write_samples(&mut self) {
        while let Some(seen) = self.samples.as_ref().and_then(|samples| samples.try_recv().ok()) {
            self.sample(seen);
        }
    }

    /// Writes a sample of the environment.
    pub fn sample(&mut self, seen: Observation) {
        self.write(|writer| writer.environment(seen.environment));
        seen.devices.into_iter().for_each(|device| self.write(|writer| writer.device(device)));
    }

    /// Writes out all rows.
    pub fn flush(&mut self) {
        self.write(TraceWriter::flush);
    }

    /// Writes out all rows if the oldest is old.
    pub fn flush_if_due(&mut self) {
        self.write_samples();
        self.write(TraceWriter::flush_if_due);
    }

    /// Stores what stands at a place of a spool, which is read the first time; `None` if it cannot be.
    pub fn blob_at(&mut self, place: Place, keep: Keep, read: impl FnOnce() -> Option<Vec<u8>>) -> Option<Vec<u32>> {
        if let Some(blob) = self.said.get(&(place, keep)) {
            return Some(vec![*blob]);
        }
        let data = self.blob(&read()?, keep);
        if let [blob] = data[..] {
            if self.said.len() >= SAID {
                self.said.clear();
            }
            self.said.insert((place, keep), blob);
        }
        Some(data)
    }

    /// Whether content is stored at all, or hashed.
    pub fn wants(&self, keep: Keep) -> bool {
        keep == Keep::Always || self.policy != DataPolicy::None
    }

    /// Stores content.
    pub fn blob(&mut self, bytes: &[u8], keep: Keep) -> Vec<u32> {
        if bytes.is_empty() {
            return Vec::new();
        }
        self.write(|writer| writer.blob(bytes, keep))
    }

    /// Changes how many bytes the trace may take.
    pub fn limit(&mut self, most: u64) {
        self.writer.limit(most);
    }

    /// Whether there is room left for what is written at the end and for little more.
    pub fn is_nearly_full(&self) -> bool {
        self.writer.is_nearly_full()
    }

    /// Counts calls that have no place in the trace any more.
    pub fn beyond_limit(&mut self, most: u64, count: u64) {
        self.loss_several(Loss::Dropped, &format!("came after the trace had reached its limit of {most} bytes"), count);
    }

    /// Counts a loss at the action to come.
    pub fn loss(&mut self, word: Loss, cause: impl Into<String>, bytes: u64) {
        let next = self.next;
        self.writer.ledger().count(word, cause, bytes, Some(next));
    }

    /// Counts several losses at once.
    pub fn loss_several(&mut self, word: Loss, cause: &str, count: u64) {
        let next = self.next;
        if count > 0 {
            self.writer.ledger().count_several(word, cause, count, 0, Some(next));
        }
    }

    /// A process was killed, and left a core if `status`, as `wait` gives it, says so: no call writes that.
    pub fn killed(&mut self, status: i32) {
        self.note(format!("a process was killed by signal {}", libc::WTERMSIG(status)));
        let is_file = |to: &String| !to.starts_with(['|', '@']);
        if libc::WCOREDUMP(status) && self.manifest_mut().facts.get(CORE_PATTERN).is_some_and(is_file) {
            self.loss(Loss::Dropped, "a core file, which the kernel wrote as a process was killed", 0);
        }
    }

    /// Notes a fact that was met several times.
    pub fn note_several(&mut self, text: &str, count: u64) {
        if count > 0 {
            let met = self.writer.ledger().notes.entry(text.to_owned()).or_default();
            *met = met.saturating_add(count);
        }
    }

    /// Notes a fact.
    pub fn note(&mut self, text: impl Into<String>) {
        self.writer.ledger().note(text);
    }

    /// The ledger so far.
    pub fn ledger(&mut self) -> &Ledger {
        self.writer.ledger()
    }

    /// The manifest as it will be closed.
    pub fn manifest_mut(&mut self) -> &mut Manifest {
        self.writer.manifest_mut()
    }

    /// The names that were remembered so far.
    pub fn take_names(&mut self) -> Seeds {
        self.names.take().unwrap_or_default()
    }

    /// From now on names are remembered for [`Log::into_parts`].
    pub fn remember_names(&mut self) {
        self.names = Some(Seeds::default());
    }

    /// Every name in a directory was written.
    pub fn listed(&mut self, directory: FileId) {
        let identity = (directory.device, directory.inode);
        self.names.iter_mut().for_each(|names| names.listed.push(identity));
    }

    /// The writer, and the names that were remembered.
    pub fn into_parts(mut self) -> Result<(TraceWriter, Seeds), WriteError> {
        self.check()?;
        Ok((self.writer, self.names.unwrap_or_default()))
    }

    /// Writes what remains, after which the ledger is complete, also where not all could be written; returns how many actions are in the
    /// trace.
    pub fn finish(&mut self) -> u64 {
        self.write_samples();
        for content in self.later.take().unwrap_or_default() {
            self.write(|writer| writer.content(content));
        }
        let actions = self.write(TraceWriter::finish);
        if self.failed.is_some() { self.writer.give_up(self.next, UNWRITTEN) } else { actions }
    }

    /// Closes the trace.
    pub fn close(mut self, end: End) -> Result<Manifest, WriteError> {
        self.check().and_then(|()| self.writer.close(Some(end)))
    }
}
