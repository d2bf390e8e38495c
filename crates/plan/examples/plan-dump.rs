//! `plan-dump PLAN`: the commands of a plan, a line each, with strings and contents in place of where they lie, so that two
//! plans that do the same print the same.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use reprise_plan::command::{Arg, Command, CommandReader, Expect};
use reprise_plan::{Plan, Section};

type Failure = Box<dyn std::error::Error>;

struct Dump {
    plan: Plan,
}

impl Dump {
    fn at(&self, section: Section, offset: u64, length: u64) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; length as usize];
        File::read_exact_at(&self.plan.file, &mut bytes, section.offset + offset)?;
        Ok(bytes)
    }

    fn bytes(&self, offset: u64, length: u64) -> Result<String, Failure> {
        Ok(self.at(self.plan.contents.byte_section, offset, length)?.escape_ascii().to_string())
    }

    fn content(&self, offset: u64, length: u64) -> Result<String, Failure> {
        let bytes = self.at(self.plan.contents.buffer_section, offset, length)?;
        Ok(format!("{length}:{}", &blake3::hash(&bytes).to_hex()[..16]))
    }

    fn lengths(&self, offset: u64) -> Result<String, Failure> {
        let count = self.at(self.plan.contents.byte_section, offset, 8)?;
        let count = u64::from_le_bytes(count.as_slice().try_into()?);
        self.bytes(offset, 8 + count * 8)
    }

    fn arg(&self, arg: Arg) -> Result<String, Failure> {
        Ok(match arg {
            Arg::Bytes(at, n) => format!("bytes({})", self.bytes(at, n)?),
            Arg::InOut(at, n) => format!("inout({})", self.bytes(at, n)?),
            Arg::Content(at, n) => format!("content({})", self.content(at, n)?),
            Arg::ContentVector(lengths, _) => format!("contents({})", self.lengths(lengths)?),
            Arg::OutVector(lengths) => format!("outs({})", self.lengths(lengths)?),
            other => format!("{other:?}"),
        })
    }

    fn expect(&self, expect: Expect) -> Result<String, Failure> {
        Ok(match expect {
            Expect::Content(at, n) => format!("content({})", self.content(at, n)?),
            Expect::Metadata(at, n) => format!("metadata({})", self.bytes(at, n)?),
            Expect::Names(at, n) => format!("names({})", self.bytes(at, n)?),
            Expect::Listing(number, at) => format!("listing({number}, {})", self.bytes(at, 40)?),
            Expect::Flock(at) => format!("flock({})", self.bytes(at, 32)?),
            other => format!("{other:?}"),
        })
    }

    fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let contents = &self.plan.contents;
        writeln!(out, "{:?} {} {}", contents.order, contents.slots, contents.mappings)?;
        for node in &contents.tree {
            let mut node = node.clone();
            for extent in std::mem::take(&mut node.extents) {
                write!(out, "{}+{} ", extent.offset, self.content(extent.buffer, extent.length)?)?;
            }
            writeln!(out, "{node:?}")?;
        }
        writeln!(out, "{:?}", contents.processes)?;
        for (number, thread) in contents.threads.iter().enumerate() {
            writeln!(out, "thread {number} of {} spawned {}", thread.process, thread.spawned)?;
            for chunk in &thread.chunks {
                let words = self.at(contents.command_section, chunk.first * 8, chunk.words * 8)?;
                let words: Vec<u64> = words.as_chunks::<8>().0.iter().map(|w| u64::from_le_bytes(*w)).collect();
                let mut rest = &words[..];
                let (mut reader, mut command) = (CommandReader::default(), Command::default());
                while !rest.is_empty() {
                    let used = reader.command(rest, &mut command).ok_or("a malformed command")?;
                    rest = &rest[used..];
                    self.command(out, &command)?;
                }
            }
        }
        Ok(())
    }

    fn command(&self, out: &mut impl Write, command: &Command) -> Result<(), Failure> {
        write!(out, "{} {} {:?} {:?}", command.origin, command.number, command.op, command.stand_in)?;
        write!(out, " {:?} ={} {:?}", command.tolerance, command.result, command.produces)?;
        for arg in &command.args {
            write!(out, " {}", self.arg(*arg)?)?;
        }
        writeln!(out, " {} {:?} waits {:?}", self.expect(command.expect)?, command.list, command.waits)?;
        Ok(())
    }
}

fn main() -> Result<(), Failure> {
    let path = std::env::args().nth(1).ok_or("usage: plan-dump PLAN")?;
    let plan = Plan::open(Path::new(&path))?;
    Dump { plan }.run(&mut BufWriter::new(std::io::stdout().lock()))
}
