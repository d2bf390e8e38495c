//! What a log does not say, and what a replay therefore cannot verify.

use reprise_calls::{Call, Check};

use super::clock::Timing;
use super::decode::Lacks;
use reprise_initial::{Origin, World};

/// Counted on the way.
#[derive(Debug, Default)]
pub struct Facts {
    /// The first program's arguments.
    pub command: Vec<String>,
    /// Calls that touch nothing that is replayed.
    pub unrelated: u64,
    /// Bytes of content moved.
    pub moved: u64,
    /// Whether response times are printed.
    pub timed: bool,
    /// Calls interrupted by signals, of which the program saw no result here.
    pub interrupted: u64,
    /// Results that strace made up.
    pub injected: u64,
    /// Lines that output stood before.
    pub spliced: u64,
    /// Threads that nothing in the log made, beside the first.
    pub unborn: u64,
    symbols: u64,
    structures: u64,
    listings: u64,
    reads: u64,
    writes: u64,
}

impl Facts {
    /// Takes in what a call's text lacks.
    pub fn lacks(&mut self, call: &Call, lacks: Lacks, result: i64) {
        self.symbols += u64::from(lacks.symbol);
        self.structures += u64::from(lacks.structure);
        self.listings += u64::from(lacks.listing);
        let content = u64::from(lacks.content && result > 0);
        if call.check == Check::Content { self.reads += content } else { self.writes += content }
    }

    /// One sentence for each thing that is missing.
    pub fn statements(&self, world: &World, timing: Timing, first: Origin) -> Vec<String> {
        let mut out = Vec::new();
        let mut say = |count: u64, text: &str| {
            if count > 0 {
                out.push(text.replace("{}", &count.to_string()));
            }
        };
        let no = |known: bool| u64::from(!known);
        say(
            no(timing != Timing::None),
            "no time stamps (strace -ttt): think time and overlap are those of the lines' order",
        );
        say(no(self.timed), "no response times (strace -T): they cannot be compared");
        say(self.reads, "{} reads whose content is shortened (strace -s): a replay compares only their length");
        say(self.writes, "{} writes whose content is shortened (strace -s): a replay makes their content up");
        say(self.structures, "{} calls with shortened attributes (strace -v): a replay compares only success");
        say(
            self.listings,
            "{} listings without their entries (strace -v): a replay does not compare them, and names that nothing else shows are not in the initial tree",
        );
        say(self.symbols, "{} calls with constants whose numbers are not known: they count as 0");
        say(
            self.interrupted,
            "{} calls interrupted by a signal: what the program saw is not in the log, they are left out",
        );
        say(self.injected, "{} results made up by strace (-e inject)");
        say(self.spliced, "{} lines began with output of the program, which was cut off");
        say(self.unborn, "{} threads were there before the log began; which process they belong to is inferred");
        say(no(first.umask.is_some()), "the umask is not known: 022 is assumed");
        say(no(first.uids.is_some()), "the user is not known: root is assumed");
        say(
            u64::from(first.cwd_guessed),
            "the working directory is not known: /assumed/working/directory stands for it",
        );
        say(
            u64::from(world.has_unknown_descriptors()),
            "what descriptors from before the log are is not known (strace -y): their traffic is taken from the log",
        );
        say(1, "contents, owners and times that no call shows are made up");
        out
    }
}
