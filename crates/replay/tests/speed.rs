//! What a simple command costs beside the bare call. `cargo test --release -p reprise-replay --test speed -- --ignored --nocapture`

use std::time::Instant;

use reprise_plan::command::Arg;

mod scratch;
mod script;
use scratch::Scratch;
use script::{NONE, Script, issue, op, options, run};

const COUNT: u64 = 1_000_000;

fn plan(scratch: &Scratch, read: bool) -> reprise_plan::Plan {
    let mut s = Script::new(scratch.path());
    let p = s.process(vec![]);
    let t = s.thread(p, false);
    s.open(t, "/f", libc::O_RDWR | libc::O_CREAT, 0);
    s.write(t, 0, &[5; 4096]);
    let (at, _) = s.content(&[5; 4096]);
    for _ in 0..COUNT {
        if read {
            let args = [Arg::Fd(0), Arg::Out(1024), Arg::Value(1024), Arg::Value(0)];
            let expect = reprise_plan::command::Expect::Content(at, 1024);
            s.add(t, reprise_plan::command::Command { expect, ..issue("pread64", &args, 1024) });
        } else {
            s.add(t, issue("umask", &[Arg::Value(0o022)], 0o022));
        }
    }
    s.add(t, op("exit_group", reprise_plan::command::Op::Exit, &[Arg::Value(0)], 0, [3, NONE]));
    s.finish()
}

#[test]
#[ignore = "a measurement"]
fn simple_commands_beside_bare_calls() {
    use std::os::unix::fs::FileExt;
    let scratch = Scratch::new("speed");
    for (name, read) in [("umask", false), ("pread64 of 1 KiB, compared", true)] {
        let plan = plan(&scratch, read);
        let target = scratch.dir("target");
        for _ in 0..3 {
            let begin = Instant::now();
            let result = run(&plan, &target, &options()).unwrap();
            let whole = begin.elapsed();
            assert_eq!(result.counts.diverged, 0);
            let each = result.elapsed_ns as f64 / COUNT as f64;
            let file = std::fs::File::open(target.join("f")).unwrap();
            let begin = Instant::now();
            let mut buffer = [0u8; 1024];
            for _ in 0..COUNT {
                if read {
                    file.read_exact_at(&mut buffer, 0).unwrap();
                } else {
                    reprise_replay::sys::user();
                }
            }
            let bare = begin.elapsed().as_nanos() as f64 / COUNT as f64 / if read { 1.0 } else { 2.0 };
            println!("{name}: {each:.0} ns per command, bare call {bare:.0} ns; the whole replay {whole:.2?}");
        }
    }
}
