//! What is mounted where: `mount_namespaces(7)`, `pivot_root(2)`, `fs/namespace.c`.
//!
//! Goals: one table of mounts that leads from a place to what is mounted there and back, for whoever follows paths of recorded
//! programs; files are numbers of its owner. Non-goals: file systems and their options; propagation between namespaces: a namespace goes its own way
//! from the moment it is made, as sandboxes and containers have it.

use std::collections::{BTreeMap, HashMap};

use crate::process_path::{Whose, shown};
use crate::vocabulary::Call;

/// A file as it is reached through a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct At {
    /// Number of the mount.
    pub mount: u32,
    /// Number of the file.
    pub node: u32,
}

/// What may become of mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mounting {
    /// Nothing that paths show.
    Nothing,
    /// A file system of its own comes to the call's first path.
    New,
    /// What stands at the source comes to the call's first path, too; `deep`: with all that is mounted below.
    Bind {
        /// `MS_REC`.
        deep: bool,
    },
    /// The mount at the source goes to the call's first path.
    Move,
    /// The mount at the call's first path or descriptor, which may be mounted nowhere yet, goes to its second path.
    Attach,
    /// The mount at the call's first path goes.
    Unmount,
    /// The mount at the first path becomes the root; the one that was the root goes to the second.
    Exchange,
}

impl Mounting {
    /// Whether the call names a source that has a place.
    pub fn has_source(self) -> bool {
        matches!(self, Mounting::Bind { .. } | Mounting::Move)
    }
}

/// What a call does to mounts once it has succeeded.
pub fn mounting(call: &Call, args: &[u64; 6]) -> Mounting {
    const REMOUNT: u64 = 0x20;
    const BIND: u64 = 0x1000;
    const MOVE: u64 = 0x2000;
    const RECURSIVE: u64 = 0x4000;
    /// `MOVE_MOUNT_SET_GROUP`: propagation alone.
    const SET_GROUP: u64 = 0x100;
    /// `MS_UNBINDABLE`, `MS_PRIVATE`, `MS_SLAVE`, `MS_SHARED`.
    const PROPAGATION: u64 = 0x1e_0000;
    // `MS_MGC_VAL`: what programs of old times put before the flags.
    let flags = if args[3] & 0xffff_0000 == 0xc0ed_0000 { args[3] & 0xffff } else { args[3] };
    match (call.name, flags) {
        ("mount", flags) if flags & REMOUNT != 0 => Mounting::Nothing,
        ("mount", flags) if flags & BIND != 0 => Mounting::Bind { deep: flags & RECURSIVE != 0 },
        ("mount", flags) if flags & PROPAGATION != 0 => Mounting::Nothing,
        ("mount", flags) if flags & MOVE != 0 => Mounting::Move,
        ("mount", _) => Mounting::New,
        ("move_mount", _) if args[4] & SET_GROUP == 0 => Mounting::Attach,
        ("umount2", _) => Mounting::Unmount,
        ("pivot_root", _) => Mounting::Exchange,
        _ => Mounting::Nothing,
    }
}

/// What a call takes hold of at its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taking {
    /// The place itself, as with `O_PATH`.
    Place,
    /// A copy of what is mounted there; `deep`: with all that is mounted below.
    Copy {
        /// `AT_RECURSIVE`.
        deep: bool,
    },
}

/// What a call takes hold of (`open_tree`), if that is what it does.
pub fn taking(call: &Call, args: &[u64; 6]) -> Option<Taking> {
    const CLONE: u64 = 1;
    const RECURSIVE: u64 = 0x8000;
    let is_copy = args[2] & CLONE != 0;
    matches!(call.name, "open_tree" | "open_tree_attr").then_some(match is_copy {
        true => Taking::Copy { deep: args[2] & RECURSIVE != 0 },
        false => Taking::Place,
    })
}

/// What is said of a mount with [`OwnUsers`].
pub const OWN_USERS: &str = "a mount with users of its own (idmapped): owners below it are neither compared nor given";

/// Files below a mount belong to others than they do elsewhere, from now on or no longer (`MOUNT_ATTR_IDMAP`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnUsers {
    /// They do.
    pub has: bool,
    /// Also below all that is mounted there.
    pub deep: bool,
}

/// What a call says of the users of a mount; `attributes`: what stands in its `struct mount_attr`.
pub fn own_users(call: &Call, args: &[u64; 6], attributes: Option<&[u8]>) -> Option<OwnUsers> {
    const IDMAP: u64 = 0x10_0000;
    const RECURSIVE: u64 = 0x8000;
    if !matches!(call.name, "mount_setattr" | "open_tree_attr") {
        return None;
    }
    let (words, _) = attributes?.as_chunks::<8>();
    let [set, cleared] = [0, 1].map(|at| words.get(at).is_some_and(|word| u64::from_le_bytes(*word) & IDMAP != 0));
    // Both at once: others than before.
    (set || cleared).then_some(OwnUsers { has: set, deep: args[2] & RECURSIVE != 0 })
}

/// The process whose mounts a file of this path stands for (`/proc/PID/ns/mnt`): those that it has when the file is opened.
pub fn owner_of_mounts(path: &[u8]) -> Option<Whose> {
    shown(path).and_then(|(whose, rest)| (rest == b"/ns/mnt").then_some(whose))
}

/// What a call names that does something to mounts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Named {
    /// Its first path.
    pub first: Option<At>,
    /// Its second path.
    pub second: Option<At>,
    /// The path that it is given as the source.
    pub source: Option<At>,
    /// What stands for the file system that it brings.
    pub brought: Option<At>,
}

/// What becomes of mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// A file system comes here for which nothing stands in.
    New(At),
    /// What stands at the source is here, too; the last: with all that is mounted below.
    Bind(At, At, bool),
    /// The mount whose root is the first goes to the second.
    Move(At, At),
    /// The mount whose root this is goes.
    Unmount(At),
    /// The mount whose root is the first becomes the root; the one that was the root goes to the second.
    Exchange(At, At),
}

#[derive(Debug, Clone, Copy)]
struct Mount {
    /// The file that its paths begin with.
    root: u32,
    /// Where it is mounted.
    at: Option<At>,
    namespace: u32,
    /// Files belong to others there than they do elsewhere.
    has_own_users: bool,
}

/// All mounts.
#[derive(Debug)]
pub struct Mounts {
    all: Vec<Mount>,
    /// By the place that they cover.
    covering: BTreeMap<At, u32>,
    /// The mounts of each namespace.
    members: Vec<Vec<u32>>,
}

impl Mounts {
    /// The first mount, where everything is until a call says otherwise.
    pub const FIRST: u32 = 0;

    /// As many as tens of thousands of sandboxes have, and ten namespaces may (`fs.mount-max`); those beyond are not made.
    const MOST: usize = if cfg!(test) { 1 << 12 } else { 1 << 20 };

    /// One mount with this file as its root.
    pub fn new(root: u32) -> Mounts {
        let first = Mount { root, at: None, namespace: 0, has_own_users: false };
        Mounts { all: vec![first], covering: BTreeMap::new(), members: vec![vec![Mounts::FIRST]] }
    }

    /// What a call that succeeded does to mounts.
    pub fn deed(&self, what: Mounting, named: Named) -> Option<Deed> {
        // What was mounted before anything was followed is no mount here, but its files stand where it is.
        let moved = |from: At, to: At| match self.is_root(from) {
            true => Deed::Move(from, to),
            false => Deed::Bind(from, to, true),
        };
        let Named { first, second, source, brought } = named;
        match what {
            Mounting::Nothing => None,
            Mounting::New => Some(match brought {
                Some(source) => Deed::Bind(source, first?, false),
                None => Deed::New(first?),
            }),
            Mounting::Bind { deep } => Some(match source {
                Some(source) => Deed::Bind(source, first?, deep),
                None => Deed::New(first?),
            }),
            Mounting::Move => Some(moved(source?, first?)),
            Mounting::Attach => Some(match first {
                Some(source) => moved(source, second?),
                None => Deed::New(second?),
            }),
            // The working directory is looked at from above, too.
            Mounting::Unmount => first.map(|at| self.down(at)).filter(|at| self.is_root(*at)).map(Deed::Unmount),
            Mounting::Exchange => Some(Deed::Exchange(first?, second?)),
        }
    }

    /// Whether anything was mounted in the namespace that a mount is in.
    pub fn is_used(&self, mount: u32) -> bool {
        let namespace = self.namespace(mount);
        self.members[namespace as usize].iter().any(|member| self.all[*member as usize].at.is_some())
    }

    /// A file as it is reached through the first mount.
    pub fn first(node: u32) -> At {
        At { mount: Mounts::FIRST, node }
    }

    /// What is seen at a place: the root of what is mounted there, and of what is mounted on that.
    pub fn down(&self, mut at: At) -> At {
        while let Some(&mount) = self.covering.get(&at) {
            at = self.root(mount);
        }
        at
    }

    /// Where the mount of a place is mounted, if the place is its root, and so on; not beyond the place where a path must stop.
    pub fn up(&self, mut at: At, stop: At) -> At {
        while let Some(below) = self.all[at.mount as usize].at.filter(|_| at != stop && self.is_root(at)) {
            at = below;
        }
        at
    }

    /// The root of a mount.
    pub fn root(&self, mount: u32) -> At {
        At { mount, node: self.all[mount as usize].root }
    }

    /// Whether a place is the root of its mount.
    pub fn is_root(&self, at: At) -> bool {
        self.root(at.mount) == at
    }

    /// Whether files belong to others below a mount than they do elsewhere.
    pub fn has_own_users(&self, mount: u32) -> bool {
        self.all[mount as usize].has_own_users
    }

    /// Says that of the mount whose root a place is.
    pub fn give_users(&mut self, at: At, users: OwnUsers) {
        if !self.is_root(at) {
            return;
        }
        let below = if users.deep { self.below(at.mount) } else { Vec::new() };
        for mount in below.into_iter().chain([at.mount]) {
            self.all[mount as usize].has_own_users = users.has;
        }
    }

    /// Whether a mount is mounted anywhere.
    pub fn is_mounted(&self, mount: u32) -> bool {
        self.all[mount as usize].at.is_some()
    }

    /// Mounts something at a place, above what is there; the mount's number, none if there are too many.
    pub fn mount(&mut self, root: u32, at: At) -> Option<u32> {
        let at = self.down(at);
        let namespace = self.namespace(at.mount);
        let mount = self.add(Mount { root, at: None, namespace, has_own_users: false })?;
        self.put(mount, at);
        Some(mount)
    }

    /// Mounts what stands at one place at another; `deep`: with all that is mounted below it.
    pub fn bind(&mut self, source: At, at: At, deep: bool) -> Option<u32> {
        let at = self.down(at);
        let copy = self.copy(source, deep, self.namespace(at.mount))?;
        self.put(copy, at);
        Some(copy)
    }

    /// A copy of what stands at a place that is mounted nowhere yet, but can be reached by who holds it; `deep`: with all that is
    /// mounted below.
    pub fn take(&mut self, source: At, deep: bool) -> Option<u32> {
        if self.all.len() >= Self::MOST {
            return None;
        }
        self.members.push(Vec::new());
        self.copy(source, deep, (self.members.len() - 1) as u32)
    }

    /// Takes a mount from where it is; what is mounted on it stays with it.
    pub fn unmount(&mut self, mount: u32) {
        if let Some(at) = self.all[mount as usize].at.take() {
            self.covering.remove(&at);
        }
    }

    /// Moves a mount. One that holds the place stays where it is.
    pub fn shift(&mut self, mount: u32, at: At) {
        let at = self.down(at);
        if !self.holds(mount, at) {
            self.unmount(mount);
            self.change_namespace(mount, self.namespace(at.mount));
            self.put(mount, at);
        }
    }

    /// Exchanges the mount that is the root for another, and puts it to a place in that one.
    pub fn exchange(&mut self, root: u32, new: u32, old_to: At) {
        let above = self.all[root as usize].at;
        if self.holds(new, self.root(root)) {
            return;
        }
        self.unmount(new);
        self.unmount(root);
        if let Some(above) = above {
            self.put(new, above);
        }
        self.shift(root, old_to);
    }

    /// A namespace of its own, like that of a mount: for each of its mounts the one that takes its place; for none if there are
    /// too many.
    pub fn copy_namespace(&mut self, of: u32) -> HashMap<u32, u32> {
        let members = self.members[self.namespace(of) as usize].clone();
        if self.all.len() + members.len() > Self::MOST {
            return HashMap::new();
        }
        self.members.push(Vec::with_capacity(members.len()));
        self.copy_below(&members, (self.members.len() - 1) as u32, HashMap::new())
    }

    /// The root of the namespace that a mount is in: where a path from outside begins.
    pub fn top(&self, of: u32) -> At {
        let mut mount = of;
        while let Some(at) = self.all[mount as usize].at {
            mount = at.mount;
        }
        self.down(self.root(mount))
    }

    fn namespace(&self, mount: u32) -> u32 {
        self.all[mount as usize].namespace
    }

    /// A mount, and all that is mounted below it, belongs to a namespace from now on.
    fn change_namespace(&mut self, mount: u32, namespace: u32) {
        if self.namespace(mount) == namespace {
            return;
        }
        for moved in [vec![mount], self.below(mount)].concat() {
            let left = std::mem::replace(&mut self.all[moved as usize].namespace, namespace);
            self.members[left as usize].retain(|member| *member != moved);
            self.members[namespace as usize].push(moved);
        }
    }

    /// Copies what stands at a place to a mount that is not mounted.
    fn copy(&mut self, source: At, deep: bool, namespace: u32) -> Option<u32> {
        let below = if deep { self.below(source.mount) } else { Vec::new() };
        let copy = self.add(Mount { root: source.node, at: None, namespace, ..self.all[source.mount as usize] })?;
        self.copy_below(&below, namespace, HashMap::from([(source.mount, copy)]));
        Some(copy)
    }

    /// All that is mounted below a mount, those above before those below.
    fn below(&self, mount: u32) -> Vec<u32> {
        let mut found = vec![mount];
        let mut next = 0;
        while let Some(&above) = found.get(next) {
            next += 1;
            let places = At { mount: above, node: 0 }..=At { mount: above, node: u32::MAX };
            found.extend(self.covering.range(places).map(|(_, mount)| *mount));
        }
        found.split_off(1)
    }

    /// Whether a place is in a mount, or in what is mounted there.
    fn holds(&self, mount: u32, at: At) -> bool {
        let mut here = Some(at);
        while let Some(at) = here {
            if at.mount == mount {
                return true;
            }
            here = self.all[at.mount as usize].at;
        }
        false
    }

    /// Copies mounts to the copies of what they are mounted on, if that has one; `copies` has those made before.
    fn copy_below(&mut self, members: &[u32], namespace: u32, mut copies: HashMap<u32, u32>) -> HashMap<u32, u32> {
        for &member in members {
            if !copies.contains_key(&member)
                && let Some(copy) = self.add(Mount { at: None, namespace, ..self.all[member as usize] })
            {
                copies.insert(member, copy);
            }
        }
        for member in members {
            let Some(at) = self.all[*member as usize].at else { continue };
            if let (Some(&copy), Some(&mount)) = (copies.get(member), copies.get(&at.mount)) {
                self.put(copy, At { mount, ..at });
            }
        }
        copies
    }

    fn add(&mut self, mount: Mount) -> Option<u32> {
        if self.all.len() >= Self::MOST {
            return None;
        }
        let number = self.all.len() as u32;
        self.members[mount.namespace as usize].push(number);
        self.all.push(mount);
        Some(number)
    }

    fn put(&mut self, mount: u32, at: At) {
        self.all[mount as usize].at = Some(at);
        self.covering.insert(at, mount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::by_name;

    const ROOT: u32 = 0;
    const fn at(mount: u32, node: u32) -> At {
        At { mount, node }
    }

    #[test]
    fn what_is_mounted_is_seen_and_left_again() {
        let mut mounts = Mounts::new(ROOT);
        let first = mounts.mount(70, at(0, 7)).unwrap();
        let second = mounts.mount(71, at(0, 7)).unwrap();
        assert_eq!(mounts.down(at(0, 7)), at(second, 71));
        assert_eq!(mounts.up(at(second, 71), at(0, ROOT)), at(0, 7));
        mounts.unmount(second);
        assert_eq!(mounts.down(at(0, 7)), at(first, 70));
        assert_eq!(mounts.up(at(first, 8), at(0, ROOT)), at(first, 8));
    }

    /// As container runtimes do: a copy is given users of its own before it is mounted, and what is bound from there has them, too.
    #[test]
    fn users_are_those_of_the_mount() {
        let call = by_name("mount_setattr").unwrap();
        let attributes = [1u64 << 20, 0, 0, 5].map(u64::to_le_bytes).concat();
        let users = own_users(call, &[0, 0, 0, 0, 32, 0], Some(&attributes)).unwrap();
        assert_eq!(users, OwnUsers { has: true, deep: false });
        assert_eq!(own_users(call, &[0; 6], Some(&[0; 32])), None);
        assert_eq!(own_users(call, &[0; 6], None), None);
        let mut mounts = Mounts::new(ROOT);
        let copy = mounts.take(at(0, 7), false).unwrap();
        mounts.give_users(at(copy, 7), users);
        mounts.shift(copy, at(0, 8));
        let bound = mounts.bind(at(copy, 9), at(0, 10), false).unwrap();
        let other = mounts.bind(at(0, 7), at(0, 11), false).unwrap();
        assert_eq!([0, copy, bound, other].map(|mount| mounts.has_own_users(mount)), [false, true, true, false]);
        mounts.give_users(at(copy, 7), OwnUsers { has: false, deep: true });
        assert_eq!([copy, bound].map(|mount| mounts.has_own_users(mount)), [false, true]);
    }

    /// A directory that is bound to itself is a mount, and no path goes around in it.
    #[test]
    fn what_is_bound_to_itself_is_left_once() {
        let mut mounts = Mounts::new(ROOT);
        let own = mounts.bind(at(0, 7), at(0, 7), true).unwrap();
        assert_eq!(mounts.down(at(0, 7)), at(own, 7));
        assert_eq!(mounts.up(at(own, 7), at(0, ROOT)), at(0, 7));
        let root = mounts.bind(at(0, ROOT), at(0, 9), false).unwrap();
        assert_eq!(mounts.down(at(0, 9)), at(root, ROOT));
        // What is bound shows the directory below, not what is mounted there.
        assert_eq!(mounts.down(at(root, 9)), at(root, 9));
        assert_eq!(mounts.down(at(root, 7)), at(root, 7));
    }

    #[test]
    fn a_deep_bind_has_what_is_mounted_below() {
        let mut mounts = Mounts::new(ROOT);
        let inner = mounts.mount(70, at(0, 7)).unwrap();
        mounts.mount(80, at(inner, 8)).unwrap();
        let copy = mounts.bind(at(0, ROOT), at(0, 9), true).unwrap();
        let within = mounts.down(at(copy, 7));
        assert_eq!(within.node, 70);
        assert_ne!(within.mount, inner);
        assert_eq!(mounts.down(at(within.mount, 8)).node, 80);
        assert_eq!(mounts.up(within, at(0, ROOT)), at(copy, 7));
    }

    #[test]
    fn a_namespace_goes_its_own_way() {
        let mut mounts = Mounts::new(ROOT);
        let kept = mounts.mount(70, at(0, 7)).unwrap();
        let copies = mounts.copy_namespace(Mounts::FIRST);
        let (root, inner) = (copies[&0], copies[&kept]);
        assert_eq!(mounts.down(at(root, 7)), at(inner, 70));
        mounts.unmount(inner);
        mounts.mount(90, at(root, 9)).unwrap();
        assert_eq!(mounts.down(at(0, 7)), at(kept, 70));
        assert_eq!(mounts.down(at(0, 9)), at(0, 9));
        assert_eq!(mounts.top(inner).mount, inner);
        assert_eq!(mounts.top(kept), at(0, ROOT));
    }

    /// As sandboxes do: `pivot_root(".", ".")`, then `umount2(".", MNT_DETACH)` from the old root.
    #[test]
    fn roots_are_exchanged() {
        let mut mounts = Mounts::new(ROOT);
        let new = mounts.mount(50, at(0, 5)).unwrap();
        mounts.exchange(Mounts::FIRST, new, at(new, 50));
        assert_eq!(mounts.down(at(new, 50)), at(0, ROOT));
        assert_eq!(mounts.up(at(0, ROOT), at(new, 50)), at(new, 50));
        assert_eq!(mounts.up(at(0, ROOT), at(0, ROOT)), at(0, ROOT));
        assert_eq!(mounts.down(at(0, 5)), at(0, 5));
        mounts.unmount(Mounts::FIRST);
        assert_eq!(mounts.down(at(new, 50)), at(new, 50));
        assert_eq!(mounts.top(new), at(new, 50));
    }

    #[test]
    fn a_mount_is_moved_but_not_into_itself() {
        let mut mounts = Mounts::new(ROOT);
        let moved = mounts.mount(50, at(0, 5)).unwrap();
        mounts.shift(moved, at(0, 6));
        assert_eq!((mounts.down(at(0, 5)), mounts.down(at(0, 6))), (at(0, 5), at(moved, 50)));
        mounts.shift(moved, at(moved, 51));
        assert_eq!(mounts.down(at(0, 6)), at(moved, 50));
        mounts.exchange(moved, Mounts::FIRST, at(moved, 52));
        assert_eq!(mounts.down(at(moved, 51)), at(moved, 51));
    }

    /// As `open_tree` and `move_mount` do: what was taken is reached before it is mounted, then where it is, and when it is gone.
    #[test]
    fn what_was_taken_is_mounted_later() {
        let mut mounts = Mounts::new(ROOT);
        let inner = mounts.mount(70, at(0, 7)).unwrap();
        let taken = mounts.take(at(0, 5), true).unwrap();
        let apart = mounts.copy_namespace(Mounts::FIRST);
        assert!(!apart.contains_key(&taken) && apart.contains_key(&inner));
        assert_eq!(mounts.up(at(taken, 5), at(0, ROOT)), at(taken, 5));
        assert_eq!(mounts.down(at(taken, 7)).node, 70);
        assert_eq!(mounts.top(taken), at(taken, 5));
        mounts.shift(taken, at(0, 6));
        assert_eq!((mounts.down(at(0, 6)), mounts.up(at(taken, 5), at(0, ROOT))), (at(taken, 5), at(0, 6)));
        assert_eq!(mounts.top(taken), at(0, ROOT));
        let later = mounts.copy_namespace(Mounts::FIRST);
        assert_eq!(mounts.down(at(later[&0], 6)), at(later[&taken], 5));
        assert_eq!(mounts.down(at(later[&taken], 7)).node, 70);
        mounts.unmount(taken);
        assert_eq!((mounts.down(at(0, 6)), mounts.down(at(taken, 7)).node), (at(0, 6), 70));
    }

    /// What a descriptor or path of `move_mount` stands for decides what is done.
    #[test]
    fn what_is_moved() {
        let mut mounts = Mounts::new(ROOT);
        let taken = mounts.take(at(0, 5), false).unwrap();
        let of = |first, second| mounts.deed(Mounting::Attach, Named { first, second, ..Named::default() });
        assert_eq!(of(Some(at(taken, 5)), Some(at(0, 6))), Some(Deed::Move(at(taken, 5), at(0, 6))));
        assert_eq!(of(Some(at(0, 5)), Some(at(0, 6))), Some(Deed::Bind(at(0, 5), at(0, 6), true)));
        assert_eq!(of(None, Some(at(0, 6))), Some(Deed::New(at(0, 6))));
    }

    /// `umount2(".")` where the working directory is covered: the topmost goes.
    #[test]
    fn what_is_unmounted_is_on_top() {
        let mut mounts = Mounts::new(ROOT);
        let (lower, upper) = (mounts.mount(70, at(0, 7)).unwrap(), mounts.mount(71, at(0, 7)).unwrap());
        let first = |first| Named { first: Some(first), ..Named::default() };
        assert_eq!(mounts.deed(Mounting::Unmount, first(at(lower, 70))), Some(Deed::Unmount(at(upper, 71))));
        assert_eq!(mounts.deed(Mounting::Unmount, first(at(0, 9))), None);
    }

    /// Mounts that double with each call (`mount --rbind / /mnt`) end somewhere.
    #[test]
    fn there_are_not_too_many() {
        let mut mounts = Mounts::new(ROOT);
        for place in 1..40 {
            mounts.bind(at(0, ROOT), at(0, place), true);
        }
        assert!(mounts.all.len() <= Mounts::MOST);
    }

    #[test]
    fn what_is_taken_hold_of() {
        let of = |name, flags| taking(by_name(name).unwrap(), &[0, 0, flags, 0, 0, 0]);
        assert_eq!(of("open_tree", 0), Some(Taking::Place));
        assert_eq!(of("open_tree", 1), Some(Taking::Copy { deep: false }));
        assert_eq!(of("open_tree_attr", 0x8001), Some(Taking::Copy { deep: true }));
        assert_eq!(of("fsmount", 1), None);
        assert_eq!(owner_of_mounts(b"/proc/7/ns/mnt"), Some(Whose::Numbered(7)));
        assert_eq!(owner_of_mounts(b"/proc/self/ns/mnt"), Some(Whose::Process));
        assert_eq!(owner_of_mounts(b"/proc/7/ns/net"), None);
    }

    #[test]
    fn what_the_flags_mean() {
        let of = |name, flags| mounting(by_name(name).unwrap(), &[0, 0, 0, flags, 0, 0]);
        assert_eq!(of("mount", 0), Mounting::New);
        assert_eq!(of("mount", 0x9000), Mounting::Bind { deep: false });
        assert_eq!(of("mount", 0x5000), Mounting::Bind { deep: true });
        assert_eq!(of("mount", 0x1020), Mounting::Nothing);
        assert_eq!(of("mount", 0x4_4000), Mounting::Nothing);
        assert_eq!(of("mount", 0x2000), Mounting::Move);
        assert_eq!(of("mount", 0xc0ed_0001), Mounting::New);
        assert_eq!(of("mount", 0xc0ed_d000), Mounting::Bind { deep: true });
        assert_eq!(of("pivot_root", 0), Mounting::Exchange);
        assert_eq!(of("setns", 0), Mounting::Nothing);
        let moving = |flags| mounting(by_name("move_mount").unwrap(), &[0, 0, 0, 0, flags, 0]);
        assert_eq!((moving(0x44), moving(0x100)), (Mounting::Attach, Mounting::Nothing));
    }
}
