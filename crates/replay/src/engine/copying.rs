//! Reads and writes that stand for the half of a `sendfile` or `splice` whose other half is simulated.

use reprise_plan::command::{Arg, Command};

use super::failure::Stop;
use super::issue;
use super::thread::{Done, Worker};

/// Bytes per read.
const PIECE: usize = 1 << 20;

fn offset(command: &Command) -> Option<u64> {
    match command.args.get(3) {
        Some(Arg::Value(u64::MAX)) | None => None,
        Some(Arg::Value(offset)) => Some(*offset),
        Some(_) => None,
    }
}

impl Worker {
    pub(super) fn read_away(&mut self, command: &Command) -> Result<Done, Stop> {
        let from = self.descriptor(command, 0)?;
        let wanted = command.result.max(0);
        self.reserve(PIECE)?;
        let (mut moved, offset) = (0, offset(command));
        let result = loop {
            let length = (wanted - moved).min(PIECE as i64) as usize;
            if length == 0 {
                break moved;
            }
            let at = offset.map(|o| o.wrapping_add(moved as u64));
            match issue::read(from, self.scratch.bytes_mut(0, length), at) {
                0 => break moved,
                n if n < 0 => break if moved > 0 { moved } else { n },
                n => moved += n,
            }
            if self.engine.counters.stopping() {
                return Err(Stop::Told);
            }
        };
        // A traced failure is nothing that reading could repeat.
        let result = if command.result < 0 { command.result } else { result };
        self.judged(command, result, Default::default())
    }

    pub(super) fn write_from(&mut self, command: &Command) -> Result<Done, Stop> {
        let to = self.descriptor(command, 0)?;
        let content = self.engine.sections.content(command.args.get(1))?;
        let offset = offset(command);
        let mut moved = 0;
        let result = loop {
            if moved == content.len() {
                break moved as i64;
            }
            let at = offset.map(|o| o.wrapping_add(moved as u64));
            match issue::write(to, &content[moved..], at) {
                0 => break moved as i64,
                n if n < 0 => break if moved > 0 { moved as i64 } else { n },
                n => moved += n as usize,
            }
            if self.engine.counters.stopping() {
                return Err(Stop::Told);
            }
        };
        self.judged(command, result, Default::default())
    }
}
