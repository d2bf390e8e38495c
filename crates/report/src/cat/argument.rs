//! One argument in words.

use reprise_calls::{ArgKind, Call, CommandSet, Effect, FlagSet};
use reprise_model::entry_names;
use reprise_trace::payload::{Side, split, vector_lengths};
use reprise_trace::{Action, BlobReader, Name, ReadError};

use super::quote::{excerpt, hex, quote, strings};
use super::structure::{device, is_plain, structure};

pub(crate) const AT_FDCWD: i32 = -100;
/// Names of a listing that are shown.
const NAMES: usize = 8;

/// All arguments, separated by commas.
pub(super) fn arguments(call: &Call, action: &Action, blobs: &mut BlobReader) -> Result<String, ReadError> {
    let input = split(call, Side::Input, &action.input);
    let output = split(call, Side::Output, &action.output);
    let mut out = Vec::with_capacity(call.args.len());
    let mut paths = [&action.path, &action.path2].into_iter();
    for (i, (arg, value)) in call.args.iter().zip(action.args).enumerate() {
        let pointer = || address(value);
        out.push(match arg.kind {
            ArgKind::Fd(_) => (value as i32).to_string(),
            ArgKind::Dirfd if value as i32 == AT_FDCWD => "AT_FDCWD".to_owned(),
            ArgKind::Dirfd => (value as i32).to_string(),
            ArgKind::Path(_) => match paths.next() {
                Some(Some(path)) => quote(path),
                Some(None) | None => pointer(),
            },
            ArgKind::Text => input[i].map_or_else(pointer, quote),
            ArgKind::Strings => input[i].map_or_else(pointer, strings),
            ArgKind::InData(_) => content(call, action, blobs)?.unwrap_or_else(pointer),
            ArgKind::OutData(_) if action.result > 0 => content(call, action, blobs)?.unwrap_or_else(pointer),
            ArgKind::OutData(_) => pointer(),
            ArgKind::InVector(_) | ArgKind::OutVector(_) => {
                let lengths = input[i].map(vector_lengths).unwrap_or_default();
                let lengths: Vec<String> = lengths.iter().map(|n| format!("{{iov_len={n}}}")).collect();
                let moved = matches!(arg.kind, ArgKind::InVector(_)) || action.result > 0;
                let content = if moved { content(call, action, blobs)? } else { None };
                let content = content.map(|c| format!(" {c}")).unwrap_or_default();
                format!("[{}]{content}", lengths.join(", "))
            }
            ArgKind::In(kind) => input[i].map_or_else(pointer, |b| structure(call, kind, &action.args, b)),
            ArgKind::Out(kind) => output[i].map_or_else(pointer, |b| structure(call, kind, &action.args, b)),
            ArgKind::InOut(reprise_calls::Struct::ByCommand) if is_plain(call, &action.args) => {
                match plain(call, action) {
                    Some(text) => text,
                    None => continue,
                }
            }
            ArgKind::InOut(kind) => {
                let show = |b: &[u8]| structure(call, kind, &action.args, b);
                match (input[i], output[i]) {
                    (Some(before), Some(after)) if before != after => {
                        format!("{} => {}", show(before), show(after))
                    }
                    (Some(b), _) | (None, Some(b)) => show(b),
                    (None, None) => pointer(),
                }
            }
            ArgKind::Flags(set) => set.text(value & 0xffff_ffff),
            ArgKind::Command(set) => set.text(value),
            // Without O_CREAT or O_TMPFILE it has no meaning and may not even be set.
            ArgKind::Mode if call.effect == Effect::Open && !creates(call, action) => continue,
            ArgKind::Mode => format!("{:04o}", value & 0o177777),
            ArgKind::Offset => (value as i64).to_string(),
            ArgKind::Length => value.to_string(),
            ArgKind::Integer | ArgKind::Submits | ArgKind::Reaps => integer(value),
            ArgKind::Number => format!("{value:#x}"),
            ArgKind::Device => device(value),
            ArgKind::Owner => (value as u32 as i32).to_string(),
            ArgKind::Address | ArgKind::Environment => pointer(),
        });
    }
    Ok(out.join(", "))
}

/// A number whose size the row does not tell: of 32 bits if it fits.
pub(crate) fn integer(value: u64) -> String {
    match u32::try_from(value) {
        Ok(small) => (small as i32).to_string(),
        Err(_) => (value as i64).to_string(),
    }
}

/// Whether a call that opens may make a file: only then its mode means anything.
pub(crate) fn creates(call: &Call, action: &Action) -> bool {
    const CREAT: u64 = 0o100;
    const TMPFILE: u64 = 0o20000000;
    call.open_flags(&action.args, &[]) & (CREAT | TMPFILE) != 0
}

/// An address.
pub(crate) fn address(value: u64) -> String {
    if value == 0 { "NULL".to_owned() } else { format!("{value:#x}") }
}

/// The third argument of a `fcntl` or `ioctl` if it is a number; none where the command takes none.
fn plain(call: &Call, action: &Action) -> Option<String> {
    const GETTERS: [u64; 6] = [1, 3, 9, 11, 1025, 1032];
    const F_SETFD: u64 = 2;
    const F_SETFL: u64 = 4;
    let value = action.args[2];
    match (call.effect, action.args[1] & 0xffff_ffff) {
        (Effect::Control, command) if GETTERS.contains(&command) => None,
        (Effect::Control, F_SETFD) => Some(descriptor_flags(value)),
        (Effect::Control, F_SETFL) => Some(FlagSet::Open.text(value & 0xffff_ffff)),
        (Effect::Control, _) => Some((value as i64).to_string()),
        _ => Some(format!("{value:#x}")),
    }
}

fn descriptor_flags(value: u64) -> String {
    if value == 1 { "FD_CLOEXEC".to_owned() } else { format!("{value:#x}") }
}

/// What a successful result of `fcntl` means, if it is a set of flags.
pub(super) fn meaning(call: &Call, action: &Action) -> Option<String> {
    if call.effect != Effect::Control || action.result < 0 {
        return None;
    }
    match CommandSet::Fcntl.text(action.args[1]).as_str() {
        "F_GETFD" if action.result == 1 => Some("FD_CLOEXEC".to_owned()),
        "F_GETFL" => Some(FlagSet::Open.text(action.result as u64)),
        _ => None,
    }
}

/// Content that the call moved, as far as it is in the trace; `None` if it moved none.
fn content(call: &Call, action: &Action, blobs: &mut BlobReader) -> Result<Option<String>, ReadError> {
    let Some(&blob) = action.data.first() else {
        return Ok((action.data_bytes > 0).then(|| format!("<{} bytes>", action.data_bytes)));
    };
    if call.effect == Effect::List
        && let Some(bytes) = &blobs.get(blob)?.content
    {
        return Ok(Some(names(&entry_names(bytes, call.name == "getdents"))));
    }
    let head = blobs.head(blob)?;
    Ok(Some(match &head.first {
        Some(first) => excerpt(first, action.data_bytes),
        None => format!("<{} bytes, blake3 {}...>", action.data_bytes, hex(&head.blake3[..8])),
    }))
}

fn names(names: &[Vec<u8>]) -> String {
    let shown: Vec<String> = names.iter().take(NAMES).map(|n| quote(&Name(n.clone()))).collect();
    match names.len().checked_sub(NAMES) {
        None | Some(0) => format!("[{}]", shown.join(", ")),
        Some(more) => format!("[{}, and {more} more]", shown.join(", ")),
    }
}
