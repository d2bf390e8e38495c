//! Content, as strace prints it: strings, vectors, directory entries.

use reprise_trace::{Action, BlobReader, CHUNK_BYTES, ReadError};

use crate::cat::quote::quote;

/// Chunks of content that are printed: more would make lines that no importer reads.
const MOST_CHUNKS: usize = 8;
const _: () = assert!(MOST_CHUNKS * CHUNK_BYTES <= 8 << 20);

/// Content that a call moved.
#[derive(Default)]
pub(super) struct Content {
    /// The bytes, if they are in the trace.
    pub bytes: Option<Vec<u8>>,
    /// There was more.
    pub shortened: bool,
}

/// As much of an action's content as is printed.
pub(super) fn content(action: &Action, blobs: &mut BlobReader) -> Result<Content, ReadError> {
    let first = &action.data[..action.data.len().min(MOST_CHUNKS)];
    let bytes = if first.is_empty() { None } else { blobs.content(first)? };
    let length = bytes.as_ref().map_or(0, |b| b.len() as u64);
    Ok(Content { bytes, shortened: length < action.data_bytes })
}

impl Content {
    /// In quotes, with dots behind if there was more.
    pub fn quoted(&self) -> String {
        let text = quote(self.bytes.as_deref().unwrap_or_default());
        if self.shortened { text + "..." } else { text }
    }

    /// What `getcwd` filled ends with a NUL that strace leaves out.
    pub fn without_nul(&self) -> Content {
        let bytes = self.bytes.as_ref().map(|b| b.strip_suffix(b"\0").unwrap_or(b).to_vec());
        Content { bytes, shortened: self.shortened }
    }
}

/// `[{iov_base="a", iov_len=1}, …]`; without content the lengths alone.
pub(super) fn vector(lengths: &[u64], content: Option<&Content>) -> String {
    let mut rest = content.and_then(|c| c.bytes.as_deref()).unwrap_or_default();
    let shortened = content.is_some_and(|c| c.shortened);
    let elements = lengths.iter().map(|length| {
        let Some(_) = content else { return format!("{{iov_base=0x1000, iov_len={length}}}") };
        let (part, behind) = rest.split_at(rest.len().min(usize::try_from(*length).unwrap_or(usize::MAX)));
        rest = behind;
        let dots = if shortened && (part.len() as u64) < *length { "..." } else { "" };
        format!("{{iov_base={}{dots}, iov_len={length}}}", quote(part))
    });
    format!("[{}]", elements.collect::<Vec<_>>().join(", "))
}

/// `[{d_ino=…, d_off=…, d_reclen=…, d_type=…, d_name="…"}, …]`. A malformed rest is left out.
pub(super) fn entries(buffer: &[u8], old: bool) -> String {
    let name_at = if old { 18 } else { 19 };
    let mut texts = Vec::new();
    let mut rest = buffer;
    while let Some(head) = rest.get(..name_at) {
        let long = |at: usize| head[at..at + 8].iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
        let length = usize::from(u16::from_le_bytes([head[16], head[17]]));
        let Some(record) = rest.get(..length).filter(|r| r.len() > name_at) else { break };
        let kind = if old { record[length - 1] } else { record[18] };
        let name = record[name_at..].split(|b| *b == 0).next().unwrap_or_default();
        texts.push(format!(
            "{{d_ino={}, d_off={}, d_reclen={length}, d_type={}, d_name={}}}",
            long(0),
            long(8) as i64,
            kind_name(kind),
            quote(name)
        ));
        rest = &rest[length..];
    }
    format!("[{}]", texts.join(", "))
}

fn kind_name(kind: u8) -> String {
    const NAMES: [(u8, &str); 8] = [
        (0, "DT_UNKNOWN"),
        (1, "DT_FIFO"),
        (2, "DT_CHR"),
        (4, "DT_DIR"),
        (6, "DT_BLK"),
        (8, "DT_REG"),
        (10, "DT_LNK"),
        (12, "DT_SOCK"),
    ];
    NAMES.iter().find(|(n, _)| *n == kind).map_or_else(|| kind.to_string(), |(_, name)| (*name).to_owned())
}
