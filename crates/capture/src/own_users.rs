//! Mounts with users of their own: said in the trace, since who is who there is not followed.

use reprise_calls::Call;
use reprise_calls::mounts::{OWN_USERS, own_users};
use reprise_trace::payload::{Side, split};
use reprise_trace::{Action, Loss};

use crate::arguments::failed;
use crate::log::Log;

/// Counts a call that gives a mount users of its own.
pub fn count(call: &Call, action: &Action, log: &mut Log) {
    if failed(action.result) {
        return;
    }
    let attributes = split(call, Side::Input, &action.input)[3];
    if own_users(call, &action.args, attributes).is_some_and(|users| users.has) {
        log.loss(Loss::Unsupported, format!("{}: {OWN_USERS}", call.name), 0);
    }
}
