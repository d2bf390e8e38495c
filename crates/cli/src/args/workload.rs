//! Arguments of `workload`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use reprise_workload as workload;

use crate::amounts::{Bytes, Memory, Pause, Period};

/// Arguments of `workload`.
#[derive(Debug, Args)]
pub struct Workload {
    /// Which.
    #[command(subcommand)]
    pub program: Program,
}

/// The reference programs.
#[derive(Debug, Subcommand)]
pub enum Program {
    /// Threads read or write blocks, each of a file of its own
    #[command(after_help = EXAMPLES)]
    Micro(Micro),
    /// Threads create, write, append to, read, look at and delete files of one directory
    #[command(after_help = EXAMPLES)]
    Fileserver(Filebench),
    /// A mail server: threads delete, create, append to, sync and read small files
    #[command(after_help = EXAMPLES)]
    Varmail(Filebench),
    /// A caching proxy: threads replace a small file and read five
    #[command(after_help = EXAMPLES)]
    Webproxy(Filebench),
    /// A web server: threads read ten small files and append to a log
    #[command(after_help = EXAMPLES)]
    Webserver(Filebench),
}

/// The kind of request.
#[derive(Debug, Clone, Copy, ValueEnum, PartialEq, Eq)]
pub enum Access {
    /// pread64 at random blocks
    RandomRead,
    /// pwrite64 at random blocks
    RandomWrite,
    /// read, one block after the other
    SequentialRead,
    /// write, one block after the other
    SequentialWrite,
}

impl From<Access> for workload::Access {
    fn from(access: Access) -> workload::Access {
        match access {
            Access::RandomRead => workload::Access::RandomRead,
            Access::RandomWrite => workload::Access::RandomWrite,
            Access::SequentialRead => workload::Access::SequentialRead,
            Access::SequentialWrite => workload::Access::SequentialWrite,
        }
    }
}

/// How a pause is spent.
#[derive(Debug, Clone, Copy, ValueEnum, PartialEq, Eq)]
pub enum PauseBy {
    /// At work, looking at the clock: exactly as long as asked for
    Spin,
    /// Asleep: as long as the kernel thinks, with its usual slack 50 µs longer
    Sleep,
}

impl From<PauseBy> for workload::PauseBy {
    fn from(by: PauseBy) -> workload::PauseBy {
        match by {
            PauseBy::Spin => workload::PauseBy::Spin,
            PauseBy::Sleep => workload::PauseBy::Sleep,
        }
    }
}

/// A limit of memory that a program can live in.
pub fn limit(text: &str) -> Result<Bytes, String> {
    match text.parse()? {
        Bytes(n) if n < Memory::LEAST_BYTES => Err(format!("'{text}' is too little for a program; give at least 4M")),
        bytes => Ok(bytes),
    }
}

/// What all reference programs are told.
#[derive(Debug, Args)]
pub struct Common {
    /// The directory of its files
    #[arg(short, long, value_name = "DIR")]
    pub dir: PathBuf,
    /// Only make its files, or restore them as they are before the start
    #[arg(long)]
    pub prepare: bool,
    /// Where the reference trace goes; best on another device than the files
    #[arg(short, long, value_name = "TRACE", required_unless_present = "prepare", conflicts_with = "prepare")]
    pub output: Option<PathBuf>,
    /// For sizes, offsets and choices: the same seed makes the same calls
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The memory that the program may have, page cache included; its files then start uncached. Needs control groups with a
    /// memory controller and the right to make one
    #[arg(long, value_name = "SIZE", value_parser = limit, conflicts_with = "prepare")]
    pub memory: Option<Bytes>,
    /// With --memory: read its files into the cache before the start, as far as they fit
    #[arg(long, requires = "memory")]
    pub warm: bool,
    /// Print what was done as JSON
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(short, long)]
    pub quiet: bool,
}

/// Arguments of `workload micro`.
#[derive(Debug, Args)]
pub struct Micro {
    /// What the threads do
    #[arg(value_enum)]
    pub access: Access,
    #[command(flatten)]
    pub common: Common,
    /// Number of threads
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub threads: u32,
    /// Requests of each thread
    #[arg(short, long, value_name = "N", default_value_t = 5000)]
    pub requests: u64,
    /// Size of a request
    #[arg(short, long, value_name = "SIZE", default_value = "4K")]
    pub block: Bytes,
    /// Size of each thread's file; sequential programs begin anew where it ends
    #[arg(short, long, value_name = "SIZE", default_value = "64M")]
    pub file_size: Bytes,
    /// Time between requests: 10us, 50us, 1ms
    #[arg(long, value_name = "TIME", default_value = "0us")]
    pub pause: Pause,
    /// How that time is spent
    #[arg(long, value_enum, default_value = "spin")]
    pub pause_by: PauseBy,
}

impl Micro {
    /// The settings.
    pub fn settings(&self) -> workload::Micro {
        workload::Micro {
            access: self.access.into(),
            threads: self.threads,
            requests: self.requests,
            // What does not fit is refused as too large.
            block_bytes: u32::try_from(self.block.0).unwrap_or(u32::MAX),
            file_bytes: self.file_size.0,
            pause: workload::Pause { length: self.pause.0, by: self.pause_by.into() },
            seed: self.common.seed,
        }
    }
}

/// Arguments of the personalities of filebench.
#[derive(Debug, Args)]
pub struct Filebench {
    #[command(flatten)]
    pub common: Common,
    /// Number of threads [default: fileserver 4, varmail 16, webproxy and webserver 100]
    #[arg(short, long, value_name = "N")]
    pub threads: Option<u32>,
    /// Number of files; eight of ten are there at first, of webserver all [default: 1000, webproxy 10000]
    #[arg(long, value_name = "N")]
    pub files: Option<u32>,
    /// Mean size of a file [default: fileserver 128K, the others 16K]
    #[arg(long, value_name = "SIZE")]
    pub mean_size: Option<Bytes>,
    /// Shape of the gamma distribution of sizes
    #[arg(long, value_name = "X", default_value_t = 1.5)]
    pub shape: f64,
    /// Size of an append; of all but fileserver the largest
    #[arg(long, value_name = "SIZE", default_value = "16K")]
    pub append: Bytes,
    /// Rounds of each thread
    #[arg(short, long, value_name = "N", default_value_t = 500)]
    pub rounds: u64,
    /// End after this time instead: 30s
    #[arg(long, value_name = "TIME", conflicts_with = "rounds")]
    pub time: Option<Period>,
}

impl Filebench {
    /// The settings.
    pub fn settings(&self, personality: workload::Personality) -> workload::Filebench {
        let own = workload::Filebench::of(personality);
        workload::Filebench {
            personality,
            threads: self.threads.unwrap_or(own.threads),
            files: self.files.unwrap_or(own.files),
            mean_bytes: self.mean_size.map_or(own.mean_bytes, |size| size.0 as f64),
            shape: self.shape,
            append_bytes: u32::try_from(self.append.0).unwrap_or(u32::MAX),
            length: match self.time {
                Some(time) => workload::Length::Time(time.0),
                None => workload::Length::Rounds(self.rounds),
            },
            seed: self.common.seed,
        }
    }
}

pub const EXAMPLES: &str = "\
Examples:
  reprise workload micro random-read --threads 4 --dir /mnt/t --prepare
  reprise workload micro random-read --threads 4 --dir /mnt/t -o ref.reprise
  reprise workload micro sequential-write --pause 10us --dir /mnt/t -o ref.reprise
  reprise workload fileserver --dir /mnt/t --prepare
  reprise workload fileserver --memory 128M --dir /mnt/t -o ref.reprise      see replay --memory recorded
  reprise workload varmail --threads 4 --rounds 200 --dir /mnt/t -o ref.reprise
  reprise workload fileserver --time 30s --dir /mnt/t -o ref.reprise
  reprise stat ref.reprise && mkdir t && reprise replay ref.reprise --fill random --target t

A reference program reads the clock right before and right after each call and writes these times as a trace: response times
without a recorder, by which those of a replay are judged (docs/METROLOGY.md). Prepare the files with the same options,
before each run of a program that changes them. The trace has names and sizes of the files, no contents.";
