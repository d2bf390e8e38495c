//! Plans written by hand.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use reprise_plan::command::{Arg, Command, CommandWriter, Expect, Op, StandIn, Tolerance, Wait};
use reprise_plan::tree::{Node, NodeKind};
use reprise_plan::{Contents, InitialFd, Plan, PlanWriter, ProcessPlan, ProcessStart, ThreadPlan};
use reprise_replay::run::{Options, ReplayError, ReplayResult, replay};

pub const NONE: u32 = u32::MAX;

pub struct Script {
    path: PathBuf,
    writer: PlanWriter,
    pub contents: Contents,
    words: Vec<Vec<u64>>,
    /// What has encoded them.
    writers: Vec<CommandWriter>,
    /// Commands of a thread are put into the file when there are so many words.
    pub chunk_words: usize,
    origin: u64,
}

/// A command that is issued, and must do the same.
pub fn issue(name: &str, args: &[Arg], result: i64) -> Command {
    Command {
        number: reprise_calls::by_name(name).unwrap().number,
        op: Op::Issue,
        stand_in: StandIn::Null,
        tolerance: Tolerance::None,
        result,
        args: args.to_vec(),
        expect: Expect::Value,
        ..Command::default()
    }
}

/// A command of another kind.
pub fn op(name: &str, op: Op, args: &[Arg], result: i64, produces: [u32; 2]) -> Command {
    Command { op, produces, expect: Expect::Outcome, ..issue(name, args, result) }
}

impl Script {
    pub fn new(dir: &Path) -> Script {
        let path = dir.join("test.plan");
        let contents =
            Contents { trace: "0123".into(), order: "test".into(), slots: 64, mappings: 16, ..Contents::default() };
        Script {
            writer: PlanWriter::create(&path).unwrap(),
            path,
            contents,
            words: Vec::new(),
            writers: Vec::new(),
            chunk_words: usize::MAX,
            origin: 0,
        }
    }

    pub fn process(&mut self, descriptors: Vec<InitialFd>) -> u32 {
        let start = ProcessStart {
            cwd: b"/".to_vec(),
            root: b"/".to_vec(),
            umask: 0o022,
            descriptors,
            ..ProcessStart::default()
        };
        self.contents.processes.push(ProcessPlan { start: Some(Box::new(start)) });
        self.contents.processes.len() as u32 - 1
    }

    pub fn child_process(&mut self) -> u32 {
        self.contents.processes.push(ProcessPlan { start: None });
        self.contents.processes.len() as u32 - 1
    }

    pub fn thread(&mut self, process: u32, spawned: bool) -> u32 {
        self.contents.threads.push(ThreadPlan { process, spawned, ..ThreadPlan::default() });
        self.words.push(Vec::new());
        self.writers.push(CommandWriter::default());
        self.words.len() as u32 - 1
    }

    pub fn text(&mut self, text: &str) -> Arg {
        Arg::Bytes(self.writer.bytes(text.as_bytes()).unwrap(), text.len() as u64)
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> u64 {
        self.writer.bytes(bytes).unwrap()
    }

    pub fn content(&mut self, bytes: &[u8]) -> (u64, u64) {
        (self.writer.content(bytes, 0).unwrap(), bytes.len() as u64)
    }

    pub fn add(&mut self, thread: u32, mut command: Command) {
        command.origin = self.origin;
        self.origin += 1;
        self.contents.threads[thread as usize].commands += 1;
        self.contents.commands += 1;
        let writer = &mut self.writers[thread as usize];
        let before = writer.words().len();
        writer.add(&command);
        self.words[thread as usize].extend_from_slice(&writer.words()[before..]);
        if self.words[thread as usize].len() >= self.chunk_words {
            self.flush(thread as usize);
        }
    }

    fn flush(&mut self, thread: usize) {
        let chunk = self.writer.commands(&self.words[thread]).unwrap();
        self.contents.threads[thread].chunks.push(chunk);
        self.words[thread].clear();
        self.writers[thread].clear();
    }

    pub fn add_after(&mut self, thread: u32, waits: &[(u32, u64)], command: Command) {
        let waits =
            waits.iter().map(|&(thread, count)| Wait { thread, count, rule: reprise_plan::Rule::Single }).collect();
        self.add(thread, Command { waits, ..command });
    }

    pub fn words(&mut self, thread: u32, words: &[u64]) {
        self.words[thread as usize].extend_from_slice(words);
    }

    pub fn words_of(&mut self, thread: u32) -> &mut Vec<u64> {
        &mut self.words[thread as usize]
    }

    /// `openat(AT_FDCWD, path, flags, 0644)` into a slot.
    pub fn open(&mut self, thread: u32, path: &str, flags: i32, slot: u32) {
        let path = self.text(path);
        let args = [Arg::Value(-100i64 as u64), path, Arg::Value(flags as u64), Arg::Value(0o644)];
        self.add(thread, op("openat", Op::IssueFd, &args, 3, [slot, NONE]));
    }

    pub fn write(&mut self, thread: u32, slot: u32, bytes: &[u8]) {
        let (at, length) = self.content(bytes);
        let args = [Arg::Fd(slot), Arg::Content(at, length), Arg::Value(length)];
        self.add(thread, issue("write", &args, length as i64));
    }

    pub fn read(&mut self, thread: u32, slot: u32, bytes: &[u8]) {
        let (at, length) = self.content(bytes);
        let args = [Arg::Fd(slot), Arg::Out(length), Arg::Value(length)];
        self.add(thread, Command { expect: Expect::Content(at, length), ..issue("read", &args, length as i64) });
    }

    pub fn exit(&mut self, thread: u32) {
        self.add(thread, op("exit_group", Op::Exit, &[Arg::Value(0)], 0, [3, NONE]));
    }

    pub fn finish(mut self) -> Plan {
        (0..self.words.len()).for_each(|thread| self.flush(thread));
        self.writer.finish(self.contents).unwrap();
        Plan::open(&self.path).unwrap()
    }
}

pub fn node(path: &str, kind: NodeKind, mode: u32) -> Node {
    let (uid, gid) = reprise_replay::sys::user();
    Node {
        path: path.as_bytes().to_vec(),
        kind,
        mode,
        uid,
        gid,
        size: 0,
        rdev: 0,
        atime_ns: 0,
        mtime_ns: 0,
        target: Vec::new(),
        xattrs: Vec::new(),
        link_of: None,
        extents: Vec::new(),
    }
}

pub fn options() -> Options {
    Options { patience: Duration::from_secs(20), lock_patience: Duration::from_millis(300), ..Options::default() }
}

pub fn run(plan: &Plan, dir: &Path, options: &Options) -> Result<ReplayResult, ReplayError> {
    replay(plan, dir, options, &mut |_| {})
}

/// Replays; all must go as traced.
pub fn run_same(plan: &Plan, dir: &Path) -> ReplayResult {
    let result = run(plan, dir, &options()).unwrap();
    assert!(matches!(result.end, reprise_replay::run::End::Complete), "{:?}", result.end);
    assert_eq!(result.divergences, []);
    assert_eq!(result.counts.actions, plan.contents.commands);
    result
}
