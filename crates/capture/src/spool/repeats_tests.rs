//! Random segments: shortened and read back, they say what they said.

use super::*;
use crate::spool::record::{Head, Record, SegmentHead};
use crate::spool::told::Told;
use layout::SEGMENT_MAGIC;

/// A segment with calls, each with these contents.
fn segment(calls: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut out = vec![0; SEGMENT_HEAD];
    out[..8].copy_from_slice(&SEGMENT_MAGIC.to_le_bytes());
    let mut told = 0u32;
    for (number, contents) in calls.iter().enumerate() {
        let start = out.len();
        let objects = number % 3;
        let more = contents.len() == 1 && number % 2 == 0;
        let brief = contents.len() < 2 && number % 4 == 1;
        out.resize(start + RECORD_HEAD, 0);
        if brief {
            let body = out.len();
            out.resize(body + size_of::<layout::BriefBody>(), 0);
            let named = body + std::mem::offset_of!(layout::BriefBody, object);
            out[named] = objects.min(1) as u8;
            out[body + std::mem::offset_of!(layout::BriefBody, arguments)] = 3;
            if objects != 0 && told != 0 {
                out[named] |= OBJECT_AGAIN;
                let moved = number % 2;
                out.extend((number as u32 % told).to_le_bytes());
                out.extend((moved as u32).to_le_bytes());
                out.resize(out.len() + moved * size_of::<layout::BriefMoved>(), 7);
            } else if objects != 0 {
                told += 1;
                out.resize(out.len() + size_of::<layout::BriefObject>(), 7);
            }
            out.resize(out.len() + 24, 7);
        } else if more {
            out.extend((number as u64).to_le_bytes());
        } else {
            let body = out.len();
            out.resize(body + size_of::<layout::CallBody>() + objects * size_of::<layout::Object>(), 7);
            put(
                &mut out,
                body + std::mem::offset_of!(layout::CallBody, ranges),
                &(contents.len() as u16).to_le_bytes(),
            );
            put(&mut out, body + std::mem::offset_of!(layout::CallBody, objects), &(objects as u16).to_le_bytes());
        }
        for content in contents {
            let lead = number as u32 % 5 * 8;
            if !brief {
                out.extend(0x1000u64.to_le_bytes());
                out.extend((content.len() as u32).to_le_bytes());
            }
            out.extend((content.len() as u32).to_le_bytes());
            out.extend(if brief { [0, 0, 1, lead as u8] } else { [1, 0, 0, 0] });
            if !brief {
                out.extend(lead.to_le_bytes());
            }
            out.resize(out.len() + lead as usize, 9);
            out.extend(content);
            out.resize(out.len().next_multiple_of(8), 0);
        }
        let bytes = (out.len() - start) as u32;
        put(&mut out, start, &bytes.to_le_bytes());
        let of = match (brief, more) {
            (true, _) => kind::BRIEF,
            (_, true) => kind::MORE,
            _ => kind::CALL,
        };
        put(&mut out, start + 4, &of.to_le_bytes());
        put(&mut out, start + 8, &(number as u64).to_le_bytes());
    }
    let used = out.len() as u32;
    put(&mut out, 12, &used.to_le_bytes());
    out
}

/// What the calls of a segment moved; what stands elsewhere is looked up in what was written.
fn contents(segment: &[u8], files: &[(Standing, Vec<u8>)]) -> Vec<Vec<Vec<u8>>> {
    let used = SegmentHead::parse(segment).expect("a segment").used as usize;
    let (mut at, mut out, mut told) = (SEGMENT_HEAD, Vec::new(), Told::default());
    while at < used {
        let (head, body) = Head::parse(&segment[at..used]).expect("a record");
        told.note(&head, body);
        let ranges = match Record::parse(&head, body, &told).expect("a body") {
            Record::Call(_, _, ranges) | Record::More(_, ranges) => ranges,
            other => panic!("{other:?}"),
        };
        let content = |range: super::super::record::Range<'_>| match range.said {
            None => range.bytes.to_vec(),
            Some((standing, length)) => {
                let holds = |(at, bytes): &&(Standing, Vec<u8>)| {
                    at.file == standing.file && (at.offset..at.offset + bytes.len() as u32).contains(&standing.offset)
                };
                let (at, bytes) = files.iter().find(holds).expect("it stands somewhere");
                let from = (standing.offset - at.offset) as usize;
                bytes[from..from + length].to_vec()
            }
        };
        out.push(ranges.map(content).collect());
        at += head.bytes as usize;
    }
    out
}

/// A sequence that looks random.
struct Sequence(u64);

impl Sequence {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    /// One of few contents, mostly.
    fn content(&mut self) -> Vec<u8> {
        let which = if self.next(4) == 0 { self.next(1 << 30) } else { self.next(6) };
        let length = [1, 511, 512, 513, 4096, 5000][which as usize % 6];
        (0..length).map(|i| (which as u8).wrapping_mul(31).wrapping_add(i as u8 ^ (which >> 8) as u8)).collect()
    }
}

#[test]
fn what_is_shortened_says_the_same() {
    let mut shortened = 0;
    for seed in 0..40 {
        let (mut sequence, mut repeats, mut files) = (Sequence(seed), Repeats::default(), Vec::new());
        let mut said = Vec::new();
        for slot in 0..8u32 {
            let calls: Vec<Vec<Vec<u8>>> =
                (0..sequence.next(30)).map(|_| (0..sequence.next(4)).map(|_| sequence.content()).collect()).collect();
            let whole = segment(&calls);
            assert_eq!(contents(&whole, &[]), calls);
            let standing = Standing { file: slot / 3, offset: (slot % 3) << 20 };
            let mut into = vec![0xAA; layout::SEGMENT_BYTES];
            let written = match repeats.shorten(&whole, standing, 0, &mut into) {
                Some(length) => {
                    shortened += 1;
                    assert!(length < whole.len());
                    into[..length].to_vec()
                }
                None => whole,
            };
            files.push((standing, written));
            said.push(calls);
        }
        for ((_, written), calls) in files.iter().zip(&said) {
            assert_eq!(contents(written, &files), *calls, "seed {seed}");
        }
    }
    assert!(shortened > 100, "{shortened} of 320 segments");
}

#[test]
fn where_nothing_is_repeated_few_segments_are_looked_at() {
    let mut repeats = Repeats::default();
    let mut into = vec![0; layout::SEGMENT_BYTES];
    let one = segment(&[vec![vec![1; 4096]]]);
    assert_eq!(repeats.shorten(&one, Standing { file: 0, offset: 0 }, 0, &mut into), None);
    assert_eq!(repeats.pass, SELDOM - 1);
    // The same again is seen only when the next look is due.
    for slot in 1..SELDOM {
        assert_eq!(repeats.shorten(&one, Standing { file: 0, offset: slot << 20 }, 0, &mut into), None);
    }
    assert!(repeats.shorten(&one, Standing { file: 0, offset: SELDOM << 20 }, 0, &mut into).is_some());
    assert!(repeats.shorten(&one, Standing { file: 0, offset: (SELDOM + 1) << 20 }, 0, &mut into).is_some());
}

#[test]
fn any_bytes_are_no_reason_to_break_off() {
    let mut sequence = Sequence(1);
    let mut into = vec![0; layout::SEGMENT_BYTES];
    for _ in 0..2000 {
        let mut bytes = segment(&[vec![vec![1; 600], vec![1; 600]], vec![vec![1; 600]]]);
        for _ in 0..sequence.next(6) {
            let at = sequence.next(bytes.len() as u64) as usize;
            bytes[at] = sequence.next(256) as u8;
        }
        let _ =
            Repeats { seed: 1, ..Repeats::default() }.shorten(&bytes, Standing { file: 0, offset: 0 }, 0, &mut into);
    }
}

/// A segment with reads of these passages: number of the inode, which page of it, and what was read.
fn reads(of: &[(u64, u64, u8)], time_ns: u64) -> Vec<u8> {
    let mut out = vec![0; SEGMENT_HEAD];
    out[..8].copy_from_slice(&SEGMENT_MAGIC.to_le_bytes());
    let mut told: Vec<u64> = Vec::new();
    for (inode, page, content) in of {
        let start = out.len();
        let body = start + RECORD_HEAD;
        let before = told.iter().position(|told| told == inode);
        let object = if before.is_some() { size_of::<layout::BriefAgain>() } else { size_of::<layout::BriefObject>() };
        out.resize(body + size_of::<layout::BriefBody>() + object, 0);
        put(&mut out, start + std::mem::offset_of!(layout::RecordHead, kind), &kind::BRIEF.to_le_bytes());
        put(&mut out, start + std::mem::offset_of!(layout::RecordHead, time_ns), &time_ns.to_le_bytes());
        out[body + std::mem::offset_of!(layout::BriefBody, object)] = 1;
        let object = body + size_of::<layout::BriefBody>();
        if let Some(before) = before {
            out[body + std::mem::offset_of!(layout::BriefBody, object)] |= OBJECT_AGAIN;
            put(&mut out, object, &(before as u32).to_le_bytes());
        } else {
            told.push(*inode);
            put(&mut out, object + std::mem::offset_of!(layout::BriefObject, inode), &inode.to_le_bytes());
        }
        out.extend(4096u32.to_le_bytes());
        out.extend(RANGE_STEADY.to_le_bytes());
        out.extend([1, size_of::<layout::Steady>() as u8]);
        out.extend(CHANGED_NS.to_le_bytes());
        out.extend((page * 4096).to_le_bytes());
        out.extend([*content; 4096]);
        let bytes = (out.len() - start) as u32;
        put(&mut out, start, &bytes.to_le_bytes());
    }
    let used = out.len() as u32;
    put(&mut out, 12, &used.to_le_bytes());
    out
}

const CHANGED_NS: u64 = 5_000_000_000;
const LATER_NS: u64 = 9_000_000_000;

const NONE: &[u64] = &[];

/// Which pages of the file 7 are known after each of these segments.
fn learned(segments: &[Vec<u8>]) -> Vec<Vec<u64>> {
    let (mut repeats, mut into) = (Repeats::default(), vec![0; layout::SEGMENT_BYTES]);
    let mut out = Vec::new();
    for (slot, segment) in segments.iter().enumerate() {
        repeats.pass = 0;
        repeats.shorten(segment, Standing { file: 0, offset: (slot as u32) << 20 }, 1_000_000, &mut into);
        let pages =
            repeats.learned().filter(|known| known.passage.inode == 7 && known.passage.changed_ns == CHANGED_NS);
        out.push(pages.map(|known| known.passage.offset / 4096).collect());
    }
    out
}

#[test]
fn what_a_file_held_twice_is_known() {
    let one = reads(&[(7, 0, 1), (7, 1, 2)], LATER_NS);
    assert_eq!(learned(&[one.clone(), one.clone()]), [NONE, &[0, 1]]);
    // Another file with the same content has to be met twice itself; it stands in the spool already.
    let other = reads(&[(8, 0, 1), (8, 1, 2)], LATER_NS);
    assert_eq!(learned(&[other.clone(), one.clone(), one.clone()]), [NONE, NONE, &[0, 1]]);
}

#[test]
fn what_was_read_once_or_differs_is_not_known() {
    let same = reads(&[(7, 0, 1), (7, 0, 1)], LATER_NS);
    assert_eq!(learned(&[same]), [NONE], "it may yet stand elsewhere in its segment");
    let (one, other) = (reads(&[(7, 0, 1)], LATER_NS), reads(&[(7, 0, 2)], LATER_NS));
    assert_eq!(learned(&[one.clone(), other.clone(), one.clone(), other]), [NONE; 4]);
    let early = reads(&[(7, 0, 1)], CHANGED_NS + 900_000_000);
    assert_eq!(learned(&[early.clone(), early]), [NONE; 2], "it may be changed at the same time");
}
