//! What the tree should be: the trace followed through the model, with contents.

use std::collections::{BTreeMap, HashSet};

use reprise_calls::acl;
use reprise_model::World;
use reprise_trace::{ReadError, TraceReader};

/// The state after the last action.
pub(super) struct Expected {
    pub world: World,
    pub surprises: BTreeMap<String, u64>,
    /// Extended attributes that were set to values the trace does not hold.
    unknown_attributes: HashSet<Vec<u8>>,
}

impl Expected {
    /// Whether an attribute of this name may have a value that the trace does not hold: also by a directory, whose default list is the
    /// access list of what is made in it.
    pub fn is_unknown(&self, name: &[u8]) -> bool {
        let has = |name: &[u8]| self.unknown_attributes.contains(name);
        has(name) || name == acl::ACCESS && has(acl::DEFAULT)
    }
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
