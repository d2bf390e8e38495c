//! What a call's result tells of what it found and left.
//!
//! Goals: one form for names, descriptors, sizes and offsets, so that whoever looks for an order need not know calls.
//! Non-goals: finding it.

/// What a thing must have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The result does not tell.
    Anything,
    /// Not 0.
    Something,
    /// A directory.
    Directory,
    /// Something that is no directory.
    NoDirectory,
    /// This.
    Exactly(u64),
    /// This, or something of which it is not known what it is.
    Known(u64),
    /// Anything but this.
    Not(u64),
    /// This or less.
    AtMost(u64),
    /// This or more.
    AtLeast(u64),
    /// None of these bits.
    NoneOf(u64),
    /// One of these bits at least.
    SomeOf(u64),
    /// Of these bits those and no other.
    Bits {
        /// These.
        of: u64,
        /// Those.
        are: u64,
    },
}

/// A name under which nothing stands, a number that is not open.
pub const NOTHING: u64 = 0;
/// Something that is no directory stands under a name.
pub const FILE: u64 = 1;
/// A directory stands under a name.
pub const DIRECTORY: u64 = 2;
/// Something of a type that is not known stands under a name.
pub const SOMETHING: u64 = 3;

impl Found {
    /// Whether it can be so; what is not known can be anything.
    pub fn fits(self, is: Option<u64>) -> bool {
        let Some(is) = is else { return true };
        match self {
            Found::Anything => true,
            Found::Something => is != NOTHING,
            Found::Directory => is == DIRECTORY || is == SOMETHING,
            Found::NoDirectory => is != NOTHING && is != DIRECTORY,
            Found::Exactly(value) => is == value,
            Found::Known(value) => is == value || is == SOMETHING,
            Found::Not(value) => is != value,
            Found::AtMost(value) => is <= value,
            Found::AtLeast(value) => is >= value,
            Found::NoneOf(bits) => is & bits == 0,
            Found::SomeOf(bits) => is & bits != 0,
            Found::Bits { of, are } => is & of == are,
        }
    }
}

/// What a call makes of a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Nothing,
    /// This.
    To(u64),
    /// At least this.
    UpTo(u64),
    /// So much more.
    More(u64),
    /// Without the first bits, with the second; of what is not known none is assumed.
    Bits(u64, u64),
    /// What this thing is when the call has its turn.
    Like(u64),
    /// Something that is not known.
    Unknown,
}

impl Change {
    /// What a thing is after it, as far as that does not depend on others.
    pub fn of(self, is: Option<u64>, found: Found) -> Option<u64> {
        match (self, found) {
            (Change::Nothing, Found::Exactly(value) | Found::Known(value)) => Some(value),
            (Change::Nothing, Found::Something) => is.or(Some(SOMETHING)),
            (Change::Nothing, _) => is,
            (Change::To(value), _) => Some(value),
            (Change::UpTo(value), _) => is.map(|is| is.max(value)),
            (Change::More(n), Found::Exactly(value)) => Some(value.saturating_add(n)),
            (Change::More(n), _) => is.map(|is| is.saturating_add(n)),
            (Change::Bits(without, with), _) => Some(is.unwrap_or(0) & !without | with),
            (Change::Like(_) | Change::Unknown, _) => None,
        }
    }
}

/// What a call found and left of one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    /// The thing.
    pub thing: u64,
    /// What is known of it otherwise; such a thing is not remembered by whoever looks for an order.
    pub known: Option<Option<u64>>,
    /// It is a name that a path passes, or what stands there: which name that is depends on where the path begins.
    pub is_passed: bool,
    /// It goes from what it was to what it becomes in several steps, which others can see: the size of a file.
    pub in_steps: bool,
    /// What it is as long as no call is known to have met it.
    pub at_first: Option<u64>,
    /// What it must have been.
    pub found: Found,
    /// What became of it.
    pub change: Change,
    /// What the kernel saw it to be a little later, when the call returned.
    pub after: Option<u64>,
}

impl Condition {
    /// Of a thing that is remembered.
    pub fn new(thing: u64, found: Found, change: Change) -> Condition {
        let (known, at_first, after) = (None, None, None);
        Condition { thing, known, is_passed: false, in_steps: false, at_first, found, change, after }
    }

    /// Whether it made the thing more, and does not tell from what: so it has no place among those that do likewise.
    pub fn is_vague(&self) -> bool {
        self.found == Found::Anything && matches!(self.change, Change::More(_))
    }

    /// Of something that changes in steps.
    pub fn in_steps(self) -> Condition {
        Condition { in_steps: true, ..self }
    }

    /// With what was seen when the call returned.
    pub fn then(self, after: u64) -> Condition {
        Condition { after: Some(after), ..self }
    }
}

/// All that a result tells.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Told {
    /// All of it must have been so.
    pub all: Vec<Condition>,
    /// One of these must have been so, if there are any.
    pub any: Vec<Condition>,
    /// These have been so, most likely: another error would have come first.
    pub likely: Vec<Condition>,
    /// Where it begins, by the numbers of things: the kernel looks there at once, however long the call lasts.
    pub begins_at: [Option<u64>; 2],
    /// Where it makes others begin elsewhere from now on.
    pub moves: Option<u64>,
    /// Whether the names that others pass who begin there are other ones then.
    pub turns: bool,
    /// Whether the same is told when others have their places that last likewise.
    pub lasts: bool,
    /// Whether not all is told yet, because others have no place yet: who made its thread, or opened what it lists.
    pub is_too_early: bool,
}

impl Told {
    /// Of a call whose thread is not known yet.
    pub fn unborn() -> Told {
        Told { is_too_early: true, ..Told::default() }
    }

    /// All that was found, for certain, perhaps or likely.
    pub fn found(&self) -> impl Iterator<Item = &Condition> {
        self.all.iter().chain(&self.any).chain(&self.likely)
    }

    /// What of it cannot be so, if anything.
    pub fn impossible(&self, is: impl Fn(&Condition) -> Option<u64>) -> Option<&Condition> {
        let fits = |c: &Condition| c.found.fits(is(c));
        let none_of_any = self.any.first().filter(|_| !self.any.iter().any(fits));
        self.all.iter().find(|c| !fits(c)).or(none_of_any)
    }
}
