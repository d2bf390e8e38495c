//! The C programs of `tests/programs`, built, and traces as the tests look at them.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use reprise_testkit::program;
use reprise_trace::{Action, BlobReader, Loss, TraceReader};

/// Builds a program into a directory; its path as text.
#[track_caller]
pub fn build(name: &str, dir: &Path) -> String {
    program::built(name, dir).into_os_string().into_string().expect("UTF-8")
}

/// Whether programs can be built here.
pub fn can_build() -> bool {
    crate::means::has("cc")
}

/// A finished trace.
pub struct Trace {
    pub reader: TraceReader,
    pub actions: Vec<Action>,
    /// One for all contents, since it keeps what it has decoded.
    blobs: RefCell<BlobReader>,
}

impl Trace {
    /// Opens a trace and reads all its actions; they must be undamaged and numbered without gaps.
    #[track_caller]
    pub fn open(path: &Path) -> Trace {
        let reader = TraceReader::open(path).unwrap_or_else(|e| panic!("{e}"));
        reader.check_all().unwrap_or_else(|e| panic!("{e}"));
        let actions: Vec<Action> = reader.actions().map(|a| a.unwrap_or_else(|e| panic!("{e}"))).collect();
        for (at, action) in actions.iter().enumerate() {
            assert_eq!(action.seq, at as u64, "{} has a gap", path.display());
        }
        Trace { blobs: RefCell::new(reader.blobs()), reader, actions }
    }

    /// Events or contents that are known not to be in it, by word and cause.
    pub fn losses(&self) -> Vec<String> {
        let words = [Loss::Dropped, Loss::Truncated, Loss::Unsupported];
        let entries =
            words.iter().filter_map(|word| self.reader.ledger().losses.get(word).map(|causes| (word, causes)));
        entries
            .flat_map(|(word, causes)| {
                causes.iter().map(move |(cause, e)| format!("{} {}: {cause}", e.count, word.word()))
            })
            .collect()
    }

    /// The successful calls of a name.
    pub fn calls<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Action> {
        self.actions.iter().filter(move |a| a.call == name && a.errno.is_none())
    }

    /// What a call moved, whole.
    #[track_caller]
    pub fn content(&self, action: &Action) -> Vec<u8> {
        let content = self.blobs.borrow_mut().content(&action.data).expect("blobs").expect("content is kept");
        assert_eq!(content.len() as u64, action.data_bytes, "action {} has not all of its content", action.seq);
        content
    }

    /// All paths that were named.
    pub fn paths(&self) -> impl Iterator<Item = PathBuf> {
        let named = self.actions.iter().flat_map(|a| [&a.path, &a.path2]).flatten();
        named.map(|p| PathBuf::from(String::from_utf8_lossy(p).into_owned()))
    }
}
