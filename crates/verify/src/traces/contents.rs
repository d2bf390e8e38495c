//! Content that calls returned: compared by hash, and by bytes where both traces hold them.

use std::collections::BTreeSet;

use reprise_trace::{Action, BlobReader, ReadError};

use super::judge::{Kind, Verdict};

/// The contents of both traces.
pub(super) struct Contents {
    pub original: BlobReader,
    pub result: BlobReader,
}

/// Compares what a call returned, by hash.
pub(super) fn content(wanted: &Action, found: &Action, contents: &mut Contents) -> Result<Verdict, ReadError> {
    if wanted.data_bytes == 0 && wanted.data.is_empty() {
        return Ok(Verdict::default());
    }
    if wanted.data.is_empty() {
        return Ok(Verdict::uncompared("content was not recorded"));
    }
    if found.data.is_empty() {
        return Ok(Verdict::uncompared("content is not in the replay's trace"));
    }
    if wanted.truncated_bytes > 0 {
        return Ok(Verdict::uncompared("content was recorded in part"));
    }
    if same_hashes(wanted, found, contents)? {
        return Ok(Verdict::default());
    }
    let (a, b) = (contents.result.content(&found.data)?, contents.original.content(&wanted.data)?);
    let text = match (a, b) {
        (Some(a), Some(b)) if a == b => return Ok(Verdict::default()),
        (Some(a), Some(b)) => {
            let same = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
            format!("content differs from byte {same} of {} on", b.len())
        }
        _ => "content has another hash".to_owned(),
    };
    Ok(Verdict::differs(Kind::Content, "other content", text))
}

fn same_hashes(wanted: &Action, found: &Action, contents: &mut Contents) -> Result<bool, ReadError> {
    if wanted.data.len() != found.data.len() {
        return Ok(false);
    }
    for (&a, &b) in wanted.data.iter().zip(&found.data) {
        let (a, b) = (contents.original.get(a)?, contents.result.get(b)?);
        if (a.blake3, a.length) != (b.blake3, b.length) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What a call of the replay returned, if its trace has it, or has its hash and it is the original's.
pub(super) fn returned(wanted: &Action, found: &Action, contents: &mut Contents) -> Result<Option<Vec<u8>>, ReadError> {
    if found.data.is_empty() {
        return Ok(None);
    }
    match contents.result.content(&found.data)? {
        Some(bytes) => Ok(Some(bytes)),
        None if same_hashes(wanted, found, contents)? => contents.original.content(&wanted.data),
        None => Ok(None),
    }
}

/// Compares sets of names of extended attributes.
pub(super) fn names(wanted: &Action, found: &Action, contents: &mut Contents) -> Result<Verdict, ReadError> {
    let buffer = contents.original.content(&wanted.data)?.filter(|b| !b.is_empty());
    let Some(wanted_names) = buffer else {
        return Ok(Verdict::default());
    };
    let found_names = match returned(wanted, found, contents)? {
        Some(names) => names,
        None if found.result == 0 => Vec::new(),
        None => {
            return Ok(Verdict::uncompared("names of attributes are not in the replay's trace"));
        }
    };
    let set = |bytes: &[u8]| -> BTreeSet<Vec<u8>> {
        bytes.split(|b| *b == 0).filter(|n| !n.is_empty()).map(<[u8]>::to_vec).collect()
    };
    let (found, wanted) = (set(&found_names), set(&wanted_names));
    let mut differing = found.symmetric_difference(&wanted).peekable();
    if differing.peek().is_none() {
        return Ok(Verdict::default());
    }
    if differing.all(|name| crate::tree::is_of_the_system(name)) {
        return Ok(Verdict { own: vec!["attributes of the system"], ..Verdict::default() });
    }
    let text = format!("{} names, traced {}", found.len(), wanted.len());
    Ok(Verdict::differs(Kind::Names, "other names of attributes", text))
}
