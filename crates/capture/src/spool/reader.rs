//! A spool, read back: the records of all processors, merged by time.
//!
//! Goals: one segment per processor in memory; a spool that was cut off anywhere, or damaged, gives what can be read, and
//! what is missing is counted. Non-goals: what belongs together (`join`).

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::layout::SEGMENT_BYTES;
use super::mark::is_mark;
use super::record::{Head, RECORD_HEAD, SEGMENT_HEAD, SegmentHead};
use super::told::Told;
use super::{BEGIN, JOINED, KEPT, SAMPLES, STOOD, Standing};

/// What is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Missing {
    /// Records that found no room when they were to be written.
    pub dropped: u64,
    /// Records that were written and are not there: segments that are missing or damaged.
    pub lost: u64,
    /// Places in the files where no segment, or no record, can be read.
    pub damaged: u64,
}

/// Where a record stands.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The file.
    pub file: &'a Rc<File>,
    /// Where in it the body of the record begins.
    pub offset: u64,
    /// All that stands in the spool.
    pub written: &'a Written,
    /// The open files that its segment has told of.
    pub told: &'a Told,
}

/// The segments that there are, for what is said by its place.
#[derive(Debug, Default)]
pub struct Written {
    files: HashMap<u32, Rc<File>>,
    /// Bytes that are filled of each, by the number of its file and its place among the segments there.
    used: HashMap<(u32, u32), u32>,
}

impl Written {
    /// The file that holds so many bytes at a place; `None` unless they lie within a segment.
    pub fn holds(&self, standing: Standing, length: usize) -> Option<Rc<File>> {
        let (slot, at) = (standing.offset / SEGMENT_BYTES as u32, standing.offset as usize % SEGMENT_BYTES);
        let used = *self.used.get(&(standing.file, slot))? as usize;
        (at >= SEGMENT_HEAD && at + length <= used).then(|| self.files.get(&standing.file).cloned())?
    }
}

struct Segment {
    file: usize,
    offset: u64,
    head: SegmentHead,
}

/// The records of one processor.
#[derive(Default)]
struct Stream {
    segments: std::vec::IntoIter<Segment>,
    buffer: Vec<u8>,
    /// File and offset of the buffer.
    origin: (usize, u64),
    at: usize,
    /// The head of the record there, all of which is in the buffer.
    head: Option<Head>,
    /// What the segment there has told so far.
    told: Told,
    /// Number that the next record should have.
    expected: Option<u64>,
    dropped: u64,
}

/// A spool that is being read.
pub struct Spool {
    files: Vec<Rc<File>>,
    written: Written,
    streams: Vec<Stream>,
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    /// The stream whose record was given out last.
    taken: Option<usize>,
    missing: Missing,
    bytes: u64,
}

/// Whether a file of this name in a spool is one of segments.
fn holds_segments(name: &OsStr) -> bool {
    !is_mark(name) && ![BEGIN, JOINED, KEPT, SAMPLES, STOOD].iter().any(|other| name == *other)
}

/// The number of a file of segments: its name.
fn number(path: &Path) -> Option<u32> {
    path.file_stem()?.to_str()?.parse().ok()
}

impl Spool {
    /// Opens the spool in a directory.
    ///
    /// # Errors
    /// A file of it cannot be read.
    pub fn open(directory: &Path) -> io::Result<Spool> {
        let mut paths: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_file() && path.file_name().is_some_and(holds_segments) {
                paths.push(path);
            }
        }
        paths.sort();
        let files = paths.iter().map(|p| File::open(p).map(Rc::new)).collect::<io::Result<Vec<_>>>()?;
        let numbers: Vec<Option<u32>> = paths.iter().map(|path| number(path)).collect();
        let mut spool = Spool {
            files,
            written: Written::default(),
            streams: Vec::new(),
            heap: BinaryHeap::new(),
            taken: None,
            missing: Missing::default(),
            bytes: 0,
        };
        spool.index(&numbers)?;
        for stream in 0..spool.streams.len() {
            let next = spool.next_ns(stream)?;
            spool.heap.extend(next.map(|time_ns| Reverse((time_ns, stream))));
        }
        Ok(spool)
    }

    /// Finds the segments of all processors.
    fn index(&mut self, numbers: &[Option<u32>]) -> io::Result<()> {
        let mut written = Written::default();
        let mut by_cpu: BTreeMap<u32, Vec<Segment>> = BTreeMap::new();
        for (file, handle) in self.files.iter().enumerate() {
            let length = handle.metadata()?.len();
            let number = numbers[file];
            written.files.extend(number.map(|number| (number, handle.clone())));
            for offset in (0..length).step_by(SEGMENT_BYTES) {
                let mut bytes = [0; SEGMENT_HEAD];
                let head = match handle.read_exact_at(&mut bytes, offset) {
                    Ok(()) => SegmentHead::parse(&bytes),
                    Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => None,
                    Err(e) => return Err(e),
                };
                match head {
                    Some(head) => {
                        self.bytes += u64::from(head.used);
                        let slot = (offset / SEGMENT_BYTES as u64) as u32;
                        written.used.extend(number.map(|number| ((number, slot), head.used)));
                        by_cpu.entry(head.cpu).or_default().push(Segment { file, offset, head });
                    }
                    None => self.missing.damaged += 1,
                }
            }
        }
        self.written = written;
        for (_, mut segments) in by_cpu {
            // One that was begun, and found no more room there, is at another place as well, with all that it holds.
            segments.sort_by_key(|s| (s.head.number, Reverse(s.head.used)));
            segments.dedup_by_key(|s| s.head.number);
            self.streams.push(Stream { segments: segments.into_iter(), ..Stream::default() });
        }
        Ok(())
    }

    /// Bytes of all its segments, as far as they are filled.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What is missing of what was read so far.
    pub fn missing(&self) -> Missing {
        let dropped: u64 = self.streams.iter().map(|s| s.dropped).fold(0, u64::saturating_add);
        // A record that was dropped has its number, too.
        Missing { dropped, lost: self.missing.lost.saturating_sub(dropped), ..self.missing }
    }

    /// The next record by time, and where its body stands.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn next(&mut self) -> io::Result<Option<(Head, &[u8], Place<'_>)>> {
        let Some(stream) = self.earliest()? else { return Ok(None) };
        self.taken = Some(stream);
        let s = &mut self.streams[stream];
        let (begin, head) = (s.at, s.head.take());
        let Some(head) = head else { return Ok(None) };
        s.at += head.bytes as usize;
        let body = s.buffer.get(begin + RECORD_HEAD..s.at).unwrap_or_default();
        let offset = s.origin.1 + (begin + RECORD_HEAD) as u64;
        s.told.note(&head, body);
        let place = Place { file: &self.files[s.origin.0], offset, written: &self.written, told: &s.told };
        Ok(Some((head, body, place)))
    }

    /// The stream whose next record is the earliest.
    fn earliest(&mut self) -> io::Result<Option<usize>> {
        let Some(last) = self.taken.take() else { return Ok(self.heap.pop().map(|Reverse((_, stream))| stream)) };
        let next = self.next_ns(last)?.map(|time_ns| Reverse((time_ns, last)));
        Ok(match (next, self.heap.peek_mut()) {
            // Mostly a processor writes several in a row.
            (Some(next), None) => Some(next.0.1),
            (Some(next), Some(first)) if next > *first => Some(next.0.1),
            (Some(next), Some(mut first)) => Some(std::mem::replace(&mut *first, next).0.1),
            (None, first) => first.map(|first| PeekMut::pop(first).0.1),
        })
    }

    /// When the next record of a stream was written, if there is one more.
    fn next_ns(&mut self, stream: usize) -> io::Result<Option<u64>> {
        loop {
            let s = &mut self.streams[stream];
            if s.at < s.buffer.len() {
                match s.buffer.get(s.at..).and_then(Head::parse) {
                    Some((head, _)) => {
                        let expected = s.expected.unwrap_or(head.number);
                        self.missing.lost = self.missing.lost.saturating_add(head.number.saturating_sub(expected));
                        s.expected = Some(head.number.saturating_add(1));
                        s.head = Some(head);
                        return Ok(Some(head.time_ns));
                    }
                    None => {
                        self.missing.damaged += 1;
                        s.at = s.buffer.len();
                    }
                }
            }
            let Some(segment) = s.segments.next() else {
                s.buffer = Vec::new();
                return Ok(None);
            };
            s.dropped = s.dropped.max(segment.head.dropped);
            // What stands at the end of the segment before may be missing.
            let expected = s.expected.unwrap_or(0);
            self.missing.lost = self.missing.lost.saturating_add(segment.head.first.saturating_sub(expected));
            s.expected = Some(segment.head.first.max(expected));
            s.buffer.resize(segment.head.used as usize, 0);
            let got = read_up_to(&self.files[segment.file], &mut s.buffer, segment.offset)?;
            if got < s.buffer.len() {
                self.missing.damaged += 1;
                s.buffer.truncate(got);
            }
            (s.origin, s.at) = ((segment.file, segment.offset), SEGMENT_HEAD);
            s.told.clear();
        }
    }
}

/// Reads as much as there is.
pub fn read_up_to(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut got = 0;
    while got < into.len() {
        match file.read_at(&mut into[got..], offset + got as u64) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_one_within_a_segment_that_is_there() {
        let file = Rc::new(tempfile::tempfile().expect("a file"));
        let written = Written { files: HashMap::from([(0, file)]), used: HashMap::from([((0, 1), 10_000)]) };
        let holds = |file, offset, length| written.holds(Standing { file, offset }, length).is_some();
        let second = SEGMENT_BYTES as u32;
        assert!(holds(0, second + 64, 4096) && holds(0, second + 5904, 4096));
        assert!(!holds(0, second + 63, 4096), "the head of a segment");
        assert!(!holds(0, second + 5905, 4096), "beyond what is filled");
        assert!(!holds(0, 64, 1) && !holds(1, second + 64, 1) && !holds(0, u32::MAX, 1), "no segment");
    }
}
