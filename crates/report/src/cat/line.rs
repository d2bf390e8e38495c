//! One action as a line.

use reprise_calls::{Returns, errno_name};
use reprise_trace::{Action, BlobReader, ReadError};

use super::argument::{address, arguments, meaning};
use super::quote::quote;

/// `12.345678 [T3] call(arguments) = result <seconds>`, and for a replay how it went.
pub(super) fn line(action: &Action, blobs: &mut BlobReader) -> Result<String, ReadError> {
    let call = reprise_calls::by_name(&action.call);
    let arguments = match call {
        Some(call) => arguments(call, action, blobs)?,
        None => unknown(action),
    };
    let result = match (action.result, call.map(|c| c.returns)) {
        (result @ -4095..0, _) => {
            let name = action.errno.clone();
            let name = name.or_else(|| errno_name(-result as i32).map(str::to_owned));
            format!("-1 {}", name.unwrap_or_else(|| format!("error {}", -result)))
        }
        (_, Some(Returns::Never)) => "?".to_owned(),
        (result, Some(Returns::Address)) => address(result as u64),
        (result, _) => result.to_string(),
    };
    let meaning = call.and_then(|c| meaning(c, action)).map(|m| format!(" ({m})")).unwrap_or_default();
    let ns = action.duration_ns;
    Ok(format!(
        "{} [T{}] {}({arguments}) = {result}{meaning} <{}.{:09}>{}",
        seconds(action.begin_ns),
        action.thread,
        action.call,
        ns / 1_000_000_000,
        ns % 1_000_000_000,
        replayed(action),
    ))
}

fn seconds(ns: u64) -> String {
    format!("{:>4}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1_000)
}

/// Arguments of a call that has no row: numbers and paths.
fn unknown(action: &Action) -> String {
    let numbers = action.args.iter().map(|a| format!("{a:#x}"));
    let paths = [&action.path, &action.path2].into_iter().flatten().map(|p| quote(p));
    numbers.chain(paths).collect::<Vec<_>>().join(", ")
}

/// In a replay's trace: how it went.
fn replayed(action: &Action) -> String {
    match (action.handling.as_deref(), action.difference.as_deref()) {
        (_, Some(text)) if text.starts_with("unavoidable: ") => format!("  # {text}"),
        (_, Some(text)) => format!("  # diverged: {text}"),
        (Some("issued") | None, None) => String::new(),
        (Some(handling), None) => format!("  # {handling}"),
    }
}
