//! A slice, written.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use reprise_model::{PresentThread, World};
use reprise_trace::{
    Action, BlobReader, Keep, Kind, Manifest, Process, ThreadRow, TraceReader, TraceWriter, WriterOptions,
};

use crate::SliceError;
use crate::closure::{Kept, close};
use crate::environment;
use crate::facts::{Facts, Thing};
use crate::moment::{Moment, Span};
use crate::rows::Beginning;
use crate::selection::{Chooser, Selection};
use crate::snapshot::{Snapshot, Walk};

/// A process that is there at the beginning, and the thread that speaks for it.
pub(crate) type Speaker<'a> = (u32, &'a PresentThread);

/// What is in a slice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SliceReport {
    /// Actions.
    pub actions: u64,
    /// Actions that were not asked for, and that others depend on.
    pub supporting: u64,
    /// Actions that others depend on, and that were left out because only what was asked for was wanted.
    pub missing: u64,
    /// Threads: of each, by its number in the slice, the number that it has in the trace.
    pub threads: Vec<u32>,
    /// Threads that are there at the beginning.
    pub initial_threads: u64,
    /// Processes.
    pub processes: u64,
    /// Names of the initial tree.
    pub names: u64,
    /// The first action, by its number in the trace, and the last.
    pub origin: (u64, u64),
    /// What could not be brought forward.
    pub notes: BTreeMap<String, u64>,
}

/// Which actions are taken.
struct Choice {
    /// The first action that is taken.
    start: u64,
    /// From there on.
    kept: Vec<Kept>,
    missing: u64,
    /// Threads that act, and those that are started.
    threads: BTreeSet<u32>,
    /// The earliest entry of an action that is taken.
    begin_ns: u64,
}

/// Writes the chosen part of a trace to `out`. `progress` is told the actions done and how many there are to do.
///
/// # Errors
/// When nothing is chosen, the trace cannot be read, or the slice not be written.
pub fn slice(
    trace: &TraceReader,
    out: &Path,
    selection: &Selection,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<SliceReport, SliceError> {
    if trace.manifest().kind == Kind::Replay {
        return Err(SliceError::OfReplay { trace: trace.path().display().to_string() });
    }
    let span = Span::between(trace, selection.from, selection.to)?;
    let total = 2 * trace.count::<Action>();
    let by_time = selection.is_by_time_only();
    let choice = match by_time {
        true => choose_all(trace, span)?,
        false => choose(trace, selection, span, &mut |done| progress(done, total))?,
    };
    let base_ns = if by_time { span.from_ns.min(choice.begin_ns) } else { choice.begin_ns };
    let work = Work { trace, selection, choice, base_ns };
    work.write(out, &mut |done| progress(total / 2 + done, total))
}

/// Writes the state at a moment as a trace without actions.
///
/// # Errors
/// As [`slice`].
pub fn state(
    trace: &TraceReader,
    out: &Path,
    cut: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<SliceReport, SliceError> {
    let selection = Selection { from: Moment::Action(cut), to: Moment::Action(cut), ..Selection::default() };
    let choice = Choice { start: cut, kept: Vec::new(), missing: 0, threads: BTreeSet::new(), begin_ns: 0 };
    Work { trace, selection: &selection, choice, base_ns: 0 }.write(out, progress)
}

/// Everything between two moments.
fn choose_all(trace: &TraceReader, span: Span) -> Result<Choice, SliceError> {
    let (mut threads, mut begin_ns) = (BTreeSet::new(), u64::MAX);
    for action in trace.actions() {
        let action = action?;
        if action.seq >= span.to {
            break;
        }
        if action.seq >= span.from {
            threads.insert(action.thread);
            begin_ns = begin_ns.min(action.begin_ns);
        }
    }
    let kept = vec![Kept::Chosen; usize::try_from(span.to - span.from).unwrap_or(usize::MAX)];
    let mut choice = Choice { start: span.from, kept, missing: 0, threads, begin_ns };
    choice.add_started(&trace.threads()?);
    Ok(choice)
}

/// What the conditions name, and what that depends on.
fn choose(
    trace: &TraceReader,
    selection: &Selection,
    span: Span,
    progress: &mut dyn FnMut(u64),
) -> Result<Choice, SliceError> {
    let rows = trace.threads()?;
    let chooser = Chooser::new(selection, &rows, &trace.processes()?)?;
    let mut world = World::begin(trace, false)?;
    let mut blobs = trace.blobs();
    let (mut start, mut facts, mut begins) = (None, Vec::new(), Vec::new());
    for action in trace.actions() {
        let action = action?;
        if action.seq >= span.to {
            break;
        }
        if action.seq % 4096 == 0 {
            progress(action.seq);
        }
        let call = reprise_calls::by_name(&action.call);
        let chosen = action.seq >= span.from && chooser.wants(&world, call, &action);
        if chosen {
            start.get_or_insert(action.seq);
        }
        let mut fact = Facts::unknown(action.thread);
        if let Some(call) = call {
            let found = world.follow(call, &action, &mut blobs)?;
            if start.is_some() {
                fact = Facts::of(call, &action, &found);
                fact.needs.extend(world.lane_of(action.thread).map(Thing::Thread));
            }
        }
        if start.is_some() {
            facts.push(Facts { chosen, ..fact });
            begins.push(action.begin_ns);
        }
    }
    let Some(start) = start else {
        let (from, to) = (selection.from.to_string(), selection.to.to_string());
        return Err(SliceError::NothingChosen { from, to, what: selection.conditions() });
    };
    let (kept, missing) = close(&facts, selection.strict);
    let taken = || (0..kept.len()).filter(|i| kept[*i] != Kept::No);
    let threads: BTreeSet<u32> = taken().map(|i| facts[i].thread).collect();
    let begin_ns = taken().map(|i| begins[i]).min().unwrap_or(0);
    let mut choice = Choice { start, kept, missing, threads, begin_ns };
    choice.add_started(&rows);
    Ok(choice)
}

impl Choice {
    fn is_taken(&self, seq: u64) -> bool {
        let at = seq.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.kept.get(at)).is_some_and(|kept| *kept != Kept::No)
    }

    /// Threads that a taken action starts are there, whatever they do.
    fn add_started(&mut self, rows: &[ThreadRow]) {
        let started = rows.iter().filter(|t| t.created_by.is_some_and(|seq| self.is_taken(seq)));
        let started: Vec<u32> = started.map(|t| t.thread).collect();
        self.threads.extend(started);
        // A lane does nothing without the thread that submits.
        let submitters = rows.iter().filter(|t| self.threads.contains(&t.thread)).filter_map(|t| t.lane_of);
        let submitters: Vec<u32> = submitters.collect();
        self.threads.extend(submitters);
    }

    /// The numbers in the slice of these actions, as far as they are taken.
    fn numbers(&self, wanted: impl Iterator<Item = u64>) -> HashMap<u64, u64> {
        let wanted: BTreeSet<u64> = wanted.collect();
        let mut taken = (self.start..).zip(&self.kept).filter(|(_, kept)| **kept != Kept::No).map(|(seq, _)| seq);
        let mut out = HashMap::new();
        let mut next = taken.next();
        let mut number = 0;
        for seq in wanted {
            while next.is_some_and(|at| at < seq) {
                (next, number) = (taken.next(), number + 1);
            }
            if next == Some(seq) {
                out.insert(seq, number);
            }
        }
        out
    }
}

/// The second pass.
struct Work<'a> {
    trace: &'a TraceReader,
    selection: &'a Selection,
    choice: Choice,
    /// Times of the slice count from here.
    base_ns: u64,
}

impl Work<'_> {
    fn write(&self, out: &Path, progress: &mut dyn FnMut(u64)) -> Result<SliceReport, SliceError> {
        let mut writer = TraceWriter::create(out, self.manifest(), WriterOptions::default())?;
        let mut walk = Walk::begin(self.trace, self.choice.start)?;
        for action in self.trace.actions() {
            let action = action?;
            if action.seq % 4096 == 0 {
                progress(action.seq);
            }
            walk.follow(&action)?;
        }
        let mut blobs = self.trace.blobs();
        let recorded = self.trace.tree()?;
        let stand_ins = walk.stand_ins(|seq| self.choice.is_taken(seq));
        let (mut snapshot, lives, world) = walk.finish()?;
        snapshot.name_stand_ins(&stand_ins);
        let mut report =
            SliceReport { missing: self.choice.missing, names: snapshot.names.len() as u64, ..SliceReport::default() };
        let beginning = Beginning {
            snapshot: &snapshot,
            lives: &lives,
            recorded: &recorded,
            unmet_links: &|key| world.unmet_links(key),
            now_ns: i64::try_from(self.trace.manifest().started_ns.saturating_add(self.base_ns)).unwrap_or(i64::MAX),
        };
        let (numbers, first) = self.lives(&snapshot, &beginning, &mut report, &mut writer)?;
        beginning.write(&first, &mut blobs, &mut writer)?;
        let end_ns = self.actions(&numbers, &mut blobs, &mut report, &mut writer)?;
        environment::copy(self.trace, self.base_ns..=end_ns, &mut writer)?;
        self.account(&report, &mut writer);
        let all = self.selection.to == Moment::End;
        writer.close(self.trace.manifest().end.filter(|_| all))?;
        Ok(report)
    }

    fn manifest(&self) -> Manifest {
        let old = self.trace.manifest();
        let mut new = Manifest { started_ns: old.started_ns.saturating_add(self.base_ns), ..old.clone() };
        let asked = self.selection.to_string();
        // The same part of the same trace is the same slice.
        new.id = blake3::hash(format!("{} {asked}", old.id).as_bytes()).to_hex()[..32].to_owned();
        new.facts.insert("slice_of".into(), old.id.clone());
        new.facts.insert("slice".into(), asked);
        (new.complete, new.parts, new.ledger, new.seal, new.end) = (false, None, None, None, None);
        new
    }

    /// Writes processes and threads; returns the threads' numbers, and the processes that are there at the beginning with
    /// the thread that speaks for each.
    fn lives<'a>(
        &self,
        snapshot: &'a Snapshot,
        beginning: &Beginning<'_>,
        report: &mut SliceReport,
        writer: &mut TraceWriter,
    ) -> Result<(HashMap<u32, u32>, Vec<Speaker<'a>>), SliceError> {
        let rows = self.trace.threads()?;
        let taken: Vec<&ThreadRow> = rows.iter().filter(|t| self.choice.threads.contains(&t.thread)).collect();
        let alive = snapshot.threads.iter().filter(|t| self.choice.threads.contains(&t.thread));
        let groups = Groups::of(&taken, alive, report);
        let old: HashMap<u32, Process> = self.trace.processes()?.into_iter().map(|p| (p.process, p)).collect();
        let (mut first, mut directories, mut tables) = (Vec::new(), HashMap::new(), HashMap::new());
        for (number, (process, speaker)) in (0..).zip(&groups.list) {
            let Some(old) = old.get(process) else { continue };
            let row = match speaker {
                Some(thread) => Process {
                    directories_of: earlier(&mut directories, thread.directories, number),
                    descriptors_of: earlier(&mut tables, thread.table, number),
                    ..beginning.process(old, thread)
                },
                None => Process { directories_of: None, descriptors_of: None, ..old.clone() },
            };
            let of_process = |wanted: u32| groups.list.iter().position(|(p, _)| *p == wanted).map(|i| i as u32);
            writer.process(Process { process: number, parent: old.parent.and_then(of_process), ..row })?;
            first.extend(speaker.map(|speaker| (number, speaker)));
        }
        report.processes = groups.list.len() as u64;
        let numbers: HashMap<u32, u32> = taken.iter().zip(0..).map(|(row, i)| (row.thread, i)).collect();
        let starts = self.choice.numbers(taken.iter().filter_map(|t| t.created_by));
        report.threads = taken.iter().map(|row| row.thread).collect();
        for row in taken {
            let created_by = row.created_by.and_then(|seq| starts.get(&seq).copied());
            report.initial_threads += u64::from(created_by.is_none() && row.lane_of.is_none());
            writer.thread(ThreadRow {
                thread: numbers[&row.thread],
                process: groups.of[&row.thread],
                parent: row.parent.and_then(|parent| numbers.get(&parent).copied()),
                created_by,
                lane_of: row.lane_of.and_then(|submitter| numbers.get(&submitter).copied()),
                begin_ns: row.begin_ns.saturating_sub(self.base_ns),
                ..row.clone()
            })?;
        }
        note_lost(&first, snapshot, report);
        Ok((numbers, first))
    }

    /// Writes the actions; returns when the last of them was over.
    fn actions(
        &self,
        numbers: &HashMap<u32, u32>,
        blobs: &mut BlobReader,
        report: &mut SliceReport,
        writer: &mut TraceWriter,
    ) -> Result<u64, SliceError> {
        let mut end_ns = self.base_ns;
        let mut known: HashMap<u32, Option<u32>> = HashMap::new();
        for action in self.trace.actions() {
            let action = action?;
            let at = action.seq.checked_sub(self.choice.start).and_then(|at| usize::try_from(at).ok());
            let Some(kept) = at.map(|at| self.choice.kept.get(at)) else { continue };
            let supporting = match kept {
                Some(Kept::Chosen) => false,
                Some(Kept::Supporting) => true,
                Some(Kept::No) => continue,
                None => break,
            };
            let mut data = Vec::with_capacity(action.data.len());
            for blob in &action.data {
                let number = match known.get(blob) {
                    Some(number) => *number,
                    None => {
                        let number = copy(*blob, blobs, writer)?;
                        known.insert(*blob, number);
                        number
                    }
                };
                data.extend(number);
            }
            if report.actions == 0 {
                report.origin.0 = action.seq;
            }
            report.origin.1 = action.seq;
            end_ns = end_ns.max(action.end_ns());
            report.supporting += u64::from(supporting);
            writer.action(Action {
                seq: report.actions,
                thread: numbers.get(&action.thread).copied().unwrap_or(0),
                begin_ns: action.begin_ns.saturating_sub(self.base_ns),
                data,
                origin: Some(action.seq),
                handling: supporting.then(|| "supporting".to_owned()),
                ..action
            })?;
            report.actions += 1;
        }
        Ok(end_ns)
    }

    /// Says in the ledger what the trace is, and what the original lacks.
    fn account(&self, report: &SliceReport, writer: &mut TraceWriter) {
        let old = self.trace.manifest();
        let ledger = writer.ledger();
        ledger.note(format!("a slice of trace {}: {}", old.id, self.selection));
        let mut add = |text: String, count: u64| {
            if count > 0 {
                *ledger.notes.entry(text).or_default() += count;
            }
        };
        add("actions of others that are kept since chosen ones depend on them".into(), report.supporting);
        add("actions of others that are left out though chosen ones depend on them (--strict)".into(), report.missing);
        for (text, count) in &report.notes {
            add(text.clone(), *count);
        }
        for (loss, causes) in &self.trace.ledger().losses {
            for (cause, entry) in causes {
                add(format!("of the original: {}: {cause}", loss.word()), entry.count);
            }
        }
        for (text, count) in &self.trace.ledger().notes {
            add(format!("of the original: {text}"), *count);
        }
        add("of the original: it was not closed".into(), u64::from(!old.complete));
    }
}

/// Stores a blob of the trace in the slice.
fn copy(blob: u32, blobs: &mut BlobReader, writer: &mut TraceWriter) -> Result<Option<u32>, SliceError> {
    let found = blobs.get(blob)?;
    Ok(match &found.content {
        Some(content) => writer.blob(content, Keep::Always)?.first().copied(),
        None => Some(writer.blob_by_hash(found.blake3, found.length)?),
    })
}

/// The processes of a slice. A thread that has left its process's descriptor table, or directories, is one of its own: to
/// storage that is what a process is.
struct Groups<'a> {
    /// By number: the process it was, and its first thread if it is there at the beginning.
    list: Vec<(u32, Option<&'a PresentThread>)>,
    /// By thread.
    of: HashMap<u32, u32>,
}

impl<'a> Groups<'a> {
    fn of(
        taken: &[&ThreadRow],
        alive: impl Iterator<Item = &'a PresentThread>,
        report: &mut SliceReport,
    ) -> Groups<'a> {
        let alive: HashMap<u32, &PresentThread> = alive.map(|t| (t.thread, t)).collect();
        let mut out = Groups { list: Vec::new(), of: HashMap::new() };
        let mut known: HashMap<(u32, Option<(u32, u32)>), u32> = HashMap::new();
        for row in taken {
            let present = alive.get(&row.thread).copied();
            let parent = row.parent.filter(|_| present.is_none()).and_then(|parent| out.of.get(&parent).copied());
            let inherited = parent.filter(|parent| out.list[*parent as usize].0 == row.process);
            let number = inherited.unwrap_or_else(|| {
                *known.entry((row.process, present.map(|t| (t.table, t.directories)))).or_insert_with(|| {
                    out.list.push((row.process, present));
                    (out.list.len() - 1) as u32
                })
            });
            if let (Some(present), Some(speaker)) = (present, out.list[number as usize].1) {
                note_apart(speaker, present, report);
            }
            out.of.insert(row.thread, number);
        }
        out
    }
}

/// The first process to have something, if another has it already.
fn earlier(holders: &mut HashMap<u32, u32>, what: u32, process: u32) -> Option<u32> {
    let first = *holders.entry(what).or_insert(process);
    (first != process).then_some(first)
}

/// Threads of one process share all at the beginning of a trace.
fn note_apart(speaker: &PresentThread, other: &PresentThread, report: &mut SliceReport) {
    if (speaker.users, speaker.groups) != (other.users, other.groups) {
        let text = "threads with users or groups of their own begin with those of their process";
        *report.notes.entry(text.to_owned()).or_default() += 1;
    }
}

/// What the beginning of a trace cannot say.
fn note_lost(first: &[Speaker<'_>], snapshot: &Snapshot, report: &mut SliceReport) {
    let mut note = |text: &str, count: usize| {
        if count > 0 {
            *report.notes.entry(text.to_owned()).or_default() += count as u64;
        }
    };
    let removed = first.iter().filter(|(_, t)| t.cwd.is_none() || t.root.is_none()).count();
    note("processes in a removed directory begin in the root directory", removed);
    let tables: BTreeSet<u32> = first.iter().map(|(_, t)| t.table).collect();
    let open = tables.iter().flat_map(|table| &snapshot.tables[table]);
    let listing = open.filter(|d| d.listing && d.stream.is_none()).count();
    note("listings that had begun are not compared", listing);
}
