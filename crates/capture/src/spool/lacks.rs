//! Why the programs in the kernel dropped something.
//!
//! Goals: each cause in its own words in the ledger, since each has its own remedy. Non-goals: counting (`drop` in
//! `bpf/transport.h`).

use serde::{Deserialize, Serialize};

/// What is said of pages that are hidden from all but their program, by which backend ever it was recorded.
pub const UNREADABLE_PAGES: &str =
    "pages of mapped files that the kernel did not let be read (of memfd_secret it never does)";

/// The words for each cause: `enum lack` in `bpf/state.h`.
pub const LACKS: [(&str, &str); 6] = [
    ("LACK_ROOM", "records that found no room while the program ran"),
    ("LACK_WAIT", "records whose thread was to wait, which the kernel refused"),
    ("LACK_GIVEN_UP", "records that waited when their thread ended or went on, or the recorder was late"),
    ("LACK_MEMORY", "stores to mapped files that could not be followed"),
    ("LACK_READ", UNREADABLE_PAGES),
    ("LACK_TURN", "records that fell into the making of another"),
];

/// Of those the numbers of some: without room, with a wait refused, given up.
pub const LACK_ROOM: usize = 0;
/// See [`LACK_ROOM`].
pub const LACK_WAIT: usize = 1;
/// See [`LACK_ROOM`].
pub const LACK_GIVEN_UP: usize = 2;
/// Of what only the number is known: the recorder was gone.
const UNTOLD: &str = "records that were dropped while the program ran, why was not told";

/// How many records are lacking, for each cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lacks(pub [u64; LACKS.len()]);

impl Lacks {
    /// All that are lacking.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Waits that were given up, since the thread was to die or the recorder was gone.
    pub fn given_up(&self) -> u64 {
        self.0[LACK_GIVEN_UP]
    }

    /// Each cause with its number, of `all` that are lacking.
    pub fn causes(&self, all: u64) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let untold = all.saturating_sub(self.total());
        LACKS.iter().map(|(_, words)| *words).zip(self.0).chain([(UNTOLD, untold)])
    }
}
