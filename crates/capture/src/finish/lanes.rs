//! Lanes: threads of the trace that perform requests.
//!
//! Goals: a lane has its row when its first action is written, or when its submitter ends, since that has its own by then. Non-goals:
//! which request is performed by which lane (`requests`).

use foldhash::HashMap;
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

/// Which lane has that; threads are none.
fn place(tid: i32) -> Option<usize> {
    usize::try_from(-1 - i64::from(tid)).ok()
}

#[derive(Debug)]
enum Lane {
    New(NewLane),
    Lives(Life),
    Gone,
}

/// All lanes, by number.
#[derive(Debug, Default)]
pub struct Lanes {
    lanes: Vec<Lane>,
    /// By the thread that submits to them, those that had no rows when they came.
    of_submitter: HashMap<i32, Vec<usize>>,
}

impl Lanes {
    /// A lane that was not there before.
    pub fn add(&mut self, lane: NewLane) {
        self.of_submitter.entry(lane.submitter).or_default().push(self.lanes.len());
        self.lanes.push(Lane::New(lane));
    }

    /// The process of a lane that is not gone, by what it has in the place of a thread's number.
    pub fn process(&self, tid: i32) -> Option<i32> {
        match self.lanes.get(place(tid)?)? {
            Lane::New(new) => Some(new.pid),
            Lane::Lives(life) => Some(life.pid),
            Lane::Gone => None,
        }
    }

    /// A lane by what it has in the place of a thread's number; it gets its row if it has none.
    pub fn get(&mut self, tid: i32, lives: &mut Lives, world: &mut World, log: &mut Log) -> Option<Life> {
        let number = place(tid)?;
        let new = match self.lanes.get(number)? {
            Lane::Lives(life) => return Some(*life),
            Lane::Gone => return None,
            Lane::New(new) => new,
        };
        let submitter = lives.get(new.submitter).or_else(|| lives.get(new.pid))?;
        Some(self.begin(number, &submitter, lives, world, log))
    }

    /// A thread ends, at an instant: what it has submitted may be under way still.
    pub fn submitter_ends(&mut self, tid: i32, end_ns: u64, lives: &mut Lives, world: &mut World, log: &mut Log) {
        let Some(submitter) = lives.get(tid) else { return };
        let (mut its, lanes) = (self.of_submitter.remove(&tid).unwrap_or_default(), &self.lanes);
        its.retain(|number| matches!(lanes[*number], Lane::New(_)));
        // Of another thread later, by the same number.
        let is_its = |number: &usize| matches!(&lanes[*number], Lane::New(new) if new.begin_ns <= end_ns);
        let (its, others): (Vec<usize>, Vec<usize>) = its.into_iter().partition(is_its);
        for number in its {
            self.begin(number, &submitter, lives, world, log);
        }
        if !others.is_empty() {
            self.of_submitter.insert(tid, others);
        }
    }

    /// A lane gets its row.
    fn begin(&mut self, number: usize, submitter: &Life, lives: &mut Lives, world: &mut World, log: &mut Log) -> Life {
        let seat = world.fork(submitter.seat, SHARE_BOTH);
        let mut row = ThreadRow {
            parent: Some(submitter.thread),
            shares_descriptors: 1,
            shares_directories: 1,
            lane_of: Some(submitter.thread),
            ..ThreadRow::default()
        };
        if let Lane::New(new) = &self.lanes[number] {
            (row.tid, row.begin_ns, row.name) = (new.submitter, new.begin_ns, new.name.as_bytes().to_vec().into());
        }
        let life = lives.lane(submitter, row, seat, log);
        self.lanes[number] = Lane::Lives(life);
        life
    }

    /// A process has ended.
    pub fn end(&mut self, pid: i32, world: &mut World) {
        for lane in &mut self.lanes {
            match lane {
                Lane::Lives(life) if life.pid == pid => drop(world.end(life.seat)),
                Lane::New(new) if new.pid == pid => {}
                Lane::New(_) | Lane::Lives(_) | Lane::Gone => continue,
            }
            *lane = Lane::Gone;
        }
    }
}
