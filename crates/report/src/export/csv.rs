//! Comma-separated values (RFC 4180): the columns of `actions` but structures and blobs, and the file of each action.

use std::borrow::Cow;
use std::io::Write;

use reprise_trace::{Action, Name, TraceReader};

use super::{ExportError, Exported, each};

const HEAD: &str = "seq,thread,call,begin_ns,duration_ns,a0,a1,a2,a3,a4,a5,result,errno,path,path2,file,data_bytes,\
                    truncated_bytes,origin,handling,difference,cpu_ns,waited_ns,waited_for,paced_ns,issue_error_ns,punctuality,request";

pub(super) fn write(
    trace: &TraceReader,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Exported, ExportError> {
    out.write_all(HEAD.as_bytes())?;
    out.write_all(b"\r\n")?;
    let actions = each(trace, progress, &mut |action, file| Ok(line(action, file, out)?))?;
    Ok(Exported { actions, ..Exported::default() })
}

fn line(a: &Action, file: Option<String>, out: &mut dyn Write) -> std::io::Result<()> {
    write!(out, "{},{},{},{},{}", a.seq, a.thread, quoted(&a.call), a.begin_ns, a.duration_ns)?;
    for argument in a.args {
        write!(out, ",{argument}")?;
    }
    write!(out, ",{}", a.result)?;
    text(out, a.errno.as_deref())?;
    for path in [&a.path, &a.path2] {
        text(out, path.as_ref().map(Name::to_text).as_deref())?;
    }
    text(out, file.as_deref())?;
    write!(out, ",{},{}", a.data_bytes, a.truncated_bytes)?;
    number(out, a.origin)?;
    text(out, a.handling.as_deref())?;
    text(out, a.difference.as_deref())?;
    number(out, a.cpu_ns)?;
    number(out, a.waited_ns)?;
    text(out, a.waited_for.as_deref())?;
    number(out, a.paced_ns)?;
    number(out, a.issue_error_ns)?;
    text(out, a.punctuality.as_deref())?;
    number(out, a.request)?;
    out.write_all(b"\r\n")
}

fn text(out: &mut dyn Write, value: Option<&str>) -> std::io::Result<()> {
    match value {
        Some(value) => write!(out, ",{}", quoted(value)),
        None => out.write_all(b","),
    }
}

fn number(out: &mut dyn Write, value: Option<impl std::fmt::Display>) -> std::io::Result<()> {
    match value {
        Some(value) => write!(out, ",{value}"),
        None => out.write_all(b","),
    }
}

/// A value that no comma, quote or line end can break; an empty text is told from one that is not there.
pub fn quoted(value: &str) -> Cow<'_, str> {
    if value.is_empty() || value.contains([',', '"', '\n', '\r']) {
        return Cow::Owned(format!("\"{}\"", value.replace('"', "\"\"")));
    }
    Cow::Borrowed(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_break_a_line_is_quoted() {
        for (value, shown) in [("a", "a"), ("a,b", "\"a,b\""), ("a\"\n", "\"a\"\"\n\""), ("", "\"\"")] {
            assert_eq!(quoted(value), shown);
        }
    }
}
