//! The caches before a run: emptied, or filled with the files.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::Advice;
use serde::{Deserialize, Serialize};

use crate::ValidateError;

/// The state of the caches before each run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Caches {
    /// Nothing of the files is cached: the whole machine's caches are dropped as root, else those of the files.
    Cold,
    /// All of the files is cached, as far as it fits.
    #[default]
    Warm,
}

impl Caches {
    /// As it is called.
    pub fn word(self) -> &'static str {
        match self {
            Caches::Cold => "cold",
            Caches::Warm => "warm",
        }
    }

    /// Brings the caches of a directory's files into this state; what is to be written is written before.
    pub(crate) fn set(self, directory: &Path) -> Result<(), ValidateError> {
        rustix::fs::sync();
        match self {
            Caches::Cold if fs::write("/proc/sys/vm/drop_caches", "3").is_ok() => Ok(()),
            Caches::Cold => each_file(directory, drop_contents),
            Caches::Warm => {
                let mut room = vec![0; 1 << 20];
                each_file(directory, |mut file| {
                    // Contents that were written have other pages than those that were read: as large as the writes.
                    drop_contents(file)?;
                    while file.read(&mut room)? > 0 {}
                    Ok(())
                })
            }
        }
    }
}

/// Gives the memory back that contents of a directory's files are cached in, and of those below it. What stays cached from run to run
/// keeps its memory, and a file in one place of it is written by a quarter faster than the same file in another. What is dirty stays.
pub(crate) fn forget(directory: &Path) -> Result<(), ValidateError> {
    let failed = |e| ValidateError::files("read", directory, e);
    each_file(directory, drop_contents)?;
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_dir() {
            forget(&entry.path())?;
        }
    }
    Ok(())
}

fn drop_contents(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?)
}

fn each_file(directory: &Path, mut each: impl FnMut(&File) -> io::Result<()>) -> Result<(), ValidateError> {
    let failed = |e| ValidateError::files("read", directory, e);
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_file() {
            let file = File::open(entry.path()).map_err(failed)?;
            each(&file).map_err(|e| ValidateError::files("cache", entry.path(), e))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a file that are cached; 0 if nobody here knows.
    fn cached(path: &Path) -> u64 {
        let said = std::process::Command::new("fincore").args(["-nbo", "RES"]).arg(path).output();
        said.ok().and_then(|said| String::from_utf8(said.stdout).ok()?.trim().parse().ok()).unwrap_or(0)
    }

    #[test]
    fn nothing_below_a_directory_stays_cached() {
        // Where TMPDIR is in memory nothing can be dropped.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let deep = dir.path().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        let paths = [dir.path().join("top"), deep.join("deep")];
        paths.iter().for_each(|path| fs::write(path, vec![1; 1 << 20]).unwrap());
        rustix::fs::sync();
        if paths.iter().any(|path| cached(path) == 0) {
            return eprintln!("SKIP: no fincore here, or nothing is cached");
        }
        forget(dir.path()).unwrap();
        assert_eq!(paths.map(|path| cached(&path)), [0, 0]);
    }
}
