//! Block devices: the settings of their queues, and what they have done.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use reprise_trace::{DeviceSample, QueueSetting};

use super::mounts::device;

/// Unit of `/proc/diskstats`, whatever the device.
const SECTOR_BYTES: u64 = 512;

/// Settings of all devices that have a size (an unused loop device has none), device by device.
pub(super) fn queues() -> Vec<QueueSetting> {
    let mut out = Vec::new();
    for disk in sorted(Path::new("/sys/block")) {
        let read = |file: &str| fs::read_to_string(Path::new("/sys/block").join(&disk).join(file)).ok();
        let size = read("size").and_then(|text| text.trim().parse::<u64>().ok());
        let Some(number) = read("dev").and_then(|text| device(&text)).filter(|_| size.is_some_and(|n| n > 0)) else {
            continue;
        };
        for setting in sorted(&Path::new("/sys/block").join(&disk).join("queue")) {
            // Some can only be written, or are directories.
            if let Some(value) = read(&format!("queue/{setting}")) {
                let value = value.trim().to_owned();
                out.push(QueueSetting { device: number, name: disk.clone(), setting, value });
            }
        }
    }
    out
}

fn sorted(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// Remembers what was said of each device, to say it once.
#[derive(Debug, Default)]
pub(super) struct Changes {
    last: HashMap<u64, DeviceSample>,
}

impl Changes {
    /// The devices of a text like `/proc/diskstats` that did something since the last one; of the first, since boot.
    pub fn of(&mut self, diskstats: &str, time_ns: u64) -> Vec<DeviceSample> {
        let mut changed = Vec::new();
        for sample in diskstats.lines().filter_map(sample) {
            let last = self.last.entry(sample.device).or_insert_with(|| idle(&sample));
            if *last != sample {
                last.clone_from(&sample);
                changed.push(DeviceSample { time_ns, ..sample });
            }
        }
        changed
    }
}

/// A device that has done nothing.
fn idle(sample: &DeviceSample) -> DeviceSample {
    DeviceSample { device: sample.device, name: sample.name.clone(), ..DeviceSample::default() }
}

/// Of one line of `/proc/diskstats` number and name of the device, and its counters.
pub(crate) fn counters(line: &str) -> Option<(u64, &str, Vec<u64>)> {
    let mut words = line.split_whitespace();
    let number = device(&format!("{}:{}", words.next()?, words.next()?))?;
    let name = words.next()?;
    Some((number, name, words.map_while(|word| word.parse().ok()).collect()))
}

/// One line; kernels before 4.18 and 5.5 know no discards, or no flushes.
fn sample(line: &str) -> Option<DeviceSample> {
    let (number, name, n) = counters(line)?;
    let at = |i: usize| n.get(i).copied().unwrap_or(0);
    let (bytes, ns) = (|i| at(i).saturating_mul(SECTOR_BYTES), |i| at(i).saturating_mul(1_000_000));
    (n.len() >= 11).then(|| DeviceSample {
        time_ns: 0,
        device: number,
        name: name.to_owned(),
        reads: at(0),
        read_bytes: bytes(2),
        read_ns: ns(3),
        writes: at(4),
        written_bytes: bytes(6),
        write_ns: ns(7),
        discards: at(11),
        discarded_bytes: bytes(13),
        flushes: at(15),
        flush_ns: ns(16),
        in_flight: u32::try_from(at(8)).unwrap_or(u32::MAX),
        busy_ns: ns(9),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const VDA: &str = " 254 0 vda 10 1 80 7 20 2 160 9 3 40 50 5 6 70 8 11 12\n";

    #[test]
    fn every_counter_is_in_its_place() {
        let found = &Changes::default().of(VDA, 99)[0];
        assert_eq!((found.time_ns, found.device, &found.name[..]), (99, libc::makedev(254, 0), "vda"));
        assert_eq!((found.reads, found.read_bytes, found.read_ns), (10, 80 * 512, 7_000_000));
        assert_eq!((found.writes, found.written_bytes, found.write_ns), (20, 160 * 512, 9_000_000));
        assert_eq!((found.in_flight, found.busy_ns), (3, 40_000_000));
        assert_eq!(
            (found.discards, found.discarded_bytes, found.flushes, found.flush_ns),
            (5, 70 * 512, 11, 12_000_000)
        );
    }

    #[test]
    fn only_changes_are_said() {
        let mut changes = Changes::default();
        let idle = "   7       1 loop1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
        assert_eq!(changes.of(&format!("{idle}{VDA}"), 1).len(), 1, "an idle device is not there");
        assert!(changes.of(&format!("{idle}{VDA}"), 2).is_empty());
        assert_eq!(changes.of(&idle.replace("loop1 0", "loop1 4"), 3)[0].reads, 4);
        assert!(changes.of("x y\n 1 2 short 3 4\n", 4).is_empty());
    }
}
