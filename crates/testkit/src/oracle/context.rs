//! Issuing a call as its row says, with arguments that the case names.

use std::collections::BTreeSet;

use reprise_calls::{ArgKind, Call, FcntlArg, Returns, Struct, by_name, fcntl_arg, ioctl_arg};

use super::report::Issued;
use super::value::{CANARY, Content, Is, Value};
use super::{follow, report};
use crate::raw::{self, Guarded};

/// How a case is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// With all checks.
    Check,
    /// Without checks, each call printed: for recording.
    Quiet,
    /// Only to see whether the first call follows symbolic links.
    Follow,
}

/// What a case works with. Its working directory is the fixture's.
#[derive(Debug)]
pub struct Context {
    row: &'static Call,
    manner: Manner,
    probed: std::cell::Cell<bool>,
}

/// A call that was issued.
#[derive(Debug)]
pub struct Done {
    row: &'static Call,
    args: [u64; 6],
    memory: [Vec<Guarded>; 6],
    before: Option<BTreeSet<i64>>,
    /// The kernel's own result.
    pub result: i64,
}

/// The arguments in registers, and the memory they point to.
pub(super) struct Prepared {
    pub args: [u64; 6],
    pub memory: [Vec<Guarded>; 6],
}

impl Context {
    pub(super) fn new(row: &'static Call, manner: Manner) -> Context {
        Context { row, manner, probed: std::cell::Cell::new(false) }
    }

    /// The row of the case.
    pub fn row(&self) -> &'static Call {
        self.row
    }

    /// Whether checks are made.
    pub fn checks(&self) -> bool {
        self.manner == Manner::Check
    }

    /// Whether only links are followed.
    pub fn probes(&self) -> bool {
        self.manner == Manner::Follow
    }

    /// Runs a check, unless the case is being recorded.
    pub fn check(&self, check: impl FnOnce()) {
        if self.checks() {
            check();
        }
    }

    /// Ends the case: it cannot be run here.
    pub fn skip(&self, why: &str) -> ! {
        eprintln!("{}{why}", report::SKIP);
        std::process::exit(report::SKIP_STATUS)
    }

    /// Skips the case unless the test runs as root.
    pub fn needs_root(&self) {
        if !crate::scratch::is_root() {
            self.skip("only root may do this");
        }
    }

    /// Issues the call of the case's row.
    pub fn call(&self, given: &[(&str, Value)]) -> Done {
        self.issue(self.row, given)
    }

    /// Issues the call of another row.
    pub fn call_other(&self, name: &str, given: &[(&str, Value)]) -> Done {
        let row = by_name(name).unwrap_or_else(|| panic!("no row {name}"));
        self.issue(row, given)
    }

    fn issue(&self, row: &'static Call, given: &[(&str, Value)]) -> Done {
        if self.manner == Manner::Follow && row.name == self.row.name && !self.probed.get() {
            self.probed.set(true);
            follow::probe(row, given);
            raw::exit(0);
        }
        let Prepared { args, memory } = prepare(row, given);
        let quiet = self.manner == Manner::Quiet;
        let issued = quiet.then(|| Issued::before(row, &args, &memory));
        if quiet && row.returns == Returns::Never {
            report::print(issued.as_ref().expect("quiet"));
        }
        let before = (self.checks() && row.returns == Returns::Fd).then(descriptors);
        let result = raw::syscall(row.number, args);
        // A child of fork has its parent's memory: the parent prints.
        let child = row.returns == Returns::Process && result == 0 && row.name != "wait4";
        if let (Some(issued), false) = (issued, child) {
            report::print(&issued.after(result, &memory));
        }
        Done { row, args, memory, before, result }
    }
}

/// Places the arguments where the row says they go.
pub(super) fn prepare(row: &'static Call, given: &[(&str, Value)]) -> Prepared {
    let mut args = [0; 6];
    let mut memory: [Vec<Guarded>; 6] = Default::default();
    let mut set = BTreeSet::new();
    for (name, value) in given {
        let at = row
            .args
            .iter()
            .position(|a| a.name == *name)
            .unwrap_or_else(|| panic!("{}: the row has no argument {name}", row.name));
        let kind = row.args[at].kind;
        let says = format!("{}.{name}: the row says {kind:?}, the manual {:?}", row.name, value.is);
        assert!(value.is.agrees(kind), "{says}");
        assert!(set.insert(at), "{}.{name} was set already", row.name);
        let (word, pieces) = store(&value.content);
        args[at] = word;
        let total: usize = pieces.iter().map(|p| p.len()).sum();
        let mut length_is = |at: u8, length: usize| {
            assert!(set.insert(at.into()), "{says}: the length was set already");
            args[usize::from(at)] = length as u64;
        };
        match (kind, &value.content) {
            (ArgKind::InData(of) | ArgKind::OutData(of), Content::Bytes(_)) => {
                length_is(of, total);
            }
            (ArgKind::InVector(of) | ArgKind::OutVector(of), Content::Vector(v)) => {
                length_is(of, v.len());
            }
            (ArgKind::In(s) | ArgKind::Out(s) | ArgKind::InOut(s), Content::Bytes(_)) => match s {
                Struct::Sized(of) | Struct::CloneArgs(of) => length_is(of, total),
                Struct::Words(of) => length_is(of, total / 4),
                Struct::ByCommand => {}
                // `struct msghdr`; an array of `struct mmsghdr`, whose number the case sets.
                Struct::Message => assert_eq!(total, 56, "{says}"),
                Struct::Messages(_) => assert_eq!(total % 64, 0, "{says}"),
                fixed => assert_eq!(fixed.size(), Some(total), "{says}"),
            },
            _ => {}
        }
        memory[at] = pieces;
    }
    for (i, arg) in row.args.iter().enumerate() {
        assert!(set.contains(&i), "{}.{} is not known to the manual", row.name, arg.name);
        if let ArgKind::InOut(Struct::ByCommand) = arg.kind {
            let says = match row.name {
                "fcntl" => fcntl_arg(args[1]),
                _ => ioctl_arg(args[1]),
            };
            let size = match says {
                FcntlArg::Value => None,
                FcntlArg::In(n) | FcntlArg::Out(n) | FcntlArg::InOut(n) => Some(n),
            };
            let passed = memory[i].first().map(|m| m.len());
            assert_eq!(size, passed, "{} {:#x}: size of its argument", row.name, args[1]);
        }
    }
    Prepared { args, memory }
}

fn store(content: &Content) -> (u64, Vec<Guarded>) {
    match content {
        Content::Word(word) => (*word, Vec::new()),
        Content::Bytes(bytes) => {
            let memory = Guarded::new(bytes);
            (memory.address(), vec![memory])
        }
        Content::Vector(parts) => {
            let pieces: Vec<_> = parts.iter().map(|p| Guarded::new(p)).collect();
            let vector: Vec<u8> =
                pieces.iter().flat_map(|p| [p.address(), p.len() as u64]).flat_map(u64::to_le_bytes).collect();
            (Guarded::new(&vector).address(), pieces)
        }
        Content::Strings(texts) => {
            let pieces: Vec<_> = texts.iter().map(|p| Guarded::new(p)).collect();
            let array: Vec<u8> = pieces.iter().map(|p| p.address()).chain([0]).flat_map(u64::to_le_bytes).collect();
            (Guarded::new(&array).address(), pieces)
        }
    }
}

/// The descriptors of this process, as `/proc` lists them.
pub fn descriptors() -> BTreeSet<i64> {
    let names = std::fs::read_dir("/proc/self/fd").expect("/proc/self/fd");
    let numbers = names.filter_map(|n| n.ok()?.file_name().to_str()?.parse().ok());
    let mut numbers: BTreeSet<i64> = numbers.collect();
    // Without the one that listed them.
    numbers.retain(|fd| std::fs::symlink_metadata(format!("/proc/self/fd/{fd}")).is_ok());
    numbers
}

impl Done {
    /// The error number, or 0.
    pub fn errno(&self) -> i32 {
        if (-4095..0).contains(&self.result) { -self.result as i32 } else { 0 }
    }

    /// The result of a success, after checking it to be what the row says.
    pub fn ok(&self) -> i64 {
        let name = self.row.name;
        if self.errno() == libc::ENOSYS && (self.row.number >= 424 || name == "quotactl") {
            eprintln!("{}the kernel has no {name}", report::SKIP);
            std::process::exit(report::SKIP_STATUS);
        }
        let error = std::io::Error::from_raw_os_error(self.errno());
        assert!(self.errno() == 0, "{name}: {error}");
        self.returned_as_said();
        self.result
    }

    /// The result; skips the case if the call failed with one of these, as it may on a machine that forbids it.
    pub fn ok_or_skip(&self, errors: &[i32]) -> i64 {
        if errors.contains(&self.errno()) {
            let error = std::io::Error::from_raw_os_error(self.errno());
            eprintln!("{}{}: {error}", report::SKIP, self.row.name);
            std::process::exit(report::SKIP_STATUS);
        }
        self.ok()
    }

    /// Checks that the call failed so.
    pub fn fails(&self, errno: i32) {
        let wanted = std::io::Error::from_raw_os_error(errno);
        assert_eq!(self.errno(), errno, "{}: {wanted} was expected", self.row.name);
    }

    fn returned_as_said(&self) {
        let (name, result) = (self.row.name, self.result);
        match self.row.returns {
            Returns::Zero => assert_eq!(result, 0, "{name} returns 0"),
            Returns::Fd => {
                let Some(before) = &self.before else { return };
                let chosen =
                    self.row.args.iter().zip(self.args).any(|(a, v)| Is::NewFd.agrees(a.kind) && v == result as u64);
                assert!(chosen || !before.contains(&result), "{name}: {result} is not new");
                assert!(descriptors().contains(&result), "{name}: no descriptor {result}");
            }
            Returns::Count => {
                let room: usize = self.memory.iter().flatten().map(|m| m.len()).sum();
                assert!(result >= 0, "{name}");
                let moves = self.row.position(|k| {
                    use ArgKind::*;
                    matches!(k, InData(_) | OutData(_) | InVector(_) | OutVector(_))
                });
                assert!(moves.is_none() || result as usize <= room, "{name}: {result}");
            }
            Returns::Address => {
                assert_eq!(result & 0xfff, 0, "{name}: {result:#x} is no page");
            }
            Returns::Process => {
                assert!((0..=4_194_304).contains(&result), "{name}: {result} is no process");
            }
            Returns::Offset | Returns::Value => {}
            Returns::Never => panic!("{name} returned"),
        }
        for (i, arg) in self.row.args.iter().enumerate() {
            let (ArgKind::Out(_), Some(memory)) = (arg.kind, self.memory[i].first()) else {
                continue;
            };
            let last = memory.bytes().pop();
            assert_ne!(last, Some(CANARY), "{name}.{}: not filled to its end", arg.name);
        }
    }

    /// What the memory of an argument holds now.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let at = self.row.args.iter().position(|a| a.name == name);
        let memory = &self.memory[at.unwrap_or_else(|| panic!("no argument {name}"))];
        memory.iter().flat_map(|m| m.bytes()).collect()
    }

    /// The content that came into an argument, as long as the result says.
    pub fn content(&self, name: &str) -> Vec<u8> {
        let mut bytes = self.bytes(name);
        bytes.truncate(self.result.max(0) as usize);
        bytes
    }

    /// A little-endian number of `length` bytes in an argument's memory.
    pub fn number(&self, name: &str, at: usize, length: usize) -> u64 {
        number(&self.bytes(name), at, length)
    }

    /// The argument's value in its register.
    pub fn arg(&self, name: &str) -> u64 {
        let at = self.row.args.iter().position(|a| a.name == name);
        self.args[at.unwrap_or_else(|| panic!("no argument {name}"))]
    }
}

/// A little-endian number of `length` bytes at `at`.
pub fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let mut eight = [0; 8];
    eight[..length].copy_from_slice(&bytes[at..at + length]);
    u64::from_le_bytes(eight)
}
