//! Bytes that are usually text: paths and names.

use std::fmt;

/// A path or name: any bytes but NUL. In the columns it stands as UTF-8 where every byte that is not valid UTF-8 is
/// written `\xNN`, and a backslash as `\\`, so it is lossless and readable in SQL.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Name(pub Vec<u8>);

impl Name {
    /// The escaped text.
    pub fn to_text(&self) -> String {
        let mut out = String::with_capacity(self.0.len());
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                match c {
                    '\\' => out.push_str("\\\\"),
                    c => out.push(c),
                }
            }
            for byte in chunk.invalid() {
                out.push_str(&format!("\\x{byte:02x}"));
            }
        }
        out
    }

    /// The bytes of an escaped text; an escape that is none stands for itself.
    pub fn from_text(text: impl AsRef<[u8]>) -> Name {
        let mut name = Name::default();
        name.read_text(text.as_ref());
        name
    }

    /// A path seen from a directory, without `.` and `..`: absolute, by the text alone, whatever links there are.
    pub fn below(directory: &[u8], path: &[u8]) -> Name {
        let from = if path.starts_with(b"/") { &b""[..] } else { directory };
        let mut parts: Vec<&[u8]> = Vec::new();
        for part in from.split(|b| *b == b'/').chain(path.split(|b| *b == b'/')) {
            match part {
                b"" | b"." => {}
                b".." => drop(parts.pop()),
                name => parts.push(name),
            }
        }
        Name([b"/".as_slice(), &parts.join(&b'/')].concat())
    }

    /// Becomes the bytes of an escaped text, as [`Name::from_text`]; its memory is used again.
    pub(crate) fn read_text(&mut self, bytes: &[u8]) {
        let out = &mut self.0;
        out.clear();
        if !bytes.contains(&b'\\') {
            out.extend_from_slice(bytes);
            return;
        }
        let mut i = 0;
        while i < bytes.len() {
            let rest = &bytes[i..];
            if rest.starts_with(b"\\\\") {
                out.push(b'\\');
                i += 2;
            } else if let Some(byte) = escaped_byte(rest) {
                out.push(byte);
                i += 4;
            } else {
                out.push(bytes[i]);
                i += 1;
            }
        }
    }
}

impl serde::Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_text())
    }
}

impl<'de> serde::Deserialize<'de> for Name {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        <String as serde::Deserialize>::deserialize(deserializer).map(Name::from_text)
    }
}

fn escaped_byte(rest: &[u8]) -> Option<u8> {
    let digits = rest.strip_prefix(b"\\x")?.get(..2)?;
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

impl std::ops::Deref for Name {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Name {
    fn from(bytes: &[u8]) -> Name {
        Name(bytes.to_vec())
    }
}

impl From<Vec<u8>> for Name {
    fn from(bytes: Vec<u8>) -> Name {
        Name(bytes)
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Name {
        Name(text.as_bytes().to_vec())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_text())
    }
}

#[cfg(test)]
mod tests {
    use super::Name;

    #[test]
    fn text_is_lossless() {
        for bytes in [&b"/a b"[..], b"\\x41", b"\xff\xfe/\xc3\xa9", b"a\\", b"\\\\x", "é".as_bytes()] {
            let name = Name(bytes.to_vec());
            assert_eq!(Name::from_text(name.to_text()), name);
        }
    }

    #[test]
    fn paths_below_a_directory() {
        let cases = [
            ("/a/b", "c", "/a/b/c"),
            ("/a/b", "..", "/a"),
            ("/", "..", "/"),
            ("/a", "./b//c/../d", "/a/b/d"),
            ("/a", "/x/y", "/x/y"),
        ];
        for (directory, path, expected) in cases {
            assert_eq!(Name::below(directory.as_bytes(), path.as_bytes()), Name::from(expected), "{directory} {path}");
        }
    }
}
