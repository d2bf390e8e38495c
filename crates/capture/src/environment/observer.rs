//! One sample: a few files of `/proc`, kept open and read again from their beginning.

use std::fs::File;
use std::path::Path;

use reprise_trace::{DeviceSample, Environment};
use serde::{Deserialize, Serialize};

use super::devices::Changes;
use super::processes::{Traced, resident_bytes};
use super::processors::Processors;
use super::source::Source;

/// What was seen at one instant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The traced program and the machine.
    pub environment: Environment,
    /// Devices that did something since the observation before; in the first, since boot.
    pub devices: Vec<DeviceSample>,
}

/// Takes samples.
pub struct Observer {
    traced: Box<dyn Traced>,
    memory: Source,
    processors: Processors,
    /// `cpu`, `io`, `memory`.
    pressure: [Source; 3],
    disks: Source,
    changes: Changes,
    pids: Vec<i32>,
    /// Directory whose file system's space is watched.
    target: Option<File>,
}

impl Observer {
    /// One that has seen nothing yet.
    pub fn new(traced: impl Traced + 'static) -> Observer {
        Observer {
            traced: Box::new(traced),
            memory: Source::open("/proc/meminfo"),
            processors: Processors::open(),
            pressure: ["cpu", "io", "memory"].map(|what| Source::open(&format!("/proc/pressure/{what}"))),
            disks: Source::open("/proc/diskstats"),
            changes: Changes::default(),
            pids: Vec::new(),
            target: None,
        }
    }

    /// Watches also the space in use on the file system of a directory; one that cannot be opened is not watched.
    #[must_use]
    pub fn with_target(mut self, directory: &Path) -> Observer {
        self.target = File::open(directory).ok();
        self
    }

    /// Looks now, which is so many nanoseconds after the trace began.
    pub fn observe(&mut self, time_ns: u64) -> Observation {
        let mut environment = Environment { time_ns, ..Environment::default() };
        self.pids.clear();
        self.traced.processes(&mut self.pids);
        for resident in self.pids.iter().filter_map(|pid| resident_bytes(*pid)) {
            environment.processes += 1;
            environment.resident_bytes += resident;
        }
        read_memory(self.memory.beginning(), &mut environment);
        let [cpu, io, memory] = &mut self.pressure;
        let e = &mut environment;
        let times = self.processors.times().unwrap_or_default();
        (e.user_ns, e.system_ns, e.idle_ns) = (times.user_ns, times.system_ns, times.idle_ns);
        (e.iowait_ns, e.steal_ns) = (times.iowait_ns, times.steal_ns);
        (e.cpu_some_avg10_ppm, e.cpu_some_ns) = stalled(cpu.beginning(), "some");
        (e.io_some_avg10_ppm, e.io_some_ns) = stalled(io.beginning(), "some");
        (e.io_full_avg10_ppm, e.io_full_ns) = stalled(io.text(), "full");
        (e.memory_some_avg10_ppm, e.memory_some_ns) = stalled(memory.beginning(), "some");
        (e.memory_full_avg10_ppm, e.memory_full_ns) = stalled(memory.text(), "full");
        e.target_used_bytes = self.target.as_ref().and_then(used_bytes);
        let devices = self.changes.of(self.disks.whole(), time_ns);
        Observation { environment, devices }
    }
}

/// Bytes in use on the file system of a file.
fn used_bytes(file: &File) -> Option<u64> {
    let space = rustix::fs::fstatvfs(file).ok()?;
    Some(space.f_blocks.saturating_sub(space.f_bfree).saturating_mul(space.f_frsize))
}

fn read_memory(text: &str, out: &mut Environment) {
    for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let field = match name {
            "Cached" => &mut out.cached_bytes,
            "Buffers" => &mut out.buffers_bytes,
            "Dirty" => &mut out.dirty_bytes,
            "Writeback" => &mut out.writeback_bytes,
            "MemFree" => &mut out.free_bytes,
            "MemAvailable" => &mut out.available_bytes,
            _ => continue,
        };
        let kib = value.trim_start().split(' ').next().and_then(|n| n.parse::<u64>().ok());
        *field = kib.unwrap_or(0).saturating_mul(1024);
    }
}

/// `some avg10=1.97 avg60=2.78 avg300=3.26 total=80188296`: average in parts per million, total in nanoseconds.
fn stalled(text: &str, which: &str) -> (Option<u32>, Option<u64>) {
    let line = text.lines().find_map(|line| line.strip_prefix(which)).unwrap_or_default();
    let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name));
    let average = field("avg10=").and_then(|text| text.parse::<f64>().ok());
    let total = field("total=").and_then(|text| text.parse::<u64>().ok());
    (average.map(|percent| (percent * 1e4).round() as u32), total.map(|us| us.saturating_mul(1000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_is_read() {
        let text =
            "some avg10=1.97 avg60=2.78 avg300=3.26 total=80188296\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(stalled(text, "some"), (Some(19_700), Some(80_188_296_000)));
        assert_eq!(stalled(text, "full"), (Some(0), Some(7_000)));
        assert_eq!(stalled("", "some"), (None, None), "kernels without it");
    }

    #[test]
    fn this_process_is_seen() {
        struct This;
        impl Traced for This {
            fn processes(&self, into: &mut Vec<i32>) {
                // And one that cannot be.
                into.extend([std::process::id() as i32, i32::MAX]);
            }
        }
        let mut observer = Observer::new(This);
        let first = observer.observe(5).environment;
        assert_eq!((first.time_ns, first.processes), (5, 1));
        let block = vec![1u8; 64 << 20];
        let second = observer.observe(6).environment;
        // Other tests of this process give memory back meanwhile; the kernel's account of idle time may step back.
        assert!(second.resident_bytes >= first.resident_bytes + (32 << 20), "{first:?} {second:?} {}", block[77]);
        assert!(second.available_bytes > 0 && second.idle_ns > 0);
    }
}
