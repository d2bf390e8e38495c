//! What does not change while a program runs.

use std::collections::BTreeMap;
use std::fs;

use reprise_trace::{Mount, QueueSetting};
use serde::{Deserialize, Serialize};

use super::{devices, mounts};

/// The machine at the start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Surroundings {
    /// For the manifest: model and governor of the processors, size of the memory, settings of write-back.
    pub facts: BTreeMap<String, String>,
    /// All mounts that this process sees.
    pub mounts: Vec<Mount>,
    /// The queue settings of all block devices that have a size.
    pub queues: Vec<QueueSetting>,
}

impl Surroundings {
    /// Looks around.
    pub fn look() -> Surroundings {
        Surroundings { facts: facts(), mounts: mounts::mounts(), queues: devices::queues() }
    }
}

fn facts() -> BTreeMap<String, String> {
    let known = [
        ("cpu_model", field("/proc/cpuinfo", "model name")),
        ("cpu_governor", line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        ("memory", field("/proc/meminfo", "MemTotal")),
        ("write_back", write_back()),
    ];
    known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// All memory of the machine.
pub(super) fn machine_bytes() -> Option<u64> {
    field("/proc/meminfo", "MemTotal")?.trim_end_matches(" kB").parse::<u64>().ok()?.checked_mul(1024)
}

/// The fact that says where the kernel writes core files.
pub(crate) const CORE_PATTERN: &str = "core_pattern";

/// Where the kernel writes core files, or to whom it gives them (`|`, `@`); core(5).
pub(crate) fn core_pattern() -> Option<String> {
    line("/proc/sys/kernel/core_pattern")
}

fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The first `NAME: VALUE` of a file.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned()).next()
}

/// When the kernel writes dirty memory back. Of a limit in bytes and one in per cent, the one that is not set is 0.
fn write_back() -> Option<String> {
    const SETTINGS: [&str; 6] = [
        "dirty_ratio",
        "dirty_bytes",
        "dirty_background_ratio",
        "dirty_background_bytes",
        "dirty_expire_centisecs",
        "dirty_writeback_centisecs",
    ];
    let values = SETTINGS.iter().filter_map(|name| Some((name, line(&format!("/proc/sys/vm/{name}"))?)));
    let set: Vec<String> = values.filter(|(_, v)| v != "0").map(|(name, value)| format!("{name} {value}")).collect();
    Some(set.join(", ")).filter(|text| !text.is_empty())
}
