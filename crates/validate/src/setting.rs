//! What is run: a workload, at a load level, with a state of the caches.

use reprise_workload::{Access, Filebench, Length, Micro, PauseBy, Workload};
use serde::{Deserialize, Serialize};

use crate::caches::Caches;
use crate::micros::Micros;

/// A reference program.
#[derive(Debug, Clone, PartialEq)]
pub enum Program {
    /// Blocks of a file of each thread's own.
    Micro(Micro),
    /// A personality of filebench: files of one directory.
    Filebench(Filebench),
}

/// A workload at a level.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The program.
    pub program: Program,
    /// The caches before each run.
    pub caches: Caches,
    /// The memory that the reference program may have, its page cache included.
    pub memory_bytes: Option<u64>,
}

/// What tells settings apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SettingName {
    /// The workload.
    pub workload: String,
    /// Time between requests, in microseconds.
    pub pause_us: Micros,
    /// Load level: the number of threads.
    pub level: u32,
    /// How that time is spent.
    #[serde(default)]
    pub pause_by: PauseBy,
    /// The caches before each run.
    pub caches: Caches,
    /// The memory that the reference program may have.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
}

impl Setting {
    /// The workload.
    pub fn workload(&self) -> &dyn Workload {
        match &self.program {
            Program::Micro(micro) => micro,
            Program::Filebench(bench) => bench,
        }
    }

    /// The calls whose response times are measured.
    pub fn calls(&self) -> &'static [&'static str] {
        match &self.program {
            Program::Micro(micro) => match micro.access {
                Access::RandomRead => &["pread64"],
                Access::RandomWrite => &["pwrite64"],
                Access::SequentialRead => &["read"],
                Access::SequentialWrite => &["write"],
            },
            Program::Filebench(bench) => bench.personality.calls(),
        }
    }

    /// Whether there is nothing to be measured.
    pub(crate) fn makes_nothing(&self) -> bool {
        match &self.program {
            Program::Micro(micro) => micro.requests == 0,
            Program::Filebench(bench) => bench.length == Length::Rounds(0),
        }
    }

    /// What tells it apart.
    pub fn name(&self) -> SettingName {
        let workload = self.workload();
        SettingName {
            workload: workload.name().to_owned(),
            pause_us: workload.pause().map_or(Micros::default(), |pause| pause.length.into()),
            level: workload.threads(),
            pause_by: workload.pause().map_or(PauseBy::Spin, |pause| pause.by),
            caches: self.caches,
            memory_bytes: self.memory_bytes,
        }
    }

    /// The words after `reprise workload` that make it.
    pub fn words(&self) -> Vec<String> {
        let mut words = self.program_words();
        if let Some(bytes) = self.memory_bytes {
            words.extend(["--memory".to_owned(), bytes.to_string()]);
            words.extend((self.caches == Caches::Warm).then(|| "--warm".to_owned()));
        }
        words
    }

    fn program_words(&self) -> Vec<String> {
        let flag = |name: &str, value: &dyn ToString| [format!("--{name}"), value.to_string()];
        match &self.program {
            Program::Micro(m) => {
                let by = match m.pause.by {
                    PauseBy::Spin => "spin",
                    PauseBy::Sleep => "sleep",
                };
                let pause = format!("{}us", m.pause.length.as_nanos() as f64 / 1e3);
                let flags = [
                    flag("threads", &m.threads),
                    flag("requests", &m.requests),
                    flag("block", &m.block_bytes),
                    flag("file-size", &m.file_bytes),
                    flag("pause", &pause),
                    flag("pause-by", &by),
                    flag("seed", &m.seed),
                ];
                let access = ["micro".to_owned(), m.access.name().to_owned()];
                access.into_iter().chain(flags.into_iter().flatten()).collect()
            }
            Program::Filebench(f) => {
                let length = match f.length {
                    Length::Rounds(rounds) => flag("rounds", &rounds),
                    Length::Time(time) => flag("time", &format!("{}s", time.as_secs_f64())),
                };
                let flags = [
                    flag("threads", &f.threads),
                    flag("files", &f.files),
                    flag("mean-size", &f.mean_bytes),
                    flag("shape", &f.shape),
                    flag("append", &f.append_bytes),
                    length,
                    flag("seed", &f.seed),
                ];
                std::iter::once(f.personality.name().to_owned()).chain(flags.into_iter().flatten()).collect()
            }
        }
    }
}
