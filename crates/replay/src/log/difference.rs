//! How a command went differently, and how that is said.

use reprise_plan::command::Tolerance;

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
        [Issued, Simulated, Skipped, Unsupported]
            .get(usize::from(byte))
            .copied()
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
    [
        Nothing,
        Outcome,
        Value,
        Content,
        Digest,
        Metadata,
        Listing,
        Names,
        Flock,
        Lock,
        MappingRange,
        Refused,
    ]
};

const FIELDS: [Field; 17] = {
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
    /// Why it cannot be avoided ([`Tolerance`] as a number).
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
        Difference {
            class: Class::Diverged,
            code,
            found,
            traced,
            ..Difference::NONE
        }
    }

    /// One of an attribute, that counts.
    pub const fn field(field: Field, found: u64, traced: u64) -> Difference {
        Difference {
            field,
            ..Difference::new(Code::Metadata, found, traced)
        }
    }

    /// No difference, but the reason for leaving a command out.
    pub const fn left_out(code: Code) -> Difference {
        Difference {
            code,
            ..Difference::NONE
        }
    }

    pub(super) fn to_bytes(self) -> [u8; 4] {
        [
            self.class as u8,
            self.code as u8,
            self.field as u8,
            self.tolerance,
        ]
    }

    pub(super) fn from_bytes(bytes: [u8; 4]) -> Option<Difference> {
        let class = [Class::Same, Class::Diverged, Class::Unavoidable]
            .get(usize::from(bytes[0]))
            .copied()?;
        let code = CODES.get(usize::from(bytes[1])).copied()?;
        let field = FIELDS.get(usize::from(bytes[2])).copied()?;
        Some(Difference {
            class,
            code,
            field,
            tolerance: bytes[3],
            ..Difference::NONE
        })
    }

    /// In words, with the values: `returned ENOENT, traced 3`.
    pub fn text(&self) -> String {
        let Difference { found, traced, .. } = *self;
        match self.code {
            Code::Nothing => String::new(),
            Code::Outcome | Code::Value => {
                format!(
                    "returned {}, traced {}",
                    result_text(found as i64),
                    result_text(traced as i64)
                )
            }
            Code::Content => format!("content differs at byte {found} of {traced}"),
            Code::Digest => format!("content differs in the MiB at byte {found} of {traced}"),
            Code::Metadata => match self.field {
                Field::Kind => format!("type {}, traced {}", kind_text(found), kind_text(traced)),
                Field::Mode => format!(
                    "mode {:04o}, traced {:04o}",
                    found & 0o7777,
                    traced & 0o7777
                ),
                Field::None => self.general(),
                Field::DeviceNode => self.field.word().to_owned(),
                field => format!("{} {found}, traced {traced}", field.word()),
            },
            Code::Listing if found == traced => format!("lists other names ({found} entries)"),
            Code::Listing => format!("lists {found} entries, traced {traced}"),
            Code::Names if found == traced => format!("other names ({found})"),
            Code::Names => format!("{found} names, traced {traced}"),
            Code::Flock => "finds another lock".to_owned(),
            Code::Lock => format!(
                "lock not available ({}), traced {}",
                result_text(found as i64),
                result_text(traced as i64)
            ),
            Code::MappingRange => "outside of what is mapped".to_owned(),
            Code::Refused => "not issued by a replay".to_owned(),
        }
    }

    /// In words without values, to count alike differences together.
    pub fn general(&self) -> String {
        let success = |result: u64| match (result as i64) < 0 {
            true => result_text(result as i64),
            false => "success".to_owned(),
        };
        match self.code {
            Code::Outcome => format!(
                "{} instead of {}",
                success(self.found),
                success(self.traced)
            ),
            Code::Value => "another result".to_owned(),
            Code::Content | Code::Digest => "content differs".to_owned(),
            Code::Metadata if self.field != Field::None => format!("{} differs", self.field.word()),
            Code::Metadata => {
                let mut words: Vec<&str> = Vec::new();
                for field in FIELDS.iter().filter(|f| self.unavoidable & f.bit() != 0) {
                    if !words.contains(&field.word()) {
                        words.push(field.word());
                    }
                }
                words.join(", ")
            }
            Code::Listing => "lists other names".to_owned(),
            Code::Names => "other names".to_owned(),
            Code::Lock => "lock not available".to_owned(),
            Code::Nothing | Code::Flock | Code::MappingRange | Code::Refused => self.text(),
        }
    }

    /// Why it cannot be avoided.
    pub fn excuse(&self) -> String {
        const ALL: [Tolerance; 6] = {
            use Tolerance::*;
            [None, Pseudo, Random, Machine, Mapping, Unrecorded]
        };
        match ALL.get(usize::from(self.tolerance)) {
            Some(Tolerance::None) | None => self.general(),
            Some(tolerance) => tolerance.text().to_owned(),
        }
    }
}

/// A result: a number, or the name of an error.
fn result_text(result: i64) -> String {
    if (-4095..0).contains(&result) {
        crate::engine::error_name(result)
    } else {
        result.to_string()
    }
}

fn kind_text(mode: u64) -> &'static str {
    match mode as u32 & libc::S_IFMT {
        libc::S_IFREG => "file",
        libc::S_IFDIR => "directory",
        libc::S_IFLNK => "symbolic link",
        libc::S_IFIFO => "FIFO",
        libc::S_IFSOCK => "socket",
        libc::S_IFCHR => "character device",
        libc::S_IFBLK => "block device",
        _ => "unknown",
    }
}
