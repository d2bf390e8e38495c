//! What compiling holds in memory does not grow with the number of actions.

use std::path::Path;
use std::process::Command;

use reprise_testkit::program;
use reprise_testkit::scratch::Scratch;
use reprise_testkit::synthetic::{self, Mix};

const ACTIONS: u64 = 250_000;
/// What is remembered within fixed bounds still fills up at first. A compiler that keeps something of every action needs
/// several times as much.
const GROWTH_BYTES_PER_ACTION: u64 = 32;

/// Largest resident set of `reprise compile`, in KiB, as the kernel counted it.
fn peak_kib(trace: &Path, plan: &Path) -> u64 {
    let reprise = program::reprise().expect("a built reprise");
    let mut command = Command::new("python3");
    // The shell has no way to ask for it; Python's standard library has.
    command.arg("-c").arg(
        "import json, resource, subprocess, sys\n\
         out = subprocess.run(sys.argv[1:], check=True, capture_output=True).stdout\n\
         assert json.loads(out)['surprises'] == {}, out\n\
         print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)",
    );
    command.arg(reprise).args(["compile", "-q", "--json", "-o"]).arg(plan).arg(trace);
    let output = program::succeed(&mut command);
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

/// Four times as many actions with as many living files, descriptors and processes.
#[test]
fn memory_does_not_grow_with_actions() {
    for mix in [Mix::Mail, Mix::Database] {
        let scratch = Scratch::new();
        let peak = |actions: u64| {
            let (trace, plan) = (scratch.path().join(format!("{actions}")), scratch.path().join("plan"));
            synthetic::write(&trace, mix, actions, 1).expect("a trace");
            peak_kib(&trace, &plan)
        };
        let (few, many) = (peak(ACTIONS), peak(4 * ACTIONS));
        let limit = few + 3 * ACTIONS * GROWTH_BYTES_PER_ACTION / 1024;
        assert!(many < limit, "{}: {few} KiB for {ACTIONS} actions, {many} KiB for four times as many", mix.name());
    }
}
