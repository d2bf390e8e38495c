//! Processes that no command starts: their descriptors, directories, mask and users.

use std::ffi::CString;

use reprise_plan::{FdSource, ProcessStart};

use super::failure::{Failure, Stop, error_name};
use super::thread::Worker;
use super::{Engine, issue, spawn};

/// Threads that start with the replay, those of one process together.
pub(super) fn roots(engine: &Engine) -> Vec<Vec<u32>> {
    let mut by_process: std::collections::BTreeMap<u32, Vec<u32>> = Default::default();
    for (i, thread) in engine.threads.iter().enumerate().filter(|(_, t)| !t.spawned) {
        by_process.entry(thread.process).or_default().push(i as u32);
    }
    by_process.into_values().collect()
}

/// Begins the first thread of the first process: it opens the descriptors of all, so that processes can share open file
/// descriptions as after a fork, and starts the others, each with a copy of its table.
fn begin_first(worker: &mut Worker, own: &[u32], others: &[Vec<u32>]) -> Result<(), Stop> {
    let engine = worker.engine;
    spawn::unshare(false, false)?;
    issue::close_range(0, u32::try_from(engine.reserved.first - 1).unwrap_or(0));
    issue::umask(0o022);
    for start in engine.processes.iter().filter_map(|p| p.start.as_ref()) {
        descriptors(worker, start)?;
    }
    remove_nameless(engine);
    for threads in others {
        let (first, siblings) = threads.split_first().ok_or(Stop::Damaged("a process has no thread"))?;
        let siblings = siblings.to_vec();
        spawn::start(
            engine,
            *first,
            Box::new(move |worker| {
                spawn::unshare(false, false)?;
                begin(worker, &siblings)
            }),
        )?;
    }
    begin(worker, own)
}

/// Begins the first thread of a process, which has tables of its own; it starts the process's other threads, which share
/// all with it.
fn begin(worker: &mut Worker, others: &[u32]) -> Result<(), Stop> {
    let engine = worker.engine;
    let process = engine.processes.get(worker.process as usize);
    let start = process.and_then(|p| p.start.as_deref());
    close_foreign(engine, start)?;
    if let Some(start) = start {
        issue::umask(start.umask & 0o777);
        directories(worker, start);
        identity(worker, start);
    }
    for thread in others {
        spawn::start(engine, *thread, Box::new(|_| Ok(())))?;
    }
    Ok(())
}

/// Closes the descriptors at the start that are not of this process.
fn close_foreign(engine: &Engine, own: Option<&ProcessStart>) -> Result<(), Stop> {
    let own: std::collections::HashSet<u32> = own.iter().flat_map(|s| &s.descriptors).map(|fd| fd.slot).collect();
    let all = engine.processes.iter().filter_map(|p| p.start.as_ref()).flat_map(|s| &s.descriptors);
    for fd in all.filter(|fd| !own.contains(&fd.slot)) {
        issue::close(engine.slots.get(fd.slot)?);
    }
    Ok(())
}

/// Files that are open at the start without a name had one so that they could be opened.
fn remove_nameless(engine: &Engine) {
    for path in &engine.nameless {
        let result = CString::new(&path[..]).map_or(-i64::from(libc::EINVAL), |path| issue::unlink(&path));
        if result < 0 {
            engine.note(format!("a file without a name keeps one in the target ({})", error_name(result)));
        }
    }
}

fn descriptors(worker: &Worker, start: &ProcessStart) -> Result<(), Stop> {
    let engine = worker.engine;
    for fd in &start.descriptors {
        let result = match &fd.source {
            FdSource::File { path, flags, offset } => open(path, *flags, *offset),
            FdSource::Duplicate { slot } => issue::fcntl_number(engine.slots.get(*slot)?, libc::F_DUPFD, 0),
            FdSource::StandIn(kind) => {
                worker.stand_in(*kind, [fd.slot, u32::MAX])?;
                continue;
            }
        };
        if result >= 0 {
            worker.keep(fd.slot, result)?;
        } else {
            let what = error_name(result);
            engine.note(format!("a descriptor at the start could not be opened ({what}): /dev/null stands in"));
            worker.stand_in(reprise_plan::command::StandIn::Null, [fd.slot, u32::MAX])?;
        }
    }
    Ok(())
}

/// Opens a file of the initial tree; never waits for the other end of a FIFO.
fn open(path: &[u8], flags: u64, offset: u64) -> i64 {
    let Ok(path) = CString::new(path) else {
        return -i64::from(libc::EINVAL);
    };
    let making = (libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC) as u64;
    let flags = flags & !making;
    let result = issue::open(&path, flags | (libc::O_NONBLOCK | libc::O_NOCTTY) as u64);
    if let (0.., Ok(fd)) = (result, i32::try_from(result)) {
        issue::fcntl_number(fd, libc::F_SETFL, flags & !(libc::O_ASYNC as u64));
        if offset > 0 {
            issue::seek(fd, offset);
        }
    }
    result
}

fn directories(worker: &Worker, start: &ProcessStart) {
    let enter = |what: &str, path: &[u8], change: &dyn Fn(&std::ffi::CStr) -> i64| {
        let result = match CString::new(path) {
            Ok(path) => change(&path),
            Err(_) => -i64::from(libc::EINVAL),
        };
        if result < 0 {
            worker.engine.note(format!("{what} at the start could not be entered ({})", error_name(result)));
        }
    };
    if !start.cwd.is_empty() {
        enter("a working directory", &start.cwd, &issue::change_directory);
    }
    if !start.root.is_empty() && start.root != b"/" {
        enter("a root directory", &start.root, &issue::change_root);
    }
}

fn identity(worker: &Worker, start: &ProcessStart) {
    let engine = worker.engine;
    let (users, groups) = (start.uids, start.gids);
    let (own_users, own_groups) = issue::users_and_groups();
    let same = users[..3] == own_users && groups[..3] == own_groups;
    if !engine.settings.identities {
        if !same {
            engine.note("a process runs as the user of the replay, not as its own (no permission)");
        }
        return;
    }
    // Users last: without their privileges nothing else could be changed.
    let results = [
        issue::set_further_groups(&start.groups),
        issue::set_groups(groups[0], groups[1], groups[2]),
        issue::set_file_group(groups[3]).min(0),
        issue::set_users(users[0], users[1], users[2]),
        issue::set_file_user(users[3]).min(0),
    ];
    if results.iter().any(|r| *r < 0) {
        engine.note("a process does not run as its own user or groups (no permission)");
    }
}

/// Waits at the gate until every process is set up.
pub(super) fn wait_at_gate(engine: &Engine) -> Result<(), Stop> {
    if engine.counters.await_nonzero(&engine.gate) { Ok(()) } else { Err(Stop::Told) }
}

/// Starts the threads of every process that no command starts.
pub(super) fn all(engine: &'static Engine) -> Result<(), Failure> {
    let mut others = roots(engine);
    if others.is_empty() {
        return Ok(());
    }
    let mut own = others.remove(0);
    let first = own.remove(0);
    let beginning = Box::new(move |worker: &mut Worker| begin_first(worker, &own, &others));
    match spawn::start(engine, first, beginning) {
        Ok(()) | Err(Stop::Told) => Ok(()),
        Err(Stop::Failed(failure)) => Err(failure),
        Err(Stop::Damaged(cause)) => Err(Failure::Absurd { cause: cause.to_owned() }),
    }
}
