//! Content of a file, written as a whole where it is known in pieces.
//!
//! Goals: what lies one behind the other goes to the kernel in one call, so that file systems keep it in large folios, as that of a
//! file that was written at once; else reads of it would cost more than the program's did. Non-goals: where content comes from.

use std::fs::File;
use std::io::{self, IoSlice, Seek, SeekFrom, Write};

/// Written, and progress told, in runs of at most this many bytes: a multiple of what the largest folio holds.
const RUN_BYTES: u64 = 8 << 20;
/// A call takes no more (`UIO_MAXIOV`).
const MOST_PIECES: usize = 1024;
const PAGE_BYTES: usize = 4096;

/// Writes to one file.
pub(super) struct Content<'f, 'a> {
    file: &'f File,
    /// What comes next, one behind the other.
    run: Vec<IoSlice<'a>>,
    begin: u64,
    end: u64,
}

impl<'f, 'a> Content<'f, 'a> {
    pub fn of(file: &'f File) -> Self {
        Content { file, run: Vec::new(), begin: 0, end: 0 }
    }

    /// Takes bytes for a place; `written` is told of what was written.
    pub fn add(&mut self, offset: u64, mut bytes: &'a [u8], written: &mut dyn FnMut(u64)) -> io::Result<()> {
        if offset != self.end {
            self.finish(written)?;
            (self.begin, self.end) = (offset, offset);
        }
        while !bytes.is_empty() {
            // Runs end where large folios begin.
            let room = RUN_BYTES - self.end % RUN_BYTES;
            let (piece, rest) = bytes.split_at(bytes.len().min(room as usize));
            self.run.push(IoSlice::new(piece));
            self.end += piece.len() as u64;
            if self.end.is_multiple_of(RUN_BYTES) || self.run.len() == MOST_PIECES {
                self.finish(written)?;
            }
            bytes = rest;
        }
        Ok(())
    }

    /// Writes what was taken.
    pub fn finish(&mut self, written: &mut dyn FnMut(u64)) -> io::Result<()> {
        if self.run.is_empty() {
            return Ok(());
        }
        self.run.iter().for_each(|piece| touch(piece));
        self.file.seek(SeekFrom::Start(self.begin))?;
        let mut left = &mut self.run[..];
        while !left.is_empty() {
            match self.file.write_vectored(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => IoSlice::advance_slices(&mut left, bytes),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        written(self.end - self.begin);
        self.run.clear();
        self.begin = self.end;
        Ok(())
    }
}

/// Has mapped memory at hand: where the kernel must stop copying to fetch it, file systems give up the large folio.
fn touch(bytes: &[u8]) {
    let ends = bytes.first().into_iter().chain(bytes.last());
    bytes.iter().step_by(PAGE_BYTES).chain(ends).for_each(|byte| {
        std::hint::black_box(*byte);
    });
}

#[cfg(test)]
mod tests {
    use super::{Content, MOST_PIECES, RUN_BYTES};

    /// Writes pieces of the content that a file is to have; what it has, and the lengths that were told.
    fn written(content: &[u8], pieces: &[(usize, usize)]) -> (Vec<u8>, Vec<u64>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (mut out, mut told) = (Content::of(file.as_file()), Vec::new());
        for &(offset, length) in pieces {
            out.add(offset as u64, &content[offset..offset + length], &mut |bytes| told.push(bytes)).unwrap();
        }
        out.finish(&mut |bytes| told.push(bytes)).unwrap();
        (std::fs::read(file.path()).unwrap(), told)
    }

    #[test]
    fn pieces_become_runs() {
        let content: Vec<u8> = (0..RUN_BYTES as usize + 5000).map(|i| (i * 31 + i / 4096) as u8).collect();
        let whole: Vec<_> = (0..content.len()).step_by(10240).map(|at| (at, 10240.min(content.len() - at))).collect();
        assert_eq!(written(&content, &whole), (content.clone(), vec![RUN_BYTES, 5000]));
        assert_eq!(written(&content, &[(0, content.len())]), (content.clone(), vec![RUN_BYTES, 5000]));
        let bytes: Vec<_> = (0..MOST_PIECES + 2).map(|at| (at, 1)).collect();
        assert_eq!(written(&content, &bytes), (content[..bytes.len()].to_vec(), vec![MOST_PIECES as u64, 2]));
    }

    #[test]
    fn holes_stay_and_later_pieces_win() {
        let content = vec![7u8; 30_000];
        let (found, told) = written(&content, &[(10_000, 100), (20_000, 0), (20_000, 50), (5, 10)]);
        assert_eq!(told, [100, 50, 10]);
        let expected: Vec<u8> =
            (0..20_050)
                .map(|i| {
                    if (10_000..10_100).contains(&i) || (20_000..).contains(&i) || (5..15).contains(&i) { 7 } else { 0 }
                })
                .collect();
        assert!(found == expected);
    }
}
