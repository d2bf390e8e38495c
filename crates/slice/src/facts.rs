//! What an action needs of what others did, and what it changes for them.
//!
//! Unlike ordering, which asks what may not pass what, this asks what would be different without an action: two writes are
//! in order, but neither needs the other; a failed call changes nothing.

use reprise_calls::closing::closes;
use reprise_calls::{Call, Effect};
use reprise_model::{Interpretation, Resource, Touch};
use reprise_trace::Action;

/// Something that one action leaves for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Thing {
    /// A resource of the model.
    Of(Resource),
    /// A descriptor.
    Binding(u32),
    /// That a thread exists, and its own state: directories, mask, users.
    Thread(u32),
}

/// The facts of one action.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub thread: u32,
    /// Asked for.
    pub chosen: bool,
    /// It ends its thread.
    pub exits: bool,
    /// The descriptor it closes.
    pub closes: Option<u32>,
    pub needs: Vec<Thing>,
    pub changes: Vec<Thing>,
    /// What it makes anew: nothing earlier matters for it.
    pub makes: Vec<Thing>,
}

/// Whether the action changes state of its own thread or process that is no resource.
fn changes_thread(call: &Call) -> bool {
    use Effect::*;
    matches!(call.effect, ChangeDirectory | ChangeRoot | ChangeMask | ChangeIdentity | Execute | CloseRange | Mount)
}

impl Facts {
    /// Of an action that is not understood.
    pub fn unknown(thread: u32) -> Facts {
        Facts { thread, needs: vec![Thing::Thread(thread)], ..Facts::default() }
    }

    /// The facts of an action that was followed.
    pub fn of(call: &Call, action: &Action, found: &Interpretation) -> Facts {
        let done = action.result >= 0;
        let mut out = Facts { exits: call.effect == Effect::Exit, ..Facts::unknown(action.thread) };
        if done && changes_thread(call) {
            out.changes.push(Thing::Thread(action.thread));
        }
        for &(resource, touch) in &found.touches {
            out.touch(resource, touch, done);
        }
        out.needs.extend(found.arguments.iter().flatten().map(|b| Thing::Binding(*b)));
        let named = found.by_descriptor.into_iter().chain(found.by_way_of.as_ref().map(|(named, _)| *named));
        out.needs.extend(named.map(|named| Thing::Binding(named.binding)));
        out.makes.extend(found.made.iter().map(|made| Thing::Binding(made.binding)));
        out.makes.extend(found.spawned.map(Thing::Thread));
        if call.effect == Effect::Close && closes(action.result, action.request.is_some()) {
            out.closes = found.arguments[0];
        }
        out
    }

    fn touch(&mut self, resource: Resource, touch: Touch, done: bool) {
        match resource {
            // Bindings say it better; what comes through streams, and whom a parent waits for, is taken from the trace.
            Resource::Descriptor(_)
            | Resource::CloseOnExec(_)
            | Resource::Stream(_)
            | Resource::Request(_)
            | Resource::Process(_) => return,
            // Only for order.
            Resource::Forgotten(_) => return,
            Resource::File(_)
            | Resource::Content(_)
            | Resource::Size(_)
            | Resource::Attributes(_)
            | Resource::Locks(_)
            | Resource::Entry(_)
            | Resource::Names(_)
            | Resource::Offset(_)
            | Resource::Flags(_)
            | Resource::Mapping(_)
            | Resource::Table(_)
            | Resource::Directories(_) => {}
        }
        let (needs, changes) = match touch {
            Touch::Look | Touch::Read(..) => (true, false),
            Touch::Change | Touch::Destroy => (true, true),
            Touch::Add | Touch::Create | Touch::Write(..) => (false, true),
            Touch::Flush | Touch::Send(_) | Touch::Receive(_) => (false, false),
        };
        self.needs.extend(needs.then_some(Thing::Of(resource)));
        self.changes.extend((changes && done).then_some(Thing::Of(resource)));
    }
}
