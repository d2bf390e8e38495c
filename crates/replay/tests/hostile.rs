//! Plans that no compiler makes: whatever their words, the worker ends in order and in time.

use std::path::{Path, PathBuf};
use std::process::Command as Run;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use reprise_calls::{ArgKind, Call, Effect, Replay, Returns, Struct};
use reprise_plan::Plan;
use reprise_plan::command::{Arg, Command, Expect, Op, StandIn, Tolerance, Wait};
use reprise_plan::tree::NodeKind;
use reprise_replay::run::{End, Executor, Options, ReplayError};

mod scratch;
mod script;
use scratch::{Scratch, is_root};
use script::{Script, node, options, run};

/// Mounted, so that no plan can fill the machine's own file system. Unmounted when dropped.
struct Small(PathBuf);

impl Small {
    fn new(scratch: &Scratch) -> Option<Small> {
        let at = scratch.dir("small");
        let mount = ["-t", "tmpfs", "-o", "size=8m,mode=700", "none"];
        let mounted = is_root() && Run::new("mount").args(mount).arg(&at).status().is_ok_and(|s| s.success());
        mounted.then_some(Small(at))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Run::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn number() -> impl Strategy<Value = u64> {
    let edges =
        vec![0, 1, 2, 3, 5, 8, 32, 100, 144, 256, 1000, 1024, 1030, 4096, 65536, 1 << 20, 1 << 31, 1 << 40, u64::MAX];
    prop_oneof![8 => proptest::sample::select(edges), 1 => any::<u64>(), 2 => (0u64..16).prop_map(|n| (-(n as i64)) as u64)]
}

fn arg() -> impl Strategy<Value = Arg> {
    let slot = || prop_oneof![30 => 0u32..8, 1 => any::<u32>()];
    prop_oneof![
        6 => number().prop_map(Arg::Value),
        6 => slot().prop_map(Arg::Fd),
        6 => proptest::sample::select(vec![0u64, 16, 32]).prop_map(|at| Arg::Bytes(at, 2)),
        1 => (number(), number()).prop_map(|(a, b)| Arg::Bytes(a, b)),
        3 => (0u64..4096, 0u64..4096).prop_map(|(a, b)| Arg::Content(a, b)),
        1 => (number(), number()).prop_map(|(a, b)| Arg::Content(a, b)),
        5 => number().prop_map(Arg::Out),
        2 => (0u64..64, 0u64..64).prop_map(|(a, b)| Arg::InOut(a, b)),
        2 => (0u64..96, 0u64..4096).prop_map(|(a, b)| Arg::ContentVector(a, b)),
        2 => (0u64..96).prop_map(Arg::OutVector),
        2 => (0u32..4, number()).prop_map(|(a, b)| Arg::Mapped(a, b)),
    ]
}

/// Numbers of calls with rows; a file in memory could use up the machine's.
fn call() -> impl Strategy<Value = u32> {
    let all: Vec<u32> = reprise_calls::all().filter(|c| c.name != "memfd_create").map(|c| c.number).collect();
    prop_oneof![30 => proptest::sample::select(all), 1 => 0u32..512]
}

fn op() -> impl Strategy<Value = Op> {
    use Op::*;
    let all = vec![
        Issue,
        Issue,
        Issue,
        Issue,
        Issue,
        Issue,
        IssueFd,
        IssueFd,
        IssuePair,
        Simulate,
        Skip,
        Unsupported,
        Close,
        CloseMany,
        MarkMany,
        Through,
        DuplicateTo,
        Spawn,
        Execute,
        Exit,
        Map,
        Map,
        OnMapping,
        OnMapping,
        ReadAway,
        WriteFrom,
        Lock,
        Pass,
        Receive,
        Take,
        List,
        SyncTarget,
    ];
    proptest::sample::select(all)
}

fn expect() -> impl Strategy<Value = Expect> {
    prop_oneof![
        Just(Expect::Nothing),
        Just(Expect::Outcome),
        Just(Expect::Value),
        (0u64..4096, number()).prop_map(|(a, b)| Expect::Content(a, b)),
        (0u64..96, number()).prop_map(|(a, b)| Expect::Digest(a, b)),
        (0u64..300, proptest::sample::select(vec![144u64, 256, 7])).prop_map(|(a, b)| Expect::Metadata(a, b)),
        (0u64..3, 0u64..300).prop_map(|(a, b)| Expect::Listing(a, b)),
        (0u64..96, 0u64..96).prop_map(|(a, b)| Expect::Names(a, b)),
        number().prop_map(Expect::Flock),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    let slots = || prop_oneof![20 => 0u32..8, 5 => Just(u32::MAX), 1 => any::<u32>()];
    let stand_in =
        proptest::sample::select(vec![StandIn::Null, StandIn::Pipe, StandIn::Socket, StandIn::Event, StandIn::Epoll]);
    let first = (call(), op(), stand_in, proptest::collection::vec(arg(), 0..=6), expect());
    let second = (
        prop_oneof![3 => 0i64..100, 1 => -40i64..0, 1 => any::<i64>()],
        [slots(), slots()],
        proptest::collection::vec(slots(), 0..4),
        proptest::collection::vec((0u32..3, 0u64..6), 0..2),
        prop_oneof![3 => Just(0u16), 1 => 0u16..4096],
        prop_oneof![Just(0u64), any::<u64>()],
    );
    (first, second).prop_map(
        |((number, op, stand_in, args, expect), (result, produces, list, waits, within, digest))| Command {
            origin: 0,
            number,
            op,
            stand_in,
            tolerance: Tolerance::None,
            result,
            produces,
            args,
            within,
            expect,
            digest,
            list,
            waits: waits
                .into_iter()
                .map(|(thread, count)| Wait { thread, count, rule: reprise_plan::Rule::Single })
                .collect(),
            timing: reprise_plan::Timing::default(),
        },
    )
}

/// An argument of the kind that is wanted, mostly.
fn fitting(kind: ArgKind) -> BoxedStrategy<Arg> {
    let text = proptest::sample::select(vec![0u64, 8, 16]).prop_map(|at| Arg::Bytes(at, 2));
    let fits = match kind {
        ArgKind::Fd(_) | ArgKind::Dirfd => {
            prop_oneof![9 => (0u32..8).prop_map(Arg::Fd), 1 => number().prop_map(Arg::Value)].boxed()
        }
        ArgKind::Path(_) | ArgKind::Text => text.boxed(),
        ArgKind::InData(_) => (0u64..4096, 0u64..4096).prop_map(|(a, b)| Arg::Content(a, b)).boxed(),
        ArgKind::In(_) | ArgKind::InOut(_) => {
            let (at, length) = (64u64..96, 0u64..64);
            prop_oneof![
                (at.clone(), length.clone()).prop_map(|(a, b)| Arg::InOut(a, b)),
                (at, length).prop_map(|(a, b)| Arg::Bytes(a, b)),
                number().prop_map(Arg::Value)
            ]
            .boxed()
        }
        ArgKind::OutData(_) | ArgKind::Out(_) => number().prop_map(Arg::Out).boxed(),
        ArgKind::InVector(_) => (0u64..4096).prop_map(|b| Arg::ContentVector(48, b)).boxed(),
        ArgKind::OutVector(_) => Just(Arg::OutVector(48)).boxed(),
        ArgKind::Strings => arg().boxed(),
        _ => number().prop_map(Arg::Value).boxed(),
    };
    prop_oneof![60 => fits, 1 => arg()].boxed()
}

/// A command that is well-formed, mostly, and absurd in its numbers.
fn fitting_command() -> impl Strategy<Value = Command> {
    let issued = |c: &&Call| c.replay == Replay::Issue && c.name != "memfd_create";
    let mapped = [
        "munmap",
        "mprotect",
        "madvise",
        "msync",
        "mlock",
        "munlock",
        "mincore",
        "mremap",
        "mmap_pread",
        "mmap_pwrite",
    ];
    let on_mapping = move |c: &&Call| mapped.contains(&c.name);
    let calls: Vec<&Call> = reprise_calls::all().filter(issued).collect();
    let others: Vec<&Call> = reprise_calls::all().filter(on_mapping).chain(reprise_calls::by_name("mmap")).collect();
    let call = prop_oneof![4 => proptest::sample::select(calls), 1 => proptest::sample::select(others)];
    (call, command()).prop_flat_map(|(call, base)| {
        let mapped = call.position(|k| matches!(k, ArgKind::Address)) == Some(0);
        let args: Vec<BoxedStrategy<Arg>> = call.args.iter().map(|a| fitting(a.kind)).collect();
        (args, 0u32..4, number(), 0u32..8).prop_map(move |(mut args, mapping, delta, slot)| {
            let pair = call.position(|k| k == ArgKind::Out(Struct::FdPair)).is_some();
            let op = match call.effect {
                Effect::Map => Op::Map,
                _ if mapped => Op::OnMapping,
                Effect::List => Op::List,
                Effect::Lock => Op::Lock,
                Effect::Close => Op::Close,
                _ if pair => Op::IssuePair,
                _ if call.returns == Returns::Fd => Op::IssueFd,
                _ => Op::Issue,
            };
            if op == Op::OnMapping || op == Op::Map && slot % 2 == 0 {
                args[0] = Arg::Mapped(mapping, delta);
            }
            let first = if op == Op::Map { if slot % 2 == 0 { u32::MAX } else { mapping } } else { slot };
            let waits = base.waits.iter().filter(|w| w.count < 2).copied().collect();
            let expect = match base.expect {
                Expect::Metadata(..) | Expect::Content(..) | Expect::Digest(..) | Expect::Flock(_) => Expect::Value,
                other => other,
            };
            Command { number: call.number, op, args, produces: [first, slot], waits, expect, ..base.clone() }
        })
    })
}

/// Reads and writes in the short form of the plan, whose numbers are absurd.
fn transfer() -> impl Strategy<Value = Command> {
    let whole = (command(), any::<bool>(), 0u32..10, number(), number());
    whole.prop_map(|(base, reads, slot, length, offset)| {
        let length = length & 0xffff_ffff;
        let at = base.origin.wrapping_add(offset);
        let memory = if reads { Arg::Out(length) } else { Arg::Content(at, length) };
        let mut args = vec![Arg::Fd(slot), memory, Arg::Value(length)];
        let given = base.number % 2 == 0;
        args.extend(given.then_some(Arg::Value(offset)));
        let number = if given { 17 } else { 0 } + u32::from(!reads);
        let waits = base.waits.into_iter().filter(|w| w.count < 2).collect();
        let expect = match base.expect {
            Expect::Content(at, _) => Expect::Content(at, base.result.unsigned_abs()),
            _ => Expect::Value,
        };
        let produces = [u32::MAX; 2];
        Command { number, op: Op::Issue, stand_in: StandIn::Null, args, produces, list: vec![], waits, expect, ..base }
    })
}

fn executor() -> impl Strategy<Value = Executor> {
    proptest::sample::select(vec![
        Executor::Sync,
        Executor::Uring,
        Executor::Linked,
        Executor::Polled,
        Executor::Touch,
        Executor::SkipReads,
    ])
}

fn script(dir: &Path) -> Script {
    let mut s = Script::new(dir);
    s.contents.tree = vec![
        node("/", NodeKind::Directory, 0o755),
        node("/a", NodeKind::File, 0o644),
        node("/d", NodeKind::Directory, 0o755),
    ];
    for text in ["/a", "/d", "/b"] {
        s.bytes(text.as_bytes());
    }
    s.bytes(&[0; 7]);
    s.bytes(&[0; 7]);
    s.bytes(&[0; 7]);
    s.bytes(&[2u64, 4, 8].iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>());
    s.bytes(&[0; 400]);
    s.content(&[7; 8192]);
    let p = s.process(vec![]);
    let c = s.child_process();
    for (process, spawned) in [(p, false), (p, false), (c, true)] {
        s.thread(process, spawned);
    }
    s.open(0, "/a", libc::O_RDWR, 0);
    s.open(0, "/d", libc::O_RDONLY, 1);
    let map = [0u64, 65536, 3, 1].map(Arg::Value);
    let map = [&map[..], &[Arg::Fd(0), Arg::Value(0)]].concat();
    s.add(0, script::op("mmap", Op::Map, &map, 0, [0, script::NONE]));
    s.add(0, script::op("fork", Op::Spawn, &[], 5, [2, 0]));
    s
}

fn survives(plan: &Plan, target: &Path, executor: Executor) -> Result<(), TestCaseError> {
    let begin = Instant::now();
    let (patience, lock_patience) = (Duration::from_millis(700), Duration::from_millis(30));
    let limits = Options { patience, lock_patience, executor, ..options() };
    // The small target may be full from the case before, and a hostile plan may have made its root what it likes.
    let outcome = run(plan, target, &limits);
    if std::env::var_os("HOSTILE_SHOW").is_some() {
        match &outcome {
            Ok(result) => println!("{} of {}: {:?}", result.counts.actions, result.planned, result.end),
            Err(error) => println!("{error}"),
        }
    }
    match outcome {
        Ok(result) => {
            let died = matches!(result.end, End::Failed(ReplayError::Worker { .. }));
            prop_assert!(!died, "{:?}", result.end);
            for record in result.log.merged() {
                prop_assert!(record.is_ok());
            }
        }
        Err(ReplayError::Worker { how }) => prop_assert!(false, "{}", how),
        Err(_) => {}
    }
    prop_assert!(begin.elapsed() < Duration::from_secs(15));
    Ok(())
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(60)
}

fn runner() -> TestRunner {
    TestRunner::new(Config { cases: cases(), max_shrink_iters: 200, failure_persistence: None, ..Config::default() })
}

#[test]
fn any_commands() {
    let scratch = Scratch::new("hostile-commands");
    let Some(small) = Small::new(&scratch) else {
        return eprintln!("skipped: this user cannot mount a small file system");
    };
    let one = prop_oneof![40 => fitting_command().boxed(), 20 => transfer().boxed(), 1 => command().boxed()];
    let commands = proptest::collection::vec((0u32..3, one), 1..80);
    let outcome = runner().run(&(commands, executor()), |(commands, executor)| {
        let mut s = script(scratch.path());
        for (thread, command) in commands {
            s.add(thread, command);
        }
        survives(&s.finish(), &small.0, executor)
    });
    outcome.unwrap();
}

#[test]
fn any_words() {
    let scratch = Scratch::new("hostile-words");
    let Some(small) = Small::new(&scratch) else {
        return eprintln!("skipped: this user cannot mount a small file system");
    };
    let changes = proptest::collection::vec((0u32..3, any::<prop::sample::Index>(), number()), 1..8);
    let one = prop_oneof![2 => fitting_command().boxed(), 1 => transfer().boxed()];
    let commands = proptest::collection::vec((0u32..3, one), 1..40);
    let outcome = runner().run(&(commands, changes, executor()), |(commands, changes, executor)| {
        let mut s = script(scratch.path());
        for (thread, command) in commands {
            s.add(thread, command);
        }
        for (thread, at, word) in changes {
            let words = s.words_of(thread);
            if !words.is_empty() {
                let at = at.index(words.len());
                words[at] = word;
            }
        }
        survives(&s.finish(), &small.0, executor)
    });
    outcome.unwrap();
}
