//! Strings and contents of the plan: each blob placed once, strings and joined contents as far as they are remembered.

use reprise_trace::{BlobReader, CHUNK_BYTES};

use super::CompileError;
use super::fill::Fill;
use super::offsets::Offsets;
use super::passed_on::Part;
use super::recent::Recent;
use crate::command::digest;
use crate::file::PlanWriter;

/// Bytes of strings remembered for finding equal ones.
const STRING_BYTES: usize = 4 << 20;
/// Bytes of lists of blobs remembered.
const JOINED_BYTES: usize = 1 << 20;

/// Made content: at first so much, and for a single write no more than so much; what is longer is zeros.
const LEAST_MADE: u64 = 4 << 20;
const MOST_MADE: u64 = 64 << 20;

/// Places strings, structures and contents.
pub(super) struct Store {
    pub writer: PlanWriter,
    pub blobs: BlobReader,
    strings: Recent<u8>,
    placed: Offsets,
    digests: Offsets,
    joined: Recent<u32>,
    zeros: (u64, u64),
    fill: Fill,
    /// Where made content lies, how long it is, and how many writes have taken of it.
    made: (u64, u64, u64),
}

impl Store {
    pub fn new(writer: PlanWriter, blobs: BlobReader, fill: Fill) -> Result<Store, CompileError> {
        let (placed, digests) = (Offsets::new(writer.scratch()?), Offsets::new(writer.scratch()?));
        let blobs = blobs.spilling_into(writer.scratch()?.file);
        let (strings, joined) = (Recent::new(STRING_BYTES), Recent::new(JOINED_BYTES));
        Ok(Store { writer, blobs, strings, placed, digests, joined, zeros: (0, 0), fill, made: (0, 0, 0) })
    }

    /// A string or structure, NUL behind it.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<u64, CompileError> {
        if let Some(at) = self.strings.get(bytes) {
            return Ok(at);
        }
        let at = self.writer.bytes(bytes)?;
        self.strings.insert(bytes, at);
        Ok(at)
    }

    /// Lengths of a vector's elements, with their number before them.
    pub fn lengths(&mut self, lengths: &[u8]) -> Result<u64, CompileError> {
        let mut words = (lengths.len() as u64 / 8).to_le_bytes().to_vec();
        words.extend_from_slice(lengths);
        self.bytes(&words)
    }

    /// One blob, there where it is first wanted ([`PlanWriter::content`]); `None` if its content was not kept.
    pub fn blob(&mut self, blob: u32, within: u16) -> Result<Option<u64>, CompileError> {
        if let Some(at) = self.placed.get(blob)? {
            return Ok(Some(at));
        }
        let payload = self.blobs.get(blob)?;
        let Some(content) = &payload.content else {
            return Ok(None);
        };
        let at = self.writer.content(content, within)?;
        self.placed.set(blob, at)?;
        Ok(Some(at))
    }

    /// Digest of a blob, of which all `length` bytes are meant (where a trace says otherwise, content is compared itself); 0 if it is not
    /// so long, or was not kept.
    pub fn digest(&mut self, blob: u32, length: u64) -> Result<u64, CompileError> {
        if let Some(known) = self.digests.get(blob)? {
            return Ok(known);
        }
        let payload = self.blobs.get(blob)?;
        let whole = payload.content.as_deref().filter(|content| content.len() as u64 == length);
        let digest = whole.map_or(0, digest);
        self.digests.set(blob, digest)?;
        Ok(digest)
    }

    /// Says that a blob which is not placed yet lies in one that is, if it does.
    pub fn place_within(&mut self, blob: u32, part: &Part) -> Result<(), CompileError> {
        if self.placed.get(blob)?.is_some() {
            return Ok(());
        }
        let (whole, wanted) = (self.blobs.get(part.blob)?, self.blobs.get(blob)?);
        let found = whole.content.as_deref().and_then(|whole| whole.get(part.range.clone()));
        if found.is_some() && found == wanted.content.as_deref() {
            self.placed.set(blob, part.at)?;
        }
        Ok(())
    }

    /// Content that spans blobs, in one piece; `None` if any of it was not kept.
    pub fn content(&mut self, blobs: &[u32], within: u16) -> Result<Option<u64>, CompileError> {
        match blobs {
            [] => Ok(Some(0)),
            [one] => self.blob(*one, within),
            many => {
                if let Some(at) = self.joined.get(many) {
                    return Ok(Some(at));
                }
                let Some(content) = self.blobs.content(many)? else {
                    return Ok(None);
                };
                let at = self.writer.content(&content, within)?;
                for (&blob, at) in many.iter().zip((at..).step_by(CHUNK_BYTES)) {
                    if self.placed.get(blob)?.is_none() {
                        self.placed.set(blob, at)?;
                    }
                }
                self.joined.insert(many, at);
                Ok(Some(at))
            }
        }
    }

    /// Content of a write that was not kept. Of noise every write gets another part, so that no two write the same.
    pub fn missing(&mut self, length: u64) -> Result<u64, CompileError> {
        if matches!(self.fill, Fill::Hole | Fill::Zero) || length > MOST_MADE {
            return self.zeros(length);
        }
        if self.made.1 < 2 * length {
            let length = (2 * length).next_power_of_two().max(LEAST_MADE);
            self.made = (self.writer.content(&self.fill.made(length), 0)?, length, self.made.2);
        }
        let (at, whole, taken) = self.made;
        self.made.2 += 1;
        Ok(at + self.fill.place(taken, whole, length))
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
