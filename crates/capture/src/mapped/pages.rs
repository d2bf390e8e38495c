//! What is known to be in a file, page by page, and where it is different now.
//!
//! Goals: eight bytes of memory for a page that is not zeros; time in proportion to the data looked at, never to holes.
//! Non-goals: what was there before (only its hash is kept), so a page that changed is reported as a whole.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::sync::LazyLock;

use foldhash::fast::RandomState;
use foldhash::quality::FixedState;
use std::hash::BuildHasher;

use crate::sys;
use crate::world::read_at;

/// Size of a page.
pub const PAGE: u64 = 4096;
/// What is read at once, and the longest change that is reported in one piece.
const PIECE: u64 = 1 << 20;

static ZEROS: LazyLock<u64> = LazyLock::new(|| hash(&[0; PAGE as usize]));

/// Hashes of pages; pages without one are zeros.
#[derive(Debug, Default)]
pub struct Pages {
    known: HashMap<u64, u64, RandomState>,
    /// Parts of the file that were ever learnt, in order, apart from each other; in pages.
    learnt: Vec<Range<u64>>,
    size: u64,
    piece: Vec<u8>,
}

/// What a page is compared by.
pub fn hash(page: &[u8]) -> u64 {
    FixedState::with_seed(0x5265_7072_6973_6521).hash_one(page)
}

/// A page with bytes that were written to its file at an offset.
pub fn with_bytes(mut page: Vec<u8>, begins: u64, bytes: &[u8], at: u64, size: u64) -> Vec<u8> {
    page.resize(size.saturating_sub(begins).min(PAGE) as usize, 0);
    let (from, to) = (at.max(begins), (at + bytes.len() as u64).min(begins + page.len() as u64));
    if from < to {
        let source = &bytes[(from - at) as usize..(to - at) as usize];
        page[(from - begins) as usize..(to - begins) as usize].copy_from_slice(source);
    }
    page
}

/// The pages that a range of bytes lies in.
fn covering(range: &Range<u64>) -> Range<u64> {
    range.start / PAGE..range.end.div_ceil(PAGE)
}

fn bytes(pages: Range<u64>) -> Range<u64> {
    pages.start.saturating_mul(PAGE)..pages.end.saturating_mul(PAGE)
}

fn meet(a: &Range<u64>, b: &Range<u64>) -> Option<Range<u64>> {
    let range = a.start.max(b.start)..a.end.min(b.end);
    (range.start < range.end).then_some(range)
}

impl Pages {
    /// Takes what is in these bytes now for known, as far as it was not learnt before.
    pub fn learn(&mut self, file: &File, range: &Range<u64>) {
        let wanted = covering(range);
        let mut gaps = vec![wanted.clone()];
        for there in &self.learnt {
            gaps = gaps
                .into_iter()
                .flat_map(|gap| [gap.start..gap.end.min(there.start), gap.start.max(there.end)..gap.end])
                .filter(|gap| gap.start < gap.end)
                .collect();
        }
        for gap in gaps {
            self.read(file, &bytes(gap), &mut |_, _| {});
        }
        self.learnt.push(wanted);
        self.learnt.sort_by_key(|range| range.start);
        let mut merged: Vec<Range<u64>> = Vec::with_capacity(self.learnt.len());
        for range in self.learnt.drain(..) {
            match merged.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        self.learnt = merged;
    }

    /// What was learnt of these bytes is not so any more: a call has changed them.
    pub fn learn_again(&mut self, file: &File, range: &Range<u64>) {
        let parts: Vec<_> = self.learnt.iter().filter_map(|there| meet(there, &covering(range))).collect();
        for part in parts {
            self.forget(&part);
            self.read(file, &bytes(part), &mut |_, _| {});
        }
    }

    /// After a change of the file's size.
    pub fn resized(&mut self, file: &File) {
        let Ok(size) = sys::stat_fd(file).map(|stat| stat.size) else { return };
        if size < self.size {
            self.forget(&(size.div_ceil(PAGE)..u64::MAX));
            self.learn_again(file, &(size / PAGE * PAGE..size));
        }
        self.size = size;
    }

    fn forget(&mut self, pages: &Range<u64>) {
        if pages.end - pages.start < self.known.len() as u64 {
            pages.clone().for_each(|page| _ = self.known.remove(&page));
        } else {
            self.known.retain(|page, _| !pages.contains(page));
        }
    }

    /// Tells the changes within these bytes, of whole pages as far as the file reaches, and knows them from then on.
    pub fn read(&mut self, file: &File, range: &Range<u64>, changed: &mut dyn FnMut(u64, &[u8])) {
        for extent in self.extents(file, range) {
            let mut at = extent.start;
            while at < extent.end {
                let piece = at..(at + PIECE).min(extent.end);
                self.read_piece(file, &piece, changed);
                at = piece.end;
            }
        }
    }

    /// The pages of these bytes that hold data.
    pub fn extents(&mut self, file: &File, range: &Range<u64>) -> Vec<Range<u64>> {
        let Ok(size) = sys::stat_fd(file).map(|stat| stat.size) else { return Vec::new() };
        self.size = self.size.max(size);
        let mut out = Vec::new();
        let mut at = range.start / PAGE * PAGE;
        let end = range.end.min(size);
        while at < end {
            // A file system that cannot tell has data everywhere.
            let data = match sys::seek_to(file, at, libc::SEEK_DATA) {
                Ok(data) => data.unwrap_or(end) / PAGE * PAGE,
                Err(_) => at,
            };
            at = at.max(data);
            let hole = match sys::seek_to(file, at, libc::SEEK_HOLE) {
                Ok(Some(hole)) if hole > at => hole.min(end),
                _ => end,
            };
            if at < hole {
                let hole = hole.next_multiple_of(PAGE);
                out.push(at..hole);
                at = hole;
            }
        }
        out
    }

    /// Tells the pages that lie in a range of which somebody saw these bytes, at an offset, if they are not known to hold them: what is
    /// stored goes on, and they were known a moment earlier. They are known so from then on, and looked at again later.
    pub fn seen(
        &mut self,
        file: &File,
        range: &Range<u64>,
        (at, seen): (u64, &[u8]),
        changed: &mut dyn FnMut(u64, &[u8]),
    ) {
        let shown = at..at.saturating_add(seen.len() as u64);
        for there in self.learnt.iter().filter_map(|there| meet(there, &covering(range))).collect::<Vec<_>>() {
            for number in meet(&there, &covering(&shown)).into_iter().flatten() {
                let begins = number * PAGE;
                let mut page = vec![0; PAGE as usize];
                let end = begins + read_at(file, &mut page, begins) as u64;
                if meet(&shown, &(begins..end)).is_none() {
                    continue;
                }
                let mut page = with_bytes(page, begins, seen, at, end);
                page.resize(PAGE as usize, 0);
                if self.is_news(number, hash(&page)) {
                    changed(begins, &page[..(end - begins) as usize]);
                }
            }
        }
    }

    /// A page is known to have a hash from now on; whether it had another one.
    fn is_news(&mut self, number: u64, now: u64) -> bool {
        let before = if now == *ZEROS { self.known.remove(&number) } else { self.known.insert(number, now) };
        before.unwrap_or(*ZEROS) != now
    }

    /// Whole pages, at most a piece of them.
    fn read_piece(&mut self, file: &File, range: &Range<u64>, changed: &mut dyn FnMut(u64, &[u8])) {
        let mut piece = std::mem::take(&mut self.piece);
        piece.resize((range.end - range.start) as usize, 0);
        let got = read_at(file, &mut piece, range.start);
        piece[got..].fill(0);
        // Where the run of changed pages begins that the present page would go on with.
        let mut run = None;
        let pages = got.div_ceil(PAGE as usize);
        for (i, page) in piece.chunks_exact(PAGE as usize).take(pages).enumerate() {
            if self.is_news(range.start / PAGE + i as u64, hash(page)) {
                run.get_or_insert(i);
            } else if let Some(first) = run.take() {
                tell(range.start, &piece, first, i, got, changed);
            }
        }
        if let Some(first) = run {
            tell(range.start, &piece, first, pages, got, changed);
        }
        self.piece = piece;
    }
}

/// Tells a run of pages, as far as the file reaches.
fn tell(start: u64, piece: &[u8], first: usize, end: usize, got: usize, changed: &mut dyn FnMut(u64, &[u8])) {
    let (first, end) = (first * PAGE as usize, (end * PAGE as usize).min(got));
    changed(start + first as u64, &piece[first..end]);
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    fn changes(pages: &mut Pages, file: &File, range: Range<u64>) -> Vec<(u64, usize)> {
        let mut out = Vec::new();
        pages.read(file, &range, &mut |at, bytes| out.push((at, bytes.len())));
        out
    }

    #[test]
    fn every_change_is_told_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("f");
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path).expect("a file");
        file.set_len(5 << 20).expect("a size");
        file.write_all_at(b"there before", 3 * PAGE).expect("written");
        let mut pages = Pages::default();
        pages.learn(&file, &(0..4 << 20));
        assert_eq!(changes(&mut pages, &file, 0..4 << 20), []);
        file.write_all_at(b"x", 3 * PAGE + 1).expect("written");
        file.write_all_at(&[7; 8192], 4 * PAGE).expect("written");
        file.write_all_at(b"y", (1 << 20) - 1).expect("written");
        file.write_all_at(b"z", 1 << 20).expect("written");
        assert_eq!(changes(&mut pages, &file, 5 * PAGE..6 * PAGE), [(5 * PAGE, 4096)]);
        let rest = [(3 * PAGE, 8192), ((1 << 20) - PAGE, 4096), (1 << 20, 4096)];
        let mut found = changes(&mut pages, &file, 0..4 << 20);
        // How pages that lie beside each other are gathered does not matter.
        if let [.., (at, 8192)] = found[..] {
            found.pop();
            found.extend([(at, 4096), (at + PAGE, 4096)]);
        }
        assert_eq!(found, rest);
        assert_eq!(changes(&mut pages, &file, 0..4 << 20), []);
        // Zeros are a change, too; the end of the file is the end of a change.
        file.write_all_at(&[0; 8192], 4 * PAGE).expect("written");
        file.set_len(5 * PAGE + 100).expect("a size");
        pages.resized(&file);
        assert_eq!(changes(&mut pages, &file, 0..4 << 20), [(4 * PAGE, 4096)]);
        file.write_all_at(b"end", 5 * PAGE + 97).expect("written");
        assert_eq!(changes(&mut pages, &file, 0..4 << 20), [(5 * PAGE, 100)]);
        // What a call wrote is learnt again and not told.
        file.write_all_at(b"by a call", 100).expect("written");
        pages.learn_again(&file, &(100..109));
        assert_eq!(changes(&mut pages, &file, 0..4 << 20), []);
    }

    #[test]
    fn written_bytes_are_put_upon_the_page() {
        let page = || vec![1; 4096];
        let at = |begins, at, size| with_bytes(page(), begins, &[9; 10], at, size);
        let inside = at(4096, 4100, 1 << 20);
        assert_eq!((inside[3], inside[4], inside[13], inside[14]), (1, 9, 9, 1));
        let over_the_begin = at(4096, 4090, 1 << 20);
        assert_eq!((over_the_begin[3], over_the_begin[4]), (9, 1));
        let over_the_end = at(4096, 8190, 1 << 20);
        assert_eq!((over_the_end[4093], over_the_end[4094], over_the_end.len()), (1, 9, 4096));
        // The page reaches as far as the file, and what nobody wrote of it is zeros.
        let grown = with_bytes(vec![1; 100], 0, &[9; 10], 200, 210);
        assert_eq!((grown.len(), grown[99], grown[100], grown[209]), (210, 1, 0, 9));
    }
}
