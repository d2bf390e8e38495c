//! The files of a workload, made or restored before it runs.
//!
//! Goals: restoring is by difference, as fast as can be; files take the space of their size, with bytes that do not compress,
//! and are on the device at the end. Non-goals: caches.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rand_xoshiro::rand_core::Rng;
use rustix::fs::Advice;

use crate::WorkloadError;
use crate::micro::stream;
use crate::request::{FileSpec, Workload};

/// Written at a time.
const PIECE_BYTES: usize = 1 << 20;

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prepared {
    /// Files that were made anew.
    pub made: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that were as they must be.
    pub kept: u64,
    /// Files that must not be there.
    pub removed: u64,
    /// Of those that were made: in place of one of the name that was not as it must be.
    pub replaced: u64,
}

/// Makes the directory hold the files of the workload as they are before it starts; says how many bytes of all are done.
///
/// # Errors
/// When a file cannot be made, or `progress` wants no more.
pub fn prepare(
    workload: &dyn Workload,
    directory: &Path,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Prepared, WorkloadError> {
    workload.check()?;
    fs::create_dir_all(directory).map_err(|e| WorkloadError::files("make", directory, e))?;
    let specs = workload.files();
    let mut found = names(directory)?;
    let mut prepared = Prepared::default();
    let total = specs.iter().filter_map(|spec| spec.initial_bytes).sum();
    let mut done = 0;
    let noise = noise(PIECE_BYTES, 0);
    for FileSpec { name, initial_bytes } in &specs {
        let path = directory.join(name);
        let is_good = |meta: &Metadata| Some(meta.len()) == *initial_bytes && is_whole(meta);
        let there = found.remove(name.as_str());
        match (there, initial_bytes) {
            (Some(meta), Some(bytes)) if is_good(&meta) => {
                prepared.kept += 1;
                done += bytes;
            }
            (there, Some(bytes)) => {
                if there.is_some() {
                    fs::remove_file(&path).map_err(|e| WorkloadError::files("remove", &path, e))?;
                    prepared.replaced += 1;
                }
                make(&path, *bytes, &noise, &mut |more| {
                    done += more;
                    progress(done, total)
                })?;
                prepared.made += 1;
                prepared.bytes += bytes;
            }
            (Some(_), None) => {
                fs::remove_file(&path).map_err(|e| WorkloadError::files("remove", &path, e))?;
                prepared.removed += 1;
            }
            (None, None) => {}
        }
    }
    let synced = File::open(directory).and_then(|dir| Ok(rustix::fs::syncfs(dir)?));
    synced.map_err(|e| WorkloadError::files("store", directory, e))?;
    Ok(prepared)
}

/// Takes the files of a workload out of the page cache, and with `warm` reads them in again, as far as they fit: whoever reads a page
/// first is the one whose memory it counts as.
///
/// # Errors
/// When a file cannot be read.
pub fn bring(workload: &dyn Workload, directory: &Path, warm: bool) -> Result<(), WorkloadError> {
    let mut room = vec![0; PIECE_BYTES];
    let present = workload.files().into_iter().filter(|spec| spec.initial_bytes.is_some());
    for path in present.map(|spec| directory.join(spec.name)) {
        let mut cached = || {
            let mut file = File::open(&path)?;
            file.sync_data()?;
            rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
            while warm && file.read(&mut room)? > 0 {}
            Ok(())
        };
        cached().map_err(|e: io::Error| WorkloadError::files("cache", &path, e))?;
    }
    Ok(())
}

/// The files are as they must be before the start.
pub(crate) fn check(workload: &dyn Workload, directory: &Path) -> Result<(), WorkloadError> {
    let found = names(directory)?;
    for FileSpec { name, initial_bytes } in workload.files() {
        let what = match (found.get(name.as_str()), initial_bytes) {
            (Some(meta), Some(bytes)) if meta.is_file() && meta.len() == bytes => continue,
            (None, None) => continue,
            (Some(meta), Some(bytes)) => format!("has {} bytes, not {bytes}", meta.len()),
            (Some(_), None) => "is there already".to_owned(),
            (None, Some(_)) => "is not there".to_owned(),
        };
        return Err(WorkloadError::Unprepared { path: directory.join(name), what });
    }
    Ok(())
}

fn names(directory: &Path) -> Result<HashMap<String, Metadata>, WorkloadError> {
    let failed = |e| WorkloadError::files("look into", directory, e);
    let entries = match fs::read_dir(directory) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(WorkloadError::Unprepared { path: directory.into(), what: "is not there".into() });
        }
        entries => entries.map_err(failed)?,
    };
    let mut out = HashMap::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if let Ok(name) = entry.file_name().into_string() {
            out.insert(name, entry.metadata().map_err(failed)?);
        }
    }
    Ok(out)
}

/// A plain file that takes the space of its size: no hole is left in it.
fn is_whole(meta: &Metadata) -> bool {
    meta.is_file() && meta.blocks() * 512 >= meta.len()
}

fn make(path: &Path, bytes: u64, noise: &[u8], progress: &mut dyn FnMut(u64) -> bool) -> Result<(), WorkloadError> {
    let failed = |e| WorkloadError::files("make", path, e);
    let mut file = File::create_new(path).map_err(failed)?;
    let mut fill = || {
        let mut left = bytes;
        while left > 0 {
            let piece = left.min(noise.len() as u64);
            file.write_all(&noise[..piece as usize]).map_err(failed)?;
            left -= piece;
            if !progress(piece) {
                return Err(WorkloadError::Interrupted);
            }
        }
        Ok(())
    };
    // A part of a file is no file of the workload.
    fill().inspect_err(|_| drop(fs::remove_file(path)))
}

/// Bytes that do not compress, the same for the same number.
pub(crate) fn noise(length: usize, number: u32) -> Vec<u8> {
    /// Any: contents are no part of what a seed decides.
    const SEED: u64 = 20_161;
    let mut out = vec![0; length];
    stream(SEED, number).fill_bytes(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Micro;

    #[test]
    fn a_part_of_a_file_is_taken_away_and_what_was_replaced_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let micro = Micro { threads: 2, requests: 1, file_bytes: 3 << 20, ..Micro::default() };
        let mut pieces = 0;
        let stopped = prepare(&micro, dir.path(), &mut |_, _| {
            pieces += 1;
            pieces < 5
        });
        assert!(matches!(stopped, Err(WorkloadError::Interrupted)));
        let left: Vec<u64> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).collect();
        assert_eq!(left, [3 << 20], "the first file is whole, of the second there is nothing");
        fs::write(dir.path().join("thread1"), "not of this program").unwrap();
        let prepared = prepare(&micro, dir.path(), &mut |_, _| true).unwrap();
        assert_eq!((prepared.made, prepared.kept, prepared.replaced, prepared.removed), (1, 1, 1, 0));
    }
}
