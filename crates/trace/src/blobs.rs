//! Contents: each stored once, found by number.

use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::catalog::Part;
use crate::error::ReadError;
use crate::reader::read_part;
use crate::rows::BlobRow;
use crate::spill::Spill;

/// Longest blob, in bytes; longer content is several blobs.
pub const CHUNK_BYTES: usize = 1 << 20;

/// Bytes of content that a reader keeps decoded, or one part if that is larger.
const CACHED_BYTES: usize = 24 << 20;

/// Beginnings of contents that a reader keeps, in bytes, or those of one part.
const CACHED_HEADS_BYTES: usize = 64 << 20;

/// Most bytes of a [`Head`].
pub const HEAD_BYTES: usize = 48;

/// Memory for contents that wait to be written: many small ones lie in one piece, so that whoever frees them has little to do.
#[derive(Default)]
pub(crate) struct Shelf {
    piece: BytesMut,
}

impl Shelf {
    /// A copy.
    pub(crate) fn keep(&mut self, content: &[u8]) -> Bytes {
        const PIECE_BYTES: usize = 256 << 10;
        if content.len() > PIECE_BYTES / 8 {
            return Bytes::copy_from_slice(content);
        }
        if self.piece.capacity() < content.len() {
            self.piece = BytesMut::with_capacity(PIECE_BYTES);
        }
        self.piece.extend_from_slice(content);
        self.piece.split().freeze()
    }
}

/// What is known of a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// BLAKE3 of the content.
    pub blake3: [u8; 32],
    /// Length in bytes.
    pub length: u32,
    /// The content, unless only its hash was kept.
    pub content: Option<Bytes>,
}

impl Payload {
    /// Size in memory, in bytes.
    fn weight(&self) -> usize {
        std::mem::size_of::<Payload>() + self.content.as_ref().map_or(0, Bytes::len)
    }
}

/// What a look at the beginning of a blob shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// BLAKE3 of the content.
    pub blake3: [u8; 32],
    /// The first bytes, up to [`HEAD_BYTES`], unless only the hash was kept.
    pub first: Option<Box<[u8]>>,
}

impl Head {
    fn of(payload: &Payload) -> Head {
        let first = payload.content.as_ref().map(|bytes| bytes[..bytes.len().min(HEAD_BYTES)].into());
        Head { blake3: payload.blake3, first }
    }

    /// Size in memory, in bytes.
    fn weight(&self) -> usize {
        std::mem::size_of::<Head>() + self.first.as_ref().map_or(0, |first| first.len())
    }
}

/// Rows of parts, by the numbers of these; those used last are kept.
struct Recent<T> {
    most_bytes: usize,
    weight: fn(&T) -> usize,
    parts: VecDeque<(usize, Arc<Vec<T>>)>,
}

impl<T> Recent<T> {
    fn new(most_bytes: usize, weight: fn(&T) -> usize) -> Self {
        Recent { most_bytes, weight, parts: VecDeque::new() }
    }

    fn find(&mut self, index: usize) -> Option<Arc<Vec<T>>> {
        let at = self.parts.iter().position(|(i, _)| *i == index)?;
        let hit = self.parts.remove(at)?;
        self.parts.push_front(hit);
        Some(self.parts[0].1.clone())
    }

    /// Keeps a part, whatever its size, and of the others what has room beside it.
    fn keep(&mut self, index: usize, rows: Vec<T>) -> Arc<Vec<T>> {
        self.parts.push_front((index, Arc::new(rows)));
        let mut bytes = 0;
        let fitting = self.parts.iter().take_while(|(_, rows)| {
            bytes += rows.iter().map(self.weight).sum::<usize>();
            bytes <= self.most_bytes
        });
        let fitting = fitting.count();
        self.parts.truncate(fitting.max(1));
        self.parts[0].1.clone()
    }
}

/// Reads blobs by number, in any order; a few parts stay decoded.
pub struct BlobReader {
    dir: PathBuf,
    parts: Vec<Part>,
    payloads: Recent<Payload>,
    heads: Recent<Head>,
    spill: Spill,
}

impl BlobReader {
    pub(crate) fn new(dir: PathBuf, parts: Vec<Part>) -> Self {
        let (payloads, heads) =
            (Recent::new(CACHED_BYTES, Payload::weight), Recent::new(CACHED_HEADS_BYTES, Head::weight));
        BlobReader { dir, parts, payloads, heads, spill: Spill::new(None) }
    }

    /// The same, with this file (an empty one) for what is decoded for the second time: where nobody says so, it is one without a name in
    /// the directory for temporary files.
    #[must_use]
    pub fn spilling_into(self, file: File) -> Self {
        BlobReader { spill: Spill::new(Some(file)), ..self }
    }

    /// One blob. An unknown number is damage of the trace.
    pub fn get(&mut self, blob: u32) -> Result<BlobRef, ReadError> {
        let (index, at) = self.place(blob)?;
        if let Some(rows) = self.spilled(index, at) {
            return Ok(BlobRef { rows, at: 0 });
        }
        let rows = self.part(index)?;
        if at >= rows.len() {
            return Err(self.unknown(blob));
        }
        Ok(BlobRef { rows, at })
    }

    /// The beginning of a blob. Beginnings of many parts are kept: who goes to and fro among them decodes each but once.
    pub fn head(&mut self, blob: u32) -> Result<Head, ReadError> {
        let (index, at) = self.place(blob)?;
        let heads = match self.heads.find(index) {
            Some(heads) => heads,
            None => {
                let heads = self.part(index)?.iter().map(Head::of).collect();
                self.heads.keep(index, heads)
            }
        };
        heads.get(at).cloned().ok_or_else(|| self.unknown(blob))
    }

    /// The part that should hold a blob, and where in it.
    fn place(&self, blob: u32) -> Result<(usize, usize), ReadError> {
        let after = self.parts.partition_point(|p| p.first <= u64::from(blob));
        let index = after.checked_sub(1).ok_or_else(|| self.unknown(blob))?;
        Ok((index, (u64::from(blob) - self.parts[index].first) as usize))
    }

    fn unknown(&self, blob: u32) -> ReadError {
        ReadError::damaged(self.dir.join("blobs"), format!("there is no blob {blob}"))
    }

    /// The bytes of content that spans blobs, or `None` if any of it was not kept.
    pub fn content(&mut self, blobs: &[u32]) -> Result<Option<Vec<u8>>, ReadError> {
        let mut out = Vec::new();
        for &blob in blobs {
            match &self.get(blob)?.content {
                Some(bytes) => out.extend_from_slice(bytes),
                None => return Ok(None),
            }
        }
        Ok(Some(out))
    }

    /// A blob alone, whose part is in the spill and not in memory.
    fn spilled(&mut self, index: usize, at: usize) -> Option<Arc<Vec<Payload>>> {
        if self.payloads.find(index).is_some() {
            return None;
        }
        self.spill.payload(index, at, self.parts[index].rows).map(|payload| Arc::new(vec![payload]))
    }

    fn part(&mut self, index: usize) -> Result<Arc<Vec<Payload>>, ReadError> {
        if let Some(rows) = self.payloads.find(index) {
            return Ok(rows);
        }
        let rows = read_part::<BlobRow>(&self.dir, &self.parts[index])?;
        let path = self.dir.join(&self.parts[index].file);
        let first = self.parts[index].first;
        let mut payloads = Vec::new();
        for (i, row) in rows.enumerate() {
            let row = row?;
            if u64::from(row.blob) != first + i as u64 {
                return Err(ReadError::damaged(&path, "blobs are not numbered in order"));
            }
            if row.content.as_ref().is_some_and(|c| c.len() != row.length as usize) {
                return Err(ReadError::damaged(&path, "a blob's length is wrong"));
            }
            payloads.push(Payload { blake3: row.blake3, length: row.length, content: row.content });
        }
        self.spill.take(index, &payloads);
        Ok(self.payloads.keep(index, payloads))
    }
}

/// A blob that lives as long as it is looked at.
pub struct BlobRef {
    rows: Arc<Vec<Payload>>,
    at: usize,
}

impl std::ops::Deref for BlobRef {
    type Target = Payload;
    fn deref(&self) -> &Payload {
        &self.rows[self.at]
    }
}
