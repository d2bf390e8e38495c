//! The samples, one a line.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;

use reprise_trace::{DeviceSample, Environment, QueueSetting, ReadError, Rows, TraceReader};

use super::processors;
use super::text::percent;
use crate::style::Style;
use crate::table::{Align, Table};
use crate::units::{bytes, count, duration};

/// The samples of devices, by time.
struct Devices {
    rows: Peekable<Rows<DeviceSample>>,
}

impl Devices {
    fn of(trace: &TraceReader) -> Devices {
        Devices { rows: trace.rows::<DeviceSample>().peekable() }
    }

    /// Those up to a time that were not asked for yet.
    fn until(&mut self, time_ns: u64) -> Result<Vec<DeviceSample>, ReadError> {
        let mut out = Vec::new();
        while let Some(row) = self.rows.next_if(|row| row.as_ref().map_or(true, |row| row.time_ns <= time_ns)) {
            out.push(row?);
        }
        Ok(out)
    }
}

/// Each sample as a JSON object, with the devices that did something since the one before.
pub fn environment_lines(trace: &TraceReader) -> impl Iterator<Item = Result<String, ReadError>> {
    let mut devices = Devices::of(trace);
    trace.rows::<Environment>().map(move |sample| {
        let sample = sample?;
        let mut line = serde_json::json!(sample);
        line["devices"] = serde_json::json!(devices.until(sample.time_ns)?);
        Ok(line.to_string())
    })
}

/// A table of at most so many samples, evenly chosen; processor time, pressure and bytes are those since the line above.
/// Nothing if the trace has no samples.
///
/// # Errors
/// The trace cannot be read.
pub fn environment_table(trace: &TraceReader, most: usize, style: Style) -> Result<Option<String>, ReadError> {
    let total = trace.count::<Environment>();
    if total == 0 {
        return Ok(None);
    }
    let step = (total.saturating_sub(1)).div_ceil((most.max(2) - 1) as u64).max(1);
    let mut table = Table::new(0, &[Align::Right; 13]);
    let titles = [
        "time",
        "processes",
        "resident",
        "page cache",
        "dirty",
        "writeback",
        "available",
        "user",
        "system",
        "iowait",
        "stalled",
        "read",
        "written",
    ];
    table.row(titles.map(|t| style.heading(t)));
    let mut devices = Devices::of(trace);
    let mut moved = Moved::of(trace)?;
    let mut above: Option<(Environment, (u64, u64))> = None;
    for (i, sample) in (0..).zip(trace.rows::<Environment>()) {
        let sample = sample?;
        if i % step != 0 && i + 1 != total {
            continue;
        }
        devices.until(sample.time_ns)?.into_iter().for_each(|device| moved.take(device));
        let now = moved.total();
        table.row(cells(&sample, above.as_ref().map(|(then, moved)| (then, (now.0 - moved.0, now.1 - moved.1)))));
        above = Some((sample, now));
    }
    let mut out = table.text();
    if step > 1 {
        out += &style.faint(&format!("one of {} of {} samples; --json has all\n", count(step), count(total)));
    }
    Ok(Some(out))
}

fn cells(sample: &Environment, above: Option<(&Environment, (u64, u64))>) -> [String; 13] {
    let mut out = [
        duration(sample.time_ns),
        count(sample.processes.into()),
        bytes(sample.resident_bytes),
        bytes(sample.cached_bytes),
        bytes(sample.dirty_bytes),
        bytes(sample.writeback_bytes),
        bytes(sample.available_bytes),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
    ];
    if let Some((then, (read, written))) = above {
        let used = processors(then, sample);
        let all = used.all_ns();
        let stalled = sample.io_some_ns.zip(then.io_some_ns).map(|(now, then)| now.saturating_sub(then));
        let span = sample.time_ns.saturating_sub(then.time_ns);
        out[7] = percent(used.user_ns, all);
        out[8] = percent(used.system_ns, all);
        out[9] = percent(used.iowait_ns, all);
        out[10] = stalled.map(|ns| percent(ns, span)).unwrap_or_default();
        out[11] = bytes(read);
        out[12] = bytes(written);
    }
    out
}

/// Bytes read from and written to whole devices: what a partition does, its disk does.
struct Moved {
    disks: BTreeSet<u64>,
    bytes: BTreeMap<u64, (u64, u64)>,
}

impl Moved {
    fn of(trace: &TraceReader) -> Result<Moved, ReadError> {
        let mut disks = BTreeSet::new();
        for setting in trace.rows::<QueueSetting>() {
            disks.insert(setting?.device);
        }
        Ok(Moved { disks, bytes: BTreeMap::new() })
    }

    fn take(&mut self, sample: DeviceSample) {
        if self.disks.contains(&sample.device) {
            // Totals of a device that was taken away and came back begin anew.
            let known = self.bytes.entry(sample.device).or_default();
            *known = (known.0.max(sample.read_bytes), known.1.max(sample.written_bytes));
        }
    }

    fn total(&self) -> (u64, u64) {
        self.bytes.values().fold((0, 0), |sum, moved| (sum.0 + moved.0, sum.1 + moved.1))
    }
}
