//! Pages as they were looked at last, for who read them while others went on storing.
//!
//! Goals: what a read or a load saw of such a page is told from what the look at it found; some hundred bytes of memory for a page.
//! Non-goals: when between the two it was stored.

use foldhash::HashMap;

use super::stores::File;
use crate::mapped::{PAGE, with_bytes};
use crate::spool::join::Stored;

/// So many pages are remembered.
const MOST: usize = 1 << 14;

/// A page as a look found it.
#[derive(Debug, Clone)]
struct Found {
    stored: Stored,
    time_ns: u64,
    hash: u64,
}

/// A page that was seen otherwise than a look found it.
#[derive(Debug)]
pub struct Otherwise {
    /// The look.
    pub stored: Stored,
    /// When that was, since the beginning.
    pub time_ns: u64,
    /// What it found.
    pub found: Vec<u8>,
    /// What was seen; where nothing was, what it found.
    pub seen: Vec<u8>,
}

/// The latest looks at pages.
#[derive(Debug, Default)]
pub struct Looked(HashMap<(File, u64), Found>);

impl Looked {
    /// A look has found a page to have this hash.
    pub fn found(&mut self, stored: &Stored, time_ns: u64, hash: u64) {
        if self.0.len() >= MOST {
            self.0.clear();
        }
        let stored = Stored { before: false, written: false, during: false, ..stored.clone() };
        self.0.insert((stored.file, stored.offset), Found { stored, time_ns, hash });
    }

    /// Whether a page was looked at.
    pub fn has(&self, file: File, offset: u64) -> bool {
        self.0.contains_key(&(file, offset))
    }

    /// The pages that hold something else than these bytes of their file, at an offset, among those that are as they were found: the
    /// trace has them with that hash.
    pub fn otherwise(
        &self,
        file: File,
        (at, bytes): (u64, &[u8]),
        is_known: impl Fn(u64, u64) -> bool,
    ) -> Vec<Otherwise> {
        let pages = at / PAGE..at.saturating_add(bytes.len() as u64).div_ceil(PAGE);
        let found = pages.filter_map(|page| self.0.get(&(file, page * PAGE)));
        found
            .filter(|found| is_known(found.stored.offset, found.hash))
            .filter_map(|found| found.seen(at, bytes))
            .collect()
    }
}

impl Found {
    fn seen(&self, at: u64, bytes: &[u8]) -> Option<Otherwise> {
        let Found { stored, time_ns, .. } = self;
        let mut found = Vec::new();
        stored.content.as_ref()?.read(&mut found);
        let seen = with_bytes(found.clone(), stored.offset, bytes, at, stored.offset + found.len() as u64);
        (seen != found).then(|| Otherwise { stored: stored.clone(), time_ns: *time_ns, found, seen })
    }
}
