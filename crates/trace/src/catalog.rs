//! `catalog.jsonl`: one line per finished part file, with its checksum. A part that is not in it does not exist.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{ReadError, WriteError};

/// A finished part file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Path inside the trace: `actions/000001.parquet`.
    pub file: String,
    /// Table it belongs to.
    pub table: String,
    /// Rows in it.
    pub rows: u64,
    /// First key in it (sequence number, blob id …), for finding a row's part.
    pub first: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// BLAKE3 of the file, hexadecimal.
    pub blake3: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    part: Part,
    /// First 16 hexadecimal digits of the BLAKE3 of all lines before this one and of this part.
    chain: String,
}

fn chain(previous: &str, part: &Part) -> String {
    let text = serde_json::to_string(part).expect("a part serializes");
    blake3::hash(format!("{previous}{text}").as_bytes()).to_hex()[..16].to_owned()
}

/// Appends lines.
pub(crate) struct CatalogWriter {
    file: File,
    path: std::path::PathBuf,
    chain: String,
    bytes: u64,
}

impl CatalogWriter {
    pub(crate) fn create(dir: &Path) -> Result<Self, WriteError> {
        let path = dir.join("catalog.jsonl");
        let file = File::create(&path).map_err(|e| WriteError::io(&path, e))?;
        Ok(CatalogWriter { file, path, chain: String::new(), bytes: 0 })
    }

    /// Size so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn add(&mut self, part: Part) -> Result<(), WriteError> {
        self.chain = chain(&self.chain, &part);
        let mut text = serde_json::to_string(&Line { part, chain: self.chain.clone() }).expect("a part serializes");
        text.push('\n');
        self.bytes += text.len() as u64;
        self.file.write_all(text.as_bytes()).map_err(|e| WriteError::io(&self.path, e))
    }
}

/// Reads all lines. A last line that is cut off is left out in a trace that was not closed, and damage in one that was.
pub(crate) fn load(dir: &Path, complete: bool) -> Result<Vec<Part>, ReadError> {
    let path = dir.join("catalog.jsonl");
    let text = fs::read_to_string(&path).map_err(|e| match e.kind() {
        std::io::ErrorKind::InvalidData => ReadError::damaged(&path, "not text"),
        std::io::ErrorKind::NotFound => ReadError::damaged(&path, "missing"),
        _ => ReadError::io(&path, e),
    })?;
    let mut parts = Vec::new();
    let mut previous = String::new();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for (i, text) in lines.iter().enumerate() {
        let line = match serde_json::from_str::<Line>(text) {
            Ok(line) if text.ends_with('\n') => line,
            _ if i + 1 == lines.len() && !complete => break,
            Ok(_) => {
                return Err(ReadError::damaged(&path, format!("line {} is cut off", i + 1)));
            }
            Err(e) => return Err(ReadError::damaged(&path, format!("line {}: {e}", i + 1))),
        };
        previous = chain(&previous, &line.part);
        if previous != line.chain {
            return Err(ReadError::damaged(&path, format!("line {} does not match its checksum", i + 1)));
        }
        if line.part.file.contains("..") || line.part.file.starts_with('/') {
            return Err(ReadError::damaged(&path, format!("line {} names a file outside the trace", i + 1)));
        }
        parts.push(line.part);
    }
    Ok(parts)
}
