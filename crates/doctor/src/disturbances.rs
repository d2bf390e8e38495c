//! What disturbs measurements.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::{Finding, Machine, Places};

/// All of them.
pub fn all(machine: &Machine, places: &Places) -> Vec<Finding> {
    let looks: [fn(&Machine) -> Finding; 8] = [governor, turbo, swap, memory, load, pressure, steal, schedulers];
    let mut out: Vec<Finding> = looks.map(|look| look(machine)).into();
    out.extend(places.target.as_deref().map(room));
    if let (Some(trace), Some(target)) = (&places.trace, &places.target) {
        out.push(one_device(trace, target));
    }
    out
}

fn governor(machine: &Machine) -> Finding {
    const WHAT: &str = "CPU governor";
    const CPUS: &str = "/sys/devices/system/cpu";
    let governors = machine.names(CPUS).into_iter();
    let mut found: Vec<String> =
        governors.filter_map(|cpu| machine.text(&format!("{CPUS}/{cpu}/cpufreq/scaling_governor"))).collect();
    found.sort();
    found.dedup();
    match &found[..] {
        [] => Finding::unknown(WHAT, "the kernel does not set frequencies here (a virtual machine, often)"),
        [one] if one == "performance" => Finding::good(WHAT, "performance"),
        several => Finding::disturbs(
            WHAT,
            format!("{}: the clock follows the load, so short calls look slow", several.join(", ")),
            "cpupower frequency-set -g performance",
        ),
    }
}

fn turbo(machine: &Machine) -> Finding {
    const WHAT: &str = "turbo";
    const INTEL: &str = "/sys/devices/system/cpu/intel_pstate/no_turbo";
    const BOOST: &str = "/sys/devices/system/cpu/cpufreq/boost";
    let on = |file: &str, value: &str| {
        let found = "on: the clock depends on temperature and on the other processors";
        Finding::disturbs(WHAT, found, format!("echo {value} > {file}"))
    };
    match (machine.number(INTEL), machine.number(BOOST)) {
        (Some(0), _) => on(INTEL, "1"),
        (None, Some(1)) => on(BOOST, "0"),
        (Some(_), _) | (None, Some(_)) => Finding::good(WHAT, "off"),
        (None, None) => Finding::unknown(WHAT, "the kernel does not say"),
    }
}

fn swap(machine: &Machine) -> Finding {
    let Some(text) = machine.text("/proc/swaps") else { return Finding::unknown("swap", "no /proc/swaps") };
    match text.lines().skip(1).count() {
        0 => Finding::good("swap", "none"),
        n => {
            let found = format!("{n} in use: memory that is swapped is storage that nobody recorded");
            Finding::disturbs("swap", found, "swapoff -a")
        }
    }
}

fn memory(machine: &Machine) -> Finding {
    let text = machine.text("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    match (field("MemAvailable"), field("MemTotal").filter(|total| *total > 0)) {
        (Some(available), Some(total)) if available * 10 < total => Finding::disturbs(
            "memory",
            format!("{} of {} MiB left: the page cache is smaller than it was", available >> 10, total >> 10),
            "end what takes memory (ps aux --sort=-rss | head)",
        ),
        (Some(available), Some(total)) => {
            Finding::good("memory", format!("{} of {} MiB left", available >> 10, total >> 10))
        }
        _ => Finding::unknown("memory", "no /proc/meminfo"),
    }
}

fn load(machine: &Machine) -> Finding {
    const WHAT: &str = "background load";
    let first = machine.text("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    match first {
        Some(load) if load >= 0.5 => Finding::disturbs(
            WHAT,
            format!("{load:.2} tasks ran or waited over the last minute"),
            "end what runs (top), or wait",
        ),
        Some(load) => Finding::good(WHAT, format!("{load:.2} tasks over the last minute")),
        None => Finding::unknown(WHAT, "no /proc/loadavg"),
    }
}

/// Share of the last ten seconds in which some task waited.
fn pressure(machine: &Machine) -> Finding {
    const WHAT: &str = "pressure";
    const KINDS: [&str; 3] = ["cpu", "io", "memory"];
    let average = |kind: &str| {
        let text = machine.text(&format!("/proc/pressure/{kind}"))?;
        let some = text.lines().find(|line| line.starts_with("some "))?;
        some.split(' ').find_map(|word| word.strip_prefix("avg10="))?.parse::<f64>().ok()
    };
    let found: Vec<(&str, f64)> = KINDS.into_iter().filter_map(|kind| Some((kind, average(kind)?))).collect();
    let text = found.iter().map(|(kind, share)| format!("{kind} {share:.1} %")).collect::<Vec<_>>().join(", ");
    match found.iter().any(|(_, share)| *share >= 5.0) {
        _ if found.is_empty() => Finding::unknown(WHAT, "no /proc/pressure (boot with psi=1)"),
        true => Finding::disturbs(
            WHAT,
            format!("somebody waited in the last ten seconds: {text}"),
            "end what runs (top, iotop), or wait",
        ),
        false => Finding::good(WHAT, text),
    }
}

fn steal(machine: &Machine) -> Finding {
    const WHAT: &str = "steal";
    let text = machine.text("/proc/stat").unwrap_or_default();
    let fields: Vec<u64> =
        text.lines().next().unwrap_or_default().split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
    let total: u64 = fields.iter().take(8).fold(0, |sum, n| sum.saturating_add(*n));
    match fields.get(7) {
        Some(stolen) if total > 0 => {
            let share = 100.0 * *stolen as f64 / total as f64;
            match share >= 0.5 {
                true => Finding::disturbs(
                    WHAT,
                    format!("{share:.2} % of processor time since boot went to other virtual machines"),
                    "measure on a machine of your own, or repeat more often",
                ),
                false => Finding::good(WHAT, format!("{share:.2} % of processor time since boot")),
            }
        }
        _ => Finding::unknown(WHAT, "no /proc/stat"),
    }
}

/// Which scheduler each device has: no fault, but it must be the same where results are compared.
fn schedulers(machine: &Machine) -> Finding {
    const WHAT: &str = "I/O schedulers";
    let device = |name: &String| {
        let text = machine.text(&format!("/sys/block/{name}/queue/scheduler"))?;
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text.as_str(), |(c, _)| c);
        (!["loop", "ram", "zram"].iter().any(|kind| name.starts_with(kind))).then(|| format!("{name} {chosen}"))
    };
    let found: Vec<String> = machine.names("/sys/block").iter().filter_map(device).collect();
    match &found[..] {
        [] => Finding::unknown(WHAT, "no block device says"),
        all => Finding::good(WHAT, format!("{}; compare only results with the same", all.join(", "))),
    }
}

/// File systems slow down when they are nearly full.
fn room(target: &Path) -> Finding {
    const WHAT: &str = "room on the target";
    let Ok(stat) = rustix::fs::statvfs(target) else {
        return Finding::unknown(WHAT, format!("{} is not there", target.display()));
    };
    if !target.is_dir() {
        let text = format!("{} is no directory: nothing can be replayed into it", target.display());
        return Finding::missing(WHAT, text, "name a directory on the file system that is meant");
    }
    let mib = |blocks: u64| blocks.saturating_mul(stat.f_frsize) >> 20;
    let text = format!("{} of {} MiB left", mib(stat.f_bavail), mib(stat.f_blocks));
    match stat.f_bavail.saturating_mul(10) < stat.f_blocks {
        true => Finding::disturbs(
            WHAT,
            format!("{text}: file systems that are nearly full are slow"),
            "make room there, or choose another target",
        ),
        false => Finding::good(WHAT, text),
    }
}

fn one_device(trace: &Path, target: &Path) -> Finding {
    const WHAT: &str = "trace and target";
    let device = |path: &Path| std::fs::metadata(path).map(|m| m.dev()).ok();
    match (device(trace), device(target)) {
        (Some(a), Some(b)) if a == b => Finding::disturbs(
            WHAT,
            "on one device: reading the trace and writing the result disturb the replay",
            "cp -r TRACE /dev/shm/, and -o RESULT there",
        ),
        (Some(_), Some(_)) => Finding::good(WHAT, "on different devices"),
        _ => Finding::unknown(WHAT, "one of them is not there"),
    }
}
