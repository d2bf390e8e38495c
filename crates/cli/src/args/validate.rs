//! Arguments of `validate` and `compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use reprise_validate::LogFormat;
use reprise_workload::{Access, Personality};

use super::workload::{PauseBy, limit};
use crate::amounts::{Bytes, Pause, Period};

/// A reference program of a validation.
#[derive(Debug, Clone, Copy, ValueEnum, PartialEq, Eq)]
pub enum Reference {
    /// pread64 at random blocks
    RandomRead,
    /// pwrite64 at random blocks
    RandomWrite,
    /// read, one block after the other
    SequentialRead,
    /// write, one block after the other
    SequentialWrite,
    /// Files of one directory created, written, read, deleted
    Fileserver,
    /// A mail server: small files synced after each append
    Varmail,
    /// A proxy: five files read for each that is replaced
    Webproxy,
    /// A web server: ten files read for each line of the log
    Webserver,
}

/// What a reference program is.
pub enum Kind {
    /// Blocks.
    Micro(Access),
    /// Whole files.
    Filebench(Personality),
}

impl Reference {
    /// What it is.
    pub fn kind(self) -> Kind {
        match self {
            Reference::RandomRead => Kind::Micro(Access::RandomRead),
            Reference::RandomWrite => Kind::Micro(Access::RandomWrite),
            Reference::SequentialRead => Kind::Micro(Access::SequentialRead),
            Reference::SequentialWrite => Kind::Micro(Access::SequentialWrite),
            Reference::Fileserver => Kind::Filebench(Personality::Fileserver),
            Reference::Varmail => Kind::Filebench(Personality::Varmail),
            Reference::Webproxy => Kind::Filebench(Personality::Webproxy),
            Reference::Webserver => Kind::Filebench(Personality::Webserver),
        }
    }
}

/// Arguments of `validate`.
#[derive(Debug, Args)]
pub struct Validate {
    /// A directory on the file system that is measured; one of its own is made in it, and removed at the end
    #[arg(short, long, value_name = "DIR")]
    pub dir: PathBuf,
    /// Where traces and logs of the runs go; best on another device [default: TMPDIR or /tmp]
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Few settings, few runs: to see that it works, in a minute or two
    #[arg(long)]
    pub quick: bool,
    /// The reference programs
    #[arg(short, long, value_enum, value_delimiter = ',', value_name = "NAMES", default_values = ["random-read", "random-write", "sequential-read", "sequential-write", "fileserver"])]
    pub workload: Vec<Reference>,
    /// Load levels: numbers of threads (personalities of filebench have their own) [default: 1,2,3,4; 1,2 with --quick]
    #[arg(short, long, value_delimiter = ',', value_name = "N")]
    pub level: Vec<u32>,
    /// Times between requests; with one, replays keep the traced instants (--pace timestamp) unless told otherwise
    #[arg(long, value_delimiter = ',', value_name = "TIMES", default_value = "0us")]
    pub pause: Vec<Pause>,
    /// How that time is spent
    #[arg(long, value_enum, default_value = "spin")]
    pub pause_by: PauseBy,
    /// Runs of the reference and of each instrument, in each setting [default: 10; 3 with --quick]
    #[arg(short = 'n', long, value_name = "N")]
    pub runs: Option<usize>,
    /// Requests of each thread, for random and sequential [default: 5000; 1000 with --quick]
    #[arg(long, value_name = "N")]
    pub requests: Option<u64>,
    /// Size of each thread's file, for random and sequential (which begins anew where it ends)
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    pub file_size: Bytes,
    /// Rounds of each thread of fileserver, varmail, webproxy and webserver [default: 200; 50 with --quick]
    #[arg(long, value_name = "N")]
    pub rounds: Option<u64>,
    /// Empty the caches before each run, instead of filling them
    #[arg(long)]
    pub cold: bool,
    /// The memory that the reference programs may have, page cache included; replays have the same (replay --memory recorded)
    #[arg(long, value_name = "SIZE", value_parser = limit)]
    pub memory: Option<Bytes>,
    /// With --memory: validate also replays that have all of the machine's memory
    #[arg(long, requires = "memory")]
    pub unmatched: bool,
    /// Orderings of replays (commas separate)
    #[arg(long, value_delimiter = ',', value_name = "ORDERS", default_values_t = [reprise_plan::Order::default().to_string()])]
    pub order: Vec<String>,
    /// Paces of replays [default: afap; with a pause timestamp]
    #[arg(long, value_delimiter = ',', value_name = "PACES")]
    pub pace: Vec<String>,
    /// Ways to issue calls
    #[arg(long, value_delimiter = ',', value_name = "WAYS", default_value = "sync")]
    pub io: Vec<String>,
    /// Validate also this command for the shell: {trace}, {dir}, {log}, {iolog} (fio), {threads} are replaced
    #[arg(long, value_name = "COMMAND")]
    pub instrument: Vec<String>,
    /// The format of what the commands write to {log}: reprise (a trace), fio (latency logs) or csv
    #[arg(long, value_name = "FORMAT", default_value = "fio")]
    pub log: LogFormat,
    /// Validate also recording by these backends (ptrace, ebpf): what they do to the program, and the times they write down
    #[arg(long, value_delimiter = ',', value_name = "BACKENDS")]
    pub capture: Vec<String>,
    /// Only the commands and recorders, no replays of Reprise
    #[arg(long)]
    pub no_replay: bool,
    /// For the programs, and for the order of the runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Keep finished scenarios in this directory, and do not run again what is there: the same command goes on where it was
    /// stopped
    #[arg(long, value_name = "DIR")]
    pub series: Option<PathBuf>,
    /// Begin no scenario that would not end within this time, as far as can be told: 20m
    #[arg(long = "for", value_name = "TIME")]
    pub time: Option<Period>,
    /// Do not keep what was found for this machine
    #[arg(long)]
    pub no_store: bool,
    /// Write all that was found as JSON here, every run included
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print all that was found as JSON
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(short, long)]
    pub quiet: bool,
}

pub const EXAMPLES: &str = "\
Examples:
  reprise validate --dir /mnt/t --quick
  reprise validate --dir /mnt/t --scratch /other/disk        the whole protocol, without pauses
  reprise validate --dir /mnt/t --pause 10us,50us --pace timestamp,natural
  reprise validate --dir /mnt/t --order root,temporal --io sync,uring --workload random-read --level 1,2,4
  reprise validate --dir /mnt/t --workload random-read --level 1,2 --log fio --instrument \\
    'fio --name=r --ioengine=psync --invalidate=0 --thread --numjobs={threads} --read_iolog={iolog} --write_lat_log={log} --per_job_logs=1'
  reprise validate --dir /mnt/t --series kept --for 20m      a piece of 20 minutes; the same again goes on
  reprise validate --dir /mnt/t --workload fileserver --memory 128M --unmatched      what it does to leave out the limit
  reprise validate --dir /mnt/t --workload random-read --capture ptrace,ebpf --no-replay      recorders as instruments

For each setting (program, level, pause) the reference program and each instrument run N times, in a random order, from the
same state. What a run says is the mean response time of the calls in question; the medians stand beside. U is the expanded
uncertainty for k = 2, U95 for 95 % by its degrees of freedom; floor is the U that an instrument without any error would have
shown, from the references alone. Runs that were disturbed by others, or ran under other settings of devices, are marked and
counted in; of a run that was too short that is not known. A run that fails ends it; what was found until then is told, and kept.
docs/METROLOGY.md explains all of it. Exit code 7: interrupted, or out of time (--for); what was finished is printed and kept.";

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// Results of replays of one trace on one system or in one way, several of each: NAME=RESULT,RESULT,...
    #[arg(required = true, num_args = 2.., value_name = "NAME=RESULTS")]
    pub groups: Vec<String>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

pub const COMPARE_EXAMPLES: &str = "\
Examples:
  for n in 1 2 3 4 5; do reprise replay app.reprise --target /mnt/ext4/t -o ext4.$n; done      and so on
  reprise compare ext4=ext4.1,ext4.2,ext4.3,ext4.4,ext4.5 xfs=xfs.1,xfs.2,xfs.3,xfs.4,xfs.5

Elapsed times and mean response times are compared, every pair of groups: greater or less where the difference is real (5 %, by
Welch's test, adjusted by Holm for all pairs: elapsed times by themselves, calls together), equal where it is shown to be within 5 % of the first, and else it
cannot be told, however different the means look. u_c of one is the uncertainty of a single mean response time, where such
replays were validated on this machine (`reprise validate`). Interleave the replays of the groups, so that a machine that grows
slower slows all of them. Calls with less than 1 % of the time are left out. Exit code 1: something differs.";
