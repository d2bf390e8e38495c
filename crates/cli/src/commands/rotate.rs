//! `reprise record --rotate`: a chain of traces in place of one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use reprise_slice::{Length, Moment, Selection};
use reprise_trace::{TraceReader, WriteError, discard};

use super::slice;
use crate::exit::Failure;
use crate::progress::Progress;
use crate::unfinished::Unfinished;

/// Cuts a finished trace into pieces NAME.1, NAME.2 … of a length, of which the last `keep` are made, and removes it.
/// Returns the pieces.
pub fn cut(trace: &Path, length: Length, keep: Option<usize>, quiet: bool) -> Result<Vec<PathBuf>, Failure> {
    let made = pieces(trace, length, keep, quiet);
    if made.is_ok() {
        discard(trace, false);
    }
    made.map_err(|e| Failure::new(e.exit, format!("{}; the trace {} is whole", e.message, trace.display())))
}

fn pieces(trace: &Path, length: Length, keep: Option<usize>, quiet: bool) -> Result<Vec<PathBuf>, Failure> {
    let reader = TraceReader::open(trace)?;
    let pieces = reprise_slice::pieces(&reader, length).map_err(slice::failure)?;
    let (count, total) = (pieces.len(), reader.count::<reprise_trace::Action>());
    let left_out = count.saturating_sub(keep.unwrap_or(count));
    let mut progress = Progress::new("rotating", "actions", quiet);
    let mut made = Vec::new();
    let state = format!("no piece was kept; the trace {} is whole: `reprise slice` cuts it", trace.display());
    let unfinished = Unfinished::new(state, || ());
    for (number, (from, to)) in pieces.into_iter().enumerate().skip(left_out) {
        let path = name(trace, number + 1);
        if path.symlink_metadata().is_ok() {
            return Err(WriteError::Exists { path }.into());
        }
        let selection = Selection { from: Moment::Action(from), to: Moment::Action(to), ..Selection::default() };
        let piece = path.clone();
        unfinished.also(move || discard(&piece, false));
        let cut = reprise_slice::slice(&reader, &path, &selection, &mut |done, _| progress.at(done, total));
        cut.map_err(slice::failure)?;
        made.push(path);
    }
    unfinished.whole(|| Ok(made))
}

/// The name of a piece.
fn name(trace: &Path, number: usize) -> PathBuf {
    let mut name = OsString::from(trace);
    name.push(format!(".{number}"));
    name.into()
}
