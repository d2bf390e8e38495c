//! The summary as text.

use super::{DeviceUse, Processors, Summary};
use crate::printable::printable;
use crate::table::{Align, Table};
use crate::units::{bytes, count, duration};

impl Summary {
    /// A line each; `directory` is where the program began.
    pub(crate) fn text(&self, directory: Option<&[u8]>) -> String {
        let mut table = Table::new(2, &[Align::Left, Align::Left]);
        if self.samples > 0 {
            table.row(["samples", &format!("{} in {}", count(self.samples), duration(self.span_ns))]);
            let processes = match self.processes.greatest {
                0 | 1 => String::new(),
                n => format!(" ({n} processes)"),
            };
            table.row(["resident memory", &format!("up to {}{processes}", bytes(self.resident_bytes.greatest))]);
            let cached = self.cached_bytes;
            let course = format!("{} to {}, up to {}", bytes(cached.first), bytes(cached.last), bytes(cached.greatest));
            table.row(["page cache", &course]);
            let (dirty, writeback) = (self.dirty_bytes.greatest, self.writeback_bytes.greatest);
            table.row(["dirty", &format!("up to {}, being written up to {}", bytes(dirty), bytes(writeback))]);
            table.row(["available memory", &format!("{} at least", bytes(self.available_bytes.least))]);
            table.row(["processors", &self.processors.text()]);
            if let Some(pressure) = self.pressure() {
                table.row(["pressure", &pressure]);
            }
        }
        for (name, done) in &self.devices {
            table.row([name.as_str(), &self.device(name, done)]);
        }
        if let Some(mount) = directory.and_then(|directory| self.mount_of(directory)) {
            table.row(["began in", &mount]);
        }
        table.text()
    }

    /// Shares of the time in which some thread, or all (full), waited for something.
    fn pressure(&self) -> Option<String> {
        let s = &self.stalls;
        let known = [
            ("cpu", s.cpu_some_ns, None),
            ("storage", s.io_some_ns, s.io_full_ns),
            ("memory", s.memory_some_ns, s.memory_full_ns),
        ];
        let share = |ns| percent(ns, self.span_ns);
        let shares = known.into_iter().filter_map(|(what, some, full)| {
            let full = full.map(|ns| format!(" (full {})", share(ns))).unwrap_or_default();
            Some(format!("{what} {}{full}", share(some?)))
        });
        let shares: Vec<String> = shares.collect();
        (!shares.is_empty()).then(|| shares.join(", "))
    }

    fn device(&self, name: &str, done: &DeviceUse) -> String {
        let mut parts = Vec::new();
        let setting = |setting| self.queues.get(name).and_then(|queue| queue.get(setting));
        if let Some(scheduler) = setting("scheduler") {
            // Of a choice, the chosen one stands in brackets.
            let chosen = scheduler.split(['[', ']']).nth(1).unwrap_or(scheduler);
            parts.push(format!("scheduler {chosen}"));
        }
        if let Some(kib) = setting("read_ahead_kb") {
            parts.push(format!("read-ahead {kib} KiB"));
        }
        parts.push(format!("{} read by {} requests", bytes(done.read_bytes), count(done.reads)));
        parts.push(format!("{} written by {}", bytes(done.written_bytes), count(done.writes)));
        parts.push(format!("{} flushes", count(done.flushes)));
        parts.push(format!("busy {}", percent(done.busy_ns, self.span_ns)));
        parts.join(", ")
    }

    /// The mount that a directory is on: the one with the longest path above it, the last of equals.
    fn mount_of(&self, directory: &[u8]) -> Option<String> {
        let above = |point: &[u8]| match directory.strip_prefix(point) {
            Some(rest) => rest.is_empty() || rest.starts_with(b"/") || point == b"/",
            None => false,
        };
        let mount = self.mounts.iter().filter(|m| above(&m.point.0)).max_by_key(|m| m.point.0.len())?;
        let mut options: Vec<&str> = mount.options.split(',').collect();
        // `rw` stands in both.
        options.extend(
            mount.file_system_options.split(',').filter(|option| !mount.options.split(',').any(|o| o == *option)),
        );
        let options = options.join(",");
        let text = format!("{} of {} on {} ({options})", mount.kind, mount.source.to_text(), mount.point.to_text());
        Some(printable(&text).into_owned())
    }
}

impl Processors {
    /// Shares of all processors' time.
    pub(super) fn text(&self) -> String {
        let all = self.all_ns();
        let shares = [
            ("programs", self.user_ns),
            ("kernel", self.system_ns),
            ("waiting for devices", self.iowait_ns),
            ("stolen", self.steal_ns),
        ];
        shares.map(|(what, ns)| format!("{} {what}", percent(ns, all))).join(", ")
    }

    pub(super) fn all_ns(&self) -> u64 {
        let parts = [self.user_ns, self.system_ns, self.iowait_ns, self.steal_ns, self.idle_ns];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

pub(super) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "0 %".to_owned() } else { format!("{:.0} %", part as f64 * 100.0 / whole as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reprise_trace::{Mount, Name};

    #[test]
    fn the_mount_of_a_directory() {
        let mount = |point: &str, kind: &str| Mount {
            point: Name(point.into()),
            kind: kind.into(),
            source: Name("src".into()),
            options: "rw".into(),
            file_system_options: "x=1".into(),
            ..Mount::default()
        };
        let mounts = vec![mount("/", "ext4"), mount("/a", "xfs"), mount("/a", "tmpfs"), mount("/ab", "btrfs")];
        let summary = Summary { mounts, ..Summary::default() };
        let of = |directory: &str| summary.mount_of(directory.as_bytes()).unwrap();
        assert_eq!(of("/a/b"), "tmpfs of src on /a (rw,x=1)", "the upper of two");
        for (directory, kind) in [("/a", "tmpfs"), ("/abc", "ext4"), ("/ab", "btrfs"), ("/", "ext4")] {
            assert!(of(directory).starts_with(kind), "{directory}");
        }
        assert_eq!(Summary::default().mount_of(b"/a"), None);
    }
}
