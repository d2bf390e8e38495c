//! The arguments of a call, as strace prints them.

use reprise_calls::{ArgKind, Call, CommandSet, Effect, Struct};
use reprise_trace::payload::{Side, split, vector_lengths};
use reprise_trace::{Action, BlobReader, ReadError};

use super::content::{Content, content, entries, vector};
use super::structure::structure;
use crate::cat::argument::{AT_FDCWD, address, creates, integer};
use crate::cat::quote::{quote, strings};
use crate::cat::structure::is_plain;

/// All arguments.
pub(super) struct Arguments {
    /// Separated by commas.
    pub text: String,
    /// Content is cut short.
    pub shortened: bool,
}

pub(super) fn arguments(call: &Call, action: &Action, blobs: &mut BlobReader) -> Result<Arguments, ReadError> {
    let moved = moves(call, action).then(|| content(action, blobs)).transpose()?.unwrap_or_default();
    let input = split(call, Side::Input, &action.input);
    let output = split(call, Side::Output, &action.output);
    let mut paths = [&action.path, &action.path2].into_iter();
    let mut texts = Vec::with_capacity(call.args.len());
    for (i, (arg, value)) in call.args.iter().zip(action.args).enumerate() {
        let path = matches!(arg.kind, ArgKind::Path(_)).then(|| paths.next().and_then(Option::as_ref)).flatten();
        let sides = Sides { input: input[i], output: output[i] };
        let text = match path {
            Some(path) => Some(quote(path)),
            None => argument(call, action, (arg.kind, value), &sides, &moved),
        };
        if let Some(text) = text {
            texts.push(if call.name == "clone" { format!("{}={text}", CLONE[i.min(4)]) } else { text });
        }
    }
    Ok(Arguments { text: texts.join(", "), shortened: moved.shortened })
}

/// strace names the arguments of `clone`, since their order depends on the machine.
const CLONE: [&str; 5] = ["flags", "child_stack", "parent_tidptr", "child_tidptr", "tls"];

/// What an argument pointed to, before the call and after.
struct Sides<'a> {
    input: Option<&'a [u8]>,
    output: Option<&'a [u8]>,
}

/// Whether content belongs into the arguments.
fn moves(call: &Call, action: &Action) -> bool {
    call.args.iter().any(|arg| match arg.kind {
        ArgKind::InData(_) | ArgKind::InVector(_) => true,
        ArgKind::OutData(_) | ArgKind::OutVector(_) => action.result > 0,
        _ => false,
    })
}

/// One argument; `None` of one that strace does not print.
fn argument(
    call: &Call,
    action: &Action,
    (kind, value): (ArgKind, u64),
    sides: &Sides<'_>,
    moved: &Content,
) -> Option<String> {
    let pointer = || address(value);
    let of = |kind: Struct, bytes: &[u8]| structure(call, kind, &action.args, bytes);
    Some(match kind {
        ArgKind::Dirfd if value as i32 == AT_FDCWD => "AT_FDCWD".to_owned(),
        ArgKind::Fd(_) | ArgKind::Dirfd => (value as i32).to_string(),
        ArgKind::Path(_) | ArgKind::Address | ArgKind::Environment => pointer(),
        ArgKind::Text => sides.input.map_or_else(pointer, quote),
        ArgKind::Strings => sides.input.map_or_else(pointer, strings),
        ArgKind::InData(_) if value == 0 => pointer(),
        ArgKind::InData(_) => moved.quoted(),
        ArgKind::OutData(_) if action.result <= 0 => pointer(),
        ArgKind::OutData(_) if call.effect == Effect::List => match &moved.bytes {
            Some(bytes) => entries(bytes, call.name == "getdents"),
            None => pointer(),
        },
        ArgKind::OutData(_) if call.effect == Effect::GetDirectory => moved.without_nul().quoted(),
        ArgKind::OutData(_) => moved.quoted(),
        ArgKind::InVector(_) | ArgKind::OutVector(_) => {
            let filled = matches!(kind, ArgKind::InVector(_)) || action.result > 0;
            sides.input.map_or_else(pointer, |lengths| vector(&vector_lengths(lengths), filled.then_some(moved)))
        }
        ArgKind::In(kind) => sides.input.map_or_else(pointer, |b| of(kind, b)),
        ArgKind::Out(kind) => sides.output.map_or_else(pointer, |b| of(kind, b)),
        ArgKind::InOut(Struct::ByCommand) if is_plain(call, &action.args) => return plain(call, action),
        ArgKind::InOut(kind) => match (sides.input, sides.output) {
            (Some(before), Some(after)) if before != after => format!("{} => {}", of(kind, before), of(kind, after)),
            (Some(b), _) | (None, Some(b)) => of(kind, b),
            (None, None) => pointer(),
        },
        ArgKind::Flags(set) => set.text(value & 0xffff_ffff),
        ArgKind::Command(set) => set.text(value),
        ArgKind::Mode if call.effect == Effect::Open && !creates(call, action) => return None,
        ArgKind::Mode => format!("{:#05o}", value & 0o177_777).replace("0o", "0"),
        ArgKind::Offset => (value as i64).to_string(),
        ArgKind::Length => value.to_string(),
        ArgKind::Integer | ArgKind::Submits | ArgKind::Reaps => integer(value),
        ArgKind::Number => format!("{value:#x}"),
        ArgKind::Device => super::structure::device(value),
        ArgKind::Owner => (value as u32 as i32).to_string(),
    })
}

/// The third argument of `fcntl` or `ioctl` where it is a number; none where the command takes none.
fn plain(call: &Call, action: &Action) -> Option<String> {
    const WITHOUT: [&str; 6] = ["F_GETFD", "F_GETFL", "F_GETOWN", "F_GETSIG", "F_GETLEASE", "F_GET_SEALS"];
    let value = action.args[2];
    let command = CommandSet::Fcntl.text(action.args[1]);
    match (call.effect, command.as_str()) {
        (Effect::Control, name) if WITHOUT.contains(&name) => None,
        (Effect::Control, "F_SETFL") => Some(reprise_calls::FlagSet::Open.text(value & 0xffff_ffff)),
        (Effect::Control, "F_SETFD") if value == 1 => Some("FD_CLOEXEC".to_owned()),
        (Effect::Control, _) => Some((value as i64).to_string()),
        _ => Some(format!("{value:#x}")),
    }
}
