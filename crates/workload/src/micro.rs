//! `micro`: each thread reads or writes blocks of a file of its own.

use std::time::Duration;

use rand_distr::{Distribution, Uniform};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::WorkloadError;
use crate::request::{Call, FileSpec, Opening, Pause, Request, Sequence, Workload};

/// The kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// `pread64` at random blocks.
    RandomRead,
    /// `pwrite64` at random blocks.
    RandomWrite,
    /// `read`, one block after the other, and anew from the begin where the file ends.
    SequentialRead,
    /// `write`, likewise.
    SequentialWrite,
}

impl Access {
    /// All of them.
    pub const ALL: [Access; 4] =
        [Access::RandomRead, Access::RandomWrite, Access::SequentialRead, Access::SequentialWrite];

    /// In words, with hyphens.
    pub fn name(self) -> &'static str {
        match self {
            Access::RandomRead => "random-read",
            Access::RandomWrite => "random-write",
            Access::SequentialRead => "sequential-read",
            Access::SequentialWrite => "sequential-write",
        }
    }

    fn call(self) -> (Opening, Call) {
        match self {
            Access::RandomRead => (Opening::Reading, Call::ReadAt),
            Access::RandomWrite => (Opening::Writing, Call::WriteAt),
            Access::SequentialRead => (Opening::Reading, Call::Read),
            Access::SequentialWrite => (Opening::Writing, Call::Write),
        }
    }

    fn is_random(self) -> bool {
        matches!(self, Access::RandomRead | Access::RandomWrite)
    }
}

/// The settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Micro {
    /// The kind of request.
    pub access: Access,
    /// Number of threads, each with a file of its own.
    pub threads: u32,
    /// Requests of each thread.
    pub requests: u64,
    /// Bytes of a request.
    pub block_bytes: u32,
    /// Size of each file.
    pub file_bytes: u64,
    /// Between requests.
    pub pause: Pause,
    /// For random offsets.
    pub seed: u64,
}

impl Default for Micro {
    fn default() -> Self {
        Micro {
            access: Access::RandomRead,
            threads: 1,
            requests: 5000,
            block_bytes: 4096,
            file_bytes: 64 << 20,
            pause: Pause::default(),
            seed: 1,
        }
    }
}

/// Most threads of a workload.
pub(crate) const MOST_THREADS: u32 = 128;
/// Largest request.
const MOST_BLOCK_BYTES: u32 = 64 << 20;

impl Workload for Micro {
    fn name(&self) -> &'static str {
        self.access.name()
    }

    fn check(&self) -> Result<(), WorkloadError> {
        let wrong = |text: String| Err(WorkloadError::Settings(text));
        if !(1..=MOST_THREADS).contains(&self.threads) {
            return wrong(format!("{} threads: choose 1 to {MOST_THREADS}", self.threads));
        }
        if !(1..=MOST_BLOCK_BYTES).contains(&self.block_bytes) {
            return wrong(format!("blocks of {} bytes: choose 1 byte to 64M", self.block_bytes));
        }
        let block = u64::from(self.block_bytes);
        match self.file_bytes >= block {
            true => Ok(()),
            false => wrong(format!(
                "files of {} bytes are too small for a request of {block} bytes; give larger files (--file-size)",
                self.file_bytes
            )),
        }
    }

    fn threads(&self) -> u32 {
        self.threads
    }

    fn files(&self) -> Vec<FileSpec> {
        let file = |n| FileSpec { name: format!("thread{n}"), initial_bytes: Some(self.file_bytes) };
        (0..self.threads).map(file).collect()
    }

    fn sequence(&self, thread: u32) -> Sequence<'_> {
        let block = u64::from(self.block_bytes);
        let (opening, call) = self.access.call();
        let request = move |call, bytes, offset| Request { call, file: thread, bytes, offset };
        let mut rng = stream(self.seed, thread);
        let blocks = self.blocks();
        // Never empty, so it can be made.
        let among = Uniform::new(0, blocks).ok().filter(|_| self.access.is_random());
        let mut offset = move || among.map_or(0, |among| among.sample(&mut rng) * block);
        let is_random = self.access.is_random();
        let transfers = (0..self.requests).flat_map(move |n| {
            let is_at_end = !is_random && n > 0 && n % blocks == 0;
            let rewind = is_at_end.then(|| request(Call::Rewind, 0, 0));
            rewind.into_iter().chain(std::iter::once(request(call, self.block_bytes, offset())))
        });
        let open = std::iter::once(request(Call::Open(opening), 0, 0));
        Box::new(open.chain(transfers).chain(std::iter::once(request(Call::Close, 0, 0))))
    }

    fn pause(&self) -> Option<Pause> {
        Some(self.pause).filter(|pause| pause.length > Duration::ZERO)
    }

    fn largest(&self) -> u32 {
        self.block_bytes
    }

    fn most_calls(&self) -> Option<u64> {
        let rewinds = if self.access.is_random() { 0 } else { self.requests.saturating_sub(1) / self.blocks() };
        Some(self.requests.saturating_add(rewinds).saturating_add(2))
    }
}

impl Micro {
    /// Whole blocks of a file.
    fn blocks(&self) -> u64 {
        (self.file_bytes / u64::from(self.block_bytes).max(1)).max(1)
    }
}

/// The random numbers of a thread: streams of one seed that do not overlap.
pub(crate) fn stream(seed: u64, thread: u32) -> Xoshiro256PlusPlus {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..thread).for_each(|_| rng.jump());
    rng
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_requests_and_another_others() {
        for access in Access::ALL {
            let micro = Micro { access, threads: 3, requests: 500, ..Micro::default() };
            for thread in 0..3 {
                let first: Vec<_> = micro.sequence(thread).collect();
                assert_eq!(first, micro.sequence(thread).collect::<Vec<_>>());
                assert_eq!(first.len() as u64, micro.most_calls().unwrap());
            }
            let other = Micro { seed: 2, ..micro.clone() };
            let differs = micro.sequence(0).collect::<Vec<_>>() != other.sequence(0).collect::<Vec<_>>();
            assert_eq!(differs, access.is_random());
        }
    }

    #[test]
    fn random_offsets_are_blocks_of_the_whole_file() {
        let micro = Micro { requests: 20_000, file_bytes: 100 * 512 + 17, block_bytes: 512, ..Micro::default() };
        let offsets: HashSet<u64> =
            micro.sequence(0).filter(|r| r.call == Call::ReadAt).map(|request| request.offset).collect();
        assert_eq!(offsets, (0..100).map(|n| n * 512).collect());
    }

    #[test]
    fn sequential_programs_begin_anew_where_the_file_ends() {
        let file_bytes = 3 * 4096 + 100;
        for (requests, rewinds) in [(3, 0), (4, 1), (6, 1), (7, 2)] {
            let micro = Micro { access: Access::SequentialRead, requests, file_bytes, ..Micro::default() };
            let calls: Vec<Call> = micro.sequence(0).map(|request| request.call).collect();
            assert_eq!(calls.len() as u64, micro.most_calls().unwrap());
            let parts: Vec<usize> = calls
                .split(|call| *call == Call::Rewind)
                .map(|part| part.iter().filter(|c| **c == Call::Read).count())
                .collect();
            assert_eq!(parts.len(), rewinds + 1, "{calls:?}");
            assert!(parts.iter().all(|reads| (1..=3).contains(reads)), "{calls:?}");
            assert_eq!(parts.iter().sum::<usize>() as u64, requests);
        }
        let random = Micro { requests: 50, file_bytes, ..Micro::default() };
        assert!(random.sequence(0).all(|request| request.call != Call::Rewind));
    }

    #[test]
    fn settings_without_sense_are_refused() {
        let good = Micro::default();
        let bad = [
            Micro { threads: 0, ..good.clone() },
            Micro { threads: 1000, ..good.clone() },
            Micro { block_bytes: 0, ..good.clone() },
            Micro { file_bytes: 100, ..good.clone() },
            Micro { access: Access::SequentialRead, file_bytes: 4095, ..good.clone() },
        ];
        assert!(good.check().is_ok());
        for settings in bad {
            assert!(settings.check().is_err(), "{settings:?}");
        }
    }
}
