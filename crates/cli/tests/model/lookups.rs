//! A lookup through a broken link waits for the rename of the directory that repairs it, although no path of the one names
//! anything that the other does: by names alone (ARTC) the two are free.

use reprise_trace::{Action, TraceReader};

use crate::case::{Case, Recorded};
use crate::waits::Waits;

#[test]
fn a_lookup_through_a_link_waits_for_the_rename_that_repairs_it() {
    let recorded = Recorded::new(&Case::new("repaired_link"), false);
    let trace = TraceReader::open(&recorded.trace).expect("a trace");
    let concerns = |a: &Action| match &a.path {
        Some(path) => (a.call == "openat" && path.to_vec() == b"link") || (a.call == "rename" && a.thread == 0),
        None => false,
    };
    let actions = trace.actions().map(|a| a.expect("an action"));
    let turns: Vec<Action> = actions.filter(concerns).collect();
    assert_eq!(turns.len(), 80, "twenty times: not found, renamed, found, renamed back");
    let (with, without) =
        (Waits::read(&recorded.plan("root")), Waits::read(&recorded.plan("root:path=none,file=none")));
    for pair in turns.windows(2) {
        let [before, after] = pair else { continue };
        assert!(with.in_order(before.seq, after.seq), "{} before {}", before.seq, after.seq);
        assert!(!without.in_order(before.seq, after.seq), "{} before {} by another rule", before.seq, after.seq);
    }
}
