//! What a recorded case says it did, one JSON line per call, for comparing with the trace.

use std::collections::BTreeMap;
use std::io::Write;

use reprise_calls::{ArgKind, Call};
use serde::{Deserialize, Serialize};

use crate::raw::Guarded;

/// How the line on standard error begins that says why a case cannot be run.
pub const SKIP: &str = "SKIP ";

/// Exit status of a case that cannot be run.
pub const SKIP_STATUS: i32 = 77;

/// A call that a case issued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issued {
    /// Its name.
    pub call: String,
    /// Process that issued it.
    pub pid: u32,
    /// Its arguments.
    pub args: [u64; 6],
    /// Its result; none if it does not return.
    pub result: Option<i64>,
    /// Its paths.
    pub paths: Vec<Vec<u8>>,
    /// Memory of other arguments as it was before the call, by their index.
    pub before: BTreeMap<usize, Vec<Vec<u8>>>,
    /// The same after the call.
    pub after: BTreeMap<usize, Vec<Vec<u8>>>,
}

impl Issued {
    pub(super) fn before(call: &Call, args: &[u64; 6], memory: &[Vec<Guarded>; 6]) -> Issued {
        let (mut paths, mut before) = (Vec::new(), BTreeMap::new());
        for (i, arg) in call.args.iter().enumerate() {
            let mut pieces = contents(&memory[i]);
            match arg.kind {
                ArgKind::Path(_) => paths.extend(pieces.pop().map(|mut text| {
                    text.pop();
                    text
                })),
                _ if pieces.is_empty() => {}
                _ => {
                    before.insert(i, pieces);
                }
            }
        }
        Issued {
            call: call.name.to_owned(),
            pid: std::process::id(),
            args: *args,
            result: None,
            paths,
            before,
            after: BTreeMap::new(),
        }
    }

    pub(super) fn after(mut self, result: i64, memory: &[Vec<Guarded>; 6]) -> Issued {
        self.result = Some(result);
        for (i, pieces) in memory.iter().enumerate() {
            if self.before.contains_key(&i) {
                self.after.insert(i, contents(pieces));
            }
        }
        self
    }
}

fn contents(memory: &[Guarded]) -> Vec<Vec<u8>> {
    memory.iter().map(|m| m.bytes()).collect()
}

/// Prints it with one write, so that lines of several processes do not mix.
pub(super) fn print(issued: &Issued) {
    let mut line = serde_json::to_vec(issued).expect("plain data");
    line.push(b'\n');
    let _ = std::io::stderr().flush();
    crate::raw::sys(libc::SYS_write, &[1, line.as_ptr() as u64, line.len() as u64]);
}

/// The lines of a case's output; lines of other origin are left out.
pub fn parse(output: &[u8]) -> Vec<Issued> {
    output.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
}
