//! Devices that a replay has, too: what they always have more of is asked for as far as it came.

mod means;

use means::{has, mkdir, record, run};
use reprise_testkit::scratch::Scratch;
use reprise_testkit::skip;

/// Reads from a device until a signal has ended a read before its end, each in two ways; writes down what came.
const INTERRUPTED: &str = r#"
import os, signal
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
memory = bytearray(1 << 28)
came = []
for name in ("/dev/zero", "/dev/urandom"):
    fd = os.open(name, os.O_RDONLY)
    for read in (lambda: os.readv(fd, [memory]), lambda: os.readv(fd, [memoryview(memory)[:99999], memory])):
        for _ in range(200):
            came.append(read())
            if came[-1] < len(memory):
                break
signal.setitimer(signal.ITIMER_REAL, 0)
open("came", "w").write(" ".join(map(str, came)))
"#;

#[test]
fn a_read_that_a_signal_ended_is_replayed_as_far_as_it_came() {
    let s = Scratch::new();
    let name = "a_read_that_a_signal_ended_is_replayed_as_far_as_it_came";
    if !has("python3") {
        return skip(name, "no python3");
    }
    std::fs::write(s.path().join("p.py"), INTERRUPTED).unwrap();
    record(s.path(), "a.reprise", "python3 p.py");
    let came = std::fs::read_to_string(s.path().join("came")).unwrap();
    if !came.split(' ').any(|bytes| bytes.parse::<u64>().unwrap() < 1 << 28) {
        return skip(name, "no signal came in time");
    }
    mkdir(s.path(), "t");
    run(s.path(), &["replay", "a.reprise", "--target", "t"]).ends(0);
}
