//! The compiler: one pass over the trace, state in memory only for what lives.

mod arguments;
mod expect;
mod fill;
mod instead;
mod lower;
mod offsets;
mod passed_on;
mod passing;
mod recent;
mod residency;
mod slots;
mod store;
mod tree;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use reprise_calls::Call;
use reprise_model::{Interpretation, Resource, StreamKind, World};
use reprise_trace::{Action, Process, ReadError, ThreadRow, TraceReader};

use crate::command::{Arg, Command, CommandWriter, Expect, Op, StandIn, Tolerance, Wait};
use crate::file::{
    Contents, FdSource, InitialFd, InitialLock, InitialMapping, KinStart, Lane, PlanError, PlanWriter, ProcessPlan,
    ProcessStart, ThreadPlan,
};
use crate::order::{Order, Ordering, Waits};
use crate::timing::Timing;
use fill::Filler;
use passed_on::PassedOn;
use residency::Residency;
use slots::Slots;
use store::Store;

/// Columns that a plan does not depend on.
const UNREAD: &[&str] =
    &["errno", "origin", "handling", "waited_ns", "waited_for", "paced_ns", "issue_error_ns", "punctuality"];

/// Number of a call that has none here.
const UNKNOWN_CALL: u32 = 0xffff;
const O_CLOEXEC: u64 = 0o2000000;
/// Words of a thread that are gathered before they are written: of its first chunks, and of those after them.
const CHUNK_WORDS: usize = 4096;
const LONG_CHUNK_WORDS: usize = 24 << 10;
const FEW_CHUNKS: usize = 4;

pub use fill::{Fill, Mix};

/// Compiling failed.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The trace could not be read.
    #[error(transparent)]
    Trace(#[from] ReadError),
    /// The plan could not be written.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The trace contradicts itself.
    #[error("{trace}: action {action}: {cause}; the trace is damaged or was not made by Reprise")]
    Malformed {
        /// The trace.
        trace: String,
        /// The action.
        action: u64,
        /// What is wrong.
        cause: String,
    },
}

impl CompileError {
    /// An action of a thread that the trace does not name.
    pub(crate) fn no_thread(trace: &str, action: &Action) -> CompileError {
        CompileError::Malformed {
            trace: trace.to_owned(),
            action: action.seq,
            cause: format!("thread {} does not exist", action.thread),
        }
    }
}

/// What the compiler found.
#[derive(Debug, Clone, Default)]
pub struct CompileReport {
    /// Number of actions.
    pub actions: u64,
    /// Number of dependencies.
    pub waits: u64,
    /// Number of names in the initial tree.
    pub names: u64,
    /// Where the trace did not fit the model, and how often.
    pub surprises: BTreeMap<&'static str, u64>,
}

/// Compiles a trace to a plan. `progress` is told the actions done and their number.
pub fn compile(
    trace: &TraceReader,
    path: &Path,
    order: Order,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CompileReport, CompileError> {
    compile_filled(trace, path, order, Fill::default(), progress)
}

/// As [`compile`]; `fill` stands for content that the trace lacks.
pub fn compile_filled(
    trace: &TraceReader,
    path: &Path,
    order: Order,
    fill: Fill,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CompileReport, CompileError> {
    let mut compiler = Compiler::begin(trace, path, order, fill)?;
    let total = trace.count::<Action>();
    let mut actions = trace.actions().without(UNREAD);
    let (mut action, mut found) = (Action::default(), Interpretation::default());
    while actions.read(&mut action)? {
        if compiler.report.actions.is_multiple_of(4096) {
            progress(compiler.report.actions, total);
        }
        compiler.action(&action, &mut found)?;
    }
    progress(total, total);
    compiler.finish(trace, order, Filler::new(fill))
}

struct Compiler {
    trace: String,
    world: World,
    ordering: Ordering,
    store: Store,
    slots: Slots,
    processes: Vec<ProcessPlan>,
    threads: Vec<ThreadPlan>,
    streams: Vec<CommandWriter>,
    mappings: u32,
    /// Memory for the arguments of the next command.
    spare: Vec<Arg>,
    residency: Residency,
    passed_on: PassedOn,
    /// When the first action was issued.
    origin_ns: Option<u64>,
    report: CompileReport,
}

/// An action with all that is known of it.
struct Lowering<'a> {
    call: &'a Call,
    action: &'a Action,
    found: &'a Interpretation,
}

impl Lowering<'_> {
    fn bare(&self, op: Op) -> Command {
        bare(self.action, self.call.number, op)
    }
}

impl Compiler {
    fn begin(trace: &TraceReader, path: &Path, order: Order, fill: Fill) -> Result<Compiler, CompileError> {
        let world = World::begin(trace, false)?;
        let count = trace.count::<ThreadRow>() as usize;
        let processes = trace.count::<Process>() as usize;
        let lanes = (0..count).map(|thread| world.lane_of(thread as u32)).collect();
        let mut compiler = Compiler {
            trace: trace.path().display().to_string(),
            world,
            ordering: Ordering::new(order, count).with_lanes(lanes),
            store: Store::new(PlanWriter::create(path)?, trace.blobs(), fill)?,
            slots: Slots::new(count),
            processes: vec![ProcessPlan::default(); processes],
            threads: Vec::with_capacity(count),
            streams: (0..count).map(|_| CommandWriter::default()).collect(),
            mappings: 0,
            spare: Vec::new(),
            residency: Residency::of(trace.manifest()),
            passed_on: PassedOn::default(),
            origin_ns: None,
            report: CompileReport::default(),
        };
        // The first thread of each process that no action starts.
        let mut starting: HashMap<u32, u32> = HashMap::new();
        for row in trace.rows::<ThreadRow>() {
            let row = row?;
            let lane = compiler.world.lane_of(row.thread).map(|of| Lane { of, after: 0 });
            let spawned = row.created_by.is_some() || lane.is_some();
            if !spawned {
                starting.entry(row.process).or_insert(row.thread);
            }
            compiler.threads.push(ThreadPlan { process: row.process, spawned, lane, ..ThreadPlan::default() });
        }
        for row in trace.rows::<Process>() {
            let row = row?;
            if let Some(&thread) = starting.get(&row.process) {
                let start = compiler.process_start(thread, &row);
                compiler.processes[row.process as usize].start = Some(Box::new(start));
            }
        }
        Ok(compiler)
    }

    fn process_start(&mut self, thread: u32, row: &Process) -> ProcessStart {
        let four = |ids: &[u32]| std::array::from_fn(|i| ids.get(i).copied().unwrap_or(0));
        let (mut descriptors, mut locks) = (Vec::new(), Vec::new());
        for initial in self.world.initial_descriptors(row.process) {
            let slot = self.slots.make(thread, initial.binding);
            let shared = initial.shares.and_then(|binding| self.slots.get(binding));
            let source = match (shared, initial.stream) {
                (Some(slot), _) => {
                    let close_on_exec = initial.flags & O_CLOEXEC != 0;
                    FdSource::Duplicate { slot, close_on_exec }
                }
                (None, Some(kind)) => FdSource::StandIn(stand_in(kind)),
                (None, None) => FdSource::File {
                    path: initial.path.clone(),
                    flags: initial.flags,
                    offset: initial.offset,
                    seals: initial.seals,
                },
            };
            descriptors.push(InitialFd { slot, source });
            locks.extend(initial.locks.iter().map(|lock| InitialLock {
                slot,
                kind: lock.kind,
                exclusive: lock.exclusive != 0,
                start: lock.start,
                length: lock.length,
            }));
        }
        let mapped = self.world.initial_mappings(row.process).iter().map(|initial| InitialMapping {
            slot: initial.mapping,
            path: initial.path.clone(),
            length: initial.length,
            protection: initial.protection,
            flags: initial.flags,
            offset: initial.offset,
        });
        let mappings: Vec<InitialMapping> = mapped.collect();
        self.mappings = mappings.iter().map(|mapping| mapping.slot + 1).fold(self.mappings, u32::max);
        ProcessStart {
            cwd: row.cwd.to_vec(),
            root: row.root.to_vec(),
            umask: row.umask,
            uids: four(&row.uids),
            gids: four(&row.gids),
            groups: row.groups.clone(),
            descriptors,
            locks,
            mappings,
            kin: self.world.kin(row.process).map(|kin| KinStart {
                of: kin.of,
                descriptors: kin.descriptors,
                directories: kin.directories,
            }),
        }
    }

    /// `found` is memory for what the model finds.
    fn action(&mut self, action: &Action, found: &mut Interpretation) -> Result<(), CompileError> {
        let thread = action.thread as usize;
        if thread >= self.threads.len() {
            return Err(CompileError::no_thread(&self.trace, action));
        }
        let command = match reprise_calls::by_name(&action.call) {
            Some(call) => self.known(call, action, found)?,
            None => {
                let nothing = Interpretation::default();
                let waits = self.wait(action, &nothing);
                self.ordered(action, bare(action, UNKNOWN_CALL, Op::Unsupported), waits, &nothing)
            }
        };
        self.streams[thread].add(&command);
        self.spare = command.args;
        self.threads[thread].commands += 1;
        self.report.actions += 1;
        self.report.waits += command.waits.len() as u64;
        if command.op == Op::Exit {
            self.flush(thread)?;
            self.streams[thread] = CommandWriter::default();
        } else if self.streams[thread].words().len() >= chunk_words(self.threads[thread].chunks.len()) {
            self.flush(thread)?;
        }
        Ok(())
    }

    /// The command with what it waits for, and when it came.
    fn ordered(&mut self, action: &Action, command: Command, waits: Waits, found: &Interpretation) -> Command {
        let origin_ns = *self.origin_ns.get_or_insert(action.begin_ns);
        // How long requests were waited for is their doing, which is replayed.
        let about_requests = found.touches.iter().any(|(resource, _)| matches!(resource, Resource::Request(_)));
        let issued = !matches!(command.op, Op::Simulate | Op::Skip | Op::Unsupported);
        let at_ns = if issued || about_requests { action.begin_ns } else { action.end_ns() };
        let timing = Timing::of(at_ns, waits.ready_ns, origin_ns, action.cpu_ns);
        Command { waits: waits_of(&waits), timing, ..command }
    }

    fn wait(&mut self, action: &Action, found: &Interpretation) -> Waits {
        let waits = self.ordering.next(action.thread, action.begin_ns, action.end_ns(), &found.touches);
        self.ordering.follow(action.thread, found);
        let plan = &mut self.threads[action.thread as usize];
        if let (0, Some(lane), Some(after)) = (plan.commands, &mut plan.lane, waits.submitted_after) {
            lane.after = after;
        }
        waits
    }

    fn known(
        &mut self,
        call: &'static Call,
        action: &Action,
        found: &mut Interpretation,
    ) -> Result<Command, CompileError> {
        self.world.follow_into(call, action, &mut self.store.blobs, found)?;
        if let Some(surprise) = found.surprise {
            *self.report.surprises.entry(surprise).or_default() += 1;
        }
        let waits = self.wait(action, found);
        let lowering = Lowering { call, action, found };
        let command = self.lower(&lowering)?;
        let mut command = self.ordered(action, command, waits, lowering.found);
        command.timing.cached = self.residency.cached(call, action);
        for &binding in &lowering.found.released {
            self.slots.release(action.thread, binding);
        }
        Ok(command)
    }

    fn flush(&mut self, thread: usize) -> Result<(), CompileError> {
        if !self.streams[thread].words().is_empty() {
            let chunk = self.store.writer.commands(self.streams[thread].words())?;
            self.threads[thread].chunks.push(chunk);
            self.streams[thread].clear();
        }
        Ok(())
    }

    fn finish(mut self, trace: &TraceReader, order: Order, filler: Filler) -> Result<CompileReport, CompileError> {
        self.world.finish()?;
        for thread in 0..self.threads.len() {
            self.flush(thread)?;
        }
        let tree = tree::initial_tree(&self.world, filler, &mut self.store)?;
        self.report.names = tree.len() as u64;
        let contents = Contents {
            trace: trace.manifest().id.clone(),
            order: order.to_string(),
            commands: self.report.actions,
            slots: self.slots.count(),
            mappings: self.mappings,
            threads: self.threads,
            processes: self.processes,
            tree,
            nameless: self.world.nameless().map(<[u8]>::to_vec).collect(),
            ..Contents::default()
        };
        self.store.writer.finish(contents)?;
        Ok(self.report)
    }
}

/// How long a thread's next chunk is to be: a long thread's are worth a read of the device each.
fn chunk_words(chunks: usize) -> usize {
    if chunks < FEW_CHUNKS { CHUNK_WORDS } else { LONG_CHUNK_WORDS }
}

fn waits_of(waits: &Waits) -> Vec<Wait> {
    waits.edges.iter().map(|edge| edge.wait).collect()
}

/// A command with nothing but its origin and traced result.
fn bare(action: &Action, number: u32, op: Op) -> Command {
    Command {
        origin: action.seq,
        number,
        op,
        stand_in: StandIn::Null,
        tolerance: Tolerance::None,
        result: action.result,
        produces: [u32::MAX; 2],
        args: Vec::<Arg>::new(),
        within: 0,
        expect: Expect::Nothing,
        digest: 0,
        list: Vec::new(),
        waits: Vec::new(),
        timing: Timing::default(),
    }
}

fn stand_in(kind: StreamKind) -> StandIn {
    match kind {
        StreamKind::Null => StandIn::Null,
        StreamKind::Pipe => StandIn::Pipe,
        StreamKind::Socket => StandIn::Socket,
        StreamKind::Event | StreamKind::Watch => StandIn::Event,
        StreamKind::Epoll => StandIn::Epoll,
    }
}
