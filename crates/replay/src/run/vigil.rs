//! Notices a worker that gives no sign of life: it hangs where no patience of its own would end it.
//!
//! Goals: a replay ends, and says where it hung. Non-goals: slow calls; those the worker times itself
//! ([`super::Options::patience`]), and goes on giving signs meanwhile.

use std::fs;
use std::time::{Duration, Instant};

/// A worker may set itself up, and end, so long beyond twice its patience.
const MARGIN: Duration = Duration::from_secs(10);
/// Threads whose places are told.
const MOST_PLACES: usize = 8;

/// The signs of life of one worker.
#[derive(Debug)]
pub(super) struct Vigil {
    last: (u64, usize),
    since: Instant,
    limit: Duration,
}

impl Vigil {
    pub fn new(patience: Duration) -> Vigil {
        Vigil { last: (0, 0), since: Instant::now(), limit: patience.saturating_mul(2).saturating_add(MARGIN) }
    }

    /// For how long there was no sign, if that is too long. A sign is another instant of the worker's clock, or more text from it.
    pub fn too_long(&mut self, instant: u64, text: usize) -> Option<Duration> {
        if self.last != (instant, text) {
            (self.last, self.since) = ((instant, text), Instant::now());
        }
        Some(self.since.elapsed()).filter(|silent| *silent > self.limit)
    }
}

/// What the threads of a process, and of those below it, are doing, as far as the kernel tells: call numbers and where they wait.
pub(super) fn places(process: i32) -> String {
    let mut found = Vec::new();
    collect(process, &mut found);
    if found.is_empty() { "where is not known".to_owned() } else { found.join(", ") }
}

fn collect(process: i32, found: &mut Vec<String>) {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    for task in tasks {
        if found.len() >= MOST_PLACES {
            return;
        }
        let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let call = read("syscall");
        let (call, place) = (call.split_whitespace().next().unwrap_or("?").to_owned(), read("wchan"));
        found.push(format!("thread {} in call {call} at {place}", task.file_name().to_string_lossy()));
        for child in read("children").split_whitespace().filter_map(|child| child.parse().ok()) {
            collect(child, found);
        }
    }
}
