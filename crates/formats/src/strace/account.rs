//! Every line is understood, or counted under a reason.

use std::collections::BTreeMap;
use std::fmt;

/// Why a line is not in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Not strace's: what the program printed, or somebody wrote.
    Foreign,
    /// Output of the program tore a call apart, and it could not be put together.
    Torn,
    /// A call that did not return before its thread, or the log, ended.
    NeverReturned,
    /// The end of a call whose beginning is not in the log.
    NeverBegan,
    /// The last line, cut off.
    CutOff,
    /// A row of the table of `-c`: no call.
    Summary,
    /// A call that the table does not know.
    UnknownCall,
    /// Arguments that cannot be read.
    Arguments,
    /// A result that cannot be read, or is not there.
    Result,
    /// Longer than a line can be.
    TooLong,
    /// A call of a thread that has ended, or of which the log says nothing that can be used.
    Thread,
}

/// All reasons.
pub const REASONS: [Reason; 11] = [
    Reason::Foreign,
    Reason::Torn,
    Reason::NeverReturned,
    Reason::NeverBegan,
    Reason::CutOff,
    Reason::Summary,
    Reason::UnknownCall,
    Reason::Arguments,
    Reason::Result,
    Reason::TooLong,
    Reason::Thread,
];

impl Reason {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Foreign => "text-not-of-strace",
            Reason::Torn => "call-torn-by-output",
            Reason::NeverReturned => "call-never-returned",
            Reason::NeverBegan => "call-never-began",
            Reason::CutOff => "line-cut-off",
            Reason::Summary => "table-of-counts",
            Reason::UnknownCall => "unknown-call",
            Reason::Arguments => "unreadable-arguments",
            Reason::Result => "unreadable-result",
            Reason::TooLong => "line-too-long",
            Reason::Thread => "thread-already-ended",
        }
    }

    /// What it means.
    pub const fn meaning(self) -> &'static str {
        match self {
            Reason::Foreign => "no line of strace: output of the program, or a remark",
            Reason::Torn => "output of the program tore the call apart",
            Reason::NeverReturned => "the call did not return before its thread, or the log, ended",
            Reason::NeverBegan => "the call began before the log did",
            Reason::CutOff => "the log ends within the line",
            Reason::Summary => "a row of strace's table of counts (-c)",
            Reason::UnknownCall => "a call that Reprise does not know",
            Reason::Arguments => "the arguments cannot be read",
            Reason::Result => "the result cannot be read, or is not known",
            Reason::TooLong => "the line is longer than 64 MiB",
            Reason::Thread => "its thread had ended before",
        }
    }

    /// Whether such a line may have held a call that is now missing.
    pub const fn loses_a_call(self) -> bool {
        !matches!(self, Reason::Foreign | Reason::Summary | Reason::NeverReturned)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a line stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Which log.
    pub log: u32,
    /// Which line, from 1.
    pub line: u64,
}

/// Lines shown for each reason.
const SHOWN: usize = 5;

/// Lines counted under one reason.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// How many.
    pub count: u64,
    /// The first of them.
    pub first: Vec<Place>,
}

/// The account of all lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Account {
    /// Lines read.
    pub lines: u64,
    /// Lines understood.
    pub understood: u64,
    /// The others, by reason.
    pub reasons: BTreeMap<Reason, Tally>,
}

impl Account {
    /// Counts a line that is not in the trace.
    pub fn count(&mut self, reason: Reason, place: Place) {
        let tally = self.reasons.entry(reason).or_default();
        tally.count += 1;
        if tally.first.len() < SHOWN {
            tally.first.push(place);
        }
    }

    /// Lines counted under any reason.
    pub fn counted(&self) -> u64 {
        self.reasons.values().map(|t| t.count).sum()
    }
}
