//! What was around the program, in a slice: mounts and queues as they were, samples of its time span.
//!
//! The last sample before the span stands at its beginning, so that totals have something to count from.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use reprise_trace::{DeviceSample, Environment, Mount, QueueSetting, ReadError, Row, Rows, TraceReader, TraceWriter};

use crate::SliceError;

/// Copies what was around the program in this time, in nanoseconds since the trace began.
pub(crate) fn copy(trace: &TraceReader, span: RangeInclusive<u64>, writer: &mut TraceWriter) -> Result<(), SliceError> {
    for mount in trace.rows::<Mount>() {
        writer.mount(mount?)?;
    }
    for setting in trace.rows::<QueueSetting>() {
        writer.queue(setting?)?;
    }
    samples(trace.rows::<Environment>(), &span, |_| 0, |s| &mut s.time_ns, &mut |s| Ok(writer.environment(s)?))?;
    samples(trace.rows::<DeviceSample>(), &span, |s| s.device, |s| &mut s.time_ns, &mut |s| Ok(writer.device(s)?))
}

fn samples<R: Row>(
    rows: Rows<R>,
    span: &RangeInclusive<u64>,
    of: fn(&R) -> u64,
    time: fn(&mut R) -> &mut u64,
    write: &mut dyn FnMut(R) -> Result<(), SliceError>,
) -> Result<(), SliceError> {
    let mut before = BTreeMap::new();
    let mut within = Vec::new();
    let mut shifted = |mut row: R| {
        *time(&mut row) = time(&mut row).saturating_sub(*span.start());
        write(row)
    };
    let mut rows = rows.map(|row| row.map(|mut row| (*time(&mut row), row)));
    for found in rows.by_ref() {
        let (at, row): (u64, R) = found?;
        if at >= *span.start() {
            within.push((at, row));
            break;
        }
        before.insert(of(&row), row);
    }
    before.into_values().try_for_each(&mut shifted)?;
    for found in within.into_iter().map(Ok::<_, ReadError>).chain(rows) {
        let (at, row) = found?;
        if at > *span.end() {
            break;
        }
        shifted(row)?;
    }
    Ok(())
}
