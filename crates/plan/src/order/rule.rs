//! The names of the rules.

use std::fmt;

/// Why one action waits for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Rule {
    /// Actions of one thread follow each other.
    Thread = 0,
    /// A thread runs after the action that started it.
    Spawn,
    /// A file is used after it was made, and removed after it was used.
    FileStage,
    /// Actions on one file keep their order.
    FileSequential,
    /// Bytes, size or attributes of a file are met as they were left.
    FileRange,
    /// What stands under a name is used after it was put there, and removed after it was used.
    PathStage,
    /// What stands under a name comes after what stood under it before.
    PathName,
    /// A descriptor is used after it was opened, and closed after it was used.
    FdStage,
    /// Actions on one descriptor keep their order.
    FdSequential,
    /// Actions that move an offset, or change flags of an open file, and those that depend on these keep their order.
    FdOffset,
    /// An asynchronous request is submitted before it is asked for.
    AioStage,
    /// Processes, and the mappings, directories and masks that threads share.
    Process,
    /// What was received had been sent.
    Handoff,
    /// Locks are taken after they were let go.
    Lock,
    /// A thread that waited for the end of threads it started goes on after it.
    Join,
    /// What had completed when an action began, has.
    Temporal,
    /// One action at a time.
    Single,
}

impl Rule {
    /// All of them, by number.
    pub const ALL: [Rule; 17] = [
        Rule::Thread,
        Rule::Spawn,
        Rule::FileStage,
        Rule::FileSequential,
        Rule::FileRange,
        Rule::PathStage,
        Rule::PathName,
        Rule::FdStage,
        Rule::FdSequential,
        Rule::FdOffset,
        Rule::AioStage,
        Rule::Process,
        Rule::Handoff,
        Rule::Lock,
        Rule::Join,
        Rule::Temporal,
        Rule::Single,
    ];

    /// The rule with this number.
    pub fn from_number(number: u8) -> Option<Rule> {
        Rule::ALL.get(usize::from(number)).copied()
    }

    /// Its name in results and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Rule::Thread => "thread",
            Rule::Spawn => "spawn",
            Rule::FileStage => "file_stage",
            Rule::FileSequential => "file_seq",
            Rule::FileRange => "file_range",
            Rule::PathStage => "path_stage",
            Rule::PathName => "path_name",
            Rule::FdStage => "fd_stage",
            Rule::FdSequential => "fd_seq",
            Rule::FdOffset => "fd_offset",
            Rule::AioStage => "aio_stage",
            Rule::Process => "process",
            Rule::Handoff => "handoff",
            Rule::Lock => "lock",
            Rule::Join => "join",
            Rule::Temporal => "temporal",
            Rule::Single => "single",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_rules_are_one_to_one() {
        for (number, rule) in Rule::ALL.into_iter().enumerate() {
            assert_eq!(rule as usize, number);
            assert_eq!(Rule::from_number(number as u8), Some(rule));
        }
    }
}
