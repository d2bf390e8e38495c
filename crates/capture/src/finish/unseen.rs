//! What calls ask for that the programs in the kernel do not capture: said in the trace, never left out silently.

use reprise_calls::Effect;
use reprise_trace::Loss;

use super::decode::Pending;
use crate::arguments::failed;
use crate::log::Log;

/// Counts what a call brings about that is not in the trace; stores are, if they are told.
pub fn count(pending: &Pending, stores_are_told: bool, log: &mut Log) {
    let (args, result) = (&pending.action.args, pending.action.result);
    if failed(result) {
        return;
    }
    match pending.call.effect {
        Effect::Map if !stores_are_told && stores_to_file(pending) => {
            let cause = "writes through a shared mapping of a file, which were not looked for";
            log.loss(Loss::Dropped, cause, args[1]);
        }
        _ => {}
    }
}

/// Whether memory was mapped that, when it is written to, changes a regular file.
fn stores_to_file(pending: &Pending) -> bool {
    let args = &pending.action.args;
    let shared = args[3] & libc::MAP_SHARED as u64 != 0 && args[3] & libc::MAP_ANONYMOUS as u64 == 0;
    let file = pending.objects.first().is_none_or(|object| object.mode & libc::S_IFMT == libc::S_IFREG);
    shared && file && args[2] & libc::PROT_WRITE as u64 != 0
}
