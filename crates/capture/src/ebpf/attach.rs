//! Recording what runs already: who is in the scope, and what they have open.
//!
//! Goals: the programs are attached first, so that nothing that happens while processes are looked at goes unheard. All
//! are looked at, then the trace begins, then all are looked at again: the records from before the beginning say what
//! changed since the first look, and the second look knows names of what they opened. Non-goals: putting these together
//! (the finisher does); stopping anybody.

use std::collections::{BTreeMap, BTreeSet};

use reprise_trace::{Manifest, SPOOL};

use super::kernel::{Kernel, Member};
use super::launch;
use super::present::{Copies, Present};
use super::{Reason, SpoolError, SpoolOptions};
use crate::error::CaptureError;
use crate::scope::Scope;
use crate::spool::{BeganProcess, Begin, JOINED, OPEN, VERSION};
use crate::sys;

/// What is known of the processes of a scope.
#[derive(Debug)]
pub struct Attached {
    begin: Begin,
    present: Present,
    copies: Copies,
    known: BTreeSet<i32>,
}

impl Attached {
    /// Attaches the programs and looks at what is there.
    pub fn attach(kernel: &Kernel, options: &SpoolOptions) -> Result<Attached, SpoolError> {
        kernel.choose(&options.scope, &options.scope.processes()?).map_err(Reason::Refused)?;
        kernel.attach()?;
        // What was started before the programs were there.
        kernel.choose(&options.scope, &options.scope.processes()?).map_err(Reason::Refused)?;
        walk(kernel)?;
        let members = walk(kernel)?;
        kernel.take_mappings().map_err(Reason::Refused)?;
        if let (Scope::Processes { pids, .. }, true) = (&options.scope, members.is_empty()) {
            let (pid, advice) = (pids.first().copied().unwrap_or(0), "start it under `reprise record --` instead");
            return Err(CaptureError::NoProcess { pid, cause: "it has ended meanwhile".into(), advice }.into());
        }
        let mut present = Present::default();
        let mut processes = look(&mut present, &members);
        let mut manifest = launch::manifest(options, kernel.capabilities)?;
        let monotonic_ns = sys::monotonic_ns();
        kernel.keep_mapped();
        let mut copies = Copies::new(options.trace.join(SPOOL).join(OPEN), copied_bytes(options));
        for process in &mut processes {
            present.again(process);
            copies.take(process);
        }
        let trace = std::path::absolute(&options.trace).unwrap_or_else(|_| options.trace.clone());
        let mounted_at = mounted_at(&members, &mut manifest);
        let begin = Begin {
            mapped: kernel.capabilities.pages,
            version: VERSION,
            manifest,
            monotonic_ns,
            trace: trace.to_string_lossy().into(),
            whole_file_bytes: options.whole_file_bytes,
            libraries: options.libraries,
            cpu: options.cpu,
            contents: options.contents_place(),
            max_bytes: options.max_bytes,
            attached: true,
            mounted_at,
            leave_idle_out: options.scope == Scope::System,
            processes,
            joined: Vec::new(),
        };
        let attached = Attached { begin, present, copies, known: processes_of(&members) };
        attached.write(options)?;
        Ok(attached)
    }

    /// The instant of `CLOCK_MONOTONIC` at which the trace begins.
    pub fn began_ns(&self) -> u64 {
        self.begin.monotonic_ns
    }

    fn write(&self, options: &SpoolOptions) -> Result<(), SpoolError> {
        let spool = options.trace.join(SPOOL);
        self.begin.write(&spool).map_err(|source| SpoolError::Unwritten { path: spool, source })
    }

    /// Whether nobody is left in the scope.
    pub fn is_empty(&self, kernel: &Kernel) -> Result<bool, SpoolError> {
        Ok(walk(kernel)?.is_empty())
    }

    /// Looks at those who have come into the scope, if any have: they wait for it.
    pub fn join(&mut self, kernel: &Kernel, options: &SpoolOptions) -> Result<(), SpoolError> {
        let Some(arrivals) = kernel.arrivals() else { return Ok(()) };
        let joined = self.look_at_new(kernel, options);
        kernel.has_looked(arrivals);
        joined
    }

    fn look_at_new(&mut self, kernel: &Kernel, options: &SpoolOptions) -> Result<(), SpoolError> {
        let members = walk(kernel)?;
        // Numbers of those who are gone may be given again.
        let known = std::mem::replace(&mut self.known, processes_of(&members));
        let mut news = processes_of(members.iter().filter(|member| member.new));
        news.retain(|pid| !known.contains(pid));
        if news.is_empty() {
            return Ok(());
        }
        let members: Vec<Member> = members.into_iter().filter(|member| news.contains(&member.pid)).collect();
        kernel.take_mappings().map_err(Reason::Refused)?;
        let mut joined = look(&mut self.present, &members);
        // The trace can say what was shared and locked when it began, not what was then.
        for process in &mut joined {
            (process.table, process.directories) = (None, None);
            process.descriptors.iter_mut().for_each(|d| d.locks.clear());
            self.copies.take(process);
        }
        let spool = options.trace.join(SPOOL);
        let told = joined.iter().try_for_each(|process| process.append(&spool));
        told.map_err(|source| SpoolError::Unwritten { path: spool.join(JOINED), source })
    }
}

fn processes_of<'a>(members: impl IntoIterator<Item = &'a Member>) -> BTreeSet<i32> {
    members.into_iter().map(|member| member.pid).collect()
}

fn walk(kernel: &Kernel) -> Result<Vec<Member>, SpoolError> {
    Ok(kernel.walk().map_err(Reason::Refused)?)
}

/// Looks at the processes of these threads.
fn look(present: &mut Present, members: &[Member]) -> Vec<BeganProcess> {
    let mut threads: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for member in members {
        threads.entry(member.pid).or_default().push(member.tid);
    }
    threads
        .iter_mut()
        .filter_map(|(pid, tids)| {
            // The first thread speaks for all.
            tids.sort_by_key(|tid| (tid != pid, *tid));
            present.process(*pid, tids, false)
        })
        .collect()
}

/// Where the recorder finds what the processes see as `/`, if their mounts are not its own. There is one such place: of
/// several sets of mounts that of the first process is taken, and that is said.
fn mounted_at(members: &[Member], manifest: &mut Manifest) -> Option<String> {
    let of = |pid: String| std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let own = of("self".into());
    let pids = processes_of(members);
    let sets: BTreeSet<_> = pids.iter().filter_map(|pid| of(pid.to_string())).collect();
    if sets.len() > 1 {
        manifest.facts.insert("mounts".into(), format!("{} sets; paths are taken as the recorder's own", sets.len()));
    }
    let first = pids.first().copied()?;
    (sets.len() == 1 && own != of(first.to_string())).then(|| format!("/proc/{first}/root"))
}

/// Files up to this many bytes are copied.
fn copied_bytes(options: &SpoolOptions) -> u64 {
    if options.data == reprise_trace::DataPolicy::None { 0 } else { options.whole_file_bytes }
}
