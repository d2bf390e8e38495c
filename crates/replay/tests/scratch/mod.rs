//! Scratch directories that remove themselves.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory of its own for one test.
pub struct Scratch(PathBuf);

impl Scratch {
    /// `name` must be unique among the tests of one program.
    pub fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("reprise-replay-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a scratch directory");
        Scratch(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A new directory in it.
    pub fn dir(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(&path).expect("a directory");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = Command::new("chmod").args(["-R", "u+rwX"]).arg(&self.0).output();
        let _ = Command::new("rm").arg("-rf").arg(&self.0).status();
    }
}

/// Whether the tests run as root.
#[allow(dead_code)]
pub fn is_root() -> bool {
    reprise_replay::sys::user().0 == 0
}
