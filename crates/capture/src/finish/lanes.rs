//! Lanes: threads of the trace that perform requests.
//!
//! Goals: a lane has its row when its first action is written, since its submitter has its own by then. Non-goals: which
//! request is performed by which lane (`requests`).

use reprise_calls::sharing::SHARE_BOTH;
use reprise_initial::World;
use reprise_trace::ThreadRow;

use super::lives::{Life, Lives};
use crate::log::Log;

/// A lane that was not there before.
#[derive(Debug, Clone)]
pub struct NewLane {
    /// The thread that submits to it.
    pub submitter: i32,
    /// Its process.
    pub pid: i32,
    /// Its name.
    pub name: String,
    /// When it is needed first.
    pub begin_ns: u64,
}

/// What a lane has in the place of a thread's number: no thread has one below 0.
pub fn tid(lane: u32) -> i32 {
    -1 - lane as i32
}

#[derive(Debug)]
enum Lane {
    New(NewLane),
    Lives(Life),
    Gone,
}

/// All lanes, by number.
#[derive(Debug, Default)]
pub struct Lanes(Vec<Lane>);

impl Lanes {
    /// A lane that was not there before.
    pub fn add(&mut self, lane: NewLane) {
        self.0.push(Lane::New(lane));
    }

    /// A lane by what it has in the place of a thread's number; it gets its row if it has none.
    pub fn get(&mut self, tid: i32, lives: &mut Lives, world: &mut World, log: &mut Log) -> Option<Life> {
        let lane = self.0.get_mut(usize::try_from(-1 - i64::from(tid)).ok()?)?;
        let new = match lane {
            Lane::Lives(life) => return Some(*life),
            Lane::Gone => return None,
            Lane::New(new) => new,
        };
        let submitter = lives.get(new.submitter).or_else(|| lives.get(new.pid))?;
        let seat = world.fork(submitter.seat, SHARE_BOTH);
        let row = ThreadRow {
            tid: new.submitter,
            parent: Some(submitter.thread),
            shares_descriptors: 1,
            shares_directories: 1,
            begin_ns: new.begin_ns,
            name: std::mem::take(&mut new.name).into_bytes().into(),
            lane_of: Some(submitter.thread),
            ..ThreadRow::default()
        };
        let life = lives.lane(&submitter, row, seat, log);
        *lane = Lane::Lives(life);
        Some(life)
    }

    /// A process has ended.
    pub fn end(&mut self, pid: i32, world: &mut World) {
        for lane in &mut self.0 {
            match lane {
                Lane::Lives(life) if life.pid == pid => drop(world.end(life.seat)),
                Lane::New(new) if new.pid == pid => {}
                Lane::New(_) | Lane::Lives(_) | Lane::Gone => continue,
            }
            *lane = Lane::Gone;
        }
    }
}
