//! A machine as its files in `/proc`, `/sys` and `/dev` show it.

use std::fs;
use std::path::{Path, PathBuf};

/// A machine; its files lie below a root, which is `/` of this one.
#[derive(Debug, Clone)]
pub struct Machine {
    root: PathBuf,
    /// Whether the kernel may be asked, too: only of this machine.
    here: bool,
}

impl Machine {
    /// This machine.
    pub fn here() -> Machine {
        Machine { root: PathBuf::from("/"), here: true }
    }

    /// One of which there are files only.
    pub fn of_files(root: &Path) -> Machine {
        Machine { root: root.to_owned(), here: false }
    }

    /// Whether the kernel may be asked, too.
    pub fn is_here(&self) -> bool {
        self.here
    }

    /// A file of it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name.trim_start_matches('/'))
    }

    /// The text of a file, without the end of its line.
    pub fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok().map(|text| text.trim_end().to_owned())
    }

    /// The number in a file.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// Names in a directory, in order.
    pub fn names(&self, name: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(name)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}
