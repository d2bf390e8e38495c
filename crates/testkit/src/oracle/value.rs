//! Arguments as a case knows them, from the manual, without the table: a name, a kind and a value.

use reprise_calls::{Access, ArgKind};

/// What a case says an argument is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Is {
    /// A descriptor that must exist.
    Fd,
    /// A descriptor number that the caller chooses.
    NewFd,
    /// A descriptor that the call ends.
    EndFd,
    /// The directory of the path that follows.
    Dirfd,
    /// A path.
    Path,
    /// A string that is no path.
    Text,
    /// An array of strings.
    Strings,
    /// Content given.
    Data,
    /// Room for content.
    Room,
    /// Vector of content given.
    Gather,
    /// Vector of room.
    Scatter,
    /// A structure read.
    In,
    /// A structure filled.
    Out,
    /// A structure read and filled.
    InOut,
    /// Flags.
    Flags,
    /// A command.
    Command,
    /// Permission bits.
    Mode,
    /// A position or a length that is signed (`off_t`, `loff_t`).
    Offset,
    /// A length (`size_t`).
    Length,
    /// A signed number.
    Integer,
    /// An unsigned number, or bits that have no names in the table.
    Number,
    /// A device number.
    Device,
    /// A user or group.
    Owner,
    /// Memory that the recorder leaves alone.
    Address,
}

impl Is {
    /// Whether the row says the same.
    pub fn agrees(self, kind: ArgKind) -> bool {
        matches!(
            (self, kind),
            (Is::Fd, ArgKind::Fd(Access::Use))
                | (Is::NewFd, ArgKind::Fd(Access::Create))
                | (Is::EndFd, ArgKind::Fd(Access::Destroy))
                | (Is::Dirfd, ArgKind::Dirfd)
                | (Is::Path, ArgKind::Path(_))
                | (Is::Text, ArgKind::Text)
                | (Is::Strings, ArgKind::Strings)
                | (Is::Data, ArgKind::InData(_))
                | (Is::Room, ArgKind::OutData(_))
                | (Is::Gather, ArgKind::InVector(_))
                | (Is::Scatter, ArgKind::OutVector(_))
                | (Is::In, ArgKind::In(_))
                | (Is::Out, ArgKind::Out(_))
                | (Is::InOut, ArgKind::InOut(_))
                | (Is::Flags, ArgKind::Flags(_))
                | (Is::Command, ArgKind::Command(_))
                | (Is::Mode, ArgKind::Mode)
                | (Is::Offset, ArgKind::Offset)
                | (Is::Length, ArgKind::Length)
                | (Is::Integer, ArgKind::Integer | ArgKind::Submits | ArgKind::Reaps)
                | (Is::Number, ArgKind::Number | ArgKind::Submits | ArgKind::Reaps)
                | (Is::Device, ArgKind::Device)
                | (Is::Owner, ArgKind::Owner)
                | (Is::Address, ArgKind::Address | ArgKind::Environment)
        )
    }
}

/// What is passed.
#[derive(Debug, Clone)]
pub enum Content {
    /// A number, in the register.
    Word(u64),
    /// A pointer to these bytes.
    Bytes(Vec<u8>),
    /// An array of `iovec`.
    Vector(Vec<Vec<u8>>),
    /// A null-terminated array of strings.
    Strings(Vec<Vec<u8>>),
}

/// An argument.
#[derive(Debug, Clone)]
pub struct Value {
    /// What it is.
    pub is: Is,
    /// What is passed.
    pub content: Content,
}

fn word(is: Is, value: u64) -> Value {
    let content = Content::Word(value);
    Value { is, content }
}

fn bytes(is: Is, bytes: &[u8]) -> Value {
    let content = Content::Bytes(bytes.to_vec());
    Value { is, content }
}

/// Filling of room, so that what the call writes can be told from what was there.
pub const CANARY: u8 = 0xa5;

fn terminated(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

/// A descriptor.
pub fn fd(fd: i64) -> Value {
    word(Is::Fd, fd as u64)
}

/// A descriptor number of the caller's choice.
pub fn new_fd(fd: i64) -> Value {
    word(Is::NewFd, fd as u64)
}

/// A descriptor to end.
pub fn end_fd(fd: i64) -> Value {
    word(Is::EndFd, fd as u64)
}

/// A directory's descriptor.
pub fn at_dir(fd: i64) -> Value {
    word(Is::Dirfd, fd as u64)
}

/// A path.
pub fn path(text: &str) -> Value {
    bytes(Is::Path, &terminated(text))
}

/// A string.
pub fn text(text: &str) -> Value {
    bytes(Is::Text, &terminated(text))
}

/// Strings.
pub fn strings(texts: &[&str]) -> Value {
    let content = Content::Strings(texts.iter().map(|t| terminated(t)).collect());
    Value { is: Is::Strings, content }
}

/// Content to write; the row says where its length goes.
pub fn data(content: &[u8]) -> Value {
    bytes(Is::Data, content)
}

/// Room for so many bytes.
pub fn room(length: usize) -> Value {
    bytes(Is::Room, &vec![CANARY; length])
}

/// Content to write, in parts.
pub fn gather(parts: &[&[u8]]) -> Value {
    let content = Content::Vector(parts.iter().map(|p| p.to_vec()).collect());
    Value { is: Is::Gather, content }
}

/// Room in parts of these lengths.
pub fn scatter(lengths: &[usize]) -> Value {
    let content = Content::Vector(lengths.iter().map(|n| vec![CANARY; *n]).collect());
    Value { is: Is::Scatter, content }
}

/// A structure to read.
pub fn input(of: &[u8]) -> Value {
    bytes(Is::In, of)
}

/// Room for a structure of this size.
pub fn output(length: usize) -> Value {
    bytes(Is::Out, &vec![CANARY; length])
}

/// A structure filled, that holds pointers to where more is filled.
pub fn header(of: &[u8]) -> Value {
    Value { is: Is::Out, content: Content::Bytes(of.to_vec()) }
}

/// A structure read and filled.
pub fn inout(of: &[u8]) -> Value {
    bytes(Is::InOut, of)
}

/// A plain number where the table has a structure that depends on a command.
pub fn inout_word(value: u64) -> Value {
    word(Is::InOut, value)
}

/// A null pointer.
pub fn null(is: Is) -> Value {
    word(is, 0)
}

/// Flags.
pub fn flags(value: i64) -> Value {
    word(Is::Flags, value as u64)
}

/// A command.
pub fn command(value: i64) -> Value {
    word(Is::Command, value as u64)
}

/// Permission bits.
pub fn mode(value: u32) -> Value {
    word(Is::Mode, value.into())
}

/// A position.
pub fn offset(value: i64) -> Value {
    word(Is::Offset, value as u64)
}

/// A length.
pub fn length(value: u64) -> Value {
    word(Is::Length, value)
}

/// A signed number.
pub fn int(value: i64) -> Value {
    word(Is::Integer, value as u64)
}

/// An unsigned number.
pub fn num(value: u64) -> Value {
    word(Is::Number, value)
}

/// A device number.
pub fn device(major: u32, minor: u32) -> Value {
    word(Is::Device, u64::from(major << 8 | minor))
}

/// A user or group.
pub fn owner(id: u32) -> Value {
    word(Is::Owner, id.into())
}

/// Memory with these bytes.
pub fn memory(of: &[u8]) -> Value {
    bytes(Is::Address, of)
}

/// An address.
pub fn address(at: u64) -> Value {
    word(Is::Address, at)
}

/// The bytes of 32-bit words.
pub fn words(of: &[u32]) -> Vec<u8> {
    of.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// The bytes of 64-bit words.
pub fn longs(of: &[u64]) -> Vec<u8> {
    of.iter().flat_map(|w| w.to_le_bytes()).collect()
}
