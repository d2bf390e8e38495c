//! Tokens of a call as strace prints it: arguments, strings, annotations.
//!
//! Goals: one pass over the bytes, no allocation but for decoded strings, no panic on any input. Non-goals: meaning.

use memchr::{memchr2, memmem};

/// As many arguments as a call has, and a few that other versions print besides.
const MOST_ARGUMENTS: usize = 12;

/// The arguments of a call, as text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Arguments<'a> {
    items: [&'a [u8]; MOST_ARGUMENTS],
    count: usize,
}

impl<'a> Arguments<'a> {
    fn push(&mut self, text: &'a [u8]) {
        if let Some(item) = self.items.get_mut(self.count) {
            *item = text.trim_ascii();
            self.count += 1;
        }
    }

    /// The arguments there are.
    pub fn all(&self) -> &[&'a [u8]] {
        &self.items[..self.count]
    }

    /// One argument; empty if it is not there.
    pub fn get(&self, index: usize) -> &'a [u8] {
        self.all().get(index).copied().unwrap_or_default()
    }

    /// The value of a named argument (`flags=…`), or of the one at this place.
    pub fn named(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.all().iter().find_map(|a| a.strip_prefix(name)?.strip_prefix(b"="))
    }
}

/// How the text of a call ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With its parenthesis; what follows begins here.
    Closed(usize),
    /// By `<unfinished ...>`, which begins and ends here.
    Unfinished(usize, usize),
    /// It does not.
    Open,
}

/// Bytes that mean something between arguments.
const SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    let bytes = b"\"()[]{},</";
    let mut i = 0;
    while i < bytes.len() {
        table[bytes[i] as usize] = true;
        i += 1;
    }
    table
};

const UNFINISHED: &[u8] = b"<unfinished ...";

/// Splits what follows a call's opening parenthesis.
pub fn split(text: &[u8]) -> (Arguments<'_>, End) {
    let mut out = Arguments::default();
    let (mut depth, mut start, mut i) = (0u32, 0, 0);
    while let Some(&byte) = text.get(i) {
        if !SPECIAL[usize::from(byte)] {
            i += 1;
            continue;
        }
        match byte {
            b'"' => match string_end(text, i) {
                Some(end) => i = end,
                None => break,
            },
            b'(' | b'[' | b'{' => (depth, i) = (depth + 1, i + 1),
            b')' if depth == 0 => {
                if start > 0 || !text[..i].trim_ascii().is_empty() {
                    out.push(&text[start..i]);
                }
                return (out, End::Closed(i + 1));
            }
            b')' | b']' | b'}' => (depth, i) = (depth.saturating_sub(1), i + 1),
            b',' if depth == 0 => {
                out.push(&text[start..i]);
                (start, i) = (i + 1, i + 1);
            }
            b'<' if text[i..].starts_with(UNFINISHED) => {
                if !text[start..i].trim_ascii().is_empty() {
                    out.push(&text[start..i]);
                }
                let rest = i + UNFINISHED.len();
                let end = memchr::memchr(b'>', &text[rest..]).map_or(text.len(), |at| rest + at + 1);
                return (out, End::Unfinished(i, end));
            }
            b'<' => i = annotation_end(text, i).unwrap_or(i + 1),
            b'/' if text.get(i + 1) == Some(&b'*') => i = comment_end(text, i),
            _ => i += 1,
        }
    }
    out.push(&text[start..]);
    (out, End::Open)
}

/// Elements of a list or structure without its brackets, separated by commas (and by nothing in old versions).
pub fn elements(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let (mut depth, mut i) = (0u32, 0);
        while let Some(&byte) = text.get(i) {
            match byte {
                b'"' => i = string_end(text, i).unwrap_or(text.len()),
                b'(' | b'[' | b'{' => (depth, i) = (depth + 1, i + 1),
                b')' | b']' | b'}' => (depth, i) = (depth.saturating_sub(1), i + 1),
                b',' if depth == 0 => {
                    rest = Some(&text[i + 1..]);
                    return Some(text[..i].trim_ascii());
                }
                b'<' => i = annotation_end(text, i).unwrap_or(i + 1),
                b'/' if text.get(i + 1) == Some(&b'*') => i = comment_end(text, i),
                _ => i += 1,
            }
        }
        rest = None;
        let last = text.trim_ascii();
        (!last.is_empty()).then_some(last)
    })
}

/// What stands between a pair of brackets at the beginning, and what follows.
pub fn bracketed(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut depth, mut i) = (0u32, 0);
    if !matches!(text.first(), Some(b'{' | b'[')) {
        return None;
    }
    while let Some(&byte) = text.get(i) {
        match byte {
            b'"' => i = string_end(text, i)?,
            b'(' | b'[' | b'{' => (depth, i) = (depth + 1, i + 1),
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                i += 1;
                if depth == 0 {
                    return Some((&text[1..i - 1], &text[i..]));
                }
            }
            b'<' => i = annotation_end(text, i).unwrap_or(i + 1),
            b'/' if text.get(i + 1) == Some(&b'*') => i = comment_end(text, i),
            _ => i += 1,
        }
    }
    None
}

/// The value of a field of a structure (without its braces).
pub fn field<'a>(text: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    elements(text).find_map(|e| e.strip_prefix(name)?.strip_prefix(b"="))
}

/// Where the string that begins at `at` ends: behind its closing quote.
fn string_end(text: &[u8], at: usize) -> Option<usize> {
    let mut i = at + 1;
    loop {
        let found = i + memchr2(b'"', b'\\', text.get(i..)?)?;
        if text[found] == b'"' {
            return Some(found + 1);
        }
        i = found + 2;
    }
}

fn comment_end(text: &[u8], at: usize) -> usize {
    memmem::find(&text[at..], b"*/").map_or(text.len(), |end| at + end + 2)
}

/// Where the annotation `<…>` of a descriptor that begins at `at` ends; `None` if it is none.
pub fn annotation_end(text: &[u8], at: usize) -> Option<usize> {
    let follows = at.checked_sub(1).map(|before| text[before]);
    // Behind a number, or `AT_FDCWD`; `1<<2` is none.
    if !matches!(follows, Some(b'0'..=b'9' | b'D')) || text.get(at + 1) == Some(&b'<') {
        return None;
    }
    let (mut depth, mut i) = (0u32, at);
    while let Some(&byte) = text.get(i) {
        match byte {
            b'<' => depth += 1,
            b'>' if text[i - 1] != b'-' => {
                depth -= 1;
                if depth == 0 {
                    return Some(i + 1);
                }
            }
            b'"' if depth > 0 => {
                i = string_end(text, i)?;
                continue;
            }
            _ => {}
        }
        i += 1;
    }
    None
}

/// A number's text and its annotation: `3</etc/passwd>` is `3` and `/etc/passwd`.
pub fn annotated(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    let Some(at) = memchr::memchr(b'<', text) else { return (text, None) };
    match annotation_end(text, at) {
        Some(end) => (&text[..at], Some(&text[at + 1..end - 1])),
        None => (text, None),
    }
}

/// A decoded string.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// False if strace shortened it.
    pub complete: bool,
}

/// Decodes a quoted string at the beginning of `text`; `None` if there is none.
pub fn string(text: &[u8]) -> Option<Text> {
    // `@"…"` is a name in the abstract name space of sockets.
    let text = text.strip_prefix(b"@").unwrap_or(text);
    if text.first() != Some(&b'"') {
        return None;
    }
    let end = string_end(text, 0)?;
    let bytes = unescape(&text[1..end - 1]);
    Some(Text { bytes, complete: !text[end..].starts_with(b"...") })
}

/// The bytes of what stands between quotes, or in an annotation.
pub fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let (byte, length) = escaped(&rest[at + 1..]);
        out.push(byte);
        rest = rest.get(at + 1 + length..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
}

/// One escape without its backslash: the byte, and how long it is.
fn escaped(text: &[u8]) -> (u8, usize) {
    let Some(&first) = text.first() else { return (b'\\', 0) };
    match first {
        b'n' => (b'\n', 1),
        b't' => (b'\t', 1),
        b'r' => (b'\r', 1),
        b'v' => (0x0b, 1),
        b'f' => (0x0c, 1),
        b'a' => (0x07, 1),
        b'b' => (0x08, 1),
        b'e' => (0x1b, 1),
        b'x' => {
            let digits = text[1..].iter().take(2).take_while(|b| b.is_ascii_hexdigit()).count();
            (number(&text[1..=digits], 16), 1 + digits)
        }
        b'0'..=b'7' => {
            let digits = text.iter().take(3).take_while(|b| matches!(b, b'0'..=b'7')).count();
            (number(&text[..digits], 8), digits)
        }
        other => (other, 1),
    }
}

fn number(digits: &[u8], base: u32) -> u8 {
    digits.iter().fold(0u32, |n, d| n * base + (*d as char).to_digit(base).unwrap_or(0)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<String> {
        split(text.as_bytes()).0.all().iter().map(|a| String::from_utf8_lossy(a).into_owned()).collect()
    }

    #[test]
    fn arguments_are_split_at_their_commas_only() {
        assert_eq!(pieces(r#"3, "a, \") = 1", 5) = 5"#), ["3", r#""a, \") = 1""#, "5"]);
        assert_eq!(
            pieces("AT_FDCWD</a,b (c)>, \"x\", {st_mode=S_IFREG|0644, ...}, 0) = 0"),
            ["AT_FDCWD</a,b (c)>", "\"x\"", "{st_mode=S_IFREG|0644, ...}", "0"]
        );
        assert_eq!(
            pieces(r#"5<UNIX-STREAM:[12->13,"/run/x>,y"]>, 4</dev/null<char 1:3>>, 1<<3) = 0"#),
            [r#"5<UNIX-STREAM:[12->13,"/run/x>,y"]>"#, "4</dev/null<char 1:3>>", "1<<3"]
        );
        assert_eq!(pieces(") = 1"), [""; 0]);
    }

    #[test]
    fn the_end_is_found() {
        assert_eq!(split(b"0) = 0").1, End::Closed(2));
        assert_eq!(split(b"3,  <unfinished ...>").1, End::Unfinished(4, 20));
        assert_eq!(split(b"0 <unfinished ... exit status 0>").1, End::Unfinished(2, 32));
        assert_eq!(split(b"1, \"abc").1, End::Open);
        assert_eq!(split(b"1, \"abc\\").1, End::Open);
    }

    #[test]
    fn strings_are_decoded() {
        let text = |t: &str| string(t.as_bytes()).map(|s| (s.bytes, s.complete));
        assert_eq!(text(r#""\177ELF\2\1\0012\xff\n"..."#), Some((b"\x7fELF\x02\x01\x012\xff\n".to_vec(), false)));
        assert_eq!(text(r#""\"\\""#), Some((b"\"\\".to_vec(), true)));
        assert_eq!(text("\"open"), None);
        assert_eq!(text("0x7ffd"), None);
    }

    #[test]
    fn fields_are_found() {
        let (inside, rest) = bracketed(b"{a=[1, 2], b={c=3}} => {d=4}").unwrap();
        assert_eq!(field(inside, b"b"), Some(b"{c=3}".as_slice()));
        assert_eq!(rest, b" => {d=4}");
    }
}
