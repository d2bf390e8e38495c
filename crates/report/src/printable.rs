//! Text of traces on its way to a terminal.

use std::borrow::Cow;

/// The text with everything that would move the cursor, change colours or begin a line as `\xNN`, byte by byte: as names stand in
/// a trace, where a backslash is doubled already.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(char::is_control) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if c.is_control() {
            let mut buffer = [0; 4];
            out.extend(c.encode_utf8(&mut buffer).bytes().map(|byte| format!("\\x{byte:02x}")));
        } else {
            out.push(c);
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_name_reaches_the_terminal_as_a_command() {
        assert_eq!(printable("a\nb\x1b[31m é"), "a\\x0ab\\x1b[31m é");
        assert_eq!(printable("\u{9b}2J\t"), "\\xc2\\x9b2J\\x09");
        assert!(matches!(printable("a \\\\ b"), Cow::Borrowed(_)));
    }
}
