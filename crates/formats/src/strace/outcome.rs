//! What a call returned: the text behind its closing parenthesis.

use memchr::memmem;

use super::lexer::annotation_end;
use super::line::duration;
use super::value::plain;

/// The result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome<'a> {
    /// As the kernel returned it; `None` for `?`.
    pub result: Option<i64>,
    /// A number that no program sees: the call was interrupted by a signal (`ERESTARTSYS` and its kin).
    pub restarts: bool,
    /// What a returned descriptor is (`-y`).
    pub annotation: Option<&'a [u8]>,
    /// strace made the result up, on request (`-e inject`).
    pub injected: bool,
    /// Response time (`-T`).
    pub duration_ns: Option<u64>,
}

/// Numbers of the kernel that ask for a restart.
const RESTARTS: [i64; 4] = [-512, -513, -514, -516];

/// Reads `= 3</etc/passwd> <0.000123>`; `None` if it is no result.
pub fn outcome(text: &[u8]) -> Option<Outcome<'_>> {
    let text = text.trim_ascii().strip_prefix(b"=")?;
    let (text, duration_ns) = duration(text.trim_ascii());
    let end = text.iter().position(|b| matches!(b, b' ' | b'<')).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let injected = memmem::find(rest, b"(INJECTED)").is_some();
    let mut out = Outcome { duration_ns, injected, ..Outcome::default() };
    if word == b"?" {
        out.restarts = rest.trim_ascii_start().starts_with(b"ERESTART");
        return Some(out);
    }
    if word.is_empty() {
        // `= <unavailable>`
        return rest.starts_with(b"<unavailable>").then_some(out);
    }
    if rest.starts_with(b"<") {
        let end = annotation_end(text, word.len())?;
        out.annotation = Some(&text[word.len() + 1..end - 1]);
    }
    let number = match word.strip_prefix(b"-").filter(|n| n.starts_with(b"E")) {
        Some(name) => -i64::from(errno(name)?),
        None => plain(word)? as i64,
    };
    let number = if number == -1 { error(rest.trim_ascii_start()).unwrap_or(-1) } else { number };
    out.restarts = RESTARTS.contains(&number);
    out.result = Some(number);
    Some(out)
}

/// The error behind `-1`.
fn error(text: &[u8]) -> Option<i64> {
    if let Some(number) = text.strip_prefix(b"(errno ") {
        return Some(-(super::value::leading(number)? as i64));
    }
    let end = text.iter().position(|b| !b.is_ascii_alphanumeric()).unwrap_or(text.len());
    Some(-i64::from(errno(&text[..end])?))
}

fn errno(name: &[u8]) -> Option<i32> {
    let name = std::str::from_utf8(name).ok()?;
    reprise_calls::errno_number(name).or(match name {
        "EWOULDBLOCK" => Some(11),
        "EDEADLOCK" => Some(35),
        "ENOTSUP" => Some(95),
        "ERESTARTSYS" => Some(512),
        "ERESTARTNOINTR" => Some(513),
        "ERESTARTNOHAND" => Some(514),
        "ENOIOCTLCMD" => Some(515),
        "ERESTART_RESTARTBLOCK" => Some(516),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read() {
        let read = |text: &str| outcome(text.as_bytes()).map(|o| (o.result, o.restarts));
        assert_eq!(read(" = 5"), Some((Some(5), false)));
        assert_eq!(read("                = 0x7f00 (flags O_RDWR)"), Some((Some(0x7f00), false)));
        assert_eq!(read(" = 022"), Some((Some(0o22), false)));
        assert_eq!(read(" = -1 ENOENT (No such file or directory)"), Some((Some(-2), false)));
        assert_eq!(read(" = -1 (errno 38)"), Some((Some(-38), false)));
        assert_eq!(read(" = ? ERESTARTSYS (To be restarted)"), Some((None, true)));
        assert_eq!(read(" = -1 ERESTARTNOINTR (To be restarted)"), Some((Some(-513), true)));
        assert_eq!(read(" = ?"), Some((None, false)));
        assert_eq!(read(" = ? <unavailable>"), Some((None, false)));
        assert_eq!(read(" hello"), None);
        let full = outcome(b" = 3</tmp/a b> (DELAYED) <0.000010>").unwrap();
        assert_eq!(
            (full.result, full.annotation, full.duration_ns),
            (Some(3), Some(b"/tmp/a b".as_slice()), Some(10_000))
        );
        assert!(outcome(b" = -1 EIO (Input/output error) (INJECTED)").unwrap().injected);
    }
}
