//! A trace as logs that fio replays (`read_iolog`, version 2), one of each thread.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use reprise_trace::{Action, TraceReader};

use crate::ValidateError;

/// Writes the logs beside each other; what fio has no word for (stat, unlink) is left out.
pub(crate) fn write(trace: &Path, stem: &Path) -> Result<Vec<PathBuf>, ValidateError> {
    let mut threads: BTreeMap<u32, Thread> = BTreeMap::new();
    for action in TraceReader::open(trace)?.actions() {
        let action = action?;
        threads.entry(action.thread).or_default().add(&action);
    }
    let mut out = Vec::new();
    for (number, thread) in threads {
        let path = PathBuf::from(format!("{}.{number}", stem.display()));
        fs::write(&path, thread.text()).map_err(|e| ValidateError::files("write", &path, e))?;
        out.push(path);
    }
    Ok(out)
}

/// What a thread does, as fio has it.
#[derive(Default)]
struct Thread {
    /// Files in the order of their first use.
    files: Vec<String>,
    lines: String,
    /// The open file, and the offset in it.
    open: Option<(String, u64)>,
}

impl Thread {
    fn add(&mut self, action: &Action) {
        let Ok(moved) = u64::try_from(action.result) else { return };
        let mut transfer = |word: &str, at: Option<u64>| {
            if let Some((file, offset)) = &mut self.open {
                let from = at.unwrap_or(*offset);
                let _ = writeln!(self.lines, "{file} {word} {from} {moved}");
                *offset = from + moved;
            }
        };
        match &*action.call {
            "read" => transfer("read", None),
            "write" => transfer("write", None),
            "pread64" => transfer("read", Some(action.args[3])),
            "pwrite64" => transfer("write", Some(action.args[3])),
            // To where it said.
            "lseek" => {
                if let Some((_, offset)) = &mut self.open {
                    *offset = moved;
                }
            }
            "openat" => {
                let file = action.path.as_ref().map(|path| path.to_text()).unwrap_or_default();
                if !self.files.contains(&file) {
                    self.files.push(file.clone());
                }
                let _ = writeln!(self.lines, "{file} open");
                self.open = Some((file, 0));
            }
            "close" => {
                if let Some((file, _)) = self.open.take() {
                    let _ = writeln!(self.lines, "{file} close");
                }
            }
            _ => {}
        }
    }

    fn text(&self) -> String {
        let added: String = self.files.iter().map(|file| format!("{file} add\n")).collect();
        format!("fio version 2 iolog\n{added}{}", self.lines)
    }
}
