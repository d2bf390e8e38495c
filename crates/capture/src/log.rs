//! The trace being written: numbering, clock and counting on top of the writer.
//!
//! Goals: one place that gives out `seq`, so that the order of rows is the order of effects. Non-goals: deciding
//! that order.

use std::time::Instant;

use reprise_trace::{Action, Content, DataPolicy, Keep, Ledger, Loss, Manifest, TraceWriter, TreeNode, WriteError};

/// The log of a recording.
pub struct Log {
    writer: TraceWriter,
    started: Instant,
    next: u64,
    bytes: u64,
    policy: DataPolicy,
}

impl Log {
    /// Begins; times count from now.
    pub fn new(writer: TraceWriter, policy: DataPolicy) -> Log {
        Log { writer, started: Instant::now(), next: 0, bytes: 0, policy }
    }

    /// Nanoseconds since the trace began.
    pub fn now(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// The number that the next action will get.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Bytes of content moved so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How content is kept.
    pub fn policy(&self) -> DataPolicy {
        self.policy
    }

    /// Writes an action and returns its number.
    pub fn action(&mut self, mut action: Action) -> Result<u64, WriteError> {
        let seq = self.next;
        action.seq = seq;
        self.bytes += action.data_bytes;
        if action.truncated_bytes > 0 {
            let cause = format!("{}: memory could not be read", action.call);
            self.loss(Loss::Truncated, cause, action.truncated_bytes);
        }
        self.writer.action(action)?;
        self.next += 1;
        Ok(seq)
    }

    /// Writes a name of the initial tree, observed now.
    pub fn node(&mut self, mut node: TreeNode) -> Result<(), WriteError> {
        node.seq = self.next;
        self.writer.node(node)
    }

    /// Writes content of the initial tree, observed now.
    pub fn content(&mut self, mut content: Content) -> Result<(), WriteError> {
        content.seq = self.next;
        self.writer.content(content)
    }

    /// Stores content.
    pub fn blob(&mut self, bytes: &[u8], keep: Keep) -> Result<Vec<u32>, WriteError> {
        if bytes.is_empty() {
            return Ok(Vec::new());
        }
        self.writer.blob(bytes, keep)
    }

    /// Counts a loss at the action to come.
    pub fn loss(&mut self, word: Loss, cause: impl Into<String>, bytes: u64) {
        let next = self.next;
        self.writer.ledger().count(word, cause, bytes, Some(next));
    }

    /// Notes a fact.
    pub fn note(&mut self, text: impl Into<String>) {
        self.writer.ledger().note(text);
    }

    /// The ledger so far.
    pub fn ledger(&mut self) -> &Ledger {
        self.writer.ledger()
    }

    /// The writer, for rows that need no number.
    pub fn writer(&mut self) -> &mut TraceWriter {
        &mut self.writer
    }

    /// Closes the trace.
    pub fn close(self, end: reprise_trace::End) -> Result<Manifest, WriteError> {
        self.writer.close(Some(end))
    }
}
