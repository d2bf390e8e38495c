//! A recording of the reference program: what of it are the calls of the workload.
//!
//! The program does more than its workload: it is started, looks at the files before, and writes its own trace. What it wrote itself
//! down is only what its threads did with the workload's files between the two times that they asked the kernel how often they had lost
//! their processor.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use reprise_trace::{Action, TraceReader};

use crate::ValidateError;
use crate::observed::Request;

/// Calls of a workload that say by a descriptor which file they are about.
const BY_DESCRIPTOR: [&str; 6] = ["read", "pread64", "write", "pwrite64", "fsync", "close"];
/// Calls of a workload that say it by a name.
const BY_NAME: [&str; 3] = ["openat", "newfstatat", "unlinkat"];

/// The requests of the workload whose files are in a directory.
pub(crate) fn recording(path: &Path, files: &Path) -> Result<Vec<Request>, ValidateError> {
    let files = files.canonicalize().map_err(|e| ValidateError::files("look into", files, e))?;
    let mut of_workload =
        OfWorkload { files: files.as_os_str().as_bytes(), open: BTreeMap::new(), asked: BTreeMap::new() };
    let mut requests = Vec::new();
    for action in TraceReader::open(path)?.actions() {
        let action = action?;
        if of_workload.has(&action) {
            let end_ns = action.end_ns();
            let thread = Some(action.thread);
            requests.push(Request { thread, call: action.call.into_owned(), begin_ns: action.begin_ns, end_ns });
        }
    }
    Ok(requests)
}

/// What each thread reads before its part of the workload and after it.
const ASKED: &[u8] = b"/proc/thread-self/status";

/// Where the threads are.
struct OfWorkload<'a> {
    files: &'a [u8],
    /// Which descriptor each has of a file of the workload: never more than one.
    open: BTreeMap<u32, u64>,
    /// How often each has asked for what the kernel says of it.
    asked: BTreeMap<u32, u64>,
}

impl OfWorkload<'_> {
    /// Whether a call is one of the workload; those of a thread come in its order.
    fn has(&mut self, action: &Action) -> bool {
        if action.path.as_ref().is_some_and(|path| path.0 == ASKED) {
            *self.asked.entry(action.thread).or_default() += 1;
            return false;
        }
        if self.asked.get(&action.thread) != Some(&1) {
            return false;
        }
        if BY_NAME.contains(&&*action.call) {
            let inside = |path: &[u8]| path.strip_prefix(self.files).is_some_and(|rest| rest.starts_with(b"/"));
            let is_inside = action.path.as_ref().is_some_and(|path| inside(&path.0));
            if let (true, "openat", Ok(descriptor)) = (is_inside, &*action.call, u64::try_from(action.result)) {
                self.open.insert(action.thread, descriptor);
            }
            return is_inside;
        }
        let is_of_open = BY_DESCRIPTOR.contains(&&*action.call)
            && self.open.get(&action.thread).is_some_and(|descriptor| *descriptor == action.args[0]);
        if is_of_open && action.call == "close" {
            self.open.remove(&action.thread);
        }
        is_of_open
    }
}

#[cfg(test)]
mod tests {
    use reprise_trace::Name;

    use super::*;

    #[test]
    fn only_calls_on_the_workloads_files_are_those_of_the_workload() {
        let mut of = OfWorkload { files: b"/d/files", open: BTreeMap::new(), asked: BTreeMap::new() };
        let mut has = |thread: u32, call: &str, name: Option<&str>, first: u64, result: i64| {
            of.has(&Action {
                thread,
                call: call.to_owned().into(),
                path: name.map(Name::from),
                args: [first, 0, 0, 0, 0, 0],
                result,
                ..Action::default()
            })
        };
        // The first thread looks at the files before.
        assert!(!has(0, "newfstatat", Some("/d/files/thread0"), 0, 0));
        // What the kernel says of the thread is read before and after.
        for thread in 0..2 {
            assert!(!has(thread, "openat", Some("/proc/thread-self/status"), 0, 7));
            assert!(!has(thread, "read", None, 7, 900));
            assert!(!has(thread, "close", None, 7, 0));
            assert!(!has(thread, "openat", Some("/d/files1/thread0"), 0, 7));
            assert!(has(thread, "openat", Some("/d/files/thread0"), 0, 7));
            assert!(has(thread, "read", None, 7, 4096));
            // Another thread that writes the trace.
            assert!(!has(5, "write", None, 7, 10));
            assert!(has(thread, "close", None, 7, 0));
            assert!(!has(thread, "read", None, 7, 900), "the number is another file's by now");
            assert!(has(thread, "unlinkat", Some("/d/files/thread0"), 0, 0));
            assert!(!has(thread, "openat", Some("/proc/thread-self/status"), 0, 7));
            assert!(!has(thread, "newfstatat", Some("/d/files/thread0"), 0, 0));
        }
    }
}
