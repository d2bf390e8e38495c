//! One line of a log: who, when, and what kind of line it is.
//!
//! Goals: every prefix that strace 4.5 to 6.x can print, in any combination. Non-goals: what the call means.

use memchr::{memchr, memmem};

use super::value::leading;

/// A time stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// Nanoseconds since midnight (`-t`, `-tt`).
    OfDay(u64),
    /// Nanoseconds since the epoch (`-ttt`).
    Unix(u64),
    /// Nanoseconds since the previous line (`-r`).
    Since(u64),
}

/// What stands before the text proper.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Prefix {
    /// The thread, where it is printed.
    pub tid: Option<i32>,
    /// The time, where it is printed.
    pub stamp: Option<Stamp>,
}

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body<'a> {
    /// `name(…`: the name, and what follows the parenthesis.
    Call(&'a [u8], &'a [u8]),
    /// `<... name resumed>…`: the name, and what follows.
    Resumed(&'a [u8], &'a [u8]),
    /// `--- SIGCHLD {…} ---`.
    Signal(&'a [u8]),
    /// `+++ exited with 1 +++`.
    Exited(i32),
    /// `+++ killed by SIGKILL +++`.
    Killed(i32),
    /// `+++ superseded by execve in pid 5 +++`.
    Superseded(i32),
    /// `Process 5 attached with 3 threads`.
    Attached(i32, u32),
    /// `Process 5 detached`.
    Detached(i32),
    /// Another message of strace's own.
    Message,
    /// A line of a stack (`-k`).
    Stack,
    /// Nothing.
    Blank,
    /// A remark that somebody wrote into the log.
    Remark,
    /// A line of the table of `-c`.
    Summary,
    /// None of these.
    Other(&'a [u8]),
}

/// Larger numbers are seconds, not threads (`PID_MAX_LIMIT`).
const LARGEST_TID: u64 = 1 << 22;
const SECOND: u64 = 1_000_000_000;

/// Takes a line apart.
pub fn parse(line: &[u8]) -> (Prefix, Body<'_>) {
    let (prefix, text) = prefix(line);
    (prefix, body(text))
}

/// The prefix, and what follows it.
pub fn prefix(line: &[u8]) -> (Prefix, &[u8]) {
    let mut out = Prefix::default();
    let mut rest = line.strip_suffix(b"\r").unwrap_or(line).trim_ascii_start();
    while let Some(next) = one_prefix(&mut out, rest) {
        rest = next.trim_ascii_start();
    }
    (out, rest)
}

/// Takes one word of the prefix away; `None` if there is no further one.
fn one_prefix<'a>(out: &mut Prefix, text: &'a [u8]) -> Option<&'a [u8]> {
    match *text.first()? {
        b'[' => {
            if let Some(inside) = text.strip_prefix(b"[pid ") {
                let inside = inside.trim_ascii_start();
                let end = memchr(b']', inside)?;
                out.tid = Some(i32::try_from(leading(inside)?).ok()?);
                return Some(&inside[end + 1..]);
            }
            // `[ 257]`: number of the call (-n); `[00007f…]`: instruction pointer (-i).
            let end = memchr(b']', text)?;
            let plain = text[1..end].iter().all(|b| b.is_ascii_hexdigit() || matches!(b, b' ' | b'?' | b'x'));
            (plain && end > 1).then(|| &text[end + 1..])
        }
        // `(+     0.000123)`: -r together with -t.
        b'(' if text.starts_with(b"(+") => Some(&text[memchr(b')', text)? + 1..]),
        b'0'..=b'9' => {
            let end = text.iter().position(|b| matches!(b, b' ' | b'<'))?;
            let word = &text[..end];
            if let Some(stamp) = stamp(word).filter(|_| out.stamp.is_none()) {
                out.stamp = Some(stamp);
                return Some(&text[end..]);
            }
            let tid = plain_decimal(word).filter(|_| out.tid.is_none() && out.stamp.is_none())?;
            out.tid = Some(tid as i32);
            let rest = &text[end..];
            // `123<bash>` (-Y).
            match rest.first() {
                Some(b'<') => Some(&rest[memchr(b'>', rest)? + 1..]),
                _ => Some(rest),
            }
        }
        _ => None,
    }
}

fn plain_decimal(word: &[u8]) -> Option<u64> {
    let number =
        word.iter().try_fold(0u64, |n, d| d.is_ascii_digit().then(|| n.wrapping_mul(10) + u64::from(d - b'0')));
    number.filter(|n| *n > 0 && *n <= LARGEST_TID)
}

fn stamp(word: &[u8]) -> Option<Stamp> {
    if let [a, b, b':', c, d, b':', e, f, rest @ ..] = word {
        let two =
            |a: &u8, b: &u8| (a.is_ascii_digit() && b.is_ascii_digit()).then(|| u64::from((a - b'0') * 10 + b - b'0'));
        let seconds = two(a, b)? * 3600 + two(c, d)? * 60 + two(e, f)?;
        return Some(Stamp::OfDay(seconds * SECOND + fraction(rest)?));
    }
    let point = memchr(b'.', word);
    let seconds = plain_seconds(&word[..point.unwrap_or(word.len())])?;
    let rest = fraction(&word[point.unwrap_or(word.len())..])?;
    let time = seconds.checked_mul(SECOND)?.checked_add(rest)?;
    match (point, seconds > LARGEST_TID) {
        (_, true) => Some(Stamp::Unix(time)),
        (Some(_), false) => Some(Stamp::Since(time)),
        (None, false) => None,
    }
}

fn plain_seconds(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > 11 {
        return None;
    }
    word.iter().try_fold(0u64, |n, d| d.is_ascii_digit().then(|| n * 10 + u64::from(d - b'0')))
}

/// `.123456` in nanoseconds; nothing is 0.
fn fraction(text: &[u8]) -> Option<u64> {
    let Some(digits) = text.strip_prefix(b".") else { return text.is_empty().then_some(0) };
    if digits.is_empty() || digits.len() > 9 {
        return None;
    }
    let number = plain_seconds(digits)?;
    Some(number * 10u64.pow(9 - digits.len() as u32))
}

/// A duration at the end of a line: `<0.000123>`; and what stands before it.
pub fn duration(text: &[u8]) -> (&[u8], Option<u64>) {
    let none = (text, None);
    let Some(inside) = text.strip_suffix(b">") else { return none };
    let Some(at) = memchr::memrchr(b'<', inside) else { return none };
    let word = &inside[at + 1..];
    let point = memchr(b'.', word).unwrap_or(word.len());
    match (plain_seconds(&word[..point]), fraction(&word[point..])) {
        (Some(seconds), Some(rest)) if at > 0 && text[at - 1] == b' ' => {
            (text[..at].trim_ascii_end(), Some(seconds.saturating_mul(SECOND).saturating_add(rest)))
        }
        _ => none,
    }
}

fn body(text: &[u8]) -> Body<'_> {
    let Some(&first) = text.first() else { return Body::Blank };
    match first {
        b'<' => resumed(text).unwrap_or(Body::Other(text)),
        b'-' if text.starts_with(b"--- ") => Body::Signal(text[4..].trim_ascii_end()),
        b'+' => end(text).unwrap_or(Body::Other(text)),
        b'>' if text.starts_with(b"> ") => Body::Stack,
        b'#' | b';' => Body::Remark,
        b'/' if text.starts_with(b"/*") || text.starts_with(b"//") => Body::Remark,
        b'%' | b'-' => summary(text),
        b'[' if text.starts_with(b"[ Process PID=") => Body::Message,
        _ => call(text).or_else(|| message(text)).unwrap_or_else(|| summary(text)),
    }
}

fn resumed(text: &[u8]) -> Option<Body<'_>> {
    let inside = text.strip_prefix(b"<... ")?;
    let end = memmem::find(inside, b" resumed>")?;
    Some(Body::Resumed(&inside[..end], &inside[end + b" resumed>".len()..]))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn call(text: &[u8]) -> Option<Body<'_>> {
    let end = text.iter().position(|b| !is_word(*b))?;
    (text[end] == b'(' && end > 0 && !text[0].is_ascii_digit()).then(|| Body::Call(&text[..end], &text[end + 1..]))
}

fn end(text: &[u8]) -> Option<Body<'static>> {
    let inside = text.strip_prefix(b"+++ ")?;
    if let Some(code) = inside.strip_prefix(b"exited with ") {
        return Some(Body::Exited(leading(code)? as i32));
    }
    if let Some(name) = inside.strip_prefix(b"killed by ") {
        let end = memchr(b' ', name).unwrap_or(name.len());
        return Some(Body::Killed(super::symbols::signal(&name[..end]).unwrap_or(0)));
    }
    let by = inside.strip_prefix(b"superseded by execve in pid ")?;
    Some(Body::Superseded(leading(by)? as i32))
}

/// Messages of strace's own, which go to the same stream as the log.
fn message(text: &[u8]) -> Option<Body<'_>> {
    let own = text.strip_prefix(b"strace: ");
    let inside = own.unwrap_or(text);
    let Some(inside) = inside.strip_prefix(b"Process ") else { return own.map(|_| Body::Message) };
    let tid = i32::try_from(leading(inside)?).ok()?;
    let word = &inside[inside.iter().position(|b| *b == b' ')? + 1..];
    if let Some(rest) = word.strip_prefix(b"attached") {
        let threads = rest.strip_prefix(b" with ").and_then(leading).unwrap_or(1);
        return Some(Body::Attached(tid, u32::try_from(threads).unwrap_or(1)));
    }
    if word.starts_with(b"detached") {
        return Some(Body::Detached(tid));
    }
    let known: [&[u8]; 4] = [b"resumed", b"suspended", b"runs in", b"PID="];
    known.iter().any(|k| word.starts_with(k)).then_some(Body::Message)
}

/// The table of `-c`: its head, its rules, and its rows.
fn summary(text: &[u8]) -> Body<'_> {
    let head = text.starts_with(b"% time") || text.starts_with(b"------ -----");
    let is_number = |w: &[u8]| w.iter().all(|b| b.is_ascii_digit() || *b == b'.');
    let mut words = text.split(|b| *b == b' ').filter(|w| !w.is_empty()).skip_while(|w| is_number(w));
    let numbers = text.first().is_some_and(u8::is_ascii_digit);
    let name = words.next().is_some_and(|w| w == b"total" || super::names::known(w).is_some());
    if head || (numbers && name && words.next().is_none()) { Body::Summary } else { Body::Other(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prefix_is_taken_off() {
        let call = Body::Call(b"close", b"3) = 0");
        for (line, tid, stamp) in [
            ("close(3) = 0", None, None),
            ("1234  close(3) = 0", Some(1234), None),
            ("[pid  1234] close(3) = 0", Some(1234), None),
            ("[pid 1234<a b>] close(3) = 0", Some(1234), None),
            ("1234<bash> close(3) = 0", Some(1234), None),
            ("10:20:30 close(3) = 0", None, Some(Stamp::OfDay(37230 * SECOND))),
            ("12 10:20:30.000001 close(3) = 0\r", Some(12), Some(Stamp::OfDay(37230 * SECOND + 1000))),
            ("1700000000.5 close(3) = 0", None, Some(Stamp::Unix(1_700_000_000_500_000_000))),
            ("7 1700000000 close(3) = 0", Some(7), Some(Stamp::Unix(1_700_000_000_000_000_000))),
            ("     0.000123 close(3) = 0", None, Some(Stamp::Since(123_000))),
            ("10:20:30 (+     0.000123) close(3) = 0", None, Some(Stamp::OfDay(37230 * SECOND))),
            ("7 10:20:30 [ 3] [00007f2c15b3a9ab] close(3) = 0", Some(7), Some(Stamp::OfDay(37230 * SECOND))),
            ("[????????????????] close(3) = 0", None, None),
        ] {
            let (prefix, body) = parse(line.as_bytes());
            assert_eq!((prefix.tid, prefix.stamp), (tid, stamp), "{line}");
            assert!(body == call || line.ends_with('\r'), "{line}: {body:?}");
        }
    }

    #[test]
    fn kinds_of_lines_are_told_apart() {
        for (line, body) in [
            ("<... read resumed>\"x\", 1) = 1", Body::Resumed(b"read", b"\"x\", 1) = 1")),
            ("--- SIGCHLD (Child exited) @ 0 (0) ---", Body::Signal(b"SIGCHLD (Child exited) @ 0 (0) ---")),
            ("+++ exited with 3 +++", Body::Exited(3)),
            ("+++ killed by SIGSEGV (core dumped) +++", Body::Killed(11)),
            ("+++ superseded by execve in pid 77 +++", Body::Superseded(77)),
            ("strace: Process 55 attached with 3 threads", Body::Attached(55, 3)),
            ("Process 55 attached (waiting for parent)", Body::Attached(55, 1)),
            ("Process 55 detached", Body::Detached(55)),
            ("[ Process PID=55 runs in 32 bit mode. ]", Body::Message),
            ("strace: exec: No such file or directory", Body::Message),
            (" > /lib/libc.so.6(read+0x10) [0xf00]", Body::Stack),
            ("", Body::Blank),
            ("# here it hangs", Body::Remark),
            ("% time     seconds  usecs/call     calls    errors syscall", Body::Summary),
            (" 40.00    0.000004           4         1           read", Body::Summary),
            ("hello, world", Body::Other(b"hello, world")),
        ] {
            assert_eq!(parse(line.as_bytes()).1, body, "{line}");
        }
    }

    #[test]
    fn durations_are_taken_off() {
        assert_eq!(duration(b"= 0 <0.000123>"), (b"= 0".as_slice(), Some(123_000)));
        assert_eq!(duration(b"= 0 <0.000000007>"), (b"= 0".as_slice(), Some(7)));
        assert_eq!(duration(b"= 3</a>"), (b"= 3</a>".as_slice(), None));
    }
}
