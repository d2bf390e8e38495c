//! The reference trace: what the threads wrote down, as any other trace.
//!
//! Contents are not kept, only their lengths: a reference is there for its times, and a replay of it need not carry data
//! either.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use reprise_trace::payload::append;
use reprise_trace::{
    Action, DataPolicy, End, Host, Kind, Manifest, Name, Process, ThreadRow, TraceWriter, WriterOptions,
    random_identity,
};
use rustix::process::{getegid, geteuid, getgid, getpid, getuid};

use crate::WorkloadError;
use crate::perform::{Record, ThreadRecord};
use crate::request::Call;
use crate::run::Performed;
use crate::structures::stat_bytes;

/// `AT_FDCWD`, as it stands in a register.
const AT_FDCWD: u64 = -100i64 as u64;
/// Stands for the address of a name or structure: it says nothing, but null would.
const SOMEWHERE: u64 = 1;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Identity of the trace.
    pub id: String,
    /// Actions in it.
    pub actions: u64,
}

/// Writes what was performed as a trace; `facts` are added to its manifest.
///
/// # Errors
/// When it cannot be written.
pub fn write(
    performed: &Performed,
    out: &Path,
    command: Vec<String>,
    facts: BTreeMap<String, String>,
) -> Result<Written, WorkloadError> {
    let id = random_identity().map_err(|e| WorkloadError::files("read", "/dev/urandom", e))?;
    let mut manifest =
        Manifest::new(Kind::Record, DataPolicy::None, command, id.clone(), performed.began_ns, Host::this());
    let own = [
        ("backend", "self: the program read the clock right before and right after each call"),
        ("response_time", "includes one reading of the clock"),
        ("begin", "right before the call"),
    ];
    manifest.facts.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let preemptions = performed.threads.iter().map(|thread| thread.preemptions).sum::<Option<u64>>();
    let used = [("involuntary_switches", preemptions), ("device_bytes_read", performed.device_bytes)];
    manifest.facts.extend(used.into_iter().filter_map(|(name, count)| Some((name.to_owned(), count?.to_string()))));
    manifest.facts.extend(facts);
    let mut writer = TraceWriter::create(out, manifest, WriterOptions::default())?;
    writer.process(process(&performed.directory))?;
    for (number, thread) in performed.threads.iter().enumerate() {
        writer.thread(row_of(thread, number as u32))?;
    }
    performed.before.write(&mut writer)?;
    if performed.threads.iter().any(|thread| thread.grew) {
        writer.ledger().note("the program took more memory for its records while it was measured");
    }
    let actions = actions(performed, &mut writer)?;
    writer.close(Some(End { code: Some(0), signal: None }))?;
    Ok(Written { id, actions })
}

/// All actions in the order of their effects, as far as threads share anything: no file, but numbers of descriptors. One that a
/// thread gives back is free for another's `openat` from the begin of the `close` on, whichever of the two returns first.
fn actions(performed: &Performed, writer: &mut TraceWriter) -> Result<u64, WorkloadError> {
    let mut order: Vec<(u64, u32, u32)> = Vec::with_capacity(performed.calls() as usize);
    for (thread, did) in performed.threads.iter().enumerate() {
        order.extend(did.records.iter().enumerate().map(|(n, record)| (effect(record), thread as u32, n as u32)));
    }
    order.sort_unstable();
    let mut open = vec![0; performed.threads.len()];
    let mut stats: Vec<_> = performed.threads.iter().map(|thread| thread.stats.iter().peekable()).collect();
    for (seq, (_, thread, n)) in order.iter().enumerate() {
        let record = &performed.threads[*thread as usize].records[*n as usize];
        let fd = &mut open[*thread as usize];
        if let (Call::Open(_), Ok(number)) = (record.request.call, u64::try_from(record.result)) {
            *fd = number;
        }
        let mut action = action(performed, record, *fd, performed.threads[*thread as usize].memory);
        if let Some((_, stat)) = stats[*thread as usize].next_if(|(of, _)| of == &(*n as usize)) {
            append(&mut action.output, Some(&stat_bytes(stat)));
        }
        action.seq = seq as u64;
        action.thread = *thread;
        writer.action(action)?;
    }
    Ok(order.len() as u64)
}

/// The instant at which a call stands among those of other threads; of one thread's calls it grows.
fn effect(record: &Record) -> u64 {
    match record.request.call {
        Call::Close => record.begin,
        _ => record.end,
    }
}

fn action(performed: &Performed, record: &Record, fd: u64, memory: u64) -> Action {
    let request = &record.request;
    let bytes = u64::from(request.bytes);
    let (args, names) = match request.call {
        Call::Open(how) => ([AT_FDCWD, SOMEWHERE, u64::from(how.flags().bits()), 0o644, 0, 0], true),
        Call::Read | Call::Write => ([fd, memory, bytes, 0, 0, 0], false),
        Call::ReadAt | Call::WriteAt => ([fd, memory, bytes, request.offset, 0, 0], false),
        // The last two of an `lseek` are 0 and `SEEK_SET`, which is 0.
        Call::Close | Call::Sync | Call::Rewind => ([fd, 0, 0, 0, 0, 0], false),
        Call::Stat => ([AT_FDCWD, SOMEWHERE, SOMEWHERE, 0, 0, 0], true),
        Call::Unlink => ([AT_FDCWD, SOMEWHERE, 0, 0, 0, 0], true),
    };
    let begin_ns = performed.scale.ns(record.begin);
    let path = || performed.directory.join(&performed.names[request.file as usize]);
    Action {
        call: request.call.name().into(),
        begin_ns,
        duration_ns: performed.scale.ns(record.end).saturating_sub(begin_ns),
        args,
        result: record.result,
        path: names.then(|| Name(path().into_os_string().into_encoded_bytes())),
        data_bytes: if request.call.moves() { u64::try_from(record.result).unwrap_or(0) } else { 0 },
        ..Action::default()
    }
}

fn row_of(thread: &ThreadRecord, number: u32) -> ThreadRow {
    ThreadRow {
        thread: number,
        process: 0,
        tid: thread.tid,
        parent: None,
        created_by: None,
        shares_descriptors: 0,
        shares_directories: 0,
        begin_ns: 0,
        name: Name::from(thread.name.as_str()),
        lane_of: None,
    }
}

fn process(directory: &Path) -> Process {
    let users = [getuid(), geteuid(), geteuid(), geteuid()].map(|id| id.as_raw()).to_vec();
    let groups = [getgid(), getegid(), getegid(), getegid()].map(|id| id.as_raw()).to_vec();
    let executable = std::env::current_exe().unwrap_or_default();
    Process {
        process: 0,
        pid: getpid().as_raw_nonzero().get(),
        uids: users,
        gids: groups,
        umask: umask(),
        cwd: Name(directory.as_os_str().as_encoded_bytes().to_vec()),
        root: Name::from("/"),
        executable: Name(executable.into_os_string().into_encoded_bytes()),
        ..Process::default()
    }
}

/// The mask, without changing it.
fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|text| u32::from_str_radix(text.trim(), 8).ok()).unwrap_or(0o022)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Opening, Request};

    #[test]
    fn a_number_that_is_given_back_is_free_before_the_close_returns() {
        let record = |call, begin, end| Record {
            request: Request { call, file: 0, bytes: 0, offset: 0 },
            begin,
            end,
            result: 0,
        };
        // One thread lost its processor at the end of `close`; the other was given the number meanwhile.
        let (close, open) = (record(Call::Close, 10, 90), record(Call::Open(Opening::Reading), 20, 30));
        assert!(effect(&close) < effect(&open));
        // Each thread's own order stays.
        let own = [record(Call::Read, 1, 10), close, record(Call::Stat, 90, 95), record(Call::Close, 95, 99)];
        assert!(own.windows(2).all(|pair| effect(&pair[0]) <= effect(&pair[1])));
    }
}
