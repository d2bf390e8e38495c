//! What must have been there before the first line: names, attributes, sizes, links, descriptors, directories.
//!
//! Goals: everything a successful call shows of what no earlier call made, and nothing a call made itself; memory in
//! proportion to the names and descriptors met. Non-goals: how calls are found out (`formats`, `capture`); content (the
//! reads themselves hold it).

mod copies;
mod decoded;
mod descriptors;
mod files;
mod links;
mod names;
mod node;
mod observe;
mod outside;
mod resolve;
mod rows;
mod sizes;
mod touched;
mod united;

use std::collections::BTreeMap;

use reprise_calls::mounts::{At, Mounts};
use reprise_calls::sharing::{NEW_MOUNTS, Parts, copies_mounts, shared, unshared};
use reprise_calls::{Call, Effect, Shown};

pub use copies::Copied;
pub use decoded::{Decoded, Entry, Object, Stat};
pub use descriptors::AtStart;
use descriptors::{InitialDescriptor, Table};
pub use files::File;
use names::Names;
use node::NodeId;
pub use node::kind;
pub use observe::{Seen, Stands, Step, as_mknod};
pub use outside::{Before, Described, Links, Looked, Outside};
use resolve::Beginning;
pub use rows::Seeds;
pub use touched::Touched;

/// Where a thread's descriptors, directories and root process are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    table: u32,
    places: u32,
}

impl Seat {
    /// Number of the table of descriptors; that of a table that has ended may come back.
    pub fn table(self) -> u32 {
        self.table
    }

    /// Number of the directories, shared with the file mode creation mask.
    pub fn places(self) -> u32 {
        self.places
    }
}

/// Working and root directory.
#[derive(Debug, Clone, Copy)]
struct Places {
    cwd: At,
    /// The directory of `/proc` that it is, if parts of processes are reached from there.
    shown: Option<Shown>,
    root: At,
}

impl Places {
    /// Where paths begin that are relative to the working directory.
    fn beginning(&self) -> Beginning {
        Beginning { start: Some(self.cwd), shown: self.shown }
    }
}

/// A process that was there at the beginning.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// File mode creation mask, if a call showed it.
    pub umask: Option<u32>,
    /// Users: real, effective, saved.
    pub uids: Option<[u32; 3]>,
    /// Groups.
    pub gids: Option<[u32; 3]>,
    /// Working directory.
    pub cwd: Vec<u8>,
    /// Whether the working directory is a guess that relative paths depend on.
    pub cwd_guessed: bool,
}

/// The world as far as the calls show it.
pub struct World {
    names: Names,
    mounts: Mounts,
    /// Calls that brought a file system.
    brought: u32,
    tables: Vec<Table>,
    free_tables: Vec<u32>,
    places: Vec<Places>,
    /// Root processes, by number.
    origins: BTreeMap<u32, Origin>,
    descriptors: BTreeMap<(u32, u32), InitialDescriptor>,
    /// What is known beside the calls.
    outside: Box<dyn Outside>,
    /// Whether names of which nothing is known are looked for outside.
    asks: bool,
    /// Texts of links that were made up.
    made_up: u32,
    /// Messages with descriptors that nobody has received.
    posted: Vec<observe::messages::Enclosed>,
    /// Content of the initial tree that was moved unseen.
    copies: copies::Copies,
    /// Names that a path passes, while somebody wants to know.
    trail: Option<Vec<(NodeId, Vec<u8>)>>,
    /// Whether every store to a mapped file is told.
    pub stores_are_told: bool,
    /// What did not fit, and how often.
    pub notes: BTreeMap<&'static str, u64>,
}

/// Stands for the working directory if the log does not say which it was.
pub const ASSUMED_DIRECTORY: &[u8] = b"/assumed/working/directory";

impl World {
    /// Nothing met yet.
    pub fn new(outside: Box<dyn Outside>) -> World {
        World {
            names: Names::new(),
            mounts: Mounts::new(Names::ROOT),
            brought: 0,
            tables: Vec::new(),
            free_tables: Vec::new(),
            places: Vec::new(),
            origins: BTreeMap::new(),
            descriptors: BTreeMap::new(),
            outside,
            asks: false,
            made_up: 0,
            posted: Vec::new(),
            copies: Default::default(),
            trail: None,
            stores_are_told: false,
            notes: BTreeMap::new(),
        }
    }

    /// A process that no call made, of which nothing more is known: it has the usual descriptors.
    pub fn begin(&mut self, process: u32, cwd: Option<&[u8]>) -> Seat {
        let seat = self.begin_with(process, cwd, Vec::new());
        (0..3).for_each(|fd| self.met_descriptor(seat, fd, None));
        seat
    }

    /// A process that no call made, and its descriptors.
    pub fn begin_with(&mut self, process: u32, cwd: Option<&[u8]>, open: Vec<AtStart>) -> Seat {
        let path = cwd.unwrap_or(ASSUMED_DIRECTORY);
        let node = self.directory(path);
        let guessed = cwd.is_none();
        self.origins.insert(process, Origin { cwd: path.to_vec(), cwd_guessed: guessed, ..Origin::default() });
        let table = self.add_table(Table::new(process));
        self.places.push(Places { cwd: Mounts::first(node), shown: Shown::at(path), root: Mounts::first(Names::ROOT) });
        let seat = Seat { table, places: (self.places.len() - 1) as u32 };
        self.open_at_start(seat, open);
        seat
    }

    /// A thread that another made, with these flags of `clone`.
    pub fn fork(&mut self, parent: Seat, flags: u64) -> Seat {
        let Parts { descriptors, directories } = shared(flags);
        let table = match descriptors {
            true => {
                self.tables[parent.table as usize].users += 1;
                parent.table
            }
            false => {
                let copy = self.tables[parent.table as usize].copy();
                self.add_table(copy)
            }
        };
        let places = match directories {
            true => parent.places,
            false => {
                let copy = self.places[parent.places as usize];
                self.places.push(copy);
                (self.places.len() - 1) as u32
            }
        };
        if flags & NEW_MOUNTS != 0 && !directories {
            self.copy_mounts(places);
        }
        Seat { table, places }
    }

    /// The number of the process whose first thread this is.
    pub fn numbered(&mut self, seat: Seat, pid: i32) {
        let table = &mut self.tables[seat.table as usize];
        (table.pid, table.places) = (Some(pid), seat.places);
    }

    /// What the thread of a successful call has for itself from now on.
    fn unshare(&mut self, seat: Seat, call: &Call, args: &[u64; 6]) -> Seat {
        let Parts { descriptors, directories } = unshared(call, args);
        let mut own = seat;
        if descriptors && self.tables[seat.table as usize].users > 1 {
            self.tables[seat.table as usize].users -= 1;
            let pid = self.tables[seat.table as usize].pid.filter(|_| call.effect == Effect::Execute);
            let copy = Table { pid, ..self.tables[seat.table as usize].copy() };
            own.table = self.add_table(copy);
        }
        if directories {
            self.places.push(self.places[seat.places as usize]);
            own.places = (self.places.len() - 1) as u32;
            if self.tables[own.table as usize].users == 1 {
                self.tables[own.table as usize].places = own.places;
            }
        }
        if copies_mounts(call, args) {
            self.copy_mounts(own.places);
        }
        own
    }

    /// A process that no call made, and that has the descriptors of one seat and the directories of another, if given.
    pub fn begin_with_shared(
        &mut self,
        process: u32,
        cwd: Option<&[u8]>,
        open: Vec<AtStart>,
        (descriptors, directories): (Option<Seat>, Option<Seat>),
    ) -> Seat {
        let mut seat = self.begin_with(process, cwd, if descriptors.is_none() { open } else { Vec::new() });
        if let Some(other) = descriptors {
            self.end(seat);
            self.tables[other.table as usize].users += 1;
            seat.table = other.table;
        }
        seat.places = directories.map_or(seat.places, |other| other.places);
        seat
    }

    /// A thread is gone. Whether the table of its descriptors is.
    pub fn end(&mut self, seat: Seat) -> bool {
        let table = &mut self.tables[seat.table as usize];
        table.users = table.users.saturating_sub(1);
        let gone = table.users == 0;
        if gone {
            table.open.clear();
            table.told.clear();
            self.free_tables.push(seat.table);
        }
        gone
    }

    fn add_table(&mut self, table: Table) -> u32 {
        match self.free_tables.pop() {
            Some(free) => {
                self.tables[free as usize] = table;
                free
            }
            None => {
                self.tables.push(table);
                (self.tables.len() - 1) as u32
            }
        }
    }

    /// Paths of the working and the root directory of a thread.
    pub fn places(&self, seat: Seat) -> (Vec<u8>, Vec<u8>) {
        let places = self.places[seat.places as usize];
        (self.names.path(places.cwd.node), self.names.path(places.root.node))
    }

    /// The root process that a thread descends from.
    pub fn origin(&mut self, seat: Seat) -> &mut Origin {
        let process = self.tables[seat.table as usize].origin;
        self.origins.entry(process).or_default()
    }

    /// All root processes.
    pub fn origins(&self) -> &BTreeMap<u32, Origin> {
        &self.origins
    }

    fn note(&mut self, text: &'static str) {
        *self.notes.entry(text).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reprise_calls::by_name;
    use reprise_calls::sharing::SHARE_BOTH;

    #[test]
    fn who_ends_sharing_has_a_table_and_places_of_its_own() {
        let mut world = World::new(Box::new(Links::default()));
        let maker = world.begin(0, Some(b"/"));
        let thread = world.fork(maker, SHARE_BOTH);
        assert_eq!(thread, maker);
        let call = by_name("unshare").expect("a row");
        let alone = world.unshare(thread, call, &[0x400, 0, 0, 0, 0, 0]);
        assert!(alone.table != maker.table && alone.places == maker.places);
        let elsewhere = world.unshare(thread, call, &[0x200, 0, 0, 0, 0, 0]);
        assert!(elsewhere.table == maker.table && elsewhere.places != maker.places);
        // Nobody shares it any more.
        assert_eq!(world.unshare(alone, call, &[0x400, 0, 0, 0, 0, 0]), alone);
    }

    /// The kernel has no permissions of the root of a FUSE file system until its server was asked; `stat` asks.
    #[test]
    fn an_open_without_permissions_tells_none() {
        let told = |opened, mode| {
            let mut world = World::new(Box::new(Links::default()));
            let root = world.names.add(Names::ROOT, b"mounted", kind::DIRECTORY, true, node::Source::Initial);
            world.names.node_mut(root).brought = 1;
            let (identity, links) = ((1, 2), 1);
            let object = Object { mode: kind::DIRECTORY | opened, identity, links, ..Object::default() };
            world.learn(root, &object.stat());
            let stat = Stat { complete: true, mode: kind::DIRECTORY | mode, ..object.stat() };
            world.learn(root, &stat);
            world.names.node(root).mode
        };
        assert_eq!(told(0, 0o755), Some(0o755));
        assert_eq!(told(0, 0), Some(0));
        assert_eq!(told(0o700, 0o755), Some(0o700), "what was shown first is what it was at the beginning");
    }
}
