//! `fileserver`: threads create, write, append to, read, look at and delete files of one directory.
//!
//! The flow, the sizes and the share of files that are there at first are those of filebench's personality of this name. Each
//! thread has files of its own among them: what it does depends on no other thread, so that two runs make the same calls.

use std::time::Duration;

use rand_distr::{Distribution, Gamma, Uniform};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::WorkloadError;
use crate::micro::{MOST_THREADS, stream};
use crate::request::{Call, FileSpec, Opening, Pause, Request, Sequence, Workload};

/// Bytes of the largest transfer: whole files move in pieces of this size.
const PIECE_BYTES: u32 = 1 << 20;
/// Of a hundred files, how many are there at first.
const PRESENT_PERCENT: usize = 80;
/// Calls of a round at least: open and close, three times, with a transfer, and stat and unlink.
const CALLS_OF_A_ROUND: u64 = 11;
/// Largest file that is drawn: far beyond what the distribution gives.
const MOST_BYTES: f64 = (1u64 << 40) as f64;

/// How long it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// So many rounds of each thread.
    Rounds(u64),
    /// So long; a thread ends where it has no file open.
    Time(Duration),
}

/// The settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Fileserver {
    /// Number of threads.
    pub threads: u32,
    /// Number of files of all threads.
    pub files: u32,
    /// Mean size of a file.
    pub mean_bytes: f64,
    /// Shape of the gamma distribution of sizes.
    pub shape: f64,
    /// Bytes that are appended at a time.
    pub append_bytes: u32,
    /// How long it goes on.
    pub length: Length,
    /// For sizes and choices.
    pub seed: u64,
}

impl Default for Fileserver {
    fn default() -> Self {
        Fileserver {
            threads: 4,
            files: 1000,
            mean_bytes: 131_072.0,
            shape: 1.5,
            append_bytes: 16 << 10,
            length: Length::Rounds(500),
            seed: 1,
        }
    }
}

impl Fileserver {
    /// The size of every file when it is made, by number.
    fn sizes(&self) -> Vec<u64> {
        // The sizes have a stream beyond those of all threads.
        let mut rng = stream(self.seed, MOST_THREADS);
        match Gamma::new(self.shape, self.mean_bytes / self.shape) {
            Ok(gamma) => (0..self.files).map(|_| gamma.sample(&mut rng).clamp(1.0, MOST_BYTES) as u64).collect(),
            // `check` refuses such settings.
            Err(_) => vec![1; self.files as usize],
        }
    }

    /// Files of a thread: every so many-th.
    fn share(&self, thread: u32) -> impl Iterator<Item = u32> {
        (thread..self.files).step_by(self.threads.max(1) as usize)
    }

    /// Whether the file is there at first; of each thread's the same share is.
    fn is_present(&self, file: u32) -> bool {
        let place = (file / self.threads.max(1)) as usize;
        place * PRESENT_PERCENT / 100 != (place + 1) * PRESENT_PERCENT / 100
    }
}

impl Workload for Fileserver {
    fn name(&self) -> &'static str {
        "fileserver"
    }

    fn check(&self) -> Result<(), WorkloadError> {
        let wrong = |text: String| Err(WorkloadError::Settings(text));
        if !(1..=MOST_THREADS).contains(&self.threads) {
            return wrong(format!("{} threads: choose 1 to {MOST_THREADS}", self.threads));
        }
        // With five at least each thread has files to create and files to delete.
        if self.files / self.threads < 5 {
            return wrong(format!("{} files for {} threads: choose at least 5 for each", self.files, self.threads));
        }
        let is_size = |x: f64| x.is_finite() && x > 0.0;
        if !is_size(self.mean_bytes) || !is_size(self.shape) || self.mean_bytes > MOST_BYTES {
            return wrong(format!("sizes of mean {} and shape {}: both must be above 0", self.mean_bytes, self.shape));
        }
        if !(1..=PIECE_BYTES).contains(&self.append_bytes) {
            return wrong(format!("appends of {} bytes: choose 1 byte to 1M", self.append_bytes));
        }
        Ok(())
    }

    fn threads(&self) -> u32 {
        self.threads
    }

    fn files(&self) -> Vec<FileSpec> {
        let sizes = self.sizes();
        let spec = |file: u32| FileSpec {
            name: format!("file{file:06}"),
            initial_bytes: sizes.get(file as usize).copied().filter(|_| self.is_present(file)),
        };
        (0..self.files).map(spec).collect()
    }

    fn sequence(&self, thread: u32) -> Sequence<'_> {
        let (present, absent): (Vec<u32>, Vec<u32>) = self.share(thread).partition(|file| self.is_present(*file));
        let sizes = self.sizes();
        let mut server = Server {
            rng: stream(self.seed, thread),
            present: present.into_iter().map(|file| (file, sizes[file as usize])).collect(),
            absent,
            sizes,
            append_bytes: self.append_bytes,
            round: Vec::new(),
        };
        let rounds = match self.length {
            Length::Rounds(rounds) => rounds,
            Length::Time(_) => u64::MAX,
        };
        Box::new((0..rounds).flat_map(move |_| server.round()))
    }

    fn pause(&self) -> Option<Pause> {
        None
    }

    fn largest(&self) -> u32 {
        PIECE_BYTES
    }

    fn most_calls(&self) -> Option<u64> {
        match self.length {
            // Files of more than one piece are rare.
            Length::Rounds(rounds) => Some(rounds.saturating_mul(CALLS_OF_A_ROUND + 4)),
            Length::Time(_) => None,
        }
    }

    fn time(&self) -> Option<Duration> {
        match self.length {
            Length::Rounds(_) => None,
            Length::Time(time) => Some(time),
        }
    }
}

/// What a thread knows of its files, and does next.
struct Server {
    rng: Xoshiro256PlusPlus,
    present: Vec<(u32, u64)>,
    absent: Vec<u32>,
    sizes: Vec<u64>,
    append_bytes: u32,
    round: Vec<Request>,
}

impl Server {
    /// One round of filebench's flow.
    fn round(&mut self) -> Vec<Request> {
        self.create();
        self.append();
        self.read();
        self.delete();
        self.stat();
        std::mem::take(&mut self.round)
    }

    fn below(&mut self, n: usize) -> usize {
        Uniform::new(0, n.max(1)).map_or(0, |among| among.sample(&mut self.rng))
    }

    fn ask(&mut self, call: Call, file: u32, bytes: u32) {
        self.round.push(Request { call, file, bytes, offset: 0 });
    }

    fn create(&mut self) {
        let chosen = self.below(self.absent.len());
        let file = self.absent.swap_remove(chosen);
        let size = self.sizes[file as usize];
        self.ask(Call::Open(Opening::Creating), file, 0);
        let mut left = size;
        while left > 0 {
            let piece = left.min(PIECE_BYTES.into());
            self.ask(Call::Write, file, piece as u32);
            left -= piece;
        }
        self.ask(Call::Close, file, 0);
        self.present.push((file, size));
    }

    fn append(&mut self) {
        let chosen = self.below(self.present.len());
        let (file, size) = &mut self.present[chosen];
        *size += u64::from(self.append_bytes);
        let file = *file;
        self.ask(Call::Open(Opening::Appending), file, 0);
        self.ask(Call::Write, file, self.append_bytes);
        self.ask(Call::Close, file, 0);
    }

    fn read(&mut self) {
        let chosen = self.below(self.present.len());
        let (file, size) = self.present[chosen];
        self.ask(Call::Open(Opening::Reading), file, 0);
        for _ in 0..size.div_ceil(PIECE_BYTES.into()) {
            self.ask(Call::Read, file, PIECE_BYTES);
        }
        self.ask(Call::Close, file, 0);
    }

    fn delete(&mut self) {
        let chosen = self.below(self.present.len());
        let (file, _) = self.present.swap_remove(chosen);
        self.ask(Call::Unlink, file, 0);
        self.absent.push(file);
    }

    fn stat(&mut self) {
        let chosen = self.below(self.present.len());
        let (file, _) = self.present[chosen];
        self.ask(Call::Stat, file, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_requests_and_another_others() {
        let server = Fileserver::default();
        let other = Fileserver { seed: 2, ..server.clone() };
        assert_ne!(server.files(), other.files());
        for thread in 0..4 {
            let first: Vec<_> = server.sequence(thread).collect();
            assert_eq!(first, server.sequence(thread).collect::<Vec<_>>());
            assert_ne!(first, other.sequence(thread).collect::<Vec<_>>());
        }
    }

    #[test]
    fn sizes_have_the_mean_and_the_variance_of_the_distribution() {
        let server = Fileserver { files: 100_000, ..Fileserver::default() };
        let sizes: Vec<f64> = server.sizes().into_iter().map(|size| size as f64).collect();
        let mean = sizes.iter().sum::<f64>() / 1e5;
        let variance = sizes.iter().map(|size| (size - mean).powi(2)).sum::<f64>() / 1e5;
        // Of a gamma distribution the variance is mean² / shape; both estimates are good to about a hundredth here.
        assert!((mean / 131_072.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((variance / (131_072f64.powi(2) / 1.5) - 1.0).abs() < 0.05, "{variance}");
    }

    #[test]
    fn threads_touch_no_file_of_another_and_eight_of_ten_are_there() {
        let server = Fileserver::default();
        for thread in 0..4 {
            assert!(server.sequence(thread).all(|request| request.file % 4 == thread));
        }
        assert_eq!(server.files().iter().filter(|file| file.initial_bytes.is_some()).count(), 800);
    }
}
