//! What the commands of a plan wait for.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::FileExt;
use std::path::Path;

use reprise_plan::Plan;
use reprise_plan::command::{Command, CommandReader, Wait};

/// The n-th command of a thread.
type Point = (u32, u64);

/// What every command of a plan waits for.
pub struct Waits {
    of: HashMap<Point, Vec<Wait>>,
    /// Where each action of the trace stands.
    points: HashMap<u64, Point>,
}

impl Waits {
    /// Of all commands.
    pub fn read(plan: &Path) -> Waits {
        let plan = Plan::open(plan).expect("a plan");
        let section = plan.contents.command_section;
        let mut bytes = vec![0; section.length as usize];
        plan.file.read_exact_at(&mut bytes, section.offset).expect("the commands");
        let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let mut out = Waits { of: HashMap::new(), points: HashMap::new() };
        for (thread, about) in (0..).zip(&plan.contents.threads) {
            let mut count = 0;
            for chunk in &about.chunks {
                let mut rest = &words[chunk.first as usize..(chunk.first + chunk.words) as usize];
                let mut reader = CommandReader::default();
                while !rest.is_empty() {
                    let mut command = Command::default();
                    let used = reader.command(rest, &mut command).expect("a command");
                    rest = &rest[used..];
                    count += 1;
                    out.points.insert(command.origin, (thread, count));
                    out.of.insert((thread, count), command.waits);
                }
            }
        }
        out
    }

    /// Whether the action `later` can be performed only when `earlier` is complete.
    pub fn in_order(&self, earlier: u64, later: u64) -> bool {
        let (wanted, mut pending) = (self.points[&earlier], vec![self.points[&later]]);
        let mut seen = HashSet::new();
        while let Some(point) = pending.pop() {
            if point.0 == wanted.0 && point.1 >= wanted.1 && point != self.points[&later] {
                return true;
            }
            if !seen.insert(point) {
                continue;
            }
            let (thread, count) = point;
            pending.extend((count > 1).then_some((thread, count - 1)));
            pending.extend(self.of.get(&point).into_iter().flatten().map(|w| (w.thread, w.count)));
        }
        false
    }
}
