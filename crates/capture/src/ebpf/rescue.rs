//! What the kernel holds when the disk takes no more, and up to when all is there.
//!
//! Goals: no record from before an instant is missing in the spool, and that instant is as late as is certain. What was not
//! written is known: it lies in segments that are not free, and what is recorded yet is younger. Non-goals: why nothing could
//! be written, and what becomes of the program (`session`).

use std::sync::atomic::Ordering;

use super::kernel::Kernel;
use super::reserve::Reserve;
use super::shared::STRIDE_BYTES;
use crate::spool::layout::{self, SEGMENT_BYTES};
use crate::spool::record::{Head, SEGMENT_HEAD, SegmentHead};

const MAGIC: usize = std::mem::offset_of!(layout::SegmentHead, magic);
const USED: usize = std::mem::offset_of!(layout::SegmentHead, used);

/// A segment that is not, or not all, on the disk.
pub struct Held {
    segment: u32,
    used: usize,
    /// The records up to here are on the disk.
    from: usize,
    /// When the first of the others was made, by what they say.
    earliest_ns: u64,
}

/// All of them, those first whose records are. `flushed` says how much of one is on the disk.
pub fn held(kernel: &Kernel, buffer: &mut [u8], flushed: impl Fn(u32, u64) -> Option<u32>) -> Vec<Held> {
    let look = |segment: u32| {
        let (bytes, head) = copy(kernel, segment, buffer)?;
        let from = flushed(head.cpu, head.number).map_or(SEGMENT_HEAD, |used| used as usize);
        let earliest_ns = earliest(bytes, from)?;
        Some(Held { segment, used: bytes.len(), from, earliest_ns })
    };
    let mut all: Vec<Held> = (0..kernel.segment_count as u32).filter_map(look).collect();
    all.sort_by_key(|held| held.earliest_ns);
    all
}

/// Puts into the reserve what there is room for; says since when records are missing, if any are.
pub fn put(kernel: &Kernel, all: &[Held], reserve: &mut Reserve, buffer: &mut [u8]) -> Option<u64> {
    for (at, held) in all.iter().enumerate() {
        let bytes = &mut buffer[..held.used];
        kernel.segments.copy(held.segment as usize * STRIDE_BYTES, bytes);
        // It may have grown since; what came is younger.
        bytes[USED..USED + 4].copy_from_slice(&(held.used as u32).to_le_bytes());
        let end = reserve.put(bytes, held.from);
        let rest = earliest(bytes, end);
        if rest.is_some() {
            return all[at + 1..].iter().map(|other| other.earliest_ns).chain(rest).min();
        }
    }
    None
}

/// What a segment holds; `None` if it is free.
fn copy<'a>(kernel: &Kernel, segment: u32, buffer: &'a mut [u8]) -> Option<(&'a [u8], SegmentHead)> {
    let base = segment as usize * STRIDE_BYTES;
    // Set when a segment is taken, and not while it is free.
    let is_free = kernel.segments.long(base + MAGIC).load(Ordering::Acquire) == 0;
    let used = kernel.segments.word(base + USED).load(Ordering::Acquire) as usize;
    if is_free || !(SEGMENT_HEAD..=SEGMENT_BYTES).contains(&used) {
        return None;
    }
    let bytes = &mut buffer[..used];
    kernel.segments.copy(base, bytes);
    bytes[USED..USED + 4].copy_from_slice(&(used as u32).to_le_bytes());
    SegmentHead::parse(bytes).map(|head| (&*bytes, head))
}

/// The least time of the records from a place on; 0 if they cannot be told, `None` if there are none.
pub fn earliest(segment: &[u8], from: usize) -> Option<u64> {
    let mut times = Vec::new();
    let end = walk(segment, from, |head, _| times.push(head.time_ns));
    if end < segment.len() { Some(0) } else { times.into_iter().min() }
}

/// Where the last record ends that lies within the first so many bytes.
pub fn end_within(segment: &[u8], written: usize) -> usize {
    let mut last = 0;
    walk(segment, SEGMENT_HEAD, |_, end| last = if end <= written { end } else { last });
    last
}

/// Goes over the records from a place on; says where it could not go on.
fn walk(segment: &[u8], from: usize, mut each: impl FnMut(Head, usize)) -> usize {
    let mut at = from;
    while let Some((head, _)) = segment.get(at..).and_then(Head::parse) {
        at += head.bytes as usize;
        each(head, at);
    }
    at
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::spool::layout::{SEGMENT_MAGIC, kind};
    use crate::spool::record::RECORD_HEAD;

    /// A segment with records of these times, each of them longer than a block.
    pub fn segment(times: &[u64]) -> Vec<u8> {
        const RECORD: usize = 5000;
        let used = SEGMENT_HEAD + times.len() * RECORD;
        let mut bytes = vec![0; used];
        bytes[..8].copy_from_slice(&SEGMENT_MAGIC.to_le_bytes());
        bytes[12..16].copy_from_slice(&(used as u32).to_le_bytes());
        for (at, time_ns) in (SEGMENT_HEAD..).step_by(RECORD).zip(times) {
            let time = at + std::mem::offset_of!(layout::RecordHead, time_ns);
            bytes[at..at + 4].copy_from_slice(&(RECORD as u32).to_le_bytes());
            bytes[at + 4..at + 6].copy_from_slice(&kind::MORE.to_le_bytes());
            bytes[time..time + 8].copy_from_slice(&time_ns.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn the_earliest_need_not_be_the_first() {
        let bytes = segment(&[5, 3, 9]);
        let second = SEGMENT_HEAD + 5000;
        assert_eq!(earliest(&bytes, SEGMENT_HEAD), Some(3));
        assert_eq!(earliest(&bytes, second + 5000), Some(9));
        assert_eq!(earliest(&bytes, bytes.len()), None);
        assert_eq!(earliest(&bytes[..bytes.len() - 1], SEGMENT_HEAD), Some(0), "who knows");
        assert_eq!(end_within(&bytes, bytes.len()), bytes.len());
        assert_eq!(end_within(&bytes, bytes.len() - 1), second + 5000);
        assert_eq!(end_within(&bytes, SEGMENT_HEAD + RECORD_HEAD), 0);
    }
}
