//! What the machine has done since it was booted, as `/proc` and `/sys` tell it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What the kernel counts processor time in: USER_HZ, 100 on every Linux machine.
pub(crate) const TICK_NS: f64 = 1e7;
/// Unit of a device's counts, whatever the device.
const SECTOR_BYTES: f64 = 512.0;
/// Among the flags of a process: a thread of the kernel (`PF_KTHREAD`).
const KERNEL_THREAD: f64 = 2_097_152.0;

/// Totals; what a machine does not tell is 0, or `None` where 0 would say something.
#[derive(Debug, Clone)]
pub(crate) struct Totals {
    pub at: Instant,
    /// Processor time of all processes, in ticks; without interrupts.
    pub processes: f64,
    /// That of the kernel's own threads, which work for whoever moves data; by number and instant of start.
    pub kernel: BTreeMap<(u64, u64), f64>,
    pub steal: f64,
    pub all: f64,
    /// Of this process and of its children that ended.
    pub own: f64,
    pub switches: f64,
    pub io_some_ns: f64,
    pub memory_some_ns: f64,
    pub cpu_some_ns: f64,
    /// Bytes of the device of the files.
    pub device_read: Option<f64>,
    pub device_written: Option<f64>,
    /// Of this process and of its children that ended.
    pub own_read: f64,
    pub own_written: f64,
    pub throttled: Option<u64>,
}

impl Totals {
    /// Nothing, as of an instant.
    #[cfg(test)]
    pub fn at(at: Instant) -> Totals {
        Totals {
            at,
            processes: 0.0,
            kernel: BTreeMap::new(),
            steal: 0.0,
            all: 0.0,
            own: 0.0,
            switches: 0.0,
            io_some_ns: 0.0,
            memory_some_ns: 0.0,
            cpu_some_ns: 0.0,
            device_read: None,
            device_written: None,
            own_read: 0.0,
            own_written: 0.0,
            throttled: None,
        }
    }

    /// Now, with the device of a directory.
    pub fn now(directory: &Path) -> Totals {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)).map_or(vec![], numbers);
        let cpu = line("cpu ");
        let at = |i: usize| cpu.get(i).copied().unwrap_or(0.0);
        // user, nice, system, idle, iowait, irq, softirq, steal
        let processes = at(0) + at(1) + at(2);
        let sectors = device_counts(directory);
        let moved = |field: usize| Some(sectors.as_ref()?.get(field)? * SECTOR_BYTES);
        let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
        let own_bytes = |name: &str| {
            let value = io.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            value.and_then(|text| text.trim().parse().ok()).unwrap_or(0.0)
        };
        Totals {
            at: Instant::now(),
            processes,
            kernel: kernel_ticks(),
            steal: at(7),
            all: cpu.iter().take(8).sum(),
            own: own_ticks(),
            switches: line("ctxt ").first().copied().unwrap_or(0.0),
            io_some_ns: pressure("io"),
            memory_some_ns: pressure("memory"),
            cpu_some_ns: pressure("cpu"),
            device_read: moved(2),
            device_written: moved(6),
            own_read: own_bytes("read_bytes"),
            own_written: own_bytes("write_bytes"),
            throttled: throttled(Path::new("/sys/devices/system/cpu")),
        }
    }
}

impl Totals {
    /// Processor time that programs took since an earlier look, in ticks. What a thread of the kernel did that ended meanwhile is
    /// nobody's, as far as it was seen: its whole life would otherwise count as that of a program.
    pub fn programs_since(&self, before: &Totals) -> f64 {
        let grown = |(thread, ticks): (&(u64, u64), &f64)| ticks - before.kernel.get(thread).copied().unwrap_or(0.0);
        self.processes - before.processes - self.kernel.iter().map(grown).sum::<f64>()
    }
}

fn numbers(text: &str) -> Vec<f64> {
    text.split_whitespace().map(|n| n.parse().unwrap_or(0.0)).collect()
}

/// A process's numbers after its name, which may hold anything; the first is its parent.
fn process(stat: &str) -> Vec<f64> {
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    after.split_whitespace().skip(1).map(|n| n.parse().unwrap_or(0.0)).collect()
}

/// Sum of `utime`, `stime`, and of `cutime`, `cstime` too.
fn own_ticks() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    process(&stat).iter().skip(10).take(4).sum()
}

/// Of every thread of the kernel.
fn kernel_ticks() -> BTreeMap<(u64, u64), f64> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ticks = all.filter_map(|entry| {
        let number: u64 = entry.file_name().to_str()?.parse().ok()?;
        let numbers = process(&fs::read_to_string(entry.path().join("stat")).ok()?);
        let is_kernel = (numbers.get(5)? / KERNEL_THREAD).floor() % 2.0 == 1.0;
        let began = *numbers.get(18)? as u64;
        is_kernel.then(|| ((number, began), numbers.iter().skip(10).take(2).sum::<f64>()))
    });
    ticks.collect()
}

/// Total of `some`, in nanoseconds.
fn pressure(what: &str) -> f64 {
    let text = fs::read_to_string(format!("/proc/pressure/{what}")).unwrap_or_default();
    let some = text.lines().find(|line| line.starts_with("some")).unwrap_or_default();
    let total = some.rsplit_once("total=").and_then(|(_, us)| us.trim().parse::<f64>().ok());
    total.unwrap_or(0.0) * 1e3
}

/// `stat` of the block device that the directory is on; a file system without one (tmpfs, network) has none.
fn device_counts(directory: &Path) -> Option<Vec<f64>> {
    let device = fs::metadata(directory).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok().map(|text| numbers(&text))
}

/// How often any core or package was throttled; `None` where the machine does not tell (virtual machines, other processors).
fn throttled(processors: &Path) -> Option<u64> {
    let each = fs::read_dir(processors).ok()?.flatten().map(|entry| entry.path().join("thermal_throttle"));
    let counts = |place: PathBuf| {
        let read = |file: &str| fs::read_to_string(place.join(file)).ok()?.trim().parse::<u64>().ok();
        [read("core_throttle_count"), read("package_throttle_count")].into_iter().flatten().reduce(|a, b| a + b)
    };
    each.filter_map(counts).reduce(|a, b| a + b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttling_is_told_or_unknown() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(throttled(root.path()), None);
        for (cpu, core, package) in [("cpu0", "3\n", "1\n"), ("cpu1", "4\n", "1\n")] {
            let place = root.path().join(cpu).join("thermal_throttle");
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("core_throttle_count"), core).unwrap();
            fs::write(place.join("package_throttle_count"), package).unwrap();
        }
        fs::create_dir(root.path().join("cpufreq")).unwrap();
        assert_eq!(throttled(root.path()), Some(9));
    }

    #[test]
    fn a_name_with_brackets_does_not_shift_the_numbers() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 2097152 1 2 3 4 10 20 30 40 20 0 1 0";
        let numbers = process(stat);
        assert_eq!((numbers[0], numbers[5], &numbers[10..14]), (1.0, KERNEL_THREAD, &[10.0, 20.0, 30.0, 40.0][..]));
    }

    #[test]
    fn this_machine_is_busy_with_this_process() {
        let here = Path::new("/");
        let (before, mut after) = (Totals::now(here), Totals::now(here));
        let is_busy = |after: &Totals| {
            let all = after.all - before.all;
            after.own >= before.own + 2.0 && all > 0.0 && after.programs_since(&before) <= all
        };
        // The kernel may take back time that it had counted as waiting for devices (`proc_stat(5)`); more time makes up for it.
        while !is_busy(&after) && before.at.elapsed().as_secs() < 20 {
            after = Totals::now(here);
        }
        assert!(is_busy(&after) && after.at > before.at, "{after:?}");
    }

    #[test]
    fn a_thread_of_the_kernel_that_ends_is_no_program() {
        let look = |processes: f64, kernel: &[((u64, u64), f64)]| Totals {
            processes,
            kernel: kernel.iter().copied().collect(),
            ..Totals::at(Instant::now())
        };
        let before = look(1000.0, &[((2, 5), 300.0), ((3, 5), 50.0), ((4, 5), 7.0)]);
        // The first ends, the second works on, the number of the third is given to another.
        let after = look(1010.0, &[((3, 5), 54.0), ((4, 99), 2.0)]);
        assert_eq!(after.programs_since(&before), 4.0);
    }
}
