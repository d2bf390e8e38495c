//! Whom a process runs as (`credentials(7)`).

/// Users and groups of a process: real, effective, saved, and for access to files.
///
/// Encoded as eight 32-bit words: users, then groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Credentials {
    /// Users.
    pub users: [u32; 4],
    /// Groups.
    pub groups: [u32; 4],
}

impl Credentials {
    /// Length of the encoded form in bytes.
    pub const BYTES: usize = 32;

    /// The encoded form.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        let words = self.users.iter().chain(&self.groups);
        out.as_chunks_mut::<4>().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        out
    }

    /// From encoded bytes; `None` if they are not that many.
    pub fn decode(bytes: &[u8]) -> Option<Credentials> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let word = |i: usize| bytes.as_chunks::<4>().0.get(i).map_or(0, |b| u32::from_le_bytes(*b));
        Some(Credentials { users: [0, 1, 2, 3].map(word), groups: [4, 5, 6, 7].map(word) })
    }
}

/// Users, or groups, of a thread (`credentials(7)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Identity {
    /// Real.
    pub real: u32,
    /// Effective.
    pub effective: u32,
    /// Saved.
    pub saved: u32,
    /// For access to files.
    pub files: u32,
}

impl Identity {
    /// As a trace lists them: real, effective, saved, for files.
    pub fn from_list(list: &[u32]) -> Identity {
        let id = |i: usize| list.get(i).copied().unwrap_or(0);
        Identity { real: id(0), effective: id(1), saved: id(2), files: id(3) }
    }

    /// After another program was run, as far as that follows from before: a program with rights of its own changes more.
    #[must_use]
    pub fn executed(self) -> Identity {
        Identity { saved: self.effective, files: self.effective, ..self }
    }

    /// After a call of the `set*id` family that returned this and no error; `privileged`: whether it may choose anybody.
    #[must_use]
    fn changed(self, call: &str, args: [u32; 3], result: u32, privileged: bool) -> Identity {
        let or = |new: u32, old: u32| if new == u32::MAX { old } else { new };
        let [a, b, c] = args;
        let mut id = self;
        match call {
            "setuid" | "setgid" => {
                if privileged {
                    (id.real, id.saved) = (a, a);
                }
                id.effective = a;
            }
            "setreuid" | "setregid" => {
                (id.real, id.effective) = (or(a, self.real), or(b, self.effective));
                if a != u32::MAX || (b != u32::MAX && b != self.real) {
                    id.saved = id.effective;
                }
            }
            "setresuid" | "setresgid" => {
                id = Identity { real: or(a, id.real), effective: or(b, id.effective), saved: or(c, id.saved), ..id };
            }
            _ => return self.changed_for_files(a, result, privileged),
        }
        id.files = id.effective;
        id
    }

    /// After `setfsuid` or `setfsgid`, which never fail: they return who it was, and do nothing where nobody is named (so it is
    /// asked for) or somebody whom the thread may not be (`__sys_setfsuid` in kernel/sys.c).
    fn changed_for_files(self, wanted: u32, was: u32, privileged: bool) -> Identity {
        let is_permitted = privileged || [self.real, self.effective, self.saved, was].contains(&wanted);
        Identity { files: if is_permitted && wanted != u32::MAX { wanted } else { was }, ..self }
    }
}

/// The extended attribute that gives a program capabilities.
pub const CAPABILITIES: &[u8] = b"security.capability";

/// The further groups of a list that `setgroups` was given, of which a process has no more than `NGROUPS_MAX`.
pub fn further_groups(list: &[u8]) -> impl Iterator<Item = u32> {
    const MOST: usize = 65_536;
    list.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).take(MOST)
}

/// Users and groups of a thread after a call that returned this and no error. Non-goal: capabilities that are not root's.
pub fn changed((users, groups): (Identity, Identity), call: &str, args: [u32; 3], result: u32) -> (Identity, Identity) {
    let after = |before: Identity| before.changed(call, args, result, users.effective == 0);
    match call {
        "setuid" | "setreuid" | "setresuid" | "setfsuid" => (after(users), groups),
        "setgid" | "setregid" | "setresgid" | "setfsgid" => (users, after(groups)),
        _ => (users, groups),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let told = Credentials { users: [1, 2, 3, u32::MAX], groups: [5, 6, 7, 8] };
        assert_eq!(Credentials::decode(&told.encode()), Some(told));
        assert_eq!(Credentials::decode(&told.encode()[1..]), None);
    }

    #[test]
    fn who_it_is_for_files() {
        const NOBODY: u32 = u32::MAX;
        let user = Identity { real: 1, effective: 2, saved: 3, files: 2 };
        let root = Identity::default();
        for (before, wanted, privileged, after) in [
            (user, NOBODY, false, 2),
            (user, 1, false, 1),
            (user, 3, false, 3),
            (user, 0, false, 2),
            (root, NOBODY, true, 0),
            (root, 7, true, 7),
            (Identity { files: 7, ..root }, NOBODY, true, 7),
        ] {
            let changed = before.changed("setfsuid", [wanted, 0, 0], before.files, privileged);
            assert_eq!(changed, Identity { files: after, ..before }, "{before:?}, {wanted}");
        }
        // What the call tells is believed: rights that nobody knew of.
        assert_eq!(user.changed("setfsuid", [NOBODY, 0, 0], 9, false).files, 9);
    }
}
