//! Content of the initial tree that no call carried: read after the run from what has not changed.
//!
//! Goals: small files that were opened are whole, what was mapped or cloned is there; what has changed and was not seen
//! is counted. Non-goals: what reads show, which the trace has already.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;

use reprise_initial::{Stat, World, kind};
use reprise_trace::{Content, DataPolicy, Keep, Loss};

use super::look::Live;
use super::present::Present;
use crate::log::Log;
use crate::spool::Kept;
use crate::sys::{self, FileId};
use crate::world::{is_synthetic, open_quietly, range, read_at};

/// What is to be kept.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Files up to this many bytes are kept whole when they were opened.
    pub whole_file_bytes: u64,
    /// Whether what the loader mapped is kept beyond that size.
    pub libraries: bool,
}

/// Looks at what became of the files of the initial tree: attributes that no call changed are those of the beginning.
pub fn settle(world: &mut World, live: &mut Live) {
    for number in world.files() {
        let Some(path) = world.path_now(number) else { continue };
        let file = world.known(number);
        let known = file.identity;
        // Times that calls set tell nothing, but nobody wrote to it either.
        let untouched = file.is_stamped && file.touched.is_empty() && !file.is_emptied;
        let Some((mut looked, stat)) = live.now(&path) else { continue };
        let identity = (stat.id.device, stat.id.inode);
        if known.is_some_and(|known| known != identity) {
            continue;
        }
        let unwritten = live.is_before(stat.mtime_ns);
        looked.stat = looked.stat.map(|now| Stat {
            size: now.size.filter(|_| unwritten || untouched),
            times: if unwritten { now.times } else { [None; 3] },
            ..now
        });
        world.settle_file(number, looked);
    }
}

/// Writes what small files held that were opened, and that nobody saw before it was replaced, where that was kept; counts it where
/// it was not. What was copied at the beginning is written already.
pub fn write_replaced(
    world: &World,
    live: &mut Live,
    (kept, present): (&Kept, &Present),
    wanted: Wanted,
    log: &mut Log,
) {
    const LOST: &str = "initial content of a small file that was replaced before anybody read it (--tree DIR keeps it)";
    const MOUNTED: &str = "initial content of a small file in what the program mounted, as far as nobody read it";
    const NAMED: usize = 20;
    let mut named = 0;
    for number in world.files() {
        let file = world.known(number);
        let opened = file.is_emptied || file.shown.iter().any(|(.., why)| *why == "opened");
        let is_content = file.kind == kind::REGULAR && !file.is_pseudo;
        let is_known = file.is_seeded || file.identity.is_some_and(|file| present.is_copied(file));
        if !is_content || is_known || !opened || file.size > wanted.whole_file_bytes {
            continue;
        }
        let path = world.path_now(number);
        let stands = path.as_ref().and_then(|path| stands(live, path, file.identity));
        let mut known = file.seen.clone();
        match &stands {
            Some((_, stat)) if live.is_before(stat.mtime_ns) => continue,
            Some((_, stat)) => {
                file.touched.rest(0, file.size.min(stat.size)).iter().for_each(|(from, to)| known.add(*from, *to));
            }
            None => {}
        }
        let rest = known.rest(0, file.size);
        let lacks: u64 = rest.iter().map(|(from, to)| to - from).sum();
        // Of what was emptied at once not even the size is known.
        let unknown = file.is_emptied && file.size == 0 && file.seen.is_empty();
        if lacks == 0 && !unknown {
            continue;
        }
        if !unknown && was_held(kept, file.identity, file.size, &rest, log) {
            continue;
        }
        log.loss(Loss::Truncated, if file.is_mounted { MOUNTED } else { LOST }, lacks);
        if let Some(path) = path.filter(|_| named < NAMED && !file.is_mounted) {
            named += 1;
            log.note(format!("not known is what was in {} at the beginning", String::from_utf8_lossy(&path)));
        }
    }
}

/// Writes ranges of a small file as they were before the beginning; whether that is known. Of what is not wanted only the length is.
fn was_held(kept: &Kept, identity: Option<(u64, u64)>, size: u64, ranges: &[(u64, u64)], log: &mut Log) -> bool {
    let Some((device, inode)) = identity else { return false };
    let held = kept.of((device, inode)).filter(|held| held.len() as u64 == size);
    if held.is_none() && log.policy() != DataPolicy::None {
        return false;
    }
    for &(from, to) in ranges {
        let bytes = held.and_then(|held| held.get(from as usize..to as usize)).unwrap_or_default();
        let data = log.blob(bytes, Keep::ByPolicy);
        let reason = "opened".to_owned();
        log.content(Content { device, inode, offset: from, length: to - from, data, reason, ..Content::default() });
    }
    true
}

/// Writes the content that became visible without a call that carries it.
pub fn write(world: &World, live: &mut Live, wanted: Wanted, log: &mut Log) {
    for number in world.files() {
        let file = world.known(number);
        if file.kind != kind::REGULAR || file.shown.is_empty() {
            continue;
        }
        let ranges = ranges(file.shown, file.size, wanted);
        if ranges.is_empty() {
            continue;
        }
        let stands = world.path_now(number).and_then(|path| stands(live, &path, file.identity));
        let Some((opened, stat)) = stands else {
            gone(&ranges, file.size, log);
            continue;
        };
        if is_synthetic(live.now(&opened).map_or(0, |(looked, _)| looked.filesystem)) {
            continue;
        }
        let Some(handle) = live.path(&opened).and_then(|p| open_quietly(OsStr::from_bytes(p.to_bytes())).ok()) else {
            gone(&ranges, file.size, log);
            continue;
        };
        let unchanged = live.is_before(stat.mtime_ns);
        for (begin, end, why) in ranges {
            let end = end.min(file.size).min(stat.size);
            let left = if unchanged { vec![(begin, end)] } else { file.touched.rest(begin, end) };
            let mut known = file.told.clone();
            left.iter().for_each(|(from, to)| known.add(*from, *to));
            let lacks: u64 = known.rest(begin, end).iter().map(|(from, to)| to - from).sum();
            if lacks > 0 && why != "opened" {
                log.loss(
                    Loss::Truncated,
                    format!("initial content of a file that was {why}, and changed later"),
                    lacks,
                );
            }
            for piece in left.into_iter().filter(|(from, to)| from < to) {
                range(&handle, stat.id, piece, why, log);
            }
        }
    }
}

/// The ranges to keep, each once, with the reasons as the trace has them.
fn ranges(shown: &[(u64, u64, &'static str)], size: u64, wanted: Wanted) -> Vec<(u64, u64, &'static str)> {
    let small = size <= wanted.whole_file_bytes;
    if small && shown.iter().any(|(.., why)| *why == "opened") {
        return vec![(0, size, "opened")];
    }
    let mut out: Vec<(u64, u64, &'static str)> = Vec::new();
    for &(begin, end, why) in shown {
        let why = match why {
            "loaded" if wanted.libraries => "mapped",
            "mapped" | "cloned" => why,
            _ => continue,
        };
        let end = end.min(size);
        if begin < end && !out.iter().any(|known| known.0 <= begin && end <= known.1) {
            out.push((begin, end, why));
        }
    }
    out
}

/// The path and attributes of a file, if it still is what it was.
fn stands(live: &mut Live, path: &[u8], identity: Option<(u64, u64)>) -> Option<(Vec<u8>, sys::Stat)> {
    let (_, stat) = live.now(path)?;
    let FileId { device, inode } = stat.id;
    (stat.is_file() && identity.is_none_or(|known| known == (device, inode))).then(|| (path.to_vec(), stat))
}

fn gone(ranges: &[(u64, u64, &'static str)], size: u64, log: &mut Log) {
    for (begin, end, why) in ranges.iter().filter(|(.., why)| *why != "opened") {
        let lacks = end.min(&size).saturating_sub(*begin);
        log.loss(Loss::Truncated, format!("initial content of a file that was {why}, and is gone"), lacks);
    }
}

/// Writes what was moved unseen from files of the initial tree, as it stands where it went.
pub fn write_copied(world: &World, live: &mut Live, log: &mut Log) {
    const LOST: &str = "content moved inside the kernel from a file that changed since, or is gone";
    let (standing, gone) = world.copied();
    gone.iter().for_each(|length| log.loss(Loss::Truncated, LOST, *length));
    for copied in standing {
        let target = world.path_now(copied.target).and_then(|path| stands(live, &path, Some(copied.identity)));
        let handle = target.and_then(|(path, stat)| {
            let whole = copied.at.saturating_add(copied.length) <= stat.size;
            open_quietly(OsStr::from_bytes(live.path(&path).filter(|_| whole)?.to_bytes())).ok()
        });
        match (handle, world.known(copied.source).identity) {
            (Some(handle), Some((device, inode))) => {
                let source = FileId { device, inode };
                moved(&handle, source, (copied.at, copied.length), copied.from, log);
            }
            _ => log.loss(Loss::Truncated, LOST, copied.length),
        }
    }
}

/// Writes a range of one file as content of another.
fn moved(file: &File, source: FileId, (at, length): (u64, u64), from: u64, log: &mut Log) {
    const PIECE: u64 = 1 << 20;
    let mut done = 0;
    while done < length {
        let mut piece = vec![0; PIECE.min(length - done) as usize];
        let got = read_at(file, &mut piece, at + done);
        if got == 0 {
            return log.loss(Loss::Truncated, "content moved inside the kernel: unreadable", length - done);
        }
        let data = log.blob(&piece[..got], Keep::ByPolicy);
        log.content(Content {
            device: source.device,
            inode: source.inode,
            offset: from.saturating_add(done),
            length: got as u64,
            data,
            reason: "cloned".to_owned(),
            ..Content::default()
        });
        done += got as u64;
    }
}
