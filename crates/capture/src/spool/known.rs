//! Content of files that nobody writes to: what is read from them again need not be copied again.
//!
//! Goals: which passage of which file, as of which change, holds content that stands in the spool, once that was seen twice; memory
//! is bounded. Once is not enough: threads that read into the same memory at once leave there what none of them read.
//! Non-goals: finding all (tables of fixed size forget), whether a file still is as it was (the kernel looks: `bpf/known.h`).

use std::hash::BuildHasher;

use foldhash::fast::RandomState;

/// Passages that are remembered as seen once: a table of 4 MiB, in which each may stand in one of a few places.
const SEEN: usize = 1 << 16;
const WAYS: usize = 4;
/// A change that came before the look by so much is not followed by another one that bears the same time: some file systems keep
/// whole seconds, of a clock that ticks every few milliseconds.
const SETTLED_NS: u64 = 1_100_000_000;

/// A passage of a file that nobody had open for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Passage {
    /// Device, as in stat(2).
    pub device: u32,
    /// Generation of the inode.
    pub generation: u32,
    /// Number of the inode.
    pub inode: u64,
    /// Time of change, since the epoch.
    pub changed_ns: u64,
    /// Where it begins.
    pub offset: u64,
    /// How long it is.
    pub length: u32,
}

/// What a passage holds stands in the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The passage.
    pub passage: Passage,
    /// Where: [`Standing::to_word`](super::Standing::to_word).
    pub place: u64,
}

/// What was seen of passages so far.
#[derive(Debug)]
pub struct Learning {
    /// Digests of passages and of what they held; zeros where there is none.
    seen: Vec<[[u64; 2]; WAYS]>,
    /// So many were told to be remembered.
    told: usize,
    hasher: RandomState,
    learned: Vec<Known>,
}

impl Default for Learning {
    fn default() -> Learning {
        Learning { seen: vec![[[0; 2]; WAYS]; SEEN], told: 0, hasher: RandomState::default(), learned: Vec::new() }
    }
}

impl Learning {
    /// Whether a passage is among those of which there is one in `many`.
    pub fn is_one_of(&self, passage: &Passage, many: u32) -> bool {
        ((self.hasher.hash_one(passage) >> 32) as u32).is_multiple_of(many)
    }

    /// A passage was read at `read_ns` since the epoch, and held what has this digest, which may stand elsewhere already.
    pub fn saw(&mut self, passage: Passage, read_ns: u64, digest: u64, place: Option<u64>) {
        if passage.changed_ns.saturating_add(SETTLED_NS) >= read_ns {
            return;
        }
        let tag = self.hasher.hash_one(passage);
        let set = &mut self.seen[tag as usize % SEEN];
        let way = set.iter().position(|seen| seen[0] == tag).unwrap_or_else(|| {
            self.told += 1;
            self.told % WAYS
        });
        match place {
            Some(place) if set[way] == [tag, digest] => self.learned.push(Known { passage, place }),
            _ => set[way] = [tag, digest],
        }
    }

    /// What is known since this was asked last.
    pub fn take(&mut self) -> std::vec::Drain<'_, Known> {
        self.learned.drain(..)
    }
}
