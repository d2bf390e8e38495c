//! What the tree should be: the trace followed through the model, with contents.

use std::collections::{BTreeMap, HashSet};

use reprise_calls::{ArgKind, Effect};
use reprise_model::World;
use reprise_trace::payload::{Side, split};
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
        let found = world.follow(call, &action, &mut blobs)?;
        match call.effect {
            Effect::SetXattr if action.result >= 0 => {
                let kept = action.data_bytes == 0 || !action.data.is_empty();
                match blobs.content(&action.data)?.filter(|_| kept && action.truncated_bytes == 0) {
                    Some(value) => world.attribute_set(call, &action, value),
                    None => {
                        let input = split(call, Side::Input, &action.input);
                        let name = call.position(|k| matches!(k, ArgKind::Text)).and_then(|i| input[i]);
                        unknown_attributes.extend(name.map(<[u8]>::to_vec));
                    }
                }
            }
            _ => {}
        }
        if let Some(surprise) = found.surprise {
            *surprises.entry(surprise.to_owned()).or_default() += 1;
        }
    }
    world.finish();
    Ok(Expected { world, surprises, unknown_attributes })
}
