//! Personalities of filebench: threads create, write, append to, read, look at, sync and delete files of one directory.
//!
//! A row of [`Profile`] says what a personality is: flow, numbers, mean sizes and the share of files that are there at first are those
//! of filebench's file of this name (`workloads/NAME.f`, version 1.5; of the file server the threads of Pereira et al.); sizes are
//! gamma distributed, as in its version 1.4. Each thread has files of its own among them: what it does
//! depends on no other thread, so that two runs make the same calls. Where filebench shares a file (the log of the web server), each
//! thread has one. Non-goals: what is no sequence of calls on whole files (the asynchronous writes and semaphores of `oltp`, the
//! rates of `videoserver`).

use std::time::Duration;

use rand_distr::{Distribution, Gamma, Uniform};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::WorkloadError;
use crate::micro::{MOST_THREADS, stream};
use crate::request::{Call, FileSpec, Opening, Pause, Request, Sequence, Workload};

/// Bytes of the largest transfer: whole files move in pieces of this size.
const PIECE_BYTES: u32 = 1 << 20;
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

/// A step of a round; each is about the file that was opened or created last, or chooses one at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// One that is not there.
    Create,
    /// One that is there.
    Open(Opening),
    /// As much as the file has by its number.
    WriteWhole,
    /// So much as an append is.
    Append,
    /// A random amount up to that.
    AppendUpTo,
    ReadWhole,
    Sync,
    Close,
    /// One that is there.
    Delete,
    /// One that is there.
    Stat,
    /// Opens the thread's own log, appends up to as much as an append is, closes it.
    Log,
}

/// Which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Personality {
    /// Creates, appends to, reads, deletes and looks at files.
    Fileserver,
    /// A mail server: small files, synced after each append.
    Varmail,
    /// Five reads for each file that is replaced.
    Webproxy,
    /// Ten reads for each line of the log.
    Webserver,
}

/// What a personality is.
struct Profile {
    name: &'static str,
    threads: u32,
    files: u32,
    mean_bytes: f64,
    /// Of a hundred files, how many are there at first.
    present_percent: usize,
    /// Whether each thread has a log.
    has_log: bool,
    /// A round.
    flow: &'static [Step],
}

use Step::{Append, AppendUpTo, Close, Create, Delete, Log, Open, ReadWhole, Stat, Sync, WriteWhole};

const READ: Step = Open(Opening::Reading);

const FILESERVER: Profile = Profile {
    name: "fileserver",
    threads: 4,
    files: 1000,
    mean_bytes: 131_072.0,
    present_percent: 80,
    has_log: false,
    flow: &[Create, WriteWhole, Close, Open(Opening::Appending), Append, Close, READ, ReadWhole, Close, Delete, Stat],
};

const VARMAIL: Profile = Profile {
    name: "varmail",
    threads: 16,
    files: 1000,
    mean_bytes: 16_384.0,
    present_percent: 80,
    has_log: false,
    flow: &[
        Delete,
        Create,
        AppendUpTo,
        Sync,
        Close,
        Open(Opening::Extending),
        ReadWhole,
        AppendUpTo,
        Sync,
        Close,
        READ,
        ReadWhole,
        Close,
    ],
};

const WEBPROXY: Profile = Profile {
    name: "webproxy",
    threads: 100,
    files: 10_000,
    mean_bytes: 16_384.0,
    present_percent: 80,
    has_log: false,
    flow: &[
        Delete, Create, AppendUpTo, Close, READ, ReadWhole, Close, READ, ReadWhole, Close, READ, ReadWhole, Close,
        READ, ReadWhole, Close, READ, ReadWhole, Close,
    ],
};

const WEBSERVER: Profile = Profile {
    name: "webserver",
    threads: 100,
    files: 1000,
    mean_bytes: 16_384.0,
    present_percent: 100,
    has_log: true,
    flow: &[
        READ, ReadWhole, Close, READ, ReadWhole, Close, READ, ReadWhole, Close, READ, ReadWhole, Close, READ,
        ReadWhole, Close, READ, ReadWhole, Close, READ, ReadWhole, Close, READ, ReadWhole, Close, READ, ReadWhole,
        Close, READ, ReadWhole, Close, Log,
    ],
};

impl Personality {
    /// All of them.
    pub const ALL: [Personality; 4] =
        [Personality::Fileserver, Personality::Varmail, Personality::Webproxy, Personality::Webserver];

    fn profile(self) -> &'static Profile {
        match self {
            Personality::Fileserver => &FILESERVER,
            Personality::Varmail => &VARMAIL,
            Personality::Webproxy => &WEBPROXY,
            Personality::Webserver => &WEBSERVER,
        }
    }

    /// As filebench calls it.
    pub fn name(self) -> &'static str {
        self.profile().name
    }

    /// The calls that move or sync content.
    pub fn calls(self) -> &'static [&'static str] {
        match self {
            Personality::Fileserver | Personality::Webproxy | Personality::Webserver => &["read", "write"],
            Personality::Varmail => &["read", "write", "fsync"],
        }
    }
}

/// The settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Filebench {
    /// Which one.
    pub personality: Personality,
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

impl Filebench {
    /// With the numbers of its file.
    pub fn of(personality: Personality) -> Filebench {
        let profile = personality.profile();
        Filebench {
            personality,
            threads: profile.threads,
            files: profile.files,
            mean_bytes: profile.mean_bytes,
            shape: 1.5,
            append_bytes: 16 << 10,
            length: Length::Rounds(500),
            seed: 1,
        }
    }
}

impl Filebench {
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
        let percent = self.personality.profile().present_percent;
        place * percent / 100 != (place + 1) * percent / 100
    }
}

impl Workload for Filebench {
    fn name(&self) -> &'static str {
        self.personality.name()
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
        let logs = if self.personality.profile().has_log { self.threads } else { 0 };
        let log =
            |thread: u32| FileSpec { name: format!("log{thread:04}"), initial_bytes: Some(self.mean_bytes as u64) };
        (0..self.files).map(spec).chain((0..logs).map(log)).collect()
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
            flow: self.personality.profile().flow,
            log: self.files + thread,
            open: 0,
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
            Length::Rounds(rounds) => Some(rounds.saturating_mul(self.personality.profile().flow.len() as u64 + 4)),
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
    flow: &'static [Step],
    /// Number of the thread's log.
    log: u32,
    /// Place of the open file among those that are there.
    open: usize,
    round: Vec<Request>,
}

impl Server {
    /// One round of the flow.
    fn round(&mut self) -> Vec<Request> {
        let flow = self.flow;
        flow.iter().for_each(|step| self.step(*step));
        std::mem::take(&mut self.round)
    }

    fn step(&mut self, step: Step) {
        match step {
            Create => {
                let chosen = self.below(self.absent.len());
                let file = self.absent.swap_remove(chosen);
                self.open = self.present.len();
                self.present.push((file, 0));
                self.ask(Call::Open(Opening::Creating), file, 0);
            }
            Open(how) => {
                self.open = self.below(self.present.len());
                self.ask(Call::Open(how), self.present[self.open].0, 0);
            }
            WriteWhole => {
                let file = self.present[self.open].0;
                let size = self.sizes[file as usize];
                self.present[self.open].1 = size;
                let mut left = size;
                while left > 0 {
                    let piece = left.min(PIECE_BYTES.into());
                    self.ask(Call::Write, file, piece as u32);
                    left -= piece;
                }
            }
            Append => self.append(self.append_bytes),
            AppendUpTo => {
                let bytes = self.up_to_an_append();
                self.append(bytes);
            }
            ReadWhole => {
                let (file, size) = self.present[self.open];
                for _ in 0..size.div_ceil(PIECE_BYTES.into()) {
                    self.ask(Call::Read, file, PIECE_BYTES);
                }
            }
            Sync => self.ask(Call::Sync, self.present[self.open].0, 0),
            Close => self.ask(Call::Close, self.present[self.open].0, 0),
            Delete => {
                let chosen = self.below(self.present.len());
                let (file, _) = self.present.swap_remove(chosen);
                self.ask(Call::Unlink, file, 0);
                self.absent.push(file);
            }
            Stat => {
                let chosen = self.below(self.present.len());
                self.ask(Call::Stat, self.present[chosen].0, 0);
            }
            Log => {
                let (log, bytes) = (self.log, self.up_to_an_append());
                self.ask(Call::Open(Opening::Appending), log, 0);
                self.ask(Call::Write, log, bytes);
                self.ask(Call::Close, log, 0);
            }
        }
    }

    fn below(&mut self, n: usize) -> usize {
        Uniform::new(0, n.max(1)).map_or(0, |among| among.sample(&mut self.rng))
    }

    fn up_to_an_append(&mut self) -> u32 {
        self.below(self.append_bytes as usize) as u32 + 1
    }

    fn append(&mut self, bytes: u32) {
        let (file, size) = &mut self.present[self.open];
        *size += u64::from(bytes);
        let file = *file;
        self.ask(Call::Write, file, bytes);
    }

    fn ask(&mut self, call: Call, file: u32, bytes: u32) {
        self.round.push(Request { call, file, bytes, offset: 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_requests_and_another_others() {
        let server = Filebench::of(Personality::Fileserver);
        let other = Filebench { seed: 2, ..server.clone() };
        assert_ne!(server.files(), other.files());
        for thread in 0..4 {
            let first: Vec<_> = server.sequence(thread).collect();
            assert_eq!(first, server.sequence(thread).collect::<Vec<_>>());
            assert_ne!(first, other.sequence(thread).collect::<Vec<_>>());
        }
    }

    #[test]
    fn sizes_have_the_mean_and_the_variance_of_the_distribution() {
        let server = Filebench { files: 100_000, ..Filebench::of(Personality::Fileserver) };
        let sizes: Vec<f64> = server.sizes().into_iter().map(|size| size as f64).collect();
        let mean = sizes.iter().sum::<f64>() / 1e5;
        let variance = sizes.iter().map(|size| (size - mean).powi(2)).sum::<f64>() / 1e5;
        // Of a gamma distribution the variance is mean² / shape; both estimates are good to about a hundredth here.
        assert!((mean / 131_072.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((variance / (131_072f64.powi(2) / 1.5) - 1.0).abs() < 0.05, "{variance}");
    }

    /// What filebench's files say of a round, by call.
    #[test]
    fn a_round_is_that_of_its_file() {
        let expected = [
            (Personality::Fileserver, [3, 3, 0, 1, 1]),
            (Personality::Varmail, [3, 3, 2, 1, 0]),
            (Personality::Webproxy, [6, 6, 0, 1, 0]),
            (Personality::Webserver, [11, 11, 0, 0, 0]),
        ];
        for (personality, [opens, closes, syncs, unlinks, stats]) in expected {
            let bench = Filebench { length: Length::Rounds(20), threads: 2, ..Filebench::of(personality) };
            bench.check().unwrap();
            let all: Vec<Request> = bench.sequence(1).collect();
            let count = |is_it: fn(Call) -> bool| all.iter().filter(|request| is_it(request.call)).count();
            assert_eq!(count(|call| matches!(call, Call::Open(_))), 20 * opens, "{personality:?}");
            assert_eq!(count(|call| call == Call::Close), 20 * closes, "{personality:?}");
            assert_eq!(count(|call| call == Call::Sync), 20 * syncs, "{personality:?}");
            assert_eq!(count(|call| call == Call::Unlink), 20 * unlinks, "{personality:?}");
            assert_eq!(count(|call| call == Call::Stat), 20 * stats, "{personality:?}");
            assert!(all.iter().all(|request| (request.file as usize) < bench.files().len()));
            assert_eq!(all, bench.sequence(1).collect::<Vec<_>>());
        }
    }

    #[test]
    fn threads_touch_no_file_of_another_and_eight_of_ten_are_there() {
        let server = Filebench::of(Personality::Fileserver);
        for thread in 0..4 {
            assert!(server.sequence(thread).all(|request| request.file % 4 == thread));
        }
        assert_eq!(server.files().iter().filter(|file| file.initial_bytes.is_some()).count(), 800);
    }
}
