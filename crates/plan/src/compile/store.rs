//! Strings and contents of the plan: each placed once.

use std::collections::HashMap;

use reprise_trace::{BlobReader, CHUNK_BYTES};

use super::CompileError;
use crate::file::PlanWriter;

/// Strings remembered for finding equal ones.
const REMEMBERED: usize = 1 << 20;

/// Places strings, structures and contents.
pub(super) struct Store {
    pub writer: PlanWriter,
    pub blobs: BlobReader,
    strings: HashMap<Vec<u8>, u64>,
    placed: HashMap<u32, u64>,
    joined: HashMap<Vec<u32>, u64>,
    zeros: (u64, u64),
}

impl Store {
    pub fn new(writer: PlanWriter, blobs: BlobReader) -> Store {
        Store { writer, blobs, strings: HashMap::new(), placed: HashMap::new(), joined: HashMap::new(), zeros: (0, 0) }
    }

    /// A string or structure, NUL behind it.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<u64, CompileError> {
        if let Some(&at) = self.strings.get(bytes) {
            return Ok(at);
        }
        let at = self.writer.bytes(bytes)?;
        if self.strings.len() >= REMEMBERED {
            self.strings.clear();
        }
        self.strings.insert(bytes.to_vec(), at);
        Ok(at)
    }

    /// Lengths of a vector's elements, with their number before them.
    pub fn lengths(&mut self, lengths: &[u8]) -> Result<u64, CompileError> {
        let mut words = (lengths.len() as u64 / 8).to_le_bytes().to_vec();
        words.extend_from_slice(lengths);
        self.bytes(&words)
    }

    /// One blob; `None` if its content was not kept.
    pub fn blob(&mut self, blob: u32) -> Result<Option<u64>, CompileError> {
        if let Some(&at) = self.placed.get(&blob) {
            return Ok(Some(at));
        }
        let payload = self.blobs.get(blob)?;
        let Some(content) = &payload.content else {
            return Ok(None);
        };
        let at = self.writer.content(content)?;
        self.placed.insert(blob, at);
        Ok(Some(at))
    }

    /// Content that spans blobs, in one piece; `None` if any of it was not kept.
    pub fn content(&mut self, blobs: &[u32]) -> Result<Option<u64>, CompileError> {
        match blobs {
            [] => Ok(Some(0)),
            [one] => self.blob(*one),
            many => {
                if let Some(&at) = self.joined.get(many) {
                    return Ok(Some(at));
                }
                let Some(content) = self.blobs.content(many)? else {
                    return Ok(None);
                };
                let at = self.writer.content(&content)?;
                let pieces = many.iter().zip((at..).step_by(CHUNK_BYTES));
                pieces.for_each(|(blob, at)| _ = self.placed.entry(*blob).or_insert(at));
                self.joined.insert(many.to_vec(), at);
                Ok(Some(at))
            }
        }
    }

    /// So many zeros: content that was not kept.
    pub fn zeros(&mut self, length: u64) -> Result<u64, CompileError> {
        if self.zeros.1 < length {
            let length = length.next_power_of_two().max(4096);
            self.zeros = (self.writer.zeros(length)?, length);
        }
        Ok(self.zeros.0)
    }
}
