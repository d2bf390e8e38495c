//! Processes that no command starts: their descriptors, directories, mask and users.

use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;

use reprise_plan::{FdSource, KinStart, ProcessPlan, ProcessStart, ThreadPlan};

use super::failure::{Failure, Stop, error_name};
use super::identity::take_on;
use super::nameless::Nameless;
use super::thread::Worker;
use super::{Engine, issue, lock, spawn};

/// Who starts with the replay.
#[derive(Debug, Default)]
pub(super) struct Starts {
    /// Threads by process.
    threads: BTreeMap<u32, Vec<u32>>,
    /// Processes that begin by themselves.
    roots: Vec<u32>,
    /// Those that begin from another one, by that.
    kin: HashMap<u32, Vec<(u32, KinStart)>>,
    /// How many of them begin in the end.
    reached: usize,
}

impl Starts {
    pub(super) fn of(threads: &[ThreadPlan], processes: &[ProcessPlan]) -> Starts {
        let mut starts = Starts::default();
        for (i, thread) in (0..).zip(threads).filter(|(_, t)| !t.spawned) {
            starts.threads.entry(thread.process).or_default().push(i);
        }
        for &process in starts.threads.keys() {
            let start = processes.get(process as usize).and_then(|p| p.start.as_ref());
            match start.and_then(|start| start.kin) {
                Some(kin) => starts.kin.entry(kin.of).or_default().push((process, kin)),
                None => starts.roots.push(process),
            }
        }
        let mut pending = starts.roots.clone();
        while let Some(process) = pending.pop() {
            starts.reached += 1;
            pending.extend(starts.kin.get(&process).into_iter().flatten().map(|(process, _)| *process));
        }
        starts
    }

    /// The first thread of a process, and the others.
    fn threads(&self, process: u32) -> Result<(u32, &[u32]), Stop> {
        let threads = self.threads.get(&process).map_or(&[][..], Vec::as_slice);
        let (first, others) = threads.split_first().ok_or(Stop::Damaged("a process has no thread"))?;
        Ok((*first, others))
    }
}

/// Begins the first thread of the first process: it opens the descriptors of all, so that processes can share open file
/// descriptions as after a fork, and starts the others, each with a copy of its table.
fn begin_first(worker: &mut Worker) -> Result<(), Stop> {
    let engine = worker.engine;
    spawn::unshare(false, false)?;
    issue::close_range(0, u32::try_from(engine.reserved.first - 1).unwrap_or(0));
    issue::umask(0o022);
    if let Some(start) = first(engine).filter(|start| is_early(engine, start)) {
        identity(worker, start);
    }
    let mut nameless = Nameless::default();
    let starts = || (0..).zip(&engine.processes).filter_map(|(process, plan)| Some((process, plan.start.as_deref()?)));
    for (_, start) in starts() {
        descriptors(worker, start, &mut nameless)?;
    }
    // What one has mapped another may have open.
    for (process, start) in starts() {
        mappings(worker, process, start, &nameless)?;
    }
    nameless.seal(engine);
    remove_nameless(engine);
    for process in engine.starts.roots.iter().skip(1) {
        let (first, _) = engine.starts.threads(*process)?;
        spawn::start(
            engine,
            first,
            Box::new(|worker| {
                spawn::unshare(false, false)?;
                begin(worker)
            }),
        )?;
    }
    begin(worker)
}

/// Begins the first thread of a process, which has what is its own already. It starts those that share with it while all is
/// as it was, so that each can copy what it does not share; then sets up what it was not given, and last starts the
/// process's other threads, which share all with it.
fn begin(worker: &mut Worker) -> Result<(), Stop> {
    let engine = worker.engine;
    for (process, kin) in engine.starts.kin.get(&worker.process).into_iter().flatten() {
        begin_kin(engine, *process, *kin)?;
    }
    let process = engine.processes.get(worker.process as usize);
    let start = process.and_then(|p| p.start.as_deref());
    let kin = start.and_then(|start| start.kin);
    if !kin.is_some_and(|kin| kin.descriptors) {
        close_foreign(engine, start)?;
    }
    if let Some(start) = start {
        if !kin.is_some_and(|kin| kin.directories) {
            issue::umask(start.umask & 0o777);
            directories(worker, start);
        }
        locks(engine, start)?;
        if !is_early(engine, start) {
            identity(worker, start);
        }
    }
    for thread in engine.starts.threads(worker.process)?.1 {
        spawn::start(engine, *thread, Box::new(|_| Ok(())))?;
    }
    Ok(())
}

/// How the first process is at the start.
fn first(engine: &Engine) -> Option<&ProcessStart> {
    engine.processes.get(*engine.starts.roots.first()? as usize)?.start.as_deref()
}

/// Whether a process runs as the first one, and that as root: who can open anything is that before anything is opened, for a
/// file that was made without a name is given one by nobody but who opened it, with the very same credentials.
fn is_early(engine: &Engine, start: &ProcessStart) -> bool {
    first(engine).is_some_and(|first| {
        let is_same = (first.uids, first.gids, &first.groups) == (start.uids, start.gids, &start.groups);
        is_same && first.uids.iter().all(|user| *user == 0)
    })
}

/// Begins a process that shares with that of the calling thread.
fn begin_kin(engine: &'static Engine, process: u32, kin: KinStart) -> Result<(), Stop> {
    if kin.descriptors {
        lock(&engine.joined).extend([process, kin.of]);
    }
    let beginning = move |worker: &mut Worker| {
        spawn::unshare(kin.descriptors, kin.directories)?;
        begin(worker)
    };
    spawn::start(engine, engine.starts.threads(process)?.0, Box::new(beginning))
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

fn descriptors(worker: &Worker, start: &ProcessStart, nameless: &mut Nameless) -> Result<(), Stop> {
    let engine = worker.engine;
    for fd in &start.descriptors {
        let result = match &fd.source {
            FdSource::File { path, flags, offset, seals } => {
                let made = nameless.open(engine, path, *flags, *offset, *seals);
                made.unwrap_or_else(|| open(path, *flags, *offset))
            }
            FdSource::Duplicate { slot, close_on_exec } => issue::duplicate(engine.slots.get(*slot)?, *close_on_exec),
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

/// Whether a process had locks of its own at the start: they would end with its last thread, and in the trace it lived on.
pub(super) fn holds_locks(engine: &Engine, process: u32) -> bool {
    let start = engine.processes.get(process as usize).and_then(|p| p.start.as_deref());
    start.is_some_and(|start| !start.locks.is_empty())
}

/// A lock of a process is that of its descriptor table: it is taken when that is its own.
fn locks(engine: &Engine, start: &ProcessStart) -> Result<(), Stop> {
    for lock in &start.locks {
        let result = issue::lock(engine.slots.get(lock.slot)?, lock);
        if result < 0 {
            engine.note(format!("a lock at the start could not be had ({})", error_name(result)));
        }
    }
    Ok(())
}

fn mappings(worker: &Worker, process: u32, start: &ProcessStart, nameless: &Nameless) -> Result<(), Stop> {
    for mapping in &start.mappings {
        let shared = mapping.flags & libc::MAP_SHARED as u32 != 0;
        let flags = if shared { libc::O_RDWR } else { libc::O_RDONLY } as u64;
        let mut result = nameless.again(&mapping.path).unwrap_or_else(|| open(&mapping.path, flags, 0));
        if shared && result < 0 {
            // It may have been mapped for loads alone.
            result = open(&mapping.path, libc::O_RDONLY as u64, 0);
        }
        if let (0.., Ok(fd)) = (result, i32::try_from(result)) {
            result = worker.mapped_at_start(process, mapping, fd)?;
            issue::close(fd);
        }
        if result < 0 {
            worker.engine.note(format!("a mapping at the start could not be made ({})", error_name(result)));
        }
    }
    Ok(())
}

/// Opens a file of the initial tree; never waits for the other end of a FIFO.
fn open(path: &[u8], flags: u64, offset: u64) -> i64 {
    let Ok(path) = CString::new(path) else {
        return -i64::from(libc::EINVAL);
    };
    // Nobody is signalled.
    let left_out = (libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_ASYNC) as u64;
    let flags = flags & !left_out;
    let result = issue::open(&path, flags | (libc::O_NONBLOCK | libc::O_NOCTTY) as u64);
    if let (0.., Ok(fd)) = (result, i32::try_from(result)) {
        issue::fcntl_number(fd, libc::F_SETFL, flags);
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
        // The saved user stays 0: what its calls, and programs that it runs, make of it later is changed from there (`identity`).
        take_on(users[0], users[1], users[3]),
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
    let starts = &engine.starts;
    if starts.reached != starts.threads.len() {
        return Err(Failure::Absurd { cause: "a process begins from one that does not begin".to_owned() });
    }
    let Some(process) = starts.roots.first() else {
        return Ok(());
    };
    let begun = starts.threads(*process).and_then(|(first, _)| spawn::start(engine, first, Box::new(begin_first)));
    match begun {
        Ok(()) | Err(Stop::Told) => Ok(()),
        Err(Stop::Failed(failure)) => Err(*failure),
        Err(Stop::Damaged(cause)) => Err(Failure::Absurd { cause: cause.to_owned() }),
    }
}
