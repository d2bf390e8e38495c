//! When a command was issued and completed, and what it waited for before.
//!
//! Most commands wait for nothing: what there is to say of waits follows the fixed part of a record only where there is
//! something, as flags in it tell.

use reprise_plan::Rule;

use super::reader::Clock;

/// Flag: what the call returned in memory was compared.
pub(super) const COMPARED: u8 = 1;
/// Flag: a word about dependencies follows.
const BLOCKED: u8 = 2;
/// Flag: two words about the pace follow.
const PACED: u8 = 4;

/// Above the time in the word about dependencies stands the rule.
const RULE_SHIFT: u32 = 56;
const MOST_BLOCKED_NS: u64 = (1 << RULE_SHIFT) - 1;

/// The times of a command, in ticks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub begin: u64,
    pub end: u64,
    pub blocked: Option<Blocked>,
    pub paced: Option<Paced>,
}

/// How long a command was blocked for its dependencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocked {
    /// For all together, in nanoseconds.
    pub ns: u64,
    /// The rule of the one that it was blocked for longest.
    pub rule: Rule,
}

/// How a command was paced, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paced {
    /// When its dependencies were met.
    pub from: u64,
    /// When it was due.
    pub due: u64,
}

/// How a command was paced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacing {
    /// How long it waited, in nanoseconds.
    pub waited_ns: u64,
    /// Instant of issue minus the instant it was due, in nanoseconds.
    pub error_ns: i64,
}

impl Times {
    pub(super) fn mark(&self, flags: &mut u8) {
        *flags |= if self.blocked.is_some() { BLOCKED } else { 0 } | if self.paced.is_some() { PACED } else { 0 };
    }

    pub(super) fn store(&self, buffer: &mut Vec<u8>) {
        let blocked = self.blocked.map(|b| b.ns.min(MOST_BLOCKED_NS) | (b.rule as u64) << RULE_SHIFT);
        let paced = self.paced.map(|p| [p.from, p.due]);
        for word in blocked.into_iter().chain(paced.into_iter().flatten()) {
            buffer.extend_from_slice(&word.to_le_bytes());
        }
    }
}

/// What the flags say follows, read from the begin of `bytes`, which moves on.
pub(super) fn load(
    flags: u8,
    begin: u64,
    clock: &Clock,
    bytes: &mut &[u8],
) -> Option<(Option<Blocked>, Option<Pacing>)> {
    let mut word = || {
        let (head, tail) = bytes.split_first_chunk::<8>()?;
        *bytes = tail;
        Some(u64::from_le_bytes(*head))
    };
    let blocked = match flags & BLOCKED {
        0 => None,
        _ => {
            let word = word()?;
            let rule = Rule::from_number((word >> RULE_SHIFT) as u8)?;
            Some(Blocked { ns: word & MOST_BLOCKED_NS, rule })
        }
    };
    let paced = if flags & PACED != 0 { Some(Paced { from: word()?, due: word()? }) } else { None };
    let length = |from: u64, to: u64| clock.length_ns(to.saturating_sub(from));
    let pacing = paced.map(|p| Pacing {
        waited_ns: length(p.from, begin),
        error_ns: if begin >= p.due { signed(length(p.due, begin)) } else { -signed(length(begin, p.due)) },
    });
    Some((blocked, pacing))
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}
