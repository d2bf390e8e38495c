//! One pass over a trace with its dependencies.

use reprise_model::World;
use reprise_trace::{Action, ThreadRow, TraceReader};

use crate::compile::CompileError;
use crate::order::{Order, Ordering, Waits};

/// An action and what it waits for.
pub(super) struct Seen<'a> {
    /// The state after the action.
    pub world: &'a World,
    pub action: &'a Action,
    /// Its place among its thread's actions, from 1.
    pub count: u64,
    pub waits: &'a Waits,
    /// The thread it started.
    pub spawned: Option<u32>,
}

/// Shows every action in order of effect, until `see` returns false. With `explain`, also the waits that others imply.
pub(super) fn pass(
    trace: &TraceReader,
    order: Order,
    explain: bool,
    see: &mut dyn FnMut(Seen<'_>) -> bool,
) -> Result<(), CompileError> {
    let mut world = World::begin(trace, false)?;
    let threads = trace.count::<ThreadRow>() as usize;
    let lanes = (0..threads).map(|thread| world.lane_of(thread as u32)).collect();
    let mut ordering = Ordering::new(order, threads).with_lanes(lanes);
    if explain {
        ordering.explain();
    }
    let mut counts = vec![0u64; threads];
    let mut blobs = trace.blobs();
    for action in trace.actions() {
        let action = action?;
        let Some(count) = counts.get_mut(action.thread as usize) else {
            return Err(CompileError::no_thread(&trace.path().display().to_string(), &action));
        };
        *count += 1;
        let found = match reprise_calls::by_name(&action.call) {
            Some(call) => world.follow(call, &action, &mut blobs)?,
            None => Default::default(),
        };
        let waits = ordering.next(action.thread, action.begin_ns, action.end_ns(), &found.touches);
        ordering.follow(action.thread, &found);
        let seen = Seen { world: &world, action: &action, count: *count, waits: &waits, spawned: found.spawned };
        if !see(seen) {
            break;
        }
    }
    Ok(())
}
