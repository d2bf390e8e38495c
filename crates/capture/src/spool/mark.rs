//! `spool/complete-until`: up to which instant the files of a spool hold everything, and why they hold no more.
//!
//! Goals: a recorder that is killed leaves a beginning without a gap. Each processor fills a segment of its own, so that
//! what is on the disk of one may be younger than what another still holds; from time to time all are written, and then
//! the instant is. It can be said on a disk that is full: the file is made at the beginning, as long as it ever is, and
//! written over, at once. Non-goals: a recording that ends in order, whose spool is complete.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::lacks::Lacks;

/// Name of the file in the directory of the spool: a line with the instant, then the [`Cut`] if there was one, and spaces.
pub const MARK: &str = "complete-until";
/// Its name until it says something.
const NEW: &str = "complete-until.new";
/// Length of the file: a sector. (Btrfs keeps so little beside the inode, and needs no other place to write it anew.)
const BYTES: usize = 512;
/// Of what an error says so much is kept.
const WHY_BYTES: usize = 100;

/// Whether a file of a spool holds no segments.
pub fn is_mark(name: &std::ffi::OsStr) -> bool {
    name == MARK || name == NEW
}

/// The spool could not be written any further.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// The system's error.
    pub why: String,
    /// Whether it says that there is no room.
    pub full: bool,
    /// Records that the kernel made or dropped, whether they were written or not.
    pub records: u64,
    /// Those that it dropped.
    pub lacks: Lacks,
    /// Calls that it passed by since.
    pub passed: u64,
}

impl Cut {
    /// By this error; what is counted comes later.
    pub fn by(error: &io::Error) -> Cut {
        let mut why = error.to_string();
        let most = (0..=WHY_BYTES.min(why.len())).rev().find(|at| why.is_char_boundary(*at));
        why.truncate(most.unwrap_or(0));
        Cut { why, full: reprise_trace::is_full(error), ..Cut::default() }
    }
}

/// The file, for who writes.
#[derive(Debug)]
pub struct Mark {
    file: File,
    spool: PathBuf,
    until_ns: AtomicU64,
}

impl Mark {
    /// Makes it: nothing is complete yet.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn make(spool: &Path) -> io::Result<Mark> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(spool.join(NEW))?;
        let mark = Mark { file, spool: spool.to_owned(), until_ns: AtomicU64::new(0) };
        mark.write(0, "")?;
        Ok(mark)
    }

    /// Says that all records up to an instant of `CLOCK_MONOTONIC` are there.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn say(&self, until_ns: u64) -> io::Result<()> {
        self.write(until_ns, "")?;
        if self.until_ns.swap(until_ns, Ordering::SeqCst) == 0 {
            // Where its directory has another name by now it keeps the one that it has: it is read by either.
            let _ = fs::rename(self.spool.join(NEW), self.spool.join(MARK));
        }
        Ok(())
    }

    /// Says that no more comes, beside up to when all is there, as it was said last.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn cut(&self, cut: &Cut) -> io::Result<()> {
        self.write(self.until_ns.load(Ordering::SeqCst), &serde_json::to_string(cut)?)
    }

    /// In one piece: who is killed has written it or not.
    fn write(&self, until_ns: u64, rest: &str) -> io::Result<()> {
        let mut bytes = format!("{until_ns}\n{rest}").into_bytes();
        bytes.resize(BYTES, b' ');
        self.file.write_all_at(&bytes, 0)
    }
}

/// Says that all records up to an instant are there, in a spool that nobody writes.
///
/// # Errors
/// The file cannot be written.
pub fn write(spool: &Path, until_ns: u64) -> io::Result<()> {
    Mark::make(spool)?.say(until_ns)
}

/// The instant, 0 if nothing was said; and why no more is there, if that was said.
pub fn read(spool: &Path) -> (u64, Option<Cut>) {
    let named = |name| fs::read_to_string(spool.join(name));
    let text = named(MARK).or_else(|_| named(NEW)).unwrap_or_default();
    let (until_ns, cut) = text.split_once('\n').unwrap_or((&text, ""));
    (until_ns.trim().parse().unwrap_or(0), serde_json::from_str(cut).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read_and_takes_no_more_room() {
        let dir = tempfile::tempdir().unwrap();
        let length = || fs::metadata(dir.path().join(MARK)).unwrap().len();
        assert_eq!(read(dir.path()), (0, None));
        let mark = Mark::make(dir.path()).unwrap();
        assert_eq!((read(dir.path()), dir.path().join(MARK).exists()), ((0, None), false), "no round was");
        mark.say(u64::MAX).unwrap();
        assert_eq!((read(dir.path()), length()), ((u64::MAX, None), 512));
        mark.say(123).unwrap();
        let why = Cut::by(&io::Error::other("ä".repeat(400)));
        assert_eq!((why.why.len(), why.full), (100, false));
        let most = Cut { records: u64::MAX, lacks: Lacks([u64::MAX; 6]), passed: u64::MAX, ..why };
        mark.cut(&most).unwrap();
        assert_eq!((read(dir.path()), length()), ((123, Some(most)), 512));
        mark.say(7).unwrap();
        assert_eq!(read(dir.path()), (7, None));
        fs::rename(dir.path().join(MARK), dir.path().join(NEW)).unwrap();
        assert_eq!(read(dir.path()), (7, None));
        // As earlier versions wrote it.
        fs::write(dir.path().join(MARK), "456").unwrap();
        assert_eq!(read(dir.path()), (456, None));
        assert!(Cut::by(&io::Error::from_raw_os_error(libc::ENOSPC)).full);
    }
}
