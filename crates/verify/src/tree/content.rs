//! Content of one file against the pieces it should be made of.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use reprise_model::{Piece, Source, World};
use reprise_trace::{BlobReader, ReadError};
use rustix::fs::SeekFrom;

/// Bytes looked at, over all files.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bytes {
    pub compared: u64,
    pub unknown: u64,
    pub unrecorded: u64,
}

/// How the comparison of one file ended.
pub(super) enum Outcome {
    Same,
    /// The first byte that differs.
    DiffersAt(u64),
}

/// Comparing failed.
pub(super) enum Failure {
    Trace(ReadError),
    File(io::Error),
}

impl From<ReadError> for Failure {
    fn from(e: ReadError) -> Self {
        Failure::Trace(e)
    }
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Self {
        Failure::File(e)
    }
}

const BUFFER: usize = 1 << 20;

/// Compares files one after another.
pub(super) struct Comparer<'a> {
    pub world: &'a World,
    pub blobs: &'a mut BlobReader,
    pub bytes: &'a mut Bytes,
    /// A replay wrote the files: content that the trace does not hold it made up.
    pub replayed: bool,
    pub file: &'a File,
}

impl Comparer<'_> {
    /// Compares `size` bytes with the pieces; what no piece covers must read zero.
    pub fn file(&mut self, pieces: &[Piece], size: u64) -> Result<Outcome, Failure> {
        let mut at = 0;
        for piece in pieces.iter().filter(|p| p.offset < size) {
            let length = piece.length.min(size - piece.offset);
            let before = self.zeros(at, piece.offset.saturating_sub(at))?;
            let inside = match before {
                Some(byte) => Some(byte),
                None => self.piece(piece.offset, length, piece.source)?,
            };
            if let Some(byte) = inside {
                return Ok(Outcome::DiffersAt(byte));
            }
            at = piece.offset + length;
        }
        let rest = self.zeros(at, size.saturating_sub(at))?;
        Ok(rest.map_or(Outcome::Same, Outcome::DiffersAt))
    }

    fn piece(&mut self, offset: u64, length: u64, source: Source) -> Result<Option<u64>, Failure> {
        match source {
            Source::Zero => self.zeros(offset, length),
            Source::Written | Source::Lost => {
                self.bytes.unrecorded += length;
                Ok(None)
            }
            Source::Blob { blob, at } => self.blob(offset, length, blob, at),
            Source::Initial { node, at } => {
                let mut known = 0;
                for piece in self.world.initial_content(node, at, length) {
                    if let Source::Blob { blob, at: from } = piece.source {
                        known += piece.length;
                        let here = offset + (piece.offset - at);
                        if let Some(byte) = self.blob(here, piece.length, blob, from)? {
                            return Ok(Some(byte));
                        }
                    }
                }
                self.bytes.unknown += length - known;
                Ok(None)
            }
        }
    }

    fn blob(&mut self, offset: u64, length: u64, blob: u32, at: u32) -> Result<Option<u64>, Failure> {
        let payload = self.blobs.get(blob)?;
        let begin = at as usize;
        let wanted = payload.content.as_ref().and_then(|c| c.get(begin..begin + length as usize));
        let whole = at == 0 && length == u64::from(payload.length) && !self.replayed;
        if wanted.is_none() && !whole {
            self.bytes.unrecorded += length;
            return Ok(None);
        }
        let mut found = vec![0; length as usize];
        let filled = read_at(self.file, &mut found, offset)?;
        self.bytes.compared += length;
        let same = match wanted {
            Some(wanted) => filled == found.len() && wanted == found,
            None => filled == found.len() && *blake3::hash(&found).as_bytes() == payload.blake3,
        };
        if same {
            return Ok(None);
        }
        let equal = |wanted: &[u8]| found[..filled].iter().zip(wanted).take_while(|(a, b)| a == b).count();
        Ok(Some(offset + wanted.map_or(0, equal) as u64))
    }

    /// The first byte in a range that is not zero. Holes are not read.
    fn zeros(&mut self, offset: u64, length: u64) -> Result<Option<u64>, Failure> {
        self.bytes.compared += length;
        let (mut at, end) = (offset, offset.saturating_add(length));
        let mut buffer = Vec::new();
        while at < end {
            match rustix::fs::seek(self.file, SeekFrom::Data(at)) {
                Ok(data) if data >= end => return Ok(None),
                Ok(data) => at = at.max(data),
                // No data behind here.
                Err(rustix::io::Errno::NXIO) => return Ok(None),
                // The file system does not know of holes.
                Err(_) => {}
            }
            buffer.resize(BUFFER.min((end - at) as usize), 0);
            let filled = read_at(self.file, &mut buffer, at)?;
            if let Some(byte) = buffer[..filled].iter().position(|b| *b != 0) {
                return Ok(Some(at + byte as u64));
            }
            if filled == 0 {
                return Ok(None);
            }
            at += filled as u64;
        }
        Ok(None)
    }
}

/// Fills a buffer as far as the file goes.
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}
