//! `reprise tree`.

use std::io::{BufWriter, Write};
use std::path::Path;

use reprise_plan::{Order, Plan};
use reprise_report::TreeOptions;
use reprise_trace::{Action, TraceReader};

use super::slice::failure;
use super::{Outcome, print};
use crate::args::slices::Tree;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::unfinished::Unfinished;

/// Prints or extracts a tree.
pub fn run(args: Tree) -> Outcome {
    let trace = TraceReader::open(&args.trace)?;
    let cut = args.at.cut(&trace).map_err(failure)?;
    if let Some(directory) = &args.extract {
        return extract(&trace, cut, directory, &args);
    }
    let total = trace.count::<Action>();
    let mut progress = Progress::new("following", "actions", args.quiet);
    let snapshot = reprise_slice::snapshot_at(&trace, cut, &mut |done| progress.at(done, total)).map_err(failure)?;
    drop(progress);
    let options =
        TreeOptions { below: args.path.map(|path| path.into_encoded_bytes()), long: args.long, json: args.json };
    let mut out = BufWriter::new(std::io::stdout().lock());
    for line in reprise_report::tree_lines(&trace, &snapshot, &options) {
        writeln!(out, "{}", line?).map_err(Failure::output)?;
    }
    out.flush().map_err(Failure::output)?;
    Ok(Exit::Done.into())
}

/// The tree as the initial tree of a slice without actions, built as that of a replay.
fn extract(trace: &TraceReader, cut: u64, directory: &Path, args: &Tree) -> Outcome {
    let cannot = |e: std::io::Error| {
        Failure::new(Exit::System, format!("cannot keep the tree: {e}; set TMPDIR to a place with room"))
    };
    // Only what was empty is emptied again.
    let empty = directory.read_dir().is_ok_and(|mut entries| entries.next().is_none());
    let (scratch, unfinished) = Unfinished::begin("nothing was extracted; the same command begins anew", || {
        let scratch = tempfile::Builder::new().prefix("reprise-").tempdir()?;
        let (kept, place) = (scratch.path().to_owned(), directory.to_owned());
        let undo = move || {
            let _ = std::fs::remove_dir_all(&kept);
            if empty {
                reprise_trace::discard(&place, true);
            }
        };
        Ok((scratch, undo))
    })
    .map_err(cannot)?;
    let total = trace.count::<Action>();
    let mut following = Progress::new("following", "actions", args.quiet);
    let part = scratch.path().join("state.reprise");
    let report = reprise_slice::state(trace, &part, cut, &mut |done| following.at(done, total));
    drop(following);
    report.map_err(failure)?;
    let path = scratch.path().join("plan");
    let state = TraceReader::open(&part)?;
    reprise_plan::compile(&state, &path, Order::default(), &mut |_, _| {})?;
    let plan = Plan::open(&path)?;
    let mut writing = Progress::new("extracting", "bytes", args.quiet);
    let built = reprise_replay::run::extract(&plan, directory, &mut |done, total| writing.at(done, total));
    drop(writing);
    let built = built.map_err(super::replay::failure)?;
    unfinished.whole(|| ());
    let mut text = format!(
        "{}: {} directories, {} files, {} links, {} bytes\n",
        directory.display(),
        built.directories,
        built.files,
        built.links + built.symlinks,
        built.bytes
    );
    for (skipped, count) in &built.skipped {
        text += &format!("  note: {skipped} ({count})\n");
    }
    print(&text)
}
