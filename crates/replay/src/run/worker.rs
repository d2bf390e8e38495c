//! The worker process: confined, then the engine; it never returns.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};

use reprise_plan::Contents;
use reprise_plan::tree::NodeKind;
use serde::{Deserialize, Serialize};

use super::meeting::Meeting;
use super::{Cost, Options};
use crate::cache::Start;
use crate::confine::{self, Confinement};
use crate::engine::memory::Shared;
use crate::engine::{
    Board, Commands, Engine, Failure, OWN_DESCRIPTORS, Outcome, Reserved, Sections, Settings, allowed_calls, issue,
    room_for_descriptors,
};
use crate::limit::MemoryGroup;
use crate::pace::Pace;
use crate::sys;

/// What a worker says to its parent, one line of JSON each.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message {
    /// It is confined: the report.
    Confined(String),
    /// It could not be confined, or limited: why, and what to do.
    Refused(String),
    /// The engine could not begin.
    Failed(Failure),
    /// Bytes that it had read from devices during the replay, and what it took.
    Used { device_bytes: u64, cost: Cost },
    /// The replay ended.
    Ended(Outcome),
}

/// What a worker works on.
pub(super) struct Work<'a> {
    pub plan: &'a Contents,
    pub sections: &'a Arc<Sections>,
    pub board: &'a Arc<Shared<Board>>,
    pub dir: &'a Path,
    pub options: &'a Options,
    pub log: &'a File,
    /// The plan's file, to be read directly where that is possible.
    pub plan_file: &'a File,
    pub to: std::io::PipeWriter,
    /// What limits its memory.
    pub memory: Option<&'a MemoryGroup>,
    /// Where others are waited for before the first action.
    pub meeting: Option<&'a Meeting>,
}

/// Set in the copy of this process that is a worker.
static IS_WORKER: AtomicBool = AtomicBool::new(false);

/// Lets workers be silent when they panic: that would be a defect, but its text must not go to a descriptor that the replayed
/// program has made its own. To be called before they are forked: the hook's lock may be held by another thread at that
/// moment, and in the worker nobody would give it back.
pub(super) fn silence_workers() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !IS_WORKER.load(Ordering::Relaxed) {
                before(info);
            }
        }));
    });
}

/// Does the work, says how it ended, and ends the process.
pub(super) fn work(work: Work<'_>) -> ! {
    issue::worker_signals();
    if work.options.pace != Pace::Afap {
        issue::exact_sleeps();
    }
    IS_WORKER.store(true, Ordering::Relaxed);
    let to = work.to.as_raw_fd();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&work)));
    let message = match outcome {
        Ok(Ok(message) | Err(message)) => message,
        Err(_) => {
            Message::Failed(Failure::Absurd { cause: "the engine cannot handle it (a defect of Reprise)".into() })
        }
    };
    work.meeting.iter().for_each(|meeting| meeting.leave());
    say(to, &message);
    sys::exit(0)
}

fn say(to: i32, message: &Message) {
    let mut text = serde_json::to_vec(message).unwrap_or_default();
    text.push(b'\n');
    // Parts of a long text may go one by one; if nobody listens there is nobody to tell.
    let mut rest = &text[..];
    while let Some(n) = usize::try_from(crate::engine::append(to, rest)).ok().filter(|n| *n > 0) {
        rest = rest.get(n..).unwrap_or_default();
        if rest.is_empty() {
            return;
        }
    }
}

/// How many directories have a Landlock rule of their own.
const MOST_NEAR: usize = 256;

/// Directories of the initial tree that the confinement may look up, those closest to the root first; none where not even their names
/// may be in a cache.
fn near<'a>(plan: &'a Contents, options: &Options) -> Vec<&'a [u8]> {
    if options.cache == Start::Cold {
        return Vec::new();
    }
    let directories = plan.tree.iter().filter(|node| node.kind == NodeKind::Directory);
    let mut near: Vec<&[u8]> = directories.map(|node| &node.path[..]).collect();
    near.sort_by_key(|path| path.iter().filter(|byte| **byte == b'/').count());
    near.truncate(MOST_NEAR);
    near
}

fn run(work: &Work<'_>) -> Result<Message, Message> {
    let Work { plan, sections, board, dir, options, log, plan_file, to, memory, meeting } = work;
    let refused = |e: confine::ConfineError| Message::Refused(e.to_string());
    let system = |doing: &'static str| {
        move |e: std::io::Error| {
            Message::Failed(Failure::system(doing, -i64::from(e.raw_os_error().unwrap_or(libc::EIO))))
        }
    };
    // What the confinement itself does must be over when this fails silently: the parent may be gone already.
    let _ = sys::die_with_parent();
    memory.map_or(Ok(()), |group| group.join().map_err(|e| Message::Refused(not_joined(group, &e))))?;
    let tsc = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        .is_ok_and(|name| name.trim() == "tsc");
    let limit = issue::worker_limits(room_for_descriptors(plan.slots.into()));
    confine::close_descriptors_except(&[log.as_raw_fd(), plan_file.as_raw_fd(), to.as_raw_fd()]).map_err(refused)?;
    let mut confinement = confine::enter(dir, options.confinement, &near(plan, options)).map_err(refused)?;
    let null = null(&confinement).map_err(system("stand in for /dev/null"))?.into_raw_fd();
    let reserved =
        reserve(limit, [log.as_raw_fd(), plan_file.as_raw_fd(), null]).map_err(system("keep descriptors"))?;
    let list_ns = match options.confinement.call_list {
        true => limit_calls(&mut confinement, &allowed_calls(options.executor)).map_err(refused)?,
        false => 0,
    };
    say(to.as_raw_fd(), &Message::Confined(confinement.to_string()));

    let has = |confinement: &Confinement, capability: u64| confinement.capabilities & (1 << capability) != 0;
    let settings = Settings {
        verify: options.verify,
        owners: !confinement.user_namespace && has(&confinement, 0),
        identities: !confinement.user_namespace && has(&confinement, 6) && has(&confinement, 7),
        tsc,
        pace: options.pace,
        executor: options.executor,
        commands: Commands::of(plan, options.mapped_bytes),
        traced_cache: options.traced_cache,
        pin: options.pin,
        no_access_times: options.no_access_times,
        patience: options.patience,
        lock_patience: options.lock_patience,
    };
    let engine =
        Engine::new(plan, Arc::clone(sections), Arc::clone(board), reserved, settings, options.schedule.as_ref())
            .map_err(Message::Failed)?;
    // Its threads are detached; it lives as long as this process, which ends here.
    let engine: &'static Engine = Box::leak(Box::new(engine));
    let said = std::cell::Cell::new(false);
    let before = sys::used();
    let outcome = engine.run(&|| others_are_waited_for(*meeting, &said));
    let after = sys::used();
    let cost = Cost::of(&before, &after, engine.carried(), list_ns);
    let device_bytes = after.device_bytes.saturating_sub(before.device_bytes).saturating_sub(cost.plan_bytes);
    say(to.as_raw_fd(), &Message::Used { device_bytes, cost });
    Ok(Message::Ended(outcome))
}

/// Limits the system calls to a list; what that adds to each, in nanoseconds.
fn limit_calls(confinement: &mut Confinement, list: &[u32]) -> Result<u64, confine::ConfineError> {
    let before = issue::least_call_ns();
    confinement.restrict_calls(list)?;
    Ok(issue::least_call_ns().saturating_sub(before))
}

fn not_joined(group: &MemoryGroup, cause: &std::io::Error) -> String {
    format!("{}: the worker cannot enter its control group: {cause}; replay again", group.dir().display())
}

/// Says, once, that this worker is ready; then whether another is not.
fn others_are_waited_for(meeting: Option<&Meeting>, said: &std::cell::Cell<bool>) -> bool {
    let Some(meeting) = meeting else { return false };
    if !said.replace(true) {
        meeting.arrive();
    }
    !meeting.is_over()
}

/// The confined `/dev/null`, whose attributes cannot be changed; without one a file in memory. The machine's own must
/// not be used: through its descriptor a trace could change its mode and owner.
fn null(confinement: &Confinement) -> std::io::Result<OwnedFd> {
    if confinement.devices.contains(&"null") {
        let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open("/dev/null")?;
        let about = sys::stat(opened.as_fd(), b"")?;
        if about.kind() == libc::S_IFCHR && confine::safe_device(about.rdev) == Some("null") {
            return Ok(opened.into());
        }
    }
    issue::memory_file(false)
}

/// Puts the engine's descriptors at the end of the table.
fn reserve(limit: u64, [log, plan, null]: [i32; 3]) -> std::io::Result<Reserved> {
    let first = i32::try_from(limit.saturating_sub(OWN_DESCRIPTORS)).unwrap_or(i32::MAX);
    let move_up = |fd: i32| -> std::io::Result<i32> {
        let moved = issue::fcntl_number(fd, libc::F_DUPFD_CLOEXEC, first as u64);
        issue::close(fd);
        match i32::try_from(moved) {
            Ok(number) if number >= 0 => Ok(number),
            _ => Err(std::io::Error::from_raw_os_error(moved.unsigned_abs() as i32)),
        }
    };
    let root = File::open("/")?.into_raw_fd();
    let [here, there] =
        issue::message_pair().map_err(|e| std::io::Error::from_raw_os_error(e.unsigned_abs() as i32))?;
    let post = [move_up(here)?, move_up(there)?];
    let (log, plan) = (move_up(log)?, move_up(plan)?);
    Ok(Reserved { first, log, plan, null: move_up(null)?, root: move_up(root)?, post })
}
