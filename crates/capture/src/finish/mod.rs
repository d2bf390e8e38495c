//! From a spool, the raw recording of the programs in the kernel, to a trace.
//!
//! Goals: the same trace as if the program had been watched; one pass, in memory that does not grow with the spool;
//! whatever the spool holds, the result is a trace and an account of what it lacks. Non-goals: speed of the program,
//! which is over.

mod ahead;
mod before;
mod beside;
mod content;
mod decode;
mod ends;
mod facts;
mod lanes;
mod lives;
mod loads;
mod locks;
mod look;
mod looked;
mod mappings;
mod movers;
mod opened;
mod order;
mod present;
mod queue;
mod requests;
mod reused;
mod search;
mod stores;
mod told;
mod unseen;
mod window;
#[cfg(test)]
mod window_tests;
mod write;

#[cfg(ebpf)]
pub(crate) use look::Live;

use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use foldhash::HashMap;
use reprise_calls::{Credentials, Effect, by_number};
use reprise_initial::Seeds;
use reprise_trace::payload::runs_as;
use reprise_trace::{END, End, Loss, Manifest, TraceWriter, WriteError, WriterOptions, contents_elsewhere};

use crate::environment;
use crate::error::CaptureError;
use crate::log::Log;
use crate::record::Outcome;
use crate::spool::join::{Event, Heard, Joiner};
use crate::spool::mark::{self, Cut};
use crate::spool::reader::{Missing, Spool};
use crate::spool::{Begin, Lacks, SAMPLES};
use crate::sys::{self, Signals};
use before::Before;
use decode::{Decoder, Pending};
use queue::Reach;
use requests::Asynchronous;
use window::{Item, Place, Window};
use write::{Birth, What, Writing};

/// Name of the directory of a spool in that of its trace.
pub const SPOOL: &str = reprise_trace::SPOOL;

/// What no result tells the order of.
const AT_ONCE: &str = "calls that made a file longer, or went on in it, while others did, and do not tell where: which came \
                       first is a guess";

/// So many records come in before it is seen what has its place by them.
const TOGETHER: u64 = 64;

/// Is told bytes read, and of how many; says whether to go on.
pub(crate) type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>;

/// Finishes the spool of a trace whose recorder is gone, and removes it. `progress` is told bytes read, and of how many.
///
/// # Errors
/// There is no spool, it cannot be read, the trace cannot be written, or a signal came; the spool is then left as it is.
pub fn recover(trace: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Outcome, CaptureError> {
    let spool = trace.join(SPOOL);
    let begin = Begin::read(&spool).map_err(|source| CaptureError::NoSpool { path: spool.clone(), source })?;
    clear(trace)?;
    let manifest = Manifest { complete: false, parts: None, ledger: None, seal: None, ..begin.manifest.clone() };
    let lost: Vec<String> = manifest.snapshots.clone();
    let manifest = Manifest { snapshots: Vec::new(), ..manifest };
    let policy = manifest.data;
    let writer = WriterOptions { contents: begin.contents.clone(), ..WriterOptions::default() };
    let writer = TraceWriter::create(trace, manifest, writer)?;
    let mut log = Log::new(writer, policy);
    for tree in lost {
        log.note(format!("--tree {tree}: its snapshot was lost with the recorder"));
    }
    let (until_ns, cut) = mark::read(&spool);
    let (end, note) = broke_off(cut.as_ref());
    log.manifest_mut().facts.insert(END.into(), end);
    log.note(note);
    let known = Known { until_ns, end: None, passed: 0, lacks: Lacks::default(), cut };
    // Without handlers, a signal simply ends this process; what is on the disk is the same.
    let _installed = Signals::install();
    finish(log, &begin, trace, &Seeds::default(), known, &mut heed_signals(progress))
}

/// How a recording ended whose recorder did not finish it, for its facts and its ledger.
fn broke_off(cut: Option<&Cut>) -> (String, String) {
    let how = match cut {
        Some(Cut { full: true, why, .. }) => format!("the raw recording had no room left ({why})"),
        Some(Cut { why, .. }) => format!("the raw recording could not be written any further ({why})"),
        None => "the recorder was killed or interrupted, or had no room left".to_owned(),
    };
    let end = format!("{how}, and what the program did after that is not there");
    (end, format!("{how}; what it had kept until then was finished later"))
}

/// A limit on the trace holds for all that is on the disk while it is made.
fn limit(log: &mut Log, most: u64, spool: &Path) {
    /// A trace of nothing takes this much.
    const LEAST: u64 = 1 << 20;
    let files = std::fs::read_dir(spool).into_iter().flatten().flatten().filter_map(|entry| entry.metadata().ok());
    let taken: u64 = files.map(|file| file.blocks() * 512).sum();
    log.limit(most.saturating_sub(taken).max(LEAST));
}

/// Reports progress, and goes on unless a signal to this process says otherwise.
pub(crate) fn heed_signals(report: &mut dyn FnMut(u64, u64)) -> impl FnMut(u64, u64) -> ControlFlow<()> {
    move |done, all| {
        report(done, all);
        if sys::take_signal().is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Removes what an earlier attempt left beside the spool.
fn clear(trace: &Path) -> Result<(), CaptureError> {
    let failed = |path: PathBuf| move |source| CaptureError::Spool { path, source };
    if let Some(contents) = contents_elsewhere(trace) {
        // It was this trace's own; what cannot be removed stays.
        let _ = std::fs::remove_dir_all(contents);
    }
    for entry in std::fs::read_dir(trace).map_err(failed(trace.to_owned()))?.flatten() {
        let path = entry.path();
        if entry.file_name() == SPOOL {
            continue;
        }
        let removed = if path.is_dir() && !path.is_symlink() {
            std::fs::remove_dir_all(&path)
        } else {
            std::fs::remove_file(&path)
        };
        removed.map_err(failed(path))?;
    }
    Ok(())
}

/// What is known of a spool beside it.
pub(crate) struct Known {
    /// Up to which instant of `CLOCK_MONOTONIC` it is complete.
    pub until_ns: u64,
    /// How the program ended.
    pub end: Option<End>,
    /// Calls that the programs in the kernel passed by, since the spool had reached the size it may have.
    pub passed: u64,
    /// Records that are lacking, as the kernel counted them; the last may be told by no segment.
    pub lacks: Lacks,
    /// That it could not be written any further.
    pub cut: Option<Cut>,
}

/// Writes a spool into a trace that was begun, closes the trace and removes the spool. `seeds` are names of the initial
/// tree that are in the trace already.
pub(crate) fn finish(
    mut log: Log,
    begin: &Begin,
    trace: &Path,
    seeds: &Seeds,
    known: Known,
    progress: Progress<'_>,
) -> Result<Outcome, CaptureError> {
    let directory = trace.join(SPOOL);
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::Interrupted => CaptureError::Interrupted { trace: trace.to_owned() },
        _ => CaptureError::Spool { path: directory.clone(), source },
    };
    sys::give_back_large_memory();
    begin.max_bytes.into_iter().for_each(|most| limit(&mut log, most, &directory));
    let spool = Spool::open(&directory).map_err(failed)?;
    let mut finisher = Finisher::new(log, begin, trace, seeds);
    finisher.run(spool, &known, progress).map_err(failed)?;
    sampled(&directory, &mut finisher.writing.log);
    let unfinished = |source| CaptureError::Unfinished { source, trace: trace.to_owned() };
    let outcome = finisher.close(known.end).map_err(unfinished)?;
    std::fs::remove_dir_all(&directory).map_err(failed)?;
    Ok(outcome)
}

/// Writes what was around the program, if that was kept.
fn sampled(spool: &Path, log: &mut Log) {
    let Ok((around, samples)) = environment::kept(&spool.join(SAMPLES)) else { return };
    log.surroundings(around);
    samples.for_each(|seen| log.sample(seen));
}

struct Finisher {
    joiner: Joiner,
    decoder: Decoder,
    window: Window<What>,
    reaches: order::Reaches,
    beside: beside::Beside,
    reused: reused::Reused,
    /// Places of births whose maker's call is not over, by maker.
    births: HashMap<i32, Vec<Place>>,
    ends: ends::Ends,
    /// Whom threads run as whose call to run another program is not over, though the program runs.
    run_as: HashMap<i32, Credentials>,
    /// Until the beginning, where that was not the first record.
    before: Option<Before>,
    /// When it was.
    began_ns: u64,
    requests: Asynchronous,
    writing: Writing,
    /// Bytes that the trace may take, and once it has nearly all of them: what came after.
    most: u64,
    beyond: Option<u64>,
}

impl Finisher {
    fn new(mut log: Log, begin: &Begin, trace: &Path, seeds: &Seeds) -> Finisher {
        log.look_back();
        let mut writing = Writing::new(log, begin, &trace.join(SPOOL), seeds);
        let before = begin.attached.then(|| Before::new(begin));
        if before.is_none() {
            writing.begins_with(&begin.processes);
        }
        Finisher {
            joiner: Joiner::default(),
            decoder: Decoder::new(begin.monotonic_ns),
            window: Window::default(),
            reaches: Default::default(),
            beside: Default::default(),
            reused: Default::default(),
            births: HashMap::default(),
            ends: Default::default(),
            run_as: HashMap::default(),
            before,
            began_ns: if begin.attached { begin.monotonic_ns } else { 0 },
            requests: Asynchronous::default(),
            writing,
            most: begin.max_bytes.unwrap_or(u64::MAX),
            beyond: None,
        }
    }

    fn run(&mut self, mut spool: Spool, known: &Known, progress: Progress<'_>) -> io::Result<()> {
        let (all, mut done, mut events) = (spool.bytes(), 0, Vec::new());
        let (mut taken, mut late) = (0, 0);
        while let Some((head, body, place)) = spool.next()? {
            if head.time_ns > known.until_ns {
                late += 1;
                continue;
            }
            taken += 1;
            self.joiner.take(head, body, &place, &mut events);
            for event in events.drain(..) {
                self.heard(event);
            }
            if taken % TOGETHER == 0 {
                self.write_out(false);
            }
            let before = done >> 20;
            done += u64::from(head.bytes);
            if done >> 20 != before {
                self.writing.log.flush_if_due();
                if progress(done, all).is_break() {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                if self.beyond.is_none() && self.writing.log.is_nearly_full() {
                    self.beyond = Some(0);
                }
            }
        }
        self.joiner.finish(&mut events);
        for event in events.drain(..) {
            self.heard(event);
        }
        self.begin();
        self.requests.finish(self.window.latest_ns(), &mut self.writing.log);
        self.take_requests();
        self.write_out(true);
        self.account(spool.missing(), known, taken, late);
        Ok(())
    }

    /// What is not in the trace, of which so many records are, and so many were left out since others of their time are missing.
    fn account(&mut self, missing: Missing, known: &Known, taken: u64, late: u64) {
        let log = &mut self.writing.log;
        log.beyond_limit(self.most, self.beyond.unwrap_or(0).saturating_add(known.passed));
        let mut dropped = |cause: &str, count| log.loss_several(Loss::Dropped, cause, count);
        match &known.cut {
            None => {
                known.lacks.causes(missing.dropped).for_each(|(cause, count)| dropped(cause, count));
                dropped("records that are missing in the raw recording", missing.lost);
                dropped("records of the recorder's last second, some of which are missing", late);
            }
            Some(cut) => {
                cut.lacks.causes(0).for_each(|(cause, count)| dropped(cause, count));
                let (records, calls) = match cut.full {
                    true => {
                        ("records for which the raw recording had no room", "calls made when it had no room any more")
                    }
                    false => ("records that could not be written", "calls made when nothing could be written any more"),
                };
                let kept = taken.saturating_add(cut.lacks.total());
                dropped(&format!("{records} ({})", cut.why), cut.records.saturating_sub(kept));
                dropped(&format!("{calls} ({})", cut.why), cut.passed);
            }
        }
        let damaged = missing.damaged.saturating_add(self.joiner.damaged);
        dropped("places of the raw recording that cannot be read", damaged);
        log.loss_several(Loss::Truncated, "calls whose memory is not all in the raw recording", self.joiner.torn);
        log.note_several("results of overlapping calls that no order of them explains", self.window.untold);
        log.note_several(AT_ONCE, self.window.guessed());
    }

    /// The state at the beginning is known, since nothing from before comes any more.
    fn begin(&mut self) {
        if let Some(before) = self.before.take() {
            self.writing.begins_with(&before.settle());
        }
    }

    /// Something is known: it waits for its place.
    fn heard(&mut self, event: Event) {
        if let Event::Ring { tid, pid, ring } = event {
            return self.requests.ring(tid, pid, ring, &mut self.writing.log);
        }
        if let Some(beyond) = &mut self.beyond {
            *beyond += 1;
            return;
        }
        if event.time_ns() < self.began_ns {
            return self.before.iter_mut().for_each(|before| before.take(&event));
        }
        self.begin();
        match event {
            Event::Call(mut heard) => {
                self.call(&mut heard);
                self.joiner.take_back(heard);
            }
            Event::Ring { .. } => {}
            Event::Request(asked) => {
                let at = self.decoder.since_begin_ns(asked.time_ns);
                self.requests.asked(*asked, at, &mut self.writing.log);
                self.take_requests();
            }
            Event::Completion(done) => {
                let at = self.decoder.since_begin_ns(done.time_ns);
                self.requests.done(*done, at, &mut self.writing.log);
                self.take_requests();
            }
            Event::Task { tid, pid, time_ns, task } => {
                self.ends.begun(tid);
                let (maker, at) = (task.parent_tid, self.decoder.since_begin_ns(time_ns));
                let birth = Birth { tid, pid, at_ns: at, task: *task, call: None };
                let place = self.push(maker, (at, at, at), false, What::Birth(Box::new(birth)));
                self.births.entry(maker).or_default().push(place);
            }
            Event::Stored(stored) => {
                let at = self.decoder.since_begin_ns(stored.time_ns);
                let place = self.push(stored.tid, (at, at, at), true, What::Stored(stored));
                self.reused.stored(at, place);
            }
            Event::Loaded(load) => {
                let at = self.decoder.since_begin_ns(load.time_ns);
                self.push(load.tid, (at, at, at), true, What::Loaded(load));
            }
            Event::Exec { tid, old_tid, credentials, time_ns } => {
                self.run_as.insert(tid, credentials);
                let at = self.decoder.since_begin_ns(time_ns);
                if let Some(places) = self.births.remove(&old_tid) {
                    self.births.insert(tid, places);
                }
                self.push(tid, (at, at, at), true, What::Exec { tid, old_tid });
            }
            Event::End { tid, pid, time_ns, status, last, call } => {
                self.abandon(tid);
                let at = self.decoder.since_begin_ns(time_ns);
                let exit = call.as_deref().filter(|c| write::is_exit(c.nr));
                if call.is_some() && exit.is_none() {
                    self.writing.log.note("a call was cut off by the end of its thread");
                }
                let begin_ns = exit.map_or(at, |c| self.decoder.since_begin_ns(c.begin_ns));
                let gone = lives::Gone {
                    begin_ns,
                    end_ns: at,
                    unlocked_ns: None,
                    effects_ns: None,
                    status,
                    asked: exit.map(|c| c.args[0]),
                    cpu_ns: exit.map_or(0, |c| c.cpu_ns),
                };
                let mut gone = self.ends.ended(tid, gone);
                if last {
                    gone = self.ends.over(pid, gone);
                    // What its requests came to stands before its end, which has its place where it asked for it.
                    self.requests.process_ended(pid, gone.key_ns(), &mut self.writing.log);
                    self.take_requests();
                }
                self.ends(What::End { tid, pid, gone: Box::new(gone) });
            }
            Event::Unlocked { tid, time_ns } => {
                let at = self.decoder.since_begin_ns(time_ns);
                let end = self.ends.unlocked(tid, at, &mut self.window);
                end.into_iter().for_each(|what| self.ends(what));
            }
        }
    }

    /// The end of a thread waits for its place.
    fn ends(&mut self, what: What) {
        let What::End { tid, gone, .. } = &what else { return };
        let tid = *tid;
        let place = self.push(tid, (gone.key_ns(), gone.begin_ns, gone.end_ns), true, what);
        self.ends.waits(tid, place);
    }

    fn call(&mut self, heard: &mut Heard) {
        if heard.narrow {
            self.writing.loads.called_narrow(heard.pid);
        }
        let log = &mut self.writing.log;
        let end_ns = self.decoder.since_begin_ns(heard.end_ns);
        let known = by_number(heard.call.nr).filter(|_| !heard.narrow);
        let about = known.map(|call| self.requests.called(heard, call, end_ns, log)).unwrap_or_default();
        let decoded = self.decoder.decode(heard, &mut self.writing.spare, log);
        self.take_requests();
        if let Some(mut pending) = decoded {
            about.put_into(&mut pending.action);
            self.runs_as(&mut pending);
            self.called(pending);
        }
    }

    /// A call to run another program tells whom it runs as.
    fn runs_as(&mut self, pending: &mut Pending) {
        if pending.call.effect == Effect::Execute && pending.action.result >= 0 {
            pending.action.output = runs_as(self.run_as.remove(&pending.tid).as_ref());
        }
    }

    /// Actions of lanes wait for their places like others.
    fn take_requests(&mut self) {
        if self.requests.out.is_empty() {
            return;
        }
        let requests::Out { rows, lanes } = std::mem::take(&mut self.requests.out);
        lanes.into_iter().for_each(|lane| self.writing.lane(lane));
        rows.into_iter().for_each(|pending| self.called(Box::new(pending)));
    }

    fn push(&mut self, tid: i32, (key_ns, begin_ns, end_ns): (u64, u64, u64), is_ready: bool, what: What) -> Place {
        let (reach, shown) = match &what {
            What::Call(pending) => (self.reaches.of(pending), order::size_shown(pending)),
            What::Birth(_) | What::Stored(_) | What::Loaded(_) | What::Exec { .. } | What::End { .. } => {
                (Reach::All, None)
            }
        };
        self.window.push(Item { key_ns, begin_ns, end_ns, tid, is_ready, reach, shown, what })
    }

    fn called(&mut self, pending: Box<Pending>) {
        let (begin_ns, end_ns) = (pending.action.begin_ns, pending.end_ns());
        if let Some(place) = self.birth_of(&pending)
            && let Some(mut what) = self.window.remove(place)
            && let What::Birth(birth) = &mut what
        {
            birth.call = Some(pending);
            // What the maker has is copied first (`copy_process` in kernel/fork.c); its memory, which lasts, after that.
            self.push(place.tid, (begin_ns, begin_ns, place.end_ns), true, what);
            return;
        }
        let mut key_ns = self.beside.key_ns(&pending, order::takes_effect_ns(&pending));
        if let Some(pid) = self.writing.process_of_lane(pending.tid) {
            key_ns = self.ends.effect_ns(pid, key_ns);
        }
        if let Some(before_ns) = self.reused.before_ns(&pending, key_ns) {
            key_ns = before_ns;
            self.looked_at(before_ns, end_ns);
        }
        let tid = pending.tid;
        self.push(tid, (key_ns, begin_ns, end_ns), true, What::Call(pending));
    }

    /// What a call looked at when it was over, at `end_ns`, had been stored before it took effect.
    fn looked_at(&mut self, at_ns: u64, end_ns: u64) {
        for place in self.reused.looked_at_by(end_ns) {
            if let Some(what) = self.window.remove(place) {
                self.push(place.tid, (at_ns, at_ns, at_ns), true, what);
            }
        }
    }

    /// The birth that a call brought about.
    fn birth_of(&mut self, pending: &Pending) -> Option<Place> {
        let makes = pending.call.effect == Effect::Spawn && pending.action.result > 0;
        let places = self.births.get_mut(&pending.tid).filter(|_| makes)?;
        let (begin, end) = (pending.action.begin_ns, pending.end_ns());
        let at = places.iter().position(|place| (begin..=end).contains(&place.key_ns))?;
        let place = places.remove(at);
        if places.is_empty() {
            self.births.remove(&pending.tid);
        }
        Some(place)
    }

    /// A thread is gone: no call of it completes its births any more.
    fn abandon(&mut self, tid: i32) {
        for place in self.births.remove(&tid).unwrap_or_default() {
            self.window.complete(place);
        }
    }

    fn write_out(&mut self, all: bool) {
        loop {
            let writing = &mut self.writing;
            let Some(placed) = self.window.pop(all, &mut |what| writing.told(what)) else { break };
            match &mut self.beyond {
                None => self.writing.write(placed),
                Some(beyond) => *beyond += 1,
            }
        }
    }

    fn close(self, end: Option<End>) -> Result<Outcome, WriteError> {
        self.writing.close(end)
    }
}
