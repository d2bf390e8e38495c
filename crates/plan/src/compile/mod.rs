//! The compiler: one pass over the trace, state in memory only for what lives.

mod arguments;
mod expect;
mod lower;
mod slots;
mod store;
mod tree;

use std::collections::BTreeMap;
use std::path::Path;

use reprise_calls::Call;
use reprise_model::{Interpretation, StreamKind, World};
use reprise_trace::{Action, ReadError, TraceReader};

use crate::command::{Arg, Command, Expect, Op, StandIn, Tolerance};
use crate::file::{Contents, FdSource, InitialFd, PlanError, PlanWriter, ProcessPlan, ProcessStart, ThreadPlan};
use crate::order::{Order, Ordering};
use slots::Slots;
use store::Store;

/// Words of a thread that are gathered before they are written.
const CHUNK_WORDS: usize = 4096;

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
    let mut compiler = Compiler::begin(trace, path, order)?;
    let total = trace.count::<Action>();
    for (done, action) in trace.actions().enumerate() {
        compiler.action(&action?)?;
        if done % 4096 == 0 {
            progress(done as u64, total);
        }
    }
    progress(total, total);
    compiler.finish(trace, order)
}

struct Compiler {
    trace: String,
    world: World,
    ordering: Ordering,
    store: Store,
    slots: Slots,
    processes: Vec<ProcessPlan>,
    threads: Vec<ThreadPlan>,
    streams: Vec<Vec<u64>>,
    mappings: u32,
    report: CompileReport,
}

/// An action with all that is known of it.
struct Lowering<'a> {
    call: &'a Call,
    action: &'a Action,
    found: Interpretation,
}

impl Compiler {
    fn begin(trace: &TraceReader, path: &Path, order: Order) -> Result<Compiler, CompileError> {
        let world = World::begin(trace, false)?;
        let rows = trace.threads()?;
        let count = rows.len();
        let processes = trace.processes()?;
        let mut compiler = Compiler {
            trace: trace.path().display().to_string(),
            world,
            ordering: Ordering::new(order, count),
            store: Store::new(PlanWriter::create(path)?, trace.blobs()),
            slots: Slots::new(count),
            processes: vec![ProcessPlan::default(); processes.len()],
            threads: Vec::with_capacity(count),
            streams: vec![Vec::new(); count],
            mappings: 0,
            report: CompileReport::default(),
        };
        for row in rows {
            compiler.threads.push(ThreadPlan {
                process: row.process,
                spawned: row.created_by.is_some(),
                ..ThreadPlan::default()
            });
            if row.created_by.is_none() && compiler.processes[row.process as usize].start.is_none() {
                let start = compiler.process_start(row.thread, &processes[row.process as usize]);
                compiler.processes[row.process as usize].start = Some(start);
            }
        }
        Ok(compiler)
    }

    fn process_start(&mut self, thread: u32, row: &reprise_trace::Process) -> ProcessStart {
        let four = |ids: &[u32]| std::array::from_fn(|i| ids.get(i).copied().unwrap_or(0));
        let mut descriptors = Vec::new();
        for initial in self.world.initial_descriptors(row.process) {
            let slot = self.slots.make(thread, initial.binding);
            let shared = initial.shares.and_then(|binding| self.slots.get(binding));
            let source = match (shared, initial.stream) {
                (Some(slot), _) => FdSource::Duplicate { slot },
                (None, Some(kind)) => FdSource::StandIn(stand_in(kind)),
                (None, None) => {
                    FdSource::File { path: initial.path.clone(), flags: initial.flags, offset: initial.offset }
                }
            };
            descriptors.push(InitialFd { slot, source });
        }
        ProcessStart {
            cwd: row.cwd.to_vec(),
            root: row.root.to_vec(),
            umask: row.umask,
            uids: four(&row.uids),
            gids: four(&row.gids),
            groups: row.groups.clone(),
            descriptors,
        }
    }

    fn action(&mut self, action: &Action) -> Result<(), CompileError> {
        let thread = action.thread as usize;
        if thread >= self.threads.len() {
            return Err(CompileError::Malformed {
                trace: self.trace.clone(),
                action: action.seq,
                cause: format!("thread {thread} does not exist"),
            });
        }
        let command = match reprise_calls::by_name(&action.call) {
            Some(call) => self.known(call, action)?,
            None => {
                let waits = self.wait(action, &Interpretation::default());
                Command { waits, ..bare(action, Op::Unsupported) }
            }
        };
        command.encode(&mut self.streams[thread]);
        self.threads[thread].commands += 1;
        self.report.actions += 1;
        self.report.waits += command.waits.len() as u64;
        if self.streams[thread].len() >= CHUNK_WORDS {
            self.flush(thread)?;
        }
        Ok(())
    }

    fn wait(&mut self, action: &Action, found: &Interpretation) -> Vec<crate::command::Wait> {
        let end = action.begin_ns.saturating_add(action.duration_ns);
        let waits = self.ordering.next(action.thread, action.begin_ns, end, &found.touches);
        found.dead.iter().for_each(|resource| self.ordering.forget(*resource));
        waits
    }

    fn known(&mut self, call: &'static Call, action: &Action) -> Result<Command, CompileError> {
        let found = self.world.follow(call, action, &mut self.store.blobs)?;
        if let Some(surprise) = found.surprise {
            *self.report.surprises.entry(surprise).or_default() += 1;
        }
        let waits = self.wait(action, &found);
        let lowering = Lowering { call, action, found };
        let mut command = self.lower(&lowering)?;
        command.waits = waits;
        for &binding in &lowering.found.released {
            self.slots.release(action.thread, binding);
        }
        Ok(command)
    }

    fn flush(&mut self, thread: usize) -> Result<(), CompileError> {
        if !self.streams[thread].is_empty() {
            let chunk = self.store.writer.commands(&self.streams[thread])?;
            self.threads[thread].chunks.push(chunk);
            self.streams[thread].clear();
        }
        Ok(())
    }

    fn finish(mut self, trace: &TraceReader, order: Order) -> Result<CompileReport, CompileError> {
        self.world.finish();
        for thread in 0..self.threads.len() {
            self.flush(thread)?;
        }
        let tree = tree::initial_tree(&self.world, &mut self.store)?;
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
            ..Contents::default()
        };
        self.store.writer.finish(contents)?;
        Ok(self.report)
    }
}

/// A command with nothing but its origin and traced result.
fn bare(action: &Action, op: Op) -> Command {
    Command {
        origin: action.seq,
        number: reprise_calls::by_name(&action.call).map_or(0xffff, |c| c.number),
        op,
        stand_in: StandIn::Null,
        tolerance: Tolerance::None,
        result: action.result,
        produces: [u32::MAX; 2],
        args: Vec::<Arg>::new(),
        expect: Expect::Nothing,
        list: Vec::new(),
        waits: Vec::new(),
    }
}

fn stand_in(kind: StreamKind) -> StandIn {
    match kind {
        StreamKind::Null => StandIn::Null,
        StreamKind::Pipe => StandIn::Pipe,
        StreamKind::Socket => StandIn::Socket,
        StreamKind::Event => StandIn::Event,
        StreamKind::Epoll => StandIn::Epoll,
        StreamKind::Watch => StandIn::Watch,
    }
}
