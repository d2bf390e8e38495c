//! A trace from the notation of the examples with asynchronous requests: one action a line, in order of effect,
//! `THREAD BEGIN+DURATION [#REQUEST] CALL(ARGUMENT, …) = RESULT`. A thread `11/0` is a lane of thread 11; times are
//! microseconds; calls about requests have these for arguments.

use std::collections::BTreeMap;
use std::path::Path;

use reprise_calls::ArgKind;
use reprise_trace::payload::append;
use reprise_trace::*;

const POINTER: u64 = 1 << 20;

/// Writes the trace of an example. In the root directory there is a directory `d`.
pub fn write(log: &str, path: &Path) {
    let host = Host::default();
    let manifest = Manifest::new(Kind::Record, DataPolicy::Full, vec!["example".into()], "a".repeat(32), 0, host);
    let mut writer = TraceWriter::create(path, manifest, WriterOptions::default()).expect("a trace");
    let ids = vec![0; 4];
    let process =
        Process { pid: 11, uids: ids.clone(), gids: ids, cwd: "/".into(), root: "/".into(), ..Default::default() };
    writer.process(process).expect("a process");
    for (parent, name, inode) in [(0, "", 2), (2, "d", 3)] {
        let node = TreeNode {
            parent_device: u64::from(parent != 0),
            parent_inode: parent,
            name: name.into(),
            device: 1,
            inode,
            mode: 0o040755,
            nlink: 2,
            filesystem: 0xef53,
            ..Default::default()
        };
        writer.node(node).expect("a name");
    }
    let lines: Vec<Line<'_>> = log.lines().map(Line::parse).collect();
    let mut threads: BTreeMap<&str, u32> = BTreeMap::new();
    for line in &lines {
        let submitter = line.thread.split_once('/').map(|(submitter, _)| submitter);
        for name in submitter.into_iter().chain([line.thread]) {
            if threads.contains_key(name) {
                continue;
            }
            let thread = threads.len() as u32;
            let lane_of = name.split_once('/').map(|(submitter, _)| threads[submitter]);
            let row = ThreadRow { thread, tid: 11, parent: lane_of, lane_of, ..Default::default() };
            writer.thread(row).expect("a thread");
            threads.insert(name, thread);
        }
    }
    for (seq, line) in (0..).zip(&lines) {
        let action = line.action(seq, threads[line.thread], &mut writer);
        writer.action(action).expect("an action");
    }
    writer.close(None).expect("the end");
}

struct Line<'a> {
    thread: &'a str,
    times_ns: [u64; 2],
    request: Option<u64>,
    call: &'a str,
    arguments: Vec<&'a str>,
    result: i64,
}

impl<'a> Line<'a> {
    fn parse(text: &'a str) -> Line<'a> {
        let parts = || -> Option<Line<'a>> {
            let (thread, rest) = text.split_once(' ')?;
            let (times, rest) = rest.split_once(' ')?;
            let (begin, duration) = times.split_once('+')?;
            let (head, result) = rest.rsplit_once(") = ")?;
            let (head, arguments) = head.split_once('(')?;
            let (request, call) = match head.split_once(' ') {
                Some((request, call)) => (Some(request.strip_prefix('#')?.parse().ok()?), call),
                None => (None, head),
            };
            let times_ns = [begin.parse::<u64>().ok()? * 1000, duration.parse::<u64>().ok()? * 1000];
            let arguments = arguments.split(", ").collect();
            Some(Line { thread, times_ns, request, call, arguments, result: result.parse().ok()? })
        };
        parts().unwrap_or_else(|| panic!("not an action: {text}"))
    }

    /// The requests that a call is about.
    fn requests(&self) -> Option<Vec<u8>> {
        let list = self.arguments.first().filter(|a| a.starts_with('#'))?;
        let numbers = list.split(' ').map(|n| n.trim_start_matches('#').parse::<u64>().expect("a request"));
        let mut out = Vec::new();
        append(&mut out, Some(&numbers.flat_map(u64::to_le_bytes).collect::<Vec<u8>>()));
        Some(out)
    }

    fn action(&self, seq: u64, thread: u32, writer: &mut TraceWriter) -> Action {
        let call = reprise_calls::by_name(self.call).unwrap_or_else(|| panic!("no call {}", self.call));
        let [begin_ns, duration_ns] = self.times_ns;
        let (request, result) = (self.request, self.result);
        let mut action = Action {
            seq,
            thread,
            call: call.name.into(),
            begin_ns,
            duration_ns,
            result,
            request,
            ..Default::default()
        };
        if let Some(requests) = self.requests() {
            let submits = call.position(|kind| kind == ArgKind::Submits).is_some();
            *(if submits { &mut action.input } else { &mut action.output }) = requests;
            return action;
        }
        for (i, (argument, text)) in call.args.iter().zip(&self.arguments).enumerate() {
            let string = text.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
            action.args[i] = match string {
                Some(_) => POINTER,
                None => text.parse::<i64>().unwrap_or_else(|_| panic!("not a number: {text}")) as u64,
            };
            match (argument.kind, string) {
                (ArgKind::Path(_), Some(path)) => action.path = Some(path.into()),
                (ArgKind::InData(_) | ArgKind::OutData(_), Some(content)) => {
                    action.data = writer.blob(content.as_bytes(), Keep::Always).expect("content");
                    action.data_bytes = content.len() as u64;
                }
                _ => {}
            }
        }
        action
    }
}
