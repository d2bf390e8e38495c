//! The directories of a trace: made, found elsewhere, removed.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::error::WriteError;
use crate::manifest::SPOOL;
use crate::rows::BlobRow;
use crate::table::Row;

/// All tables, each a folder.
pub(crate) const TABLES: [&str; 13] = [
    "actions",
    "threads",
    "processes",
    "descriptors",
    "locks",
    "mappings",
    "tree",
    "contents",
    "blobs",
    "environment",
    "devices",
    "mounts",
    "queues",
];

/// Makes the folders of a trace, in a directory that is not there, is empty, or holds a raw recording only. With `contents`,
/// blobs go into a directory of their own there, and the trace has a symbolic link to it: any reader follows it.
pub(crate) fn make(dir: &Path, contents: Option<&Path>, id: &str) -> Result<(), WriteError> {
    let occupied = || WriteError::Exists { path: dir.to_owned() };
    if fs::symlink_metadata(dir).is_ok() {
        let mut entries = fs::read_dir(dir).map_err(|_| occupied())?;
        if entries.any(|entry| !entry.is_ok_and(|e| e.file_name() == SPOOL)) {
            return Err(occupied());
        }
    }
    let elsewhere = contents.map(|contents| {
        let made = make_elsewhere(dir, contents, id);
        made.map_err(|source| WriteError::Contents { path: contents.to_owned(), source })
    });
    let elsewhere = elsewhere.transpose()?;
    for table in TABLES {
        let path = dir.join(table);
        let made = match &elsewhere {
            Some(place) if table == BlobRow::TABLE => symlink(place, &path),
            _ => fs::create_dir_all(&path),
        };
        made.map_err(|e| WriteError::io(path, e))?;
    }
    Ok(())
}

/// A directory of the trace's own.
fn make_elsewhere(dir: &Path, contents: &Path, id: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(contents)?;
    // Traces of one name, recorded in different directories, may keep their contents in one.
    let name = dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy();
    let own = contents.canonicalize()?.join(format!("{name}-{}", id.get(..8).unwrap_or(id)));
    fs::create_dir(&own)?;
    Ok(own)
}

/// Where the blobs of a trace are, if that is outside of it.
pub fn contents_elsewhere(dir: &Path) -> Option<PathBuf> {
    fs::read_link(dir.join(BlobRow::TABLE)).ok().map(|place| dir.join(place))
}

/// Removes a trace that came to nothing, with its contents elsewhere. The directory itself stays if it was there before.
/// What cannot be removed stays.
pub fn discard(dir: &Path, existed: bool) {
    if let Some(contents) = contents_elsewhere(dir) {
        remove(&contents);
    }
    if !existed {
        return remove(dir);
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder {
            remove(&path);
        } else {
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes a directory, under another name: who still writes parts to it finds its place no more.
fn remove(dir: &Path) {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let away = dir.with_file_name(format!(".{name}.{}", std::process::id()));
    let renamed = fs::rename(dir, &away).is_ok();
    let _ = fs::remove_dir_all(if renamed { &away } else { dir });
}
