//! The first pass: whether it is a log of strace at all, and facts that the second pass needs before it meets them.
//!
//! Goals: a thread's maker is known when its first line comes, which may be before the maker's call has ended; where the
//! program worked. Non-goals: anything that can be found on the way.

use std::collections::{HashMap, HashSet, VecDeque};

use memchr::memmem;

use super::decode::annotated_path;
use super::foreign;
use super::lexer::{End, annotated, annotation_end, split, string};
use super::line::{Body, Stamp, parse};
use super::names::known;
use super::outcome::outcome;
use super::reader::{Lines, Log, Read1};

/// A thread that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Birth {
    /// Who made it.
    pub parent: i32,
    /// The call's name.
    pub name: Box<[u8]>,
    /// The end of the call, or all of it, behind its parenthesis.
    pub text: Box<[u8]>,
    /// Whether the text is only the end of the call.
    pub resumed: bool,
}

/// What the first pass found.
#[derive(Debug, Default)]
pub struct Hints {
    /// Lines in all.
    pub lines: u64,
    /// Calls with a known name.
    pub calls: u64,
    /// Calls, so it seems, with names of no call.
    pub strangers: u64,
    /// Rows of a table of counts.
    pub summary: u64,
    /// Whether any line has a time stamp that says when.
    pub dated: bool,
    /// Whether any line has a stamp of any kind.
    pub stamped: bool,
    /// Threads that speak in the logs.
    pub threads: HashSet<i32>,
    /// Makers of threads, by the thread made.
    pub births: HashMap<i32, VecDeque<Birth>>,
    /// Threads that are known to be processes: somebody waited for them, or they ran a program.
    pub processes: HashSet<i32>,
    /// Working directories, as first seen.
    pub directories: HashMap<i32, Vec<u8>>,
    moved: HashSet<i32>,
    /// Texts of links that no earlier call made, by absolute path.
    pub links: HashMap<Vec<u8>, Vec<u8>>,
    /// Names that calls made which may be those of links.
    made: HashSet<Vec<u8>>,
    /// What the beginning looks like, if not like strace's.
    pub foreign: Option<&'static str>,
    /// What it is if there are no calls.
    pub otherwise: &'static str,
}

/// Reads a log through. `progress` is told the bytes read.
pub fn scan(log: &Log, hints: &mut Hints, progress: &mut dyn FnMut(u64)) -> std::io::Result<()> {
    let sample = sample(log)?;
    let foreign = foreign::kind(&sample);
    hints.foreign = hints.foreign.or(foreign);
    if foreign.is_some() {
        return Ok(());
    }
    let mut lines = Lines::open(&log.path)?;
    let mut before = 0;
    loop {
        if lines.taken > before + (8 << 20) {
            before = lines.taken;
            progress(before);
        }
        match lines.next()? {
            None => break,
            Some(Read1::Line(line, _)) => hints.line(line, log.tid),
            Some(Read1::TooLong) => {}
        }
        hints.lines += 1;
    }
    hints.otherwise = foreign::without_calls(&sample, hints.summary > 0);
    Ok(())
}

fn sample(log: &Log) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut out = Vec::new();
    std::fs::File::open(&log.path)?.take(foreign::SAMPLE as u64).read_to_end(&mut out)?;
    Ok(out)
}

/// What `reprise export` remarks of a thread: where it began.
fn works_in(line: &[u8]) -> Option<(i32, Vec<u8>)> {
    let remark = line.strip_prefix(b"# ")?;
    let (tid, text) = remark.split_at_checked(memmem::find(remark, b" works in ")?)?;
    let tid = std::str::from_utf8(tid).ok()?.parse().ok()?;
    let path = string(&text[b" works in ".len()..])?;
    (path.complete && path.bytes.starts_with(b"/")).then_some((tid, path.bytes))
}

impl Hints {
    fn line(&mut self, line: &[u8], tid: Option<i32>) {
        if let Some((tid, path)) = works_in(line) {
            self.directory(tid, Some(path));
        }
        let (prefix, body) = parse(line);
        self.stamped |= prefix.stamp.is_some();
        self.dated |= matches!(prefix.stamp, Some(Stamp::OfDay(_) | Stamp::Unix(_)));
        let tid = prefix.tid.or(tid).unwrap_or(0);
        match body {
            Body::Call(name, text) => self.call(tid, name, text),
            Body::Resumed(name, text) if matches!(name, b"clone" | b"clone3" | b"fork" | b"vfork" | b"__clone2") => {
                self.born(tid, name, text, true);
            }
            Body::Resumed(b"wait4" | b"waitpid" | b"waitid", text) => self.waited(text),
            Body::Signal(text) => self.signal(text),
            Body::Summary => self.summary += 1,
            _ => {}
        }
    }

    fn call(&mut self, tid: i32, name: &[u8], text: &[u8]) {
        if known(name).is_none() {
            self.strangers += 1;
            return;
        }
        self.calls += 1;
        self.threads.insert(tid);
        match name {
            b"clone" | b"clone3" | b"fork" | b"vfork" | b"__clone2" => self.born(tid, name, text, false),
            b"execve" | b"execveat" => drop(self.processes.insert(tid)),
            b"wait4" | b"waitpid" => self.waited(text),
            b"chdir" | b"fchdir" => drop(self.moved.insert(tid)),
            b"getcwd" => {
                let path = string(text).map(|t| t.bytes).filter(|p| p.starts_with(b"/"));
                self.directory(tid, path);
            }
            b"readlink" => self.link(text),
            b"symlink" | b"rename" => self.makes(tid, text, None, 1),
            b"symlinkat" => self.makes(tid, text, Some(1), 2),
            b"renameat" | b"renameat2" => self.makes(tid, text, Some(2), 3),
            _ if text.starts_with(b"AT_FDCWD<") => {
                let path = annotation_end(text, 8).and_then(|end| annotated_path(&text[9..end - 1]));
                self.directory(tid, path);
            }
            _ => {}
        }
    }

    fn directory(&mut self, tid: i32, path: Option<Vec<u8>>) {
        if let Some(path) = path.filter(|_| !self.moved.contains(&tid)) {
            self.directories.entry(tid).or_insert(path);
        }
    }

    fn link(&mut self, text: &[u8]) {
        let (args, _) = split(text);
        if let (Some(path), Some(target)) = (string(args.get(0)), string(args.get(1)))
            && path.bytes.starts_with(b"/")
            && target.complete
            && !self.made.contains(&path.bytes)
        {
            self.links.entry(path.bytes).or_insert(target.bytes);
        }
    }

    /// A call that makes the name in an argument, in the directory in another or where its thread works.
    fn makes(&mut self, tid: i32, text: &[u8], directory: Option<usize>, name: usize) {
        let (args, end) = split(text);
        let worked = matches!(end, End::Closed(at) if outcome(&text[at..]).is_some_and(|o| o.result == Some(0)));
        let Some(name) = string(args.get(name)).filter(|_| worked) else { return };
        if name.bytes.starts_with(b"/") {
            self.made.insert(name.bytes);
            return;
        }
        let told = directory.and_then(|at| annotated(args.get(at)).1).and_then(annotated_path);
        if directory.is_some_and(|at| args.get(at).starts_with(b"AT_FDCWD")) {
            self.directory(tid, told.clone());
        }
        let works_in = || self.directories.get(&tid).filter(|_| !self.moved.contains(&tid)).cloned();
        if let Some(directory) = told.or_else(works_in) {
            self.made.insert([&directory[..], b"/", &name.bytes].concat());
        }
    }

    fn born(&mut self, parent: i32, name: &[u8], text: &[u8], resumed: bool) {
        let (_, End::Closed(at)) = split(text) else { return };
        let child = outcome(&text[at..]).and_then(|o| o.result).and_then(|r| i32::try_from(r).ok());
        if let Some(child) = child.filter(|c| *c > 0) {
            let birth = Birth { parent, name: name.into(), text: text.into(), resumed };
            self.births.entry(child).or_default().push_back(birth);
        }
    }

    fn waited(&mut self, text: &[u8]) {
        let (_, End::Closed(at)) = split(text) else { return };
        let child = outcome(&text[at..]).and_then(|o| o.result).and_then(|r| i32::try_from(r).ok());
        self.processes.extend(child.filter(|c| *c > 0));
    }

    fn signal(&mut self, text: &[u8]) {
        if let Some(at) = memmem::find(text, b"si_pid=").filter(|_| text.starts_with(b"SIGCHLD")) {
            self.processes.extend(super::value::leading(&text[at + 7..]).and_then(|n| i32::try_from(n).ok()));
        }
    }
}
