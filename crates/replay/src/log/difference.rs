//! How a command went differently, and how that is said.

/// What was done with a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Handling {
    Issued = 0,
    Simulated,
    Skipped,
    Unsupported,
}

impl Handling {
    /// The word in `actions.handling`.
    pub const fn word(self) -> &'static str {
        match self {
            Handling::Issued => "issued",
            Handling::Simulated => "simulated",
            Handling::Skipped => "skipped",
            Handling::Unsupported => "unsupported",
        }
    }

    pub(super) fn from_byte(byte: u8) -> Option<Handling> {
        use Handling::*;
        [Issued, Simulated, Skipped, Unsupported].get(usize::from(byte)).copied()
    }
}

/// Whether a difference counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Class {
    /// There is none.
    Same = 0,
    /// It counts.
    Diverged,
    /// No replay can avoid it.
    Unavoidable,
}

/// What differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Code {
    Nothing = 0,
    Outcome,
    Value,
    Content,
    Digest,
    Metadata,
    Listing,
    Names,
    Flock,
    Lock,
    /// Not a difference: why the engine left a command out that the plan wanted issued.
    MappingRange,
    Refused,
}

/// An attribute of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Field {
    None = 0,
    Kind,
    Mode,
    Owner,
    Group,
    Size,
    Links,
    DeviceNumber,
    Device,
    Inode,
    BlockSize,
    Blocks,
    AccessTime,
    ModifyTime,
    ChangeTime,
    BirthTime,
    DeviceNode,
}

const CODES: [Code; 12] = {
    use Code::*;
    [Nothing, Outcome, Value, Content, Digest, Metadata, Listing, Names, Flock, Lock, MappingRange, Refused]
};

pub(super) const FIELDS: [Field; 17] = {
    use Field::*;
    [
        None,
        Kind,
        Mode,
        Owner,
        Group,
        Size,
        Links,
        DeviceNumber,
        Device,
        Inode,
        BlockSize,
        Blocks,
        AccessTime,
        ModifyTime,
        ChangeTime,
        BirthTime,
        DeviceNode,
    ]
};

impl Field {
    /// Its bit in [`Difference::unavoidable`].
    pub const fn bit(self) -> u32 {
        1 << self as u8
    }

    /// In words.
    pub const fn word(self) -> &'static str {
        match self {
            Field::None => "attributes",
            Field::Kind => "type",
            Field::Mode => "mode",
            Field::Owner => "owner",
            Field::Group => "group",
            Field::Size => "size",
            Field::Links => "links",
            Field::DeviceNumber => "device number",
            Field::Device => "device",
            Field::Inode => "inode",
            Field::BlockSize => "block size",
            Field::Blocks => "blocks",
            Field::AccessTime | Field::ModifyTime | Field::ChangeTime | Field::BirthTime => "times",
            Field::DeviceNode => "device nodes are not created",
        }
    }
}

/// How a command went differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference {
    /// Whether it counts.
    pub class: Class,
    /// What differs.
    pub code: Code,
    /// Which attribute.
    pub field: Field,
    /// Why it cannot be avoided ([`reprise_plan::command::Tolerance`] as a number).
    pub tolerance: u8,
    /// Attributes that differ and cannot be equal: bits of [`Field::bit`].
    pub unavoidable: u32,
    /// What was found; for contents the first byte that differs.
    pub found: u64,
    /// What the trace says; for contents the length.
    pub traced: u64,
}

impl Difference {
    /// None.
    pub const NONE: Difference = Difference {
        class: Class::Same,
        code: Code::Nothing,
        field: Field::None,
        tolerance: 0,
        unavoidable: 0,
        found: 0,
        traced: 0,
    };

    /// One that counts.
    pub const fn new(code: Code, found: u64, traced: u64) -> Difference {
        Difference { class: Class::Diverged, code, found, traced, ..Difference::NONE }
    }

    /// One of an attribute, that counts.
    pub const fn field(field: Field, found: u64, traced: u64) -> Difference {
        Difference { field, ..Difference::new(Code::Metadata, found, traced) }
    }

    /// No difference, but the reason for leaving a command out.
    pub const fn left_out(code: Code) -> Difference {
        Difference { code, ..Difference::NONE }
    }

    pub(super) fn to_bytes(self) -> [u8; 4] {
        [self.class as u8, self.code as u8, self.field as u8, self.tolerance]
    }

    pub(super) fn from_bytes(bytes: [u8; 4]) -> Option<Difference> {
        let class = [Class::Same, Class::Diverged, Class::Unavoidable].get(usize::from(bytes[0])).copied()?;
        let code = CODES.get(usize::from(bytes[1])).copied()?;
        let field = FIELDS.get(usize::from(bytes[2])).copied()?;
        Some(Difference { class, code, field, tolerance: bytes[3], ..Difference::NONE })
    }
}
