//! When a command was issued and completed, and what it waited for before.
//!
//! Most commands wait for nothing: what there is to say of waits follows the fixed part of a record only where there is
//! something, as flags in it tell.

use reprise_plan::Rule;

use super::reader::Clock;
pub use reprise_measure::Punctuality;

/// Flag: what the call returned in memory was compared.
pub(super) const COMPARED: u8 = 1;
/// Flag: a word about dependencies follows.
pub(super) const BLOCKED: u8 = 2;
/// Flag: two words about the pace follow.
pub(super) const PACED: u8 = 4;
/// Flag: its wait for the pace was disturbed.
pub(super) const DISTURBED: u8 = 8;

/// Above the time in the word about dependencies stands the rule.
const RULE_SHIFT: u32 = 56;
const MOST_BLOCKED: u64 = (1 << RULE_SHIFT) - 1;

/// The times of a command, in ticks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub begin: u64,
    pub end: u64,
    pub blocked: Option<Waited>,
    pub paced: Option<Paced>,
}

/// A wait for dependencies that goes on, in ticks. The clock is not read when it ends: the next thing to be done is the call, and
/// when that begins is noted anyway.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    first: u64,
    /// When the present one of several began, and for which rule it is.
    latest: u64,
    rule: Rule,
    /// The longest before it.
    longest: (u64, Rule),
}

/// How long a command was blocked for its dependencies, in ticks, and for which rule longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waited {
    pub ticks: u64,
    pub rule: Rule,
}

impl Waiting {
    /// A dependency of this rule is not met at this instant.
    pub(crate) fn go_on(before: Option<Waiting>, now: u64, rule: Rule) -> Waiting {
        match before {
            None => Waiting { first: now, latest: now, rule, longest: (0, rule) },
            Some(before) => Waiting { latest: now, rule, longest: before.longest_until(now), ..before },
        }
    }

    fn longest_until(self, now: u64) -> (u64, Rule) {
        let present = now.saturating_sub(self.latest);
        if present >= self.longest.0 { (present, self.rule) } else { self.longest }
    }

    /// All are met; the command begins then, or waits for its pace before.
    fn until(self, begin: u64, paced: Option<Paced>) -> Waited {
        let end = paced.map_or(begin, |paced| paced.from);
        Waited { ticks: end.saturating_sub(self.first).max(1), rule: self.longest_until(end).1 }
    }
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
    /// When it was let go.
    pub at: u64,
    /// The thread could not run when it should have.
    pub disturbed: bool,
}

/// How a command was paced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacing {
    /// How long it waited, in nanoseconds.
    pub waited_ns: u64,
    /// Instant of issue minus the instant it was due, in nanoseconds.
    pub error_ns: i64,
    /// Why it may be late.
    pub punctuality: Punctuality,
}

impl Times {
    /// Of a command that waited, if it did, and then was paced, if it was.
    pub(crate) fn of(begin: u64, end: u64, waiting: Option<Waiting>, paced: Option<Paced>) -> Times {
        Times { begin, end, blocked: waiting.map(|waiting| waiting.until(begin, paced)), paced }
    }

    /// Of what it waited for, as flags.
    #[inline]
    pub(crate) fn waits(&self) -> u8 {
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        flag(self.blocked.is_some(), BLOCKED)
            | flag(self.paced.is_some(), PACED)
            | flag(self.paced.is_some_and(|p| p.disturbed), DISTURBED)
    }

    pub(super) fn store(&self, buffer: &mut Vec<u8>) {
        let blocked = self.blocked.map(|b| b.ticks.min(MOST_BLOCKED) | (b.rule as u64) << RULE_SHIFT);
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
            Some(Blocked { ns: clock.length_ns(word & MOST_BLOCKED), rule })
        }
    };
    let length = |from: u64, to: u64| clock.length_ns(to.saturating_sub(from));
    let pacing = match flags & PACED {
        0 => None,
        _ => {
            let (from, due) = (word()?, word()?);
            Some(Pacing {
                waited_ns: length(from, begin),
                error_ns: if begin >= due { signed(length(due, begin)) } else { -signed(length(begin, due)) },
                punctuality: match (flags & DISTURBED, from > due) {
                    (0, false) => Punctuality::OnTime,
                    (0, true) => Punctuality::Behind,
                    _ => Punctuality::Disturbed,
                },
            })
        }
    };
    Some((blocked, pacing))
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}
