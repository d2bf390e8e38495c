//! What was around the program: a summary for `info`, and the samples over time.
//!
//! Goals: one pass over the samples, memory in proportion to what is shown. Non-goals: saying why something was slow.

mod over_time;
mod text;

use std::collections::BTreeMap;

use reprise_trace::{DeviceSample, Environment, Mount, QueueSetting, ReadError, TraceReader};
use serde::Serialize;

pub use over_time::{environment_lines, environment_table};

/// A number over the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Course {
    /// In the first sample.
    pub first: u64,
    /// In the last sample.
    pub last: u64,
    /// Of all samples.
    pub least: u64,
    /// Of all samples.
    pub greatest: u64,
}

impl Course {
    fn begin(n: u64) -> Course {
        Course { first: n, last: n, least: n, greatest: n }
    }

    fn add(&mut self, n: u64) {
        (self.last, self.least, self.greatest) = (n, self.least.min(n), self.greatest.max(n));
    }
}

/// Time that threads stood still for want of something, in nanoseconds; nothing where the kernel does not count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Stalls {
    /// Some thread waited for a processor.
    pub cpu_some_ns: Option<u64>,
    /// Some thread waited for storage.
    pub io_some_ns: Option<u64>,
    /// All active threads did.
    pub io_full_ns: Option<u64>,
    /// Some thread waited for memory.
    pub memory_some_ns: Option<u64>,
    /// All active threads did.
    pub memory_full_ns: Option<u64>,
}

/// Processor time of the whole machine, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Processors {
    /// In programs.
    pub user_ns: u64,
    /// In the kernel.
    pub system_ns: u64,
    /// Idle while somebody waited for a device.
    pub iowait_ns: u64,
    /// Given to other machines.
    pub steal_ns: u64,
    /// Idle.
    pub idle_ns: u64,
}

/// What a device did during the samples.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct DeviceUse {
    /// Reads, and what they took.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Time with at least one request under way.
    pub busy_ns: u64,
}

/// What was around the program.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Summary {
    /// Number of samples.
    pub samples: u64,
    /// From the first to the last.
    pub span_ns: u64,
    /// Processes of the program.
    pub processes: Course,
    /// Their resident memory.
    pub resident_bytes: Course,
    /// Page cache of files.
    pub cached_bytes: Course,
    /// Memory that waited to be written.
    pub dirty_bytes: Course,
    /// Memory that was being written.
    pub writeback_bytes: Course,
    /// Memory that programs could have got.
    pub available_bytes: Course,
    /// Where the processors' time went.
    pub processors: Processors,
    /// How long threads stood still.
    pub stalls: Stalls,
    /// Devices that did something, by name.
    pub devices: BTreeMap<String, DeviceUse>,
    /// Settings of queues, by device and name.
    pub queues: BTreeMap<String, BTreeMap<String, String>>,
    /// Mounts.
    pub mounts: Vec<Mount>,
}

/// Reads what a trace knows of the environment; nothing if it knows nothing.
///
/// # Errors
/// The trace cannot be read.
pub(crate) fn summary(trace: &TraceReader) -> Result<Option<Summary>, ReadError> {
    let mut out = Summary { mounts: trace.rows().collect::<Result<_, _>>()?, ..Summary::default() };
    for setting in trace.rows::<QueueSetting>() {
        let QueueSetting { name, setting, value, .. } = setting?;
        out.queues.entry(name).or_default().insert(setting, value);
    }
    let mut first: Option<Environment> = None;
    for sample in trace.rows::<Environment>() {
        let sample = sample?;
        out.add(first.get_or_insert_with(|| sample.clone()), &sample);
    }
    let mut beginnings: BTreeMap<u64, DeviceSample> = BTreeMap::new();
    let begin_ns = first.as_ref().map_or(0, |sample| sample.time_ns);
    for sample in trace.rows::<DeviceSample>() {
        let sample = sample?;
        // A device without a row in the first sample had done nothing until then.
        let idle = || DeviceSample { device: sample.device, ..DeviceSample::default() };
        let first = || if sample.time_ns <= begin_ns { sample.clone() } else { idle() };
        let use_ = device_use(beginnings.entry(sample.device).or_insert_with(first), &sample);
        if use_ != DeviceUse::default() {
            out.devices.insert(sample.name, use_);
        }
    }
    let nothing = out.samples == 0 && out.mounts.is_empty() && out.queues.is_empty();
    Ok((!nothing).then_some(out))
}

impl Summary {
    fn add(&mut self, first: &Environment, sample: &Environment) {
        let courses = [
            (&mut self.processes, sample.processes.into()),
            (&mut self.resident_bytes, sample.resident_bytes),
            (&mut self.cached_bytes, sample.cached_bytes),
            (&mut self.dirty_bytes, sample.dirty_bytes),
            (&mut self.writeback_bytes, sample.writeback_bytes),
            (&mut self.available_bytes, sample.available_bytes),
        ];
        for (course, n) in courses {
            match self.samples {
                0 => *course = Course::begin(n),
                _ => course.add(n),
            }
        }
        self.samples += 1;
        self.span_ns = sample.time_ns.saturating_sub(first.time_ns);
        self.processors = processors(first, sample);
        let since = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        self.stalls = Stalls {
            cpu_some_ns: since(sample.cpu_some_ns, first.cpu_some_ns),
            io_some_ns: since(sample.io_some_ns, first.io_some_ns),
            io_full_ns: since(sample.io_full_ns, first.io_full_ns),
            memory_some_ns: since(sample.memory_some_ns, first.memory_some_ns),
            memory_full_ns: since(sample.memory_full_ns, first.memory_full_ns),
        };
    }
}

fn processors(from: &Environment, to: &Environment) -> Processors {
    Processors {
        user_ns: to.user_ns.saturating_sub(from.user_ns),
        system_ns: to.system_ns.saturating_sub(from.system_ns),
        iowait_ns: to.iowait_ns.saturating_sub(from.iowait_ns),
        steal_ns: to.steal_ns.saturating_sub(from.steal_ns),
        idle_ns: to.idle_ns.saturating_sub(from.idle_ns),
    }
}

fn device_use(from: &DeviceSample, to: &DeviceSample) -> DeviceUse {
    DeviceUse {
        reads: to.reads.saturating_sub(from.reads),
        read_bytes: to.read_bytes.saturating_sub(from.read_bytes),
        writes: to.writes.saturating_sub(from.writes),
        written_bytes: to.written_bytes.saturating_sub(from.written_bytes),
        flushes: to.flushes.saturating_sub(from.flushes),
        busy_ns: to.busy_ns.saturating_sub(from.busy_ns),
    }
}
