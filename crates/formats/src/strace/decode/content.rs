//! Content in a call's text: vectors, lists of strings, directory entries.

use crate::strace::lexer::{bracketed, elements, field, string};
use crate::strace::value::{exact, value};

/// A vector of buffers.
pub struct Vector {
    /// Lengths of its elements.
    pub lengths: Vec<u64>,
    /// Their contents, as far as they are known without a gap.
    pub data: Vec<u8>,
    /// Whether all elements were printed.
    pub all: bool,
}

/// Reads `[{iov_base="a", iov_len=1}, …]`, or `[{"a", 1}, …]` as old versions wrote it.
pub fn vector(text: &[u8]) -> Option<Vector> {
    let (inside, _) = bracketed(text)?;
    let mut out = Vector { lengths: Vec::new(), data: Vec::new(), all: true };
    let mut known = true;
    for element in elements(inside) {
        if element.starts_with(b"...") {
            out.all = false;
            break;
        }
        let (element, _) = bracketed(element)?;
        let second = || elements(element).nth(1);
        let length = field(element, b"iov_len").or_else(second).and_then(exact)?;
        let first = || elements(element).next();
        let base = field(element, b"iov_base").or_else(first).and_then(string);
        out.lengths.push(length);
        match base.filter(|_| known) {
            Some(text) => {
                known = text.complete && text.bytes.len() as u64 == length;
                out.data.extend_from_slice(&text.bytes);
            }
            None => known &= length == 0,
        }
    }
    Some(out)
}

/// Reads `["ls", "-l"]`: each string with its NUL.
pub fn strings(text: &[u8]) -> Option<Vec<u8>> {
    let (inside, _) = bracketed(text)?;
    let mut out = Vec::new();
    for text in elements(inside).filter_map(string) {
        out.extend_from_slice(&text.bytes);
        out.push(0);
    }
    Some(out)
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: Vec<u8>,
    /// Its type (`DT_*`).
    pub kind: u8,
    inode: u64,
    offset: u64,
    length: u64,
}

/// Reads `[{d_ino=…, d_off=…, d_reclen=…, d_type=…, d_name="…"}, …]`, in the order of any version.
pub fn entries(text: &[u8]) -> Option<Vec<Entry>> {
    let (inside, _) = bracketed(text)?;
    let mut out = Vec::new();
    let mut rest = inside;
    while let Some(at) = memchr::memchr(b'{', rest) {
        let (element, after) = bracketed(&rest[at..])?;
        let number = |name: &[u8]| field(element, name).map_or(0, |v| value(v).number);
        let name = string(field(element, b"d_name")?)?.bytes;
        out.push(Entry {
            name,
            kind: number(b"d_type") as u8,
            inode: number(b"d_ino"),
            offset: number(b"d_off"),
            length: number(b"d_reclen"),
        });
        rest = after;
    }
    Some(out)
}

/// The buffer that `getdents64` (`old`: `getdents`) filled; shorter than `size` if the entries do not add up to it.
pub fn listing(entries: &[Entry], old: bool, size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(size);
    for entry in entries {
        let begin = out.len();
        let length = entry.length as usize;
        if length > u16::MAX.into() || begin + length > size {
            break;
        }
        out.extend_from_slice(&entry.inode.to_le_bytes());
        out.extend_from_slice(&entry.offset.to_le_bytes());
        out.extend_from_slice(&(length as u16).to_le_bytes());
        if !old {
            out.push(entry.kind);
        }
        out.extend_from_slice(&entry.name);
        if out.len() >= begin + length {
            break;
        }
        out.resize(begin + length, 0);
        if old {
            out[begin + length - 1] = entry.kind;
        }
    }
    out
}
