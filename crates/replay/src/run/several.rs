//! Several replays at once: in one tree, or each in a directory of its own; begun together.
//!
//! Each plan has a worker of its own, with its own confinement, descriptors and log: what they share is the file system,
//! which is what an overlay is for. Nothing orders the actions of one after those of another.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reprise_plan::{Merged, Plan, merge};

use super::launch::{Launched, launch};
use super::meeting::Meeting;
use super::ready;
use super::{Options, Phase, Preparation, Progress, ReplayError, ReplayResult, TICK_MS, file_system};
use crate::engine::Sections;
use crate::limit::MemoryGroup;
use crate::resume::Rest;
use crate::target::{self, Buffers, State};

/// A plan and where it is replayed; plans with the same directory share one tree.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The directory.
    pub dir: &'a Path,
    /// The plan is the rest of another trace, to whose replay it belongs.
    pub rest: Option<&'a Rest>,
}

/// Replays several plans at once. As [`super::replay`]; the results stand in the order of the jobs.
///
/// # Errors
/// When one of them could not begin, or two plans have different things under one name of a common tree.
pub fn replay_all(
    jobs: &[Job<'_>],
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<ReplayResult>, ReplayError> {
    let map = |job: &Job<'_>| Sections::map(job.plan).map(Arc::new);
    let sections: std::io::Result<Vec<_>> = jobs.iter().map(map).collect();
    let sections = sections.map_err(|source| ReplayError::system("map the plan", source))?;
    let prepared = prepare(jobs, &sections, progress)?;
    let ready = ready::make(jobs, options)?;
    let meeting = if jobs.len() > 1 { Some(Meeting::new(jobs.len() as u32)?) } else { None };
    let mut workers: Vec<Launched<'_>> = Vec::with_capacity(jobs.len());
    for (job, sections) in jobs.iter().zip(&sections) {
        match launch(*job, sections, options, &ready, meeting.as_ref()) {
            Ok(worker) => workers.push(worker),
            Err(error) => {
                workers.iter().for_each(Launched::kill);
                return Err(error);
            }
        }
    }
    let total = jobs.iter().map(|job| job.plan.contents.commands).fold(0, u64::saturating_add);
    progress(Progress { phase: Phase::Replaying, done: 0, total });
    let (texts, killed) = watch(&mut workers, options, |done| {
        progress(Progress { phase: Phase::Replaying, done: done.min(total), total });
    });
    let noted = |mut result: ReplayResult| {
        result.cache.peak_bytes = ready.memory.as_ref().and_then(MemoryGroup::peak_bytes);
        result.notes.extend(ready.note.map(|note| (note.to_owned(), 1)));
        result
    };
    let results: Vec<_> = workers
        .into_iter()
        .zip(texts)
        .zip(prepared)
        .map(|((worker, text), prepared)| worker.finish(&text, killed, prepared, options, &ready).map(noted))
        .collect();
    results.into_iter().collect()
}

/// What the workers said until all had ended, and whether they were killed by a second request to end.
fn watch(workers: &mut [Launched<'_>], options: &Options, mut progress: impl FnMut(u64)) -> (Vec<Vec<u8>>, bool) {
    let mut texts = vec![Vec::new(); workers.len()];
    let mut killed = false;
    for i in 0..workers.len() {
        while workers[i].listen(&mut texts[i]) {
            let asked = options.interrupt.map_or(0, |r| r.load(std::sync::atomic::Ordering::SeqCst));
            if asked >= 1 {
                workers.iter().for_each(|worker| worker.stop(asked));
            }
            // One that hangs when it is asked to end is ended like that, too.
            killed |= asked >= 1 && workers[i].has_hung();
            if asked >= 2 && !killed {
                killed = true;
                workers[i..].iter().for_each(Launched::kill);
            }
            progress(workers.iter().map(Launched::done).sum());
        }
    }
    progress(workers.iter().map(Launched::done).sum());
    (texts, killed)
}

/// Builds or restores every tree; for each job, the file system and what was done.
fn prepare(
    jobs: &[Job<'_>],
    sections: &[Arc<Sections>],
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<(String, Preparation)>, ReplayError> {
    // The materializer reports often; whoever draws wants it now and then.
    let mut last = None;
    let mut now_and_then = |done, total| {
        let due = last.is_none_or(|at: Instant| at.elapsed() >= Duration::from_millis(TICK_MS as u64));
        if due || done == total {
            last = Some(Instant::now());
            progress(Progress { phase: Phase::Preparing, done, total });
        }
    };
    let mut out: Vec<(String, Preparation)> = Vec::with_capacity(jobs.len());
    for (i, job) in jobs.iter().enumerate() {
        if let Some(first) = jobs[..i].iter().position(|other| other.dir == job.dir) {
            out.push(out[first].clone());
            continue;
        }
        let here: Vec<usize> = (i..jobs.len()).filter(|other| jobs[*other].dir == job.dir).collect();
        let identity = identity(here.iter().map(|other| jobs[*other].plan));
        let target = target::open_part(job.dir, &identity, job.rest.map(|rest| &rest.of[..]))?;
        let merged: Merged;
        let tree = match here.len() {
            1 => &job.plan.contents.tree,
            _ => {
                let trees: Vec<_> = here
                    .iter()
                    .map(|other| (&jobs[*other].plan.contents.tree[..], sections[*other].buffers.len() as u64))
                    .collect();
                merged = merge(&trees).map_err(|conflict| ReplayError::conflict(&conflict, &here))?;
                &merged.nodes
            }
        };
        let buffers = Buffers::several(here.iter().map(|other| &*sections[*other].buffers));
        let done = match target.state() {
            State::Empty => Preparation::Built(target.build(tree, buffers, &mut now_and_then)?),
            State::Ours(_) => Preparation::Restored(target.restore(tree, buffers, &mut now_and_then)?),
        };
        out.push((file_system(job.dir), done));
    }
    Ok(out)
}

/// Whose tree it is: that of one trace, or of these together.
fn identity<'a>(plans: impl Iterator<Item = &'a Plan>) -> String {
    plans.map(|plan| &plan.contents.trace[..]).collect::<Vec<_>>().join("+")
}
