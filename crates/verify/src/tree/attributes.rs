//! Extended attributes: those that a replay can give are compared, of the others is told that they were not.

use std::collections::{BTreeMap, BTreeSet};

use reprise_calls::acl::{self, Acl};
use reprise_calls::credentials::CAPABILITIES;

/// How a replay marks its target.
pub(super) const MARK: &[u8] = b"user.reprise.tree";

/// Whether an attribute belongs to the system and comes and goes without the program.
pub(crate) fn is_of_the_system(name: &[u8]) -> bool {
    [b"security.".as_slice(), b"system.", b"trusted."].iter().any(|p| name.starts_with(p))
}

/// What an attribute is to a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Bytes.
    Plain,
    /// An access list, and what is to be said where a user cannot give one that names others: they are nobody in a user namespace.
    AccessList(&'static str),
    Capabilities,
    /// No replay gives it, or it comes and goes without the program: why.
    Uncompared(&'static str),
}

/// By the beginning of the name: the first that fits.
const KINDS: [(&[u8], Kind); 6] = [
    (acl::ACCESS, Kind::AccessList("access list could not be set by this user")),
    (acl::DEFAULT, Kind::AccessList("default access list could not be set by this user")),
    (CAPABILITIES, Kind::Capabilities),
    (b"trusted.", Kind::Uncompared("trusted.*: a replay has not the right to set them")),
    (b"security.", Kind::Uncompared("security.* beside security.capability: a replay has not the right to set them")),
    (b"system.", Kind::Uncompared("system.* beside access lists: the file system's own")),
];

impl Kind {
    fn of(name: &[u8]) -> Kind {
        KINDS.iter().find(|(begin, _)| name.starts_with(begin)).map_or(Kind::Plain, |(_, kind)| *kind)
    }

    /// Whether two values say the same.
    fn is_same(self, a: &[u8], b: &[u8]) -> bool {
        let alike = match self {
            Kind::AccessList(_) => Acl::decode(a).is_some_and(|list| Acl::decode(b) == Some(list)),
            Kind::Capabilities => capabilities(a).is_some_and(|sets| capabilities(b) == Some(sets)),
            Kind::Plain | Kind::Uncompared(_) => false,
        };
        alike || a == b
    }

    /// What somebody without privilege cannot give a file.
    fn privilege(self, value: &[u8]) -> Option<&'static str> {
        match self {
            Kind::AccessList(why) => Acl::decode(value).filter(Acl::names_others).map(|_| why),
            Kind::Capabilities => Some("capabilities could not be set by this user"),
            Kind::Plain | Kind::Uncompared(_) => None,
        }
    }
}

/// What capabilities say: whether they are effective, the sets, whose root has them. Which version of `vfs_cap_data` is told depends on
/// who reads them (`cap_inode_getsecurity`).
fn capabilities(value: &[u8]) -> Option<(bool, &[u8; 16], u32)> {
    const EFFECTIVE: u8 = 1;
    let (magic, rest) = value.split_first_chunk::<4>()?;
    let (sets, root) = rest.split_first_chunk::<16>()?;
    let root = match root {
        [] => 0,
        root => u32::from_le_bytes(root.try_into().ok()?),
    };
    Some((magic[0] & EFFECTIVE != 0, sets, root))
}

/// What is to be said of one attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Remark {
    /// A difference: cause, name and values.
    Differs(&'static str, String),
    /// A difference that this user's replay cannot avoid.
    Excused(&'static str),
    /// The trace tells of it, and it was not compared.
    Uncompared(&'static str),
}

/// Who compares, and where.
pub(super) struct Circumstances<'a> {
    /// All that a replay can give can be given.
    pub privileged: bool,
    /// Whether an attribute of this name was given a value that the trace does not hold.
    pub is_unknown: &'a dyn Fn(&[u8]) -> bool,
    /// Whether the file system here holds attributes of this name.
    pub is_held: &'a dyn Fn(&[u8]) -> bool,
}

/// The attributes of one file.
pub(super) fn compare(
    wanted: &BTreeMap<Vec<u8>, Vec<u8>>,
    found: &[(Vec<u8>, Vec<u8>)],
    at: &Circumstances<'_>,
) -> Vec<Remark> {
    let found: BTreeMap<&[u8], &[u8]> = found.iter().map(|(name, value)| (&name[..], &value[..])).collect();
    let wanted: BTreeMap<&[u8], &[u8]> = wanted.iter().map(|(name, value)| (&name[..], &value[..])).collect();
    let names: BTreeSet<&[u8]> = wanted.keys().chain(found.keys()).copied().filter(|name| *name != MARK).collect();
    let one = |name: &&[u8]| remark(name, wanted.get(name).copied(), found.get(name).copied(), at);
    names.iter().filter_map(one).collect()
}

fn remark(name: &[u8], wanted: Option<&[u8]>, found: Option<&[u8]>, at: &Circumstances<'_>) -> Option<Remark> {
    let kind = Kind::of(name);
    let text = || String::from_utf8_lossy(name).into_owned();
    let differs = |cause, text: String| Some(Remark::Differs(cause, text));
    if let Kind::Uncompared(why) = kind {
        return wanted.map(|_| Remark::Uncompared(why));
    }
    if (at.is_unknown)(name) {
        return Some(Remark::Uncompared("values that are not in the trace"));
    }
    let Some(wanted) = wanted else {
        return differs("an attribute that should not be there", text());
    };
    if found.is_some_and(|found| kind.is_same(found, wanted)) {
        return None;
    }
    if let Some(why) = kind.privilege(wanted).filter(|_| !at.privileged) {
        return Some(Remark::Excused(why));
    }
    match found {
        Some(found) => {
            let lengths = format!("{} ({} bytes, traced {})", text(), found.len(), wanted.len());
            differs("another value of an attribute", lengths)
        }
        None if (at.is_held)(name) => differs("an attribute is missing", text()),
        None => differs("an attribute that the file system here does not hold", text()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMED: [u8; 44] = *b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x06\0\x05\0\0\0\x04\0\x04\0\xff\xff\xff\xff\x10\0\x06\0\xff\xff\xff\xff\x20\0\x04\0\xff\xff\xff\xff";
    const NET_RAW: [u8; 20] = *b"\x01\0\0\x02\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

    fn said(name: &[u8], wanted: Option<&[u8]>, found: Option<&[u8]>, privileged: bool) -> Option<Remark> {
        let at = Circumstances { privileged, is_unknown: &|name| name == b"user.unknown", is_held: &|_| true };
        let [wanted, found] = [wanted, found].map(|value| value.map(|value| (name.to_vec(), value.to_vec())));
        compare(&wanted.into_iter().collect(), &found.into_iter().collect::<Vec<_>>(), &at).pop()
    }

    #[test]
    fn values_are_the_same_that_say_the_same() {
        let mut of_somebody = NAMED;
        of_somebody[8..12].copy_from_slice(&7u32.to_le_bytes());
        assert_eq!(said(acl::ACCESS, Some(&of_somebody), Some(&NAMED), true), None, "an owner's entry is nobody's");
        let by_root = |root: u32| [b"\x01\0\0\x03".as_slice(), &NET_RAW[4..], &root.to_le_bytes()].concat();
        assert_eq!(said(CAPABILITIES, Some(&NET_RAW), Some(&by_root(0)), true), None);
        let other = said(CAPABILITIES, Some(&NET_RAW), Some(&by_root(1000)), true);
        let text = "security.capability (24 bytes, traced 20)".to_owned();
        assert_eq!(other, Some(Remark::Differs("another value of an attribute", text)));
    }

    #[test]
    fn what_a_user_may_not_give_is_excused() {
        let missing =
            |name: &[u8]| Some(Remark::Differs("an attribute is missing", String::from_utf8_lossy(name).into_owned()));
        let named = Some(Remark::Excused("default access list could not be set by this user"));
        let program = Some(Remark::Excused("capabilities could not be set by this user"));
        for (name, value, excused) in [(acl::DEFAULT, &NAMED[..], named), (CAPABILITIES, &NET_RAW, program)] {
            assert_eq!(said(name, Some(value), None, false), excused);
            assert_eq!(said(name, Some(value), None, true), missing(name));
            assert_eq!(said(name, Some(value), Some(value), false), None);
        }
        let own = [&NAMED[..12], &NAMED[20..28], &NAMED[36..]].concat();
        assert_eq!(said(acl::DEFAULT, Some(&own), None, false), missing(acl::DEFAULT), "it names nobody else");
    }

    #[test]
    fn of_what_is_not_compared_is_told_if_the_trace_does() {
        for name in [b"trusted.overlay.opaque".as_slice(), b"security.selinux", b"system.nfs4_acl", b"user.unknown"] {
            let remark = said(name, Some(b"y"), Some(b"z"), true);
            assert!(matches!(remark, Some(Remark::Uncompared(_))), "{remark:?}");
        }
        assert_eq!(said(b"security.selinux", None, Some(b"label"), true), None);
    }

    #[test]
    fn a_file_system_without_attributes_is_told_from_a_file_without_one() {
        let place = std::path::Path::new("/proc/version");
        let is_held = |name: &[u8]| super::super::found::holds(place, name);
        let at = Circumstances { privileged: true, is_unknown: &|_| false, is_held: &is_held };
        let wanted = BTreeMap::from([(acl::ACCESS.to_vec(), NAMED.to_vec())]);
        let text = "system.posix_acl_access".to_owned();
        let cause = "an attribute that the file system here does not hold";
        assert_eq!(compare(&wanted, &[], &at), [Remark::Differs(cause, text)]);
    }
}
