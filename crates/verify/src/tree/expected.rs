//! What the tree should be: the trace followed through the model, with contents.

use std::collections::{BTreeMap, HashSet};

use reprise_model::World;
use reprise_trace::{ReadError, TraceReader};

/// The state after the last action.
pub(super) struct Expected {
    pub world: World,
    pub surprises: BTreeMap<String, u64>,
    /// Extended attributes that were set to values the trace does not hold.
    pub unknown_attributes: HashSet<Vec<u8>>,
}

/// Follows a trace to its end.
pub(super) fn follow(trace: &TraceReader) -> Result<Expected, ReadError> {
    let mut world = World::begin(trace, true)?;
    let mut blobs = trace.blobs();
    let mut surprises: BTreeMap<String, u64> = BTreeMap::new();
    let mut unknown_attributes = HashSet::new();
    for action in trace.actions() {
        let action = action?;
        let Some(call) = reprise_calls::by_name(&action.call) else {
            continue;
        };
        let (found, unknown) = world.follow_attributes(call, &action, &mut blobs)?;
        unknown_attributes.extend(unknown);
        if let Some(surprise) = found.surprise {
            *surprises.entry(surprise.to_owned()).or_default() += 1;
        }
    }
    world.finish()?;
    Ok(Expected { world, surprises, unknown_attributes })
}
