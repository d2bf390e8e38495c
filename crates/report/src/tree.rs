//! A tree as of a moment, one name a line.

use std::collections::HashMap;

use reprise_model::{FileKind, NodeId, PresentName};
use reprise_slice::{File, Snapshot};
use reprise_trace::{BlobReader, Name, ReadError, TraceReader};
use serde::Serialize;

use crate::printable::printable;

/// More zeros than these are not hashed.
const MOST_ZEROS: u64 = 1 << 30;

/// How a tree is printed.
#[derive(Debug, Clone, Default)]
pub struct TreeOptions {
    /// Only this place and what is below it.
    pub below: Option<Vec<u8>>,
    /// With origin, hash of the content and extended attributes.
    pub long: bool,
    /// As JSON objects.
    pub json: bool,
}

#[derive(Serialize)]
struct Object<'a> {
    path: String,
    #[serde(rename = "type")]
    kind: &'static str,
    mode: String,
    uid: u32,
    gid: u32,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link_of: Option<String>,
    origin: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    blake3: Option<String>,
    unknown_bytes: u64,
    unrecorded_bytes: u64,
    mapped: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    xattrs: Vec<(&'a str, String)>,
}

/// The lines of a tree, by path.
pub fn tree_lines<'a>(
    trace: &TraceReader,
    snapshot: &'a Snapshot,
    options: &'a TreeOptions,
) -> impl Iterator<Item = Result<String, ReadError>> + 'a {
    let mut blobs = trace.blobs();
    let mut first: HashMap<NodeId, &PresentName> = HashMap::new();
    let place = options.below.as_deref().map(|p| p.strip_suffix(b"/").unwrap_or(p));
    let wanted = move |name: &&PresentName| {
        let rest = place.map_or(Some(&[][..]), |place| name.path.strip_prefix(place));
        rest.is_some_and(|rest| place.is_none() || rest.is_empty() || rest[0] == b'/')
    };
    snapshot.ordinary_names().into_iter().filter(wanted).filter_map(move |name| {
        let file = snapshot.files.get(&name.node)?;
        let link_of = *first.entry(name.node).or_insert(name);
        let link_of = (link_of.path != name.path).then(|| Name(link_of.path.clone()).to_text());
        let hash = if options.long || options.json { hash(file, &mut blobs) } else { Ok(None) };
        Some(hash.map(|hash| match options.json {
            true => object(name, file, link_of, hash),
            false => printable(&line(name, file, link_of, hash, options.long)).into_owned(),
        }))
    })
}

fn origin(file: &File) -> &'static str {
    if file.identity.is_some() { "initial" } else { "made" }
}

fn object(name: &PresentName, file: &File, link_of: Option<String>, blake3: Option<String>) -> String {
    let (word, _) = kind(file.kind);
    let names: Vec<(String, String)> = file
        .attributes
        .xattrs
        .iter()
        .map(|(name, value)| (Name(name.clone()).to_text(), Name(value.clone()).to_text()))
        .collect();
    let object = Object {
        path: Name(name.path.clone()).to_text(),
        kind: word,
        mode: format!("{:04o}", file.attributes.mode),
        uid: file.attributes.uid,
        gid: file.attributes.gid,
        size: file.size,
        target: (file.kind == FileKind::Symlink).then(|| Name(file.target.clone()).to_text()),
        link_of,
        origin: origin(file),
        blake3,
        unknown_bytes: file.unknown_bytes,
        unrecorded_bytes: file.unrecorded_bytes,
        mapped: file.mapped,
        xattrs: names.iter().map(|(name, value)| (&name[..], value.clone())).collect(),
    };
    // Numbers and strings alone: nothing in it can fail to serialize.
    serde_json::to_string(&object).unwrap_or_default()
}

fn line(name: &PresentName, file: &File, link_of: Option<String>, hash: Option<String>, long: bool) -> String {
    let (_, letter) = kind(file.kind);
    let a = &file.attributes;
    let mut out = format!("{letter}{} {:5} {:5} {:10} ", letters(a.mode), a.uid, a.gid, file.size);
    if long {
        let short = hash.map_or_else(|| "-".repeat(16), |hash| hash[..16].to_owned());
        out += &format!("{:7} {short} ", origin(file));
    }
    out += &Name(name.path.clone()).to_text();
    if file.kind == FileKind::Symlink {
        out += &format!(" -> {}", Name(file.target.clone()).to_text());
    }
    if let Some(first) = link_of {
        out += &format!("  (one file with {first})");
    }
    for (bytes, word) in [(file.unknown_bytes, "unknown"), (file.unrecorded_bytes, "unrecorded")] {
        if bytes > 0 && file.kind == FileKind::Regular {
            out += &format!("  ({bytes} bytes {word})");
        }
    }
    if file.mapped {
        out += "  (mapped)";
    }
    for (name, value) in a.xattrs.iter().filter(|_| long) {
        out += &format!("  {}={:?}", Name(name.clone()).to_text(), Name(value.clone()).to_text());
    }
    out
}

/// BLAKE3 of a file whose content is known whole.
fn hash(file: &File, blobs: &mut BlobReader) -> Result<Option<String>, ReadError> {
    let known: u64 = file.content.iter().map(|k| k.length).sum();
    let whole = file.unknown_bytes == 0 && file.unrecorded_bytes == 0 && !file.mapped;
    if file.kind != FileKind::Regular || !whole || file.size.saturating_sub(known) > MOST_ZEROS {
        return Ok(None);
    }
    let mut hasher = blake3::Hasher::new();
    let mut at = 0;
    for piece in &file.content {
        zeros(&mut hasher, piece.offset.saturating_sub(at));
        let payload = blobs.get(piece.blob)?;
        let range = piece.at as usize..(piece.at as usize).saturating_add(piece.length as usize);
        let Some(bytes) = payload.content.as_ref().and_then(|content| content.get(range)) else { return Ok(None) };
        hasher.update(bytes);
        at = piece.offset.saturating_add(piece.length);
    }
    zeros(&mut hasher, file.size.saturating_sub(at));
    Ok(Some(hasher.finalize().to_hex().to_string()))
}

fn zeros(hasher: &mut blake3::Hasher, mut count: u64) {
    const ZEROS: [u8; 4096] = [0; 4096];
    while count > 0 {
        let n = count.min(ZEROS.len() as u64);
        hasher.update(&ZEROS[..n as usize]);
        count -= n;
    }
}

fn kind(kind: FileKind) -> (&'static str, char) {
    match kind {
        FileKind::Regular => ("file", '-'),
        FileKind::Directory => ("directory", 'd'),
        FileKind::Symlink => ("symlink", 'l'),
        FileKind::Fifo => ("fifo", 'p'),
        FileKind::Socket => ("socket", 's'),
        FileKind::CharDevice => ("character device", 'c'),
        FileKind::BlockDevice => ("block device", 'b'),
    }
}

/// Permission bits as `ls` shows them.
fn letters(mode: u32) -> String {
    let mut out = String::with_capacity(9);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        out.push(if bits & 4 != 0 { 'r' } else { '-' });
        out.push(if bits & 2 != 0 { 'w' } else { '-' });
        out.push(match (bits & 1 != 0, mode & special != 0) {
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_as_ls_shows_them() {
        for (mode, text) in [
            (0o755, "rwxr-xr-x"),
            (0o4711, "rws--x--x"),
            (0o2644, "rw-r-Sr--"),
            (0o1777, "rwxrwxrwt"),
            (0, "---------"),
        ] {
            assert_eq!(letters(mode), text);
        }
    }
}
