//! One row of the replay's trace: what the original says, where the replay did the same, and else what it did.

use std::collections::HashMap;

use reprise_calls::{ArgKind, Call, Effect};
use reprise_trace::payload::{self, Side};
use reprise_trace::{Action, BlobReader, Keep, TraceReader, TraceWriter};

use super::{EmitError, UNAVOIDABLE};
use crate::log::{Class, Handling, Record};

/// The original's contents, by number there and here.
pub(super) struct Contents {
    blobs: BlobReader,
    known: HashMap<u32, u32>,
}

impl Contents {
    pub(super) fn new(original: &TraceReader) -> Contents {
        Contents { blobs: original.blobs(), known: HashMap::new() }
    }

    fn refer(&mut self, blobs: &[u32], writer: &mut TraceWriter) -> Result<Vec<u32>, EmitError> {
        let mut out = Vec::with_capacity(blobs.len());
        for &blob in blobs {
            let number = match self.known.get(&blob) {
                Some(number) => *number,
                None => {
                    let found = self.blobs.get(blob)?;
                    let number = writer.blob_by_hash(found.blake3, found.length)?;
                    self.known.insert(blob, number);
                    number
                }
            };
            out.push(number);
        }
        Ok(out)
    }

    /// The row for a record; `row` is the original's.
    pub(super) fn action(
        &mut self,
        record: &Record,
        row: Action,
        seq: u64,
        writer: &mut TraceWriter,
    ) -> Result<Action, EmitError> {
        let call = reprise_calls::by_number(record.number).filter(|c| c.name == row.call);
        let difference = match record.difference.class {
            Class::Same => None,
            Class::Diverged => Some(record.difference.text()),
            Class::Unavoidable => Some(format!("{UNAVOIDABLE}{}", record.difference.excuse())),
        };
        let moved = Moved::of(call, record, &row);
        let (data, data_bytes, truncated_bytes) = match moved {
            Moved::AsTraced => (self.refer(&row.data, writer)?, row.data_bytes, row.truncated_bytes),
            Moved::Otherwise => {
                let kept = record.output.len() as u64;
                // A listing that the target divides otherwise may be read on beyond the call.
                let bytes = u64::try_from(record.result).unwrap_or(0).max(kept);
                let keep = if lists(call) { Keep::Always } else { Keep::ByPolicy };
                let data = writer.blob(&record.output, keep)?;
                let kept = if data.is_empty() { 0 } else { kept };
                (data, bytes, bytes.saturating_sub(kept))
            }
            Moved::Unknown => {
                let bytes = u64::try_from(record.result).unwrap_or(0);
                (Vec::new(), bytes, bytes)
            }
            Moved::Nothing => (Vec::new(), 0, 0),
        };
        Ok(Action {
            seq,
            thread: row.thread,
            output: output(call, record, &row),
            begin_ns: record.begin_ns,
            duration_ns: record.end_ns.saturating_sub(record.begin_ns),
            result: record.result,
            errno: None,
            data,
            data_bytes,
            truncated_bytes,
            origin: Some(record.origin),
            handling: Some(record.handling.word().to_owned()),
            difference,
            call: row.call,
            args: row.args,
            path: row.path,
            path2: row.path2,
            input: row.input,
            cpu_ns: None,
            waited_ns: record.blocked.map(|b| b.ns),
            waited_for: record.blocked.map(|b| b.rule.name().to_owned()),
            paced_ns: record.pacing.map(|p| p.waited_ns),
            issue_error_ns: record.pacing.map(|p| p.error_ns),
            punctuality: record.pacing.and_then(|p| p.punctuality.word()).map(str::to_owned),
            request: row.request,
        })
    }
}

/// What content a command has moved.
enum Moved {
    /// The original's.
    AsTraced,
    /// What is in the record.
    Otherwise,
    /// It was not compared, or its bytes are not in the log.
    Unknown,
    /// None.
    Nothing,
}

impl Moved {
    fn of(call: Option<&Call>, record: &Record, row: &Action) -> Moved {
        let is = |wanted: fn(ArgKind) -> bool| call.is_some_and(|c| c.position(wanted).is_some());
        let fills = is(|k| matches!(k, ArgKind::OutData(_) | ArgKind::OutVector(_)));
        let takes = is(|k| matches!(k, ArgKind::InData(_) | ArgKind::InVector(_)));
        match record.handling {
            Handling::Simulated => Moved::AsTraced,
            Handling::Skipped | Handling::Unsupported => Moved::Nothing,
            Handling::Issued if !fills && !takes && row.data.is_empty() && row.data_bytes == 0 => Moved::Nothing,
            Handling::Issued if !fills => match record.result == row.result {
                true => Moved::AsTraced,
                false => Moved::Unknown,
            },
            Handling::Issued if record.result < 0 => Moved::Nothing,
            Handling::Issued if !record.output.is_empty() => Moved::Otherwise,
            // Entries of a directory have numbers and an order of the target's own.
            Handling::Issued if lists(call) => Moved::Unknown,
            Handling::Issued if record.compared && record.result == row.result => Moved::AsTraced,
            Handling::Issued => Moved::Unknown,
        }
    }
}

/// Whether the call lists a directory.
fn lists(call: Option<&Call>) -> bool {
    call.is_some_and(|c| c.effect == Effect::List)
}

/// Structures that the call filled.
fn output(call: Option<&Call>, record: &Record, row: &Action) -> Vec<u8> {
    let Some(call) = call else { return Vec::new() };
    let traced = match record.handling {
        Handling::Simulated => return row.output.clone(),
        Handling::Skipped | Handling::Unsupported => return Vec::new(),
        Handling::Issued if record.result < 0 => return Vec::new(),
        Handling::Issued => payload::split(call, Side::Output, &row.output),
    };
    if record.output.is_empty() {
        return if record.compared && record.result == row.result { row.output.clone() } else { Vec::new() };
    }
    let mut out = Vec::new();
    let mut own = Some(&record.output[..]);
    for (arg, traced) in call.args.iter().zip(traced) {
        if payload::contributes(arg.kind, Side::Output) {
            // What was filled may have been given more room than the structure needs.
            let own = own.take().map(|own| own.get(..traced.map_or(own.len(), <[u8]>::len)).unwrap_or(own));
            payload::append(&mut out, own.or(traced));
        }
    }
    out
}
