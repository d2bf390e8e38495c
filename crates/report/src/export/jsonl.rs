//! A JSON object a line, as `cat --json` prints them, with the file that the action concerns.

use std::io::Write;

use reprise_trace::TraceReader;

use super::{ExportError, Exported, each};
use crate::cat::json;

pub(super) fn write(
    trace: &TraceReader,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Exported, ExportError> {
    let actions = each(trace, progress, &mut |action, file| Ok(writeln!(out, "{}", json::object(action, file))?))?;
    Ok(Exported { actions, ..Exported::default() })
}
