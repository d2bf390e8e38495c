//! Extended attributes: those of the program, not those of the system.

use std::collections::BTreeMap;

/// How a replay marks its target.
pub(super) const MARK: &[u8] = b"user.reprise.tree";

/// Whether an attribute belongs to the system and comes and goes without the program.
pub(crate) fn is_of_the_system(name: &[u8]) -> bool {
    [b"security.".as_slice(), b"system.", b"trusted."].iter().any(|p| name.starts_with(p))
}

/// Differences: a cause and the values.
pub(super) fn compare(
    wanted: &BTreeMap<Vec<u8>, Vec<u8>>,
    found: &[(Vec<u8>, Vec<u8>)],
    ignored: impl Fn(&[u8]) -> bool,
) -> Vec<(&'static str, String)> {
    let counts = |name: &[u8]| !is_of_the_system(name) && name != MARK && !ignored(name);
    let found: BTreeMap<&[u8], &[u8]> = found.iter().map(|(n, v)| (&n[..], &v[..])).collect();
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let mut out = Vec::new();
    for (name, value) in wanted.iter().filter(|(n, _)| counts(n)) {
        match found.get(&name[..]) {
            None => out.push(("an attribute is missing", text(name))),
            Some(other) if *other != &value[..] => {
                let lengths = format!("{} ({} bytes, traced {})", text(name), other.len(), value.len());
                out.push(("another value of an attribute", lengths));
            }
            Some(_) => {}
        }
    }
    for name in found.keys().filter(|n| counts(n) && !wanted.contains_key(**n)) {
        out.push(("an attribute that should not be there", text(name)));
    }
    out
}
