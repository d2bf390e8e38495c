//! Files and directories that took most.

use std::collections::HashMap;

use serde::Serialize;

/// Rows of a list.
const MOST: usize = 25;

/// What was done to one.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Spent {
    path: String,
    calls: u64,
    bytes: u64,
    time_ns: u64,
}

/// Gathers, in memory that grows with the number of files.
#[derive(Debug, Default)]
pub struct Hot {
    files: HashMap<String, Spent>,
}

impl Hot {
    /// Takes an action in.
    pub fn add(&mut self, path: &str, bytes: u64, time_ns: u64) {
        if !self.files.contains_key(path) {
            self.files.insert(path.to_owned(), Spent { path: path.to_owned(), ..Spent::default() });
        }
        if let Some(spent) = self.files.get_mut(path) {
            spent.take(1, bytes, time_ns);
        }
    }

    /// The files that took the longest.
    pub fn files(&self) -> Vec<Spent> {
        longest(self.files.values().cloned().collect())
    }

    /// The directories whose files, all that are directly in them, took the longest.
    pub fn directories(&self) -> Vec<Spent> {
        let mut all: HashMap<&str, Spent> = HashMap::new();
        for file in self.files.values().filter(|f| f.path.starts_with('/')) {
            let parent =
                file.path.rsplit_once('/').map_or("/", |(parent, _)| if parent.is_empty() { "/" } else { parent });
            let spent = all.entry(parent).or_insert_with(|| Spent { path: parent.to_owned(), ..Spent::default() });
            spent.take(file.calls, file.bytes, file.time_ns);
        }
        longest(all.into_values().collect())
    }
}

impl Spent {
    fn take(&mut self, calls: u64, bytes: u64, time_ns: u64) {
        self.calls += calls;
        self.bytes = self.bytes.saturating_add(bytes);
        self.time_ns = self.time_ns.saturating_add(time_ns);
    }
}

fn longest(mut all: Vec<Spent>) -> Vec<Spent> {
    all.sort_by(|a, b| b.time_ns.cmp(&a.time_ns).then_with(|| a.path.cmp(&b.path)));
    all.truncate(MOST);
    all
}
