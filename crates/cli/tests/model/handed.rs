//! Hand-offs in the plan: whoever received goes on only after who sent. A replay could keep that by luck, so what is
//! looked at is what its threads wait for.

use reprise_trace::TraceReader;

use crate::case::{Case, Recorded, check};
use crate::waits::Waits;

/// The action that made this directory.
fn made(trace: &TraceReader, name: &str) -> u64 {
    let mut actions = trace.actions().map(|a| a.expect("an action"));
    let found = actions.find(|a| a.call == "mkdir" && a.path.as_ref().is_some_and(|p| p.to_vec() == name.as_bytes()));
    found.unwrap_or_else(|| panic!("mkdir {name}")).seq
}

/// Records one way of handing over, replays it, and looks for these orders in its plan: (earlier, later). Without the
/// rule none of them must be there, or something else would order them (as the default rule for files does with a FIFO).
fn handed(way: &'static str, orders: &[(&str, &str)]) {
    let case = Case::new("handed").with(way).simulating(&[
        "socket",
        "socketpair",
        "bind",
        "listen",
        "accept",
        "connect",
        "eventfd2",
        "read",
        "write",
        "openat",
    ]);
    check(&case);
    let recorded = Recorded::new(&case, false);
    let trace = TraceReader::open(&recorded.trace).expect("a trace");
    let (with, without) =
        (Waits::read(&recorded.plan("root:file=stage")), Waits::read(&recorded.plan("root:file=stage,handoff=none")));
    for (earlier, later) in orders {
        let (first, second) = (made(&trace, earlier), made(&trace, later));
        assert!(with.in_order(first, second), "{way}: {earlier} before {later}");
        assert!(!without.in_order(first, second), "{way}: {earlier} before {later} by another rule");
        assert!(!with.in_order(second, first), "{way}: {later} before {earlier}");
    }
}

/// What was read first needs only what was written first; the end needs all.
const BYTES: [(&str, &str); 4] =
    [("one", "after_three"), ("two", "after_three"), ("two", "after_six"), ("three", "after_all")];

#[test]
fn by_a_pipe() {
    handed("pipe", &BYTES);
}

#[test]
fn by_a_pair_of_sockets() {
    handed("pair", &BYTES);
}

#[test]
fn by_a_fifo() {
    handed("fifo", &BYTES);
}

#[test]
fn by_a_connection() {
    handed("connection", &BYTES);
}

#[test]
fn by_a_counter() {
    handed("counter", &[("one", "after_three")]);
}

#[test]
fn by_a_child_that_ends() {
    handed("child", &[("one", "after_three"), ("three", "after_all")]);
}
