//! Where a trace is cut into a chain of traces each of which replays by itself.
//!
//! Goals: pieces of a length that is asked for, each whole number of actions, together all of them; one pass. Non-goals: the
//! pieces themselves, which are slices.

use std::fmt;
use std::str::FromStr;

use reprise_trace::{Action, TraceReader};

use crate::error::SliceError;
use crate::moment::Moment;

/// What a row of an action takes, roughly, beside its content.
const ROW_BYTES: u64 = 32;

/// How long a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// Calls that move so much content, with 32 bytes for each call: what a piece takes on disk at most, beside its initial
    /// tree.
    Bytes(u64),
    /// Calls that were over within so many nanoseconds.
    Time(u64),
}

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Length, String> {
        let wrong = || {
            format!("'{text}' is no length of a piece; write a size (64K, 512M, 2G) or a time (500ms, 30s, 10min, 1h)")
        };
        if let Ok(Moment::After(ns)) = text.parse() {
            return if ns > 0 { Ok(Length::Time(ns)) } else { Err(wrong()) };
        }
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match text[digits.len()..].to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
            "k" => 10,
            "m" => 20,
            "g" => 30,
            "t" => 40,
            _ => return Err(wrong()),
        };
        let bytes = digits.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0).ok_or_else(wrong)?;
        Ok(Length::Bytes(((bytes * (1u64 << shift) as f64) as u64).max(1)))
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Length::Bytes(bytes) => write!(f, "{bytes} bytes"),
            Length::Time(ns) => write!(f, "{} s", *ns as f64 / 1e9),
        }
    }
}

/// The pieces of a trace: the first action of each, and that of the next.
///
/// # Errors
/// The trace cannot be read.
pub fn pieces(trace: &TraceReader, length: Length) -> Result<Vec<(u64, u64)>, SliceError> {
    let mut cutter = Cutter { length, from: 0, taken: 0, number: 0 };
    let (mut out, mut next) = (Vec::new(), 0);
    for action in trace.actions() {
        let action = action?;
        if cutter.begins_anew(&action) {
            out.push((cutter.from, action.seq));
            cutter.from = action.seq;
        }
        next = action.seq + 1;
    }
    if next > cutter.from {
        out.push((cutter.from, next));
    }
    Ok(out)
}

struct Cutter {
    length: Length,
    /// First action of the present piece.
    from: u64,
    /// Bytes of the present piece.
    taken: u64,
    /// Number of the present span of time.
    number: u64,
}

impl Cutter {
    /// Whether a piece is full before this action.
    fn begins_anew(&mut self, action: &Action) -> bool {
        let is_full = match self.length {
            Length::Bytes(most) => {
                let bytes = action.data_bytes.saturating_add(ROW_BYTES);
                let is_full = self.taken.saturating_add(bytes) > most;
                self.taken = if is_full { bytes } else { self.taken + bytes };
                is_full
            }
            Length::Time(span) => {
                let number = action.end_ns() / span;
                let is_full = number > self.number;
                self.number = self.number.max(number);
                is_full
            }
        };
        is_full && action.seq > self.from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        for (text, length) in [
            ("64K", Length::Bytes(64 << 10)),
            ("1.5GiB", Length::Bytes(3 << 29)),
            ("500ms", Length::Time(500_000_000)),
            ("10min", Length::Time(600_000_000_000)),
            ("10M", Length::Bytes(10 << 20)),
        ] {
            assert_eq!(text.parse(), Ok(length), "{text}");
        }
        for text in ["", "0s", "10", "0M", "-1M", "soon", "begin", "50%", "nanG"] {
            assert!(text.parse::<Length>().is_err(), "{text}");
        }
    }

    fn cuts(length: Length, actions: &[(u64, u64)]) -> Vec<u64> {
        let mut cutter = Cutter { length, from: 0, taken: 0, number: 0 };
        let mut out = Vec::new();
        for (seq, (bytes, end)) in actions.iter().enumerate() {
            let action = Action { seq: seq as u64, data_bytes: *bytes, duration_ns: *end, ..Action::default() };
            if cutter.begins_anew(&action) {
                cutter.from = action.seq;
                out.push(action.seq);
            }
        }
        out
    }

    #[test]
    fn pieces_are_full_but_not_more() {
        let calls = [(68, 1), (68, 2), (68, 12), (500, 11), (0, 31), (0, 32)];
        assert_eq!(cuts(Length::Bytes(200), &calls), [2, 3, 4]);
        // What is over late, and stands earlier, opens no piece; empty spans make none.
        assert_eq!(cuts(Length::Time(10), &calls), [2, 4]);
        assert_eq!(cuts(Length::Bytes(1), &calls), [1, 2, 3, 4, 5], "a piece has an action at least");
    }
}
