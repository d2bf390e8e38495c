//! A call's text as the columns of an action: numbers, paths, structures, content.
//!
//! Goals: one exhaustive `match` over the kinds of argument; what the text does not say stays empty, never invented.
//! Non-goals: state that outlives the call.

mod content;
mod messages;
mod stat;
mod structures;

use std::borrow::Cow;

use reprise_calls::sharing::HANDLE;
use reprise_calls::{ArgKind, Call, Effect, FcntlArg, Returns, Struct, fcntl_arg, ioctl_arg};
use reprise_initial::{Decoded, Entry};
use reprise_trace::payload::{Side, append, contributes};

pub use structures::annotated_path;

use super::lexer::{self, Arguments, Text};
use super::names::Layout;
use super::value::{self, exact, plain, value};

/// Stands for a pointer to something the log shows: where it was is not known.
pub const SOME_ADDRESS: u64 = 0x1000;

/// What the log did not say about one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lacks {
    /// A constant's number is not known.
    pub symbol: bool,
    /// A structure was shortened (no `-v`).
    pub structure: bool,
    /// The entries of a directory were not printed (no `-v`).
    pub listing: bool,
    /// Content was shortened (`-s`).
    pub content: bool,
}

/// The text of an argument cannot be what the call takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreadable;

/// Decodes the arguments of a call that has returned `result`; tells also what is missing.
pub fn decode<'a>(
    call: &Call,
    layout: Layout,
    args: &Arguments<'a>,
    result: i64,
) -> Result<(Decoded<'a>, Lacks), Unreadable> {
    let mut decoder = Decoder { call, result, out: Decoded::default(), lacks: Lacks::default() };
    let texts = texts(call, layout, args);
    for (i, arg) in call.args.iter().enumerate().take(6) {
        decoder.number(i, arg.kind, texts[i])?;
    }
    for (i, arg) in call.args.iter().enumerate().take(6) {
        decoder.memory(i, arg.kind, texts[i]);
    }
    Ok((decoder.out, decoder.lacks))
}

/// The text of each argument of the row.
fn texts<'a>(call: &Call, layout: Layout, args: &Arguments<'a>) -> [&'a [u8]; 6] {
    std::array::from_fn(|i| match layout {
        Layout::Same => args.get(i),
        Layout::Moved(places) => {
            places.get(i).and_then(|at| usize::try_from(*at).ok()).map_or(b"".as_slice(), |at| args.get(at))
        }
        Layout::LongSeek => args.get(if i == 2 { 3 } else { i }),
        Layout::Named => {
            let named: &[&[u8]] = match i {
                0 => &[b"flags"],
                1 => &[b"child_stack", b"stack"],
                2 => &[b"parent_tidptr", b"parent_tid"],
                3 => &[b"child_tidptr", b"child_tid"],
                4 => &[b"tls"],
                _ => &[],
            };
            debug_assert_eq!(call.name, "clone");
            named.iter().find_map(|name| args.named(name)).unwrap_or_default()
        }
    })
}

/// A name of which strace shows as much as the kernel takes, so that what follows may be anything, but is not nothing: it is
/// too long for a replay, too.
fn whole_name(shown: Text) -> Vec<u8> {
    let mut name = shown.bytes;
    if !shown.complete {
        name.push(b'x');
    }
    name
}

struct Decoder<'c, 'a> {
    call: &'c Call,
    result: i64,
    out: Decoded<'a>,
    lacks: Lacks,
}

impl<'a> Decoder<'_, 'a> {
    fn succeeded(&self) -> bool {
        self.result >= 0
    }

    /// What the register held.
    fn number(&mut self, i: usize, kind: ArgKind, text: &'a [u8]) -> Result<(), Unreadable> {
        self.out.args[i] = match kind {
            ArgKind::Fd(_) | ArgKind::Dirfd => {
                let (number, annotation) = lexer::annotated(text);
                self.out.annotations[i] = annotation.filter(|a| !a.is_empty());
                exact(number).ok_or(Unreadable)? & 0xffff_ffff
            }
            ArgKind::Path(_) | ArgKind::Text => match text.first() {
                Some(b'"') => SOME_ADDRESS,
                _ => plain(text).ok_or(Unreadable)?,
            },
            ArgKind::Strings
            | ArgKind::InData(_)
            | ArgKind::OutData(_)
            | ArgKind::InVector(_)
            | ArgKind::OutVector(_)
            | ArgKind::In(_)
            | ArgKind::Out(_)
            | ArgKind::Address
            | ArgKind::Environment => match text.first() {
                Some(b'"' | b'{' | b'[' | b'@' | b'~') => SOME_ADDRESS,
                _ => value(text).number,
            },
            ArgKind::InOut(_) => match text.first() {
                Some(b'"' | b'{' | b'[') => SOME_ADDRESS,
                _ => {
                    let value = value(lexer::annotated(text).0);
                    self.lacks.symbol |= !value.known && !text.is_empty();
                    value.number
                }
            },
            ArgKind::Mode if text.is_empty() => 0,
            ArgKind::Length | ArgKind::Offset => {
                let digits = lexer::annotated(text).0;
                value::exact(digits).or_else(|| value::leading(digits)).unwrap_or(0)
            }
            ArgKind::Flags(_)
            | ArgKind::Command(_)
            | ArgKind::Mode
            | ArgKind::Integer
            | ArgKind::Submits
            | ArgKind::Reaps
            | ArgKind::Number
            | ArgKind::Device
            | ArgKind::Owner => {
                let value = value(lexer::annotated(text).0);
                self.lacks.symbol |= !value.known && !text.is_empty();
                let wide = matches!(kind, ArgKind::Number | ArgKind::Device | ArgKind::Flags(_) | ArgKind::Command(_));
                if wide { value.number } else { value.number & 0xffff_ffff }
            }
        };
        Ok(())
    }

    /// What the pointer led to.
    fn memory(&mut self, i: usize, kind: ArgKind, text: &'a [u8]) {
        match kind {
            ArgKind::Path(_) => {
                let path = lexer::string(text).map(whole_name);
                match self.out.path {
                    None if self.is_first_path(i) => self.out.path = path.map(Cow::from),
                    _ => self.out.path2 = path.map(Cow::from),
                }
            }
            ArgKind::Text => {
                let name = |text: Text| if self.succeeded() { text.bytes } else { whole_name(text) };
                let name = lexer::string(text).map(name);
                append(self.out.input.to_mut(), name.as_deref());
            }
            ArgKind::Strings => {
                let strings = content::strings(text);
                append(self.out.input.to_mut(), strings.as_deref());
            }
            ArgKind::InData(of) => self.given(usize::from(of), text),
            ArgKind::OutData(_) => self.returned(text),
            ArgKind::InVector(_) | ArgKind::OutVector(_) => self.vector(kind, text),
            ArgKind::In(kind) => self.structure(i, kind, text, Side::Input),
            ArgKind::Out(kind) => self.structure(i, kind, text, Side::Output),
            // Which requests they were is not told.
            ArgKind::Submits => append(self.out.input.to_mut(), None),
            ArgKind::Reaps => append(self.out.output.to_mut(), None),
            ArgKind::InOut(kind) => {
                self.structure(i, kind, text, Side::Input);
                self.structure(i, kind, text, Side::Output);
            }
            ArgKind::Fd(_)
            | ArgKind::Dirfd
            | ArgKind::Flags(_)
            | ArgKind::Command(_)
            | ArgKind::Mode
            | ArgKind::Offset
            | ArgKind::Length
            | ArgKind::Integer
            | ArgKind::Number
            | ArgKind::Device
            | ArgKind::Owner
            | ArgKind::Address
            // Whom the process runs as is not told.
            | ArgKind::Environment => {}
        }
        debug_assert!(self.call.args.len() > i || !contributes(kind, Side::Input));
    }

    fn is_first_path(&self, i: usize) -> bool {
        self.call.paths().next().is_some_and(|p| p.path == i)
    }

    /// Content that the call reads.
    fn given(&mut self, length_at: usize, text: &[u8]) {
        if text.first() == Some(&b'{') {
            if let Some(address) = structures::socket_address(text) {
                self.out.data_bytes = address.len() as u64;
                self.out.data = address.into();
            }
            return;
        }
        let Some(text) = lexer::string(text) else { return self.count_moved() };
        if text.complete && self.call.returns == Returns::Count {
            // Output of the program may stand behind the length: the string knows better.
            self.out.args[length_at] = text.bytes.len() as u64;
        }
        self.lacks.content |= !text.complete;
        self.out.data = text.bytes.into();
        self.count_moved();
    }

    /// How much was moved, and no more kept than that for a call that returns it.
    fn count_moved(&mut self) {
        let capacity = self.call.args.iter().find_map(|a| match a.kind {
            ArgKind::InData(of) => Some(self.out.args[usize::from(of)]),
            _ => None,
        });
        self.out.data_bytes = match (self.succeeded(), self.call.returns) {
            (false, _) => 0,
            (true, Returns::Count) => self.result as u64,
            (true, _) => capacity.unwrap_or(self.out.data.len() as u64),
        };
    }

    /// Content that the call filled.
    fn returned(&mut self, text: &[u8]) {
        if !self.succeeded() {
            return;
        }
        self.out.data_bytes = self.result as u64;
        if self.call.effect == Effect::List {
            return self.listed(text);
        }
        let Some(text) = lexer::string(text) else {
            self.lacks.content |= self.result > 0;
            return;
        };
        self.out.data = text.bytes.into();
        if self.call.effect == Effect::GetDirectory {
            self.out.data.to_mut().push(0);
        }
        self.out.data.to_mut().truncate(self.result as usize);
        self.lacks.content |= (self.out.data.len() as u64) < self.out.data_bytes;
    }

    fn listed(&mut self, text: &[u8]) {
        match content::entries(text) {
            Some(entries) => {
                self.out.data = content::listing(&entries, self.call.name == "getdents", self.result as usize).into();
                self.lacks.listing = self.out.data.len() as u64 != self.result as u64;
                if self.lacks.listing {
                    self.out.data = Cow::default();
                }
                self.out.entries = entries.into_iter().map(|e| Entry { name: e.name, kind: e.kind }).collect();
            }
            None => self.lacks.listing = self.result > 0,
        }
    }

    fn vector(&mut self, kind: ArgKind, text: &[u8]) {
        let Some(mut vector) = content::vector(text) else {
            append(self.out.input.to_mut(), None);
            return self.count_moved();
        };
        if !vector.all {
            // Elements that were not printed: together they held what else was moved.
            let shown: u64 = vector.lengths.iter().sum();
            let rest = u64::try_from(self.result).unwrap_or(0).saturating_sub(shown);
            vector.lengths.extend((rest > 0).then_some(rest));
        }
        let lengths: Vec<u8> = vector.lengths.iter().flat_map(|n| n.to_le_bytes()).collect();
        append(self.out.input.to_mut(), Some(&lengths));
        if let ArgKind::InVector(of) | ArgKind::OutVector(of) = kind {
            self.out.args[usize::from(of)] = vector.lengths.len() as u64;
        }
        self.out.data_bytes = u64::try_from(self.result).unwrap_or(0);
        self.out.data = vector.data.into();
        if matches!(kind, ArgKind::OutVector(_)) {
            self.out.data.to_mut().truncate(self.out.data_bytes as usize);
        }
        self.lacks.content |= (self.out.data.len() as u64) < self.out.data_bytes;
    }

    /// One structure's contribution to one side.
    fn structure(&mut self, i: usize, kind: Struct, text: &[u8], side: Side) {
        if side == Side::Output && !self.succeeded() {
            return;
        }
        let shown = text.first().is_some_and(|b| matches!(b, b'{' | b'[' | b'"'));
        let text = if shown { text } else { b"" };
        let bytes = match kind {
            Struct::Stat | Struct::Statx => self.attributes(kind, text),
            Struct::Statfs => None,
            Struct::OffsetCell => structures::cell(text, side),
            Struct::FdPair => structures::pair(text),
            Struct::Timespecs => structures::times(text),
            Struct::Timevals => structures::times(text),
            Struct::Utimbuf => structures::utimbuf(text),
            Struct::Sized(of) => match self.call.effect {
                Effect::Open => structures::open_how(text, self.size(of)),
                _ => structures::mount_attributes(text, self.size(of)),
            },
            Struct::CloneArgs(of) => match side {
                Side::Input => structures::clone_args(text, self.size(of)),
                Side::Output => structures::handle_of_clone_args(text),
            },
            Struct::ChildHandle => structures::handle(text).filter(|_| self.out.args[0] & HANDLE != 0),
            Struct::Int => structures::wait_status(text),
            Struct::Words(_) => structures::words(text),
            Struct::ByCommand => self.by_command(text, side),
            Struct::Message => messages::one(text, u32::try_from(self.result).unwrap_or(0)),
            Struct::Messages(_) => messages::several(text),
        };
        self.lacks.symbol |= kind == Struct::FdPair && bytes.is_none();
        let column = if side == Side::Input { &mut self.out.input } else { &mut self.out.output }.to_mut();
        append(column, bytes.as_deref());
        debug_assert!(i < 6);
    }

    /// The size of a structure, as far as it may be true.
    fn size(&self, of: u8) -> usize {
        self.out.args[usize::from(of)].min(4096) as usize
    }

    fn attributes(&mut self, kind: Struct, text: &[u8]) -> Option<Vec<u8>> {
        let stat = stat::read(text)?;
        let bytes = stat.complete.then(|| if kind == Struct::Stat { stat.to_stat() } else { stat.to_statx() });
        self.lacks.structure |= !stat.complete;
        self.out.stat = Some(stat.facts());
        bytes
    }

    fn by_command(&self, text: &[u8], side: Side) -> Option<Vec<u8>> {
        let command = self.out.args[1];
        let kind = if self.call.effect == Effect::Control { fcntl_arg(command) } else { ioctl_arg(command) };
        match (kind, side) {
            (FcntlArg::In(_) | FcntlArg::InOut(_), Side::Input)
            | (FcntlArg::Out(_) | FcntlArg::InOut(_), Side::Output) => {
                structures::by_command(self.call.effect, command, text, side)
            }
            (FcntlArg::Value | FcntlArg::In(_) | FcntlArg::Out(_), _) => None,
        }
    }
}
