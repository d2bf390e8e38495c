//! Bytes as quoted text.

/// Bytes of content that are shown.
pub(super) const SHOWN: usize = 32;
const _: () = assert!(SHOWN <= reprise_trace::HEAD_BYTES);

/// All bytes in quotes; what is not printable is escaped as in C.
pub(crate) fn quote(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                c if c.is_control() => {
                    let mut buffer = [0; 4];
                    for byte in c.encode_utf8(&mut buffer).bytes() {
                        out.push_str(&format!("\\x{byte:02x}"));
                    }
                }
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out.push('"');
    out
}

/// The first bytes in quotes, and how many there are if not all are shown.
pub(super) fn excerpt(first: &[u8], length: u64) -> String {
    let shown = &first[..first.len().min(SHOWN)];
    match shown.len() as u64 == length {
        true => quote(shown),
        false => format!("{}...[{length} bytes]", quote(shown)),
    }
}

/// Strings that each end with NUL.
pub(crate) fn strings(bytes: &[u8]) -> String {
    let texts = bytes.split_inclusive(|b| *b == 0).map(|s| quote(s.strip_suffix(b"\0").unwrap_or(s)));
    format!("[{}]", texts.collect::<Vec<_>>().join(", "))
}

/// Bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_printable_is_escaped() {
        assert_eq!(quote(b"a\"\\\n\0\xffz\x1b\xc2\x9b"), r#""a\"\\\n\x00\xffz\x1b\xc2\x9b""#);
        assert_eq!(quote("é".as_bytes()), "\"é\"");
        assert_eq!(excerpt(&[b'x'; 40], 40), format!("\"{}\"...[40 bytes]", "x".repeat(32)));
        assert_eq!(strings(b"ls\0-l\0"), r#"["ls", "-l"]"#);
    }
}
