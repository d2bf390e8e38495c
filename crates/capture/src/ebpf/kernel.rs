//! The programs in the kernel: loading, and the memory shared with them.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reprise_trace::DataPolicy;

use super::known::Knowns;
use super::shared::{
    self, MEMBER_BYTES, ROW_BYTES, STRIDE_BYTES, THREAD_LAUNCHING, common, control, cpu, scope, watch,
};
use super::{Capabilities, OnFull, Reason, SpoolError, opcodes, processors, table};
use crate::scope::Scope;
use crate::spool::layout::SegmentHead;
use crate::spool::mark::Cut;
use crate::spool::{Known, Lacks};
use crate::sys::{self, Object, Ring, Shared, Types};

/// Programs begin at a multiple of 8, as their reader expects.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

macro_rules! object {
    ($name:literal, $waiting:literal) => {
        (
            &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/", $name))),
            Capabilities { waiting: $waiting, pages: false, loads: false },
        )
    };
}

/// The programs, those that can do more first.
static OBJECTS: [(&Aligned<[u8]>, Capabilities); 5] = [
    object!("waiting.bpf.o", true),
    object!("waiting_7_0.bpf.o", true),
    object!("waiting_6_18.bpf.o", true),
    object!("plain.bpf.o", false),
    object!("plain_5_15.bpf.o", false),
];

const FIND_MEMORY: &CStr = c"find_memory";
const LOOK_AT_ALL: &CStr = c"look_at_all";
const FORGET_BACKINGS: &CStr = c"forget_backings";
/// What `look_at_all` is told: to go on, to begin the last look, to begin one at pages as they are before anything is stored to them.
const LOOK_ON: u64 = 0;
const LOOK_LAST: u64 = 1;
const LOOK_BEFORE: u64 = 2;
/// Programs that are run and not attached.
const RUN: [&CStr; 3] = [FIND_MEMORY, LOOK_AT_ALL, FORGET_BACKINGS];
/// So many files that are, or were, mapped are kept without a look at whether they still are.
const MANY_BACKINGS: u64 = 8192;
/// Programs that follow stores to, and loads from, mapped files.
const FOLLOW: [&CStr; 5] = [c"on_fault_user", c"on_fault_kernel", c"on_dirtied", c"on_dirtied_page", c"on_evicted"];
/// Programs that tell of calls and requests, and of threads.
const TELL: [&CStr; 11] = [
    c"on_enter",
    c"on_exit",
    c"on_new_task",
    c"on_new_child",
    c"on_exec",
    c"on_end",
    c"on_ring",
    c"on_submit",
    c"on_refused",
    c"on_complete",
    c"on_overflow",
];
/// The same thing was told by another tracepoint once.
const DIRTIED: [(&CStr, &str); 2] =
    [(c"on_dirtied", "writeback_dirty_folio"), (c"on_dirtied_page", "writeback_dirty_page")];
/// What not all kernels tell: which locks are free (those without any), and when a program begins to run (Linux 6.10).
const OPTIONAL: [(&CStr, &str); 3] = [
    (c"on_ranges_unlocked", "locks_remove_posix"),
    (c"on_whole_unlocked", "flock_lock_inode"),
    (c"on_prepare_exec", "sched_prepare_exec"),
];

/// Without a sign of life of the recorder for so long, nobody waits for it.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The programs, loaded, and what is shared with them.
pub struct Kernel {
    object: Mutex<Object>,
    unused: RawFd,
    notices: RawFd,
    /// The segments.
    pub segments: Shared,
    /// What each CPU writes.
    pub cpus: Shared,
    /// Number of CPUs there may be.
    pub cpu_count: usize,
    /// Number of segments.
    pub segment_count: u64,
    /// What every call looks at.
    common: Shared,
    /// What files hold that the spool holds, too.
    knowns: Mutex<Knowns>,
    /// Heard when somebody comes into the scope from outside.
    arrived: RawFd,
    /// What they let a recording do.
    pub capabilities: Capabilities,
    /// What they do not, and why.
    pub lacks: Option<String>,
}

/// A thread in the scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// Its process.
    pub pid: i32,
    /// Its number.
    pub tid: i32,
    /// It came from outside, or was there before, and may not have been looked at.
    pub new: bool,
}

/// What the programs are to do.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// How content is kept.
    pub data: DataPolicy,
    /// Number of segments.
    pub segments: u32,
    /// What happens without room.
    pub on_full: OnFull,
    /// Whether threads may wait where the kernel lets them; tests do without.
    pub waiting: bool,
    /// Whether stores to mapped files are followed.
    pub mapped: bool,
    /// Who comes into the scope from outside.
    pub comers: Comers,
}

/// Who comes into the scope from outside. What is not needed for it is not loaded, which takes the kernel a tenth less time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comers {
    /// Nobody: it is what a command starts.
    Nobody,
    /// Who is there already, or is made so that it belongs there.
    There,
    /// These, and who moves into a control group.
    Moved,
}

impl Comers {
    /// Into a scope.
    pub fn into(scope: &Scope) -> Comers {
        match scope {
            Scope::Command => Comers::Nobody,
            Scope::Processes { .. } | Scope::System => Comers::There,
            Scope::Group(_) => Comers::Moved,
        }
    }

    /// Programs that are not needed.
    fn without(self) -> &'static [&'static CStr] {
        match self {
            Comers::Nobody => &[c"on_move", c"on_made_group", c"on_new_task", c"on_area"],
            Comers::There => &[c"on_move", c"on_made_group", c"on_new_child"],
            Comers::Moved => &[c"on_new_child"],
        }
    }
}

impl Setting {
    /// The least that can be loaded.
    const PROBE: Setting = Setting {
        data: DataPolicy::None,
        segments: 1,
        on_full: OnFull::Drop,
        waiting: true,
        mapped: true,
        comers: Comers::There,
    };
}

/// Whether the kernel can record here, found out by loading the programs.
///
/// # Errors
/// The reason why not.
pub fn available() -> Result<Capabilities, Reason> {
    let kernel = Kernel::load(Setting::PROBE)?;
    kernel.object().attach(&RUN).map_err(Reason::NotAttached)?;
    Ok(kernel.capabilities)
}

impl Kernel {
    /// Loads the programs: those that can wait, or else those that cannot.
    pub fn load(setting: Setting) -> Result<Kernel, Reason> {
        if !Path::new("/sys/kernel/btf/vmlinux").exists() {
            return Err(Reason::NoTypes);
        }
        // Each program and each map is a descriptor.
        sys::raise_descriptors();
        let mut refused = None;
        for (bytes, capabilities) in OBJECTS.into_iter().filter(|o| setting.waiting || !o.1.waiting) {
            match Kernel::load_one(bytes, capabilities, setting) {
                Ok(kernel) => {
                    let lacks = refused.filter(|_| !capabilities.waiting).map(|e| {
                        format!(
                            "on the processor, for half a second at most, then records are dropped that find no room (Linux 6.18 and later can wait; here: {e})"
                        )
                    });
                    return Ok(Kernel { lacks, ..kernel });
                }
                Err(e) => refused = Some(e),
            }
        }
        let refused = refused.unwrap_or_else(|| io::ErrorKind::Unsupported.into());
        Err(match refused.raw_os_error() {
            Some(libc::EPERM) if is_locked_down() => Reason::LockedDown,
            Some(libc::EPERM) => Reason::NoRights,
            _ => Reason::Refused(refused),
        })
    }

    fn load_one(bytes: &'static Aligned<[u8]>, capabilities: Capabilities, setting: Setting) -> io::Result<Kernel> {
        let mut object = Object::open(&bytes.0, std::env::var_os("REPRISE_EBPF_LOG").is_some())?;
        let cpu_count = processors::list("possible").last().map_or(1024, |last| last + 1);
        for map in [c"segments", c"unused"] {
            object.resize(map, setting.segments)?;
        }
        object.resize(c"cpus", cpu_count as u32)?;
        // A notice takes 16 bytes in the ring, and a segment is announced at most once.
        let ring = (setting.segments * 32).next_power_of_two().max(4096);
        object.resize(c"notices", ring)?;
        for program in setting.comers.without() {
            object.leave_out(program)?;
        }
        let seed = random();
        object.constants(&seed.to_le_bytes())?;
        for map in [c".bss.knowns", c".bss.quicks"] {
            object.make_zeros(map)?;
        }
        let types = Types::load()?;
        let may_lack = DIRTIED.iter().chain(&OPTIONAL);
        for (program, _) in may_lack.filter(|(_, told_by)| types.tracepoint_arguments(told_by).is_none()) {
            object.leave_out(program)?;
        }
        opcodes::fit(&mut object, &types)?;
        object.load()?;
        let map = |name: &CStr, bytes| Shared::map(object.descriptor(name)?, bytes);
        let mut kernel = Kernel {
            segments: map(c"segments", setting.segments as usize * STRIDE_BYTES)?,
            cpus: map(c"cpus", cpu_count * cpu::BYTES)?,
            common: map(c".bss.common", common::BYTES)?,
            knowns: Mutex::new(Knowns::new(map(c".bss.knowns", object.element_bytes(c".bss.knowns")?)?, seed)),
            unused: object.descriptor(c"unused")?,
            notices: object.descriptor(c"notices")?,
            arrived: object.descriptor(c"arrived")?,
            object: Mutex::new(object),
            cpu_count,
            segment_count: setting.segments.into(),
            capabilities,
            lacks: None,
        };
        kernel.fill(setting)?;
        if setting.mapped {
            kernel.capabilities.pages = kernel.watch_mapped(setting.data).is_ok();
            kernel.capabilities.loads = kernel.watch(watch::LOADS).load(Ordering::Relaxed) != 0;
        }
        Ok(kernel)
    }

    /// Finds out where pages are, and has stores to mapped files followed.
    fn watch_mapped(&self, data: DataPolicy) -> io::Result<()> {
        let text = [random() | 1, random() | 1];
        let file = sys::file_in_memory(&text.map(u64::to_le_bytes).concat())?;
        self.object().run(FIND_MEMORY, &[file.as_raw_fd() as u64, text[0], text[1], memory_gib()])?;
        if self.watch(watch::OFFSET).load(Ordering::Relaxed) == 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.watch(watch::KEEPS).store(u64::from(data != DataPolicy::None), Ordering::Relaxed);
        self.watch(watch::ON).store(1, Ordering::Relaxed);
        Ok(())
    }

    /// Follows stores to what processes in the scope have mapped already.
    pub fn take_mappings(&self) -> io::Result<()> {
        if self.watch(watch::ON).load(Ordering::SeqCst) == 0 {
            return Ok(());
        }
        self.object().walk(c"on_area").map(drop)
    }

    /// Keeps the pages of such mappings that may be stored to without a fault as they are now.
    pub fn keep_mapped(&self) {
        if self.watch(watch::ON).load(Ordering::SeqCst) != 0 && self.watch(watch::KEEPS).load(Ordering::SeqCst) != 0 {
            self.look(LOOK_BEFORE);
        }
    }

    /// Looks at what was stored and not looked at yet: the program may go on after the recording.
    fn look_at_all(&self) {
        self.watch(watch::LOADS).store(0, Ordering::SeqCst);
        if self.watch(watch::ON).swap(0, Ordering::SeqCst) != 0 {
            self.look(LOOK_LAST);
        }
    }

    /// Forgets files that nobody maps any more, where there are many: there is room for 65,536.
    pub fn forget_unmapped(&self) {
        if self.watch(watch::BACKINGS).load(Ordering::Relaxed) > MANY_BACKINGS {
            // What is not forgotten now is the next time, or lacks room, which is counted. Who calls this has no time to wait.
            if let Ok(object) = self.object.try_lock() {
                let _ = object.run(FORGET_BACKINGS, &[]);
            }
        }
    }

    fn look(&self, mut begins: u64) {
        for _ in 0..1 << 14 {
            if self.object().run(LOOK_AT_ALL, &[begins]).is_err() || self.watch(watch::LEFT).load(Ordering::SeqCst) == 0
            {
                return;
            }
            begins = LOOK_ON;
            if self.number(control::FREE).load(Ordering::Relaxed) <= self.number(control::LOW).load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    fn object(&self) -> MutexGuard<'_, Object> {
        self.object.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self, setting: Setting) -> io::Result<()> {
        let object = self.object();
        for (number, row) in table::rows(setting.data).iter().enumerate() {
            for (at, word) in row.encode().as_chunks::<8>().0.iter().enumerate() {
                let place = common::ROWS + number * ROW_BYTES + at * 8;
                self.common.long(place).store(u64::from_le_bytes(*word), Ordering::Relaxed);
            }
        }
        for (opcode, row) in opcodes::rows(setting.data).iter().enumerate() {
            object.set(c"opcodes", &(opcode as u32).to_le_bytes(), &row.encode())?;
        }
        for (key, value) in table::commands() {
            object.set(c"commands", &key, &value)?;
        }
        // Taken from the end: the first is taken first.
        for segment in (0..setting.segments).rev() {
            sys::push(self.unused, segment)?;
        }
        // Each CPU may hold a segment that is not full; the others come back from the disk sooner or later. A record that
        // cannot wait (of a thread's end) may take the reserve, and threads wait before it is needed.
        let segments = u64::from(setting.segments);
        let spare = segments.saturating_sub(processors::online()).max(1);
        let reserve = (spare / 4).clamp(1, processors::online());
        for (offset, value) in [
            (control::FREE, segments),
            (control::RESERVE, reserve.min(spare - 1)),
            (control::LOW, (reserve + (spare / 8).max(1)).min(spare)),
            (control::BLOCK, u64::from(setting.on_full == OnFull::Block)),
            (control::PATIENCE_NS, PATIENCE.as_nanos() as u64),
        ] {
            self.number(offset).store(value, Ordering::Relaxed);
        }
        self.beat();
        Ok(())
    }

    /// A number in `struct control`.
    pub fn number(&self, offset: usize) -> &AtomicU64 {
        self.common.long(common::CONTROL + offset)
    }

    /// A number in `struct watch`.
    fn watch(&self, offset: usize) -> &AtomicU64 {
        self.common.long(common::WATCH + offset)
    }

    /// A number in `struct cpu`, summed over all.
    pub fn sum(&self, offset: usize) -> u64 {
        (0..self.cpu_count).map(|n| self.cpus.long(n * cpu::BYTES + offset).load(Ordering::Relaxed)).sum()
    }

    /// What was counted up to now of a recording that could not be written any further.
    pub fn cut(&self, cut: Cut) -> Cut {
        let (records, passed) = (self.sum(cpu::NEXT), self.sum(cpu::PASSED));
        Cut { records, passed, lacks: self.lacking(), ..cut }
    }

    /// Records that were dropped, by cause.
    pub fn lacking(&self) -> Lacks {
        Lacks(std::array::from_fn(|number| self.sum(cpu::LACKS + 8 * number)))
    }

    /// Tells the programs what files hold that stands in the spool.
    pub fn tell(&self, learned: impl Iterator<Item = Known>) {
        let mut knowns = self.knowns.lock().unwrap_or_else(PoisonError::into_inner);
        for known in learned {
            knowns.tell(known);
            self.number(control::KNOWN).store(1, Ordering::Relaxed);
        }
    }

    /// Says that the recorder lives.
    pub fn beat(&self) {
        self.number(control::HEARTBEAT_NS).store(sys::monotonic_ns(), Ordering::Relaxed);
    }

    /// A segment is free again: what it held is on the disk, and it is none until it is taken anew.
    pub fn free(&self, segment: u32) -> io::Result<()> {
        let base = segment as usize * STRIDE_BYTES;
        self.segments.word(base + std::mem::offset_of!(SegmentHead, used)).store(0, Ordering::SeqCst);
        self.segments.long(base + std::mem::offset_of!(SegmentHead, magic)).store(0, Ordering::SeqCst);
        sys::push(self.unused, segment)?;
        self.number(control::FREE).fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// The ring of notices.
    pub fn ring(&self) -> io::Result<Ring> {
        Ring::new(self.notices)
    }

    /// The ring that is heard when somebody comes into the scope from outside.
    pub fn arrived(&self) -> io::Result<Ring> {
        Ring::new(self.arrived)
    }

    /// How many threads came into the scope from outside, if there are some that nobody has looked at.
    pub fn arrivals(&self) -> Option<u32> {
        let so_far = self.common.word(common::CONTROL + control::ARRIVALS).load(Ordering::SeqCst);
        let looked = self.common.word(common::CONTROL + control::LOOKED).load(Ordering::SeqCst);
        (so_far != looked).then_some(so_far)
    }

    /// So many have been looked at, and go on.
    pub fn has_looked(&self, arrivals: u32) {
        self.common.word(common::CONTROL + control::LOOKED).store(arrivals, Ordering::SeqCst);
    }

    /// Whether a walk over all threads finds none in the scope.
    pub fn is_deserted(&self) -> bool {
        self.object().walk(c"members").is_ok_and(|said| said.is_empty())
    }

    /// Takes a process that has one thread, and is about to run the command, into the scope.
    pub fn follow(&self, pid: i32) -> io::Result<()> {
        let process = sys::process_descriptor(pid)?;
        let mut thread = [0u8; THREAD_LAUNCHING + 1];
        thread[THREAD_LAUNCHING] = 1;
        self.object().set(c"threads", &process.as_raw_fd().to_le_bytes(), &thread)?;
        self.number(control::SERIALS).store(1, Ordering::Relaxed);
        self.number(control::TASKS).store(1, Ordering::Relaxed);
        Ok(())
    }

    /// Numbers of the processes in the scope, as this process would name them in the first namespace.
    pub fn members(&self) -> Vec<i32> {
        let said = self.object().walk(c"members").unwrap_or_default();
        said.as_chunks::<4>().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect()
    }

    /// Says who belongs to the scope; before the programs are attached. `processes` are those that are named.
    pub fn choose(&self, of: &Scope, processes: &[i32]) -> io::Result<()> {
        let (kind, group, name) = match of {
            Scope::Command => return Ok(()),
            Scope::Processes { .. } => (scope::PROCESSES, 0, [].as_slice()),
            Scope::Group(group) => (scope::CGROUP, group.id, group.name.as_os_str().as_bytes()),
            Scope::System => (scope::SYSTEM, 0, [].as_slice()),
        };
        let mut bytes = [0; scope::BYTES];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&std::process::id().to_le_bytes());
        bytes[8..16].copy_from_slice(&group.to_le_bytes());
        // The NUL behind it has room.
        if name.len() < scope::PATH {
            bytes[16..16 + name.len()].copy_from_slice(name);
        }
        let object = self.object();
        object.set(c"scopes", &0u32.to_le_bytes(), &bytes)?;
        processes.iter().try_for_each(|pid| object.set(c"wanted", &pid.to_le_bytes(), &1u32.to_le_bytes()))?;
        // Who is in a group, or on the machine, may end; others come.
        if kind != scope::PROCESSES {
            self.number(control::TASKS).store(1 << 40, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Takes all threads into the scope that belong there; gives those that are in it, in the order of their numbers.
    pub fn walk(&self) -> io::Result<Vec<Member>> {
        let bytes = self.object().walk(c"on_walk")?;
        let word = |b: &[u8]| b.first_chunk().map_or(0, |b| i32::from_le_bytes(*b));
        let told = bytes.chunks_exact(MEMBER_BYTES);
        let mut members: Vec<Member> =
            told.map(|m| Member { pid: word(&m[4..]), tid: word(m), new: word(&m[8..]) != 0 }).collect();
        members.sort_unstable();
        members.dedup();
        Ok(members)
    }

    /// How much the kernel did not tell, of whatever thread: a program is not run where another thread is in it that was taken off
    /// the processor, as it may be since Linux 7.0. 0 where that is not known.
    pub fn untold(&self) -> u64 {
        self.object().misses(&TELL).unwrap_or(0)
    }

    /// Begins.
    pub fn attach(&self) -> Result<(), SpoolError> {
        let followed = self.watch(watch::ON).load(Ordering::Relaxed) != 0;
        let skipped = if followed { RUN.to_vec() } else { [RUN.as_slice(), &FOLLOW].concat() };
        self.object().attach(&skipped).map_err(|e| Reason::NotAttached(e).into())
    }

    /// Ends: no program runs any more when this returns, save those that do not come to an end in time.
    pub fn detach(&self) {
        self.look_at_all();
        self.number(control::STOPPED).store(1, Ordering::SeqCst);
        self.object().detach();
        for _ in 0..200 {
            std::thread::sleep(Duration::from_millis(1));
            let busy = (0..self.cpu_count)
                .any(|n| self.cpus.word(n * cpu::BYTES + shared::cpu::BUSY).load(Ordering::SeqCst) != 0);
            if !busy && self.number(control::PENDING).load(Ordering::SeqCst) == 0 {
                return;
            }
        }
    }
}

/// GiB of addresses that memory takes up.
fn memory_gib() -> u64 {
    let text = fs::read_to_string("/proc/iomem").unwrap_or_default();
    let ram = text.lines().filter(|line| line.ends_with(": System RAM"));
    let end = |line: &str| u64::from_str_radix(line.split(' ').next()?.split_once('-')?.1, 16).ok();
    ram.filter_map(end).max().map_or(64, |end| (end >> 30) + 1)
}

fn is_locked_down() -> bool {
    fs::read_to_string("/sys/kernel/security/lockdown").is_ok_and(|text| text.contains("[confidentiality]"))
}

/// A number that differs from recording to recording.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the running kernel.
    fn release() -> (u32, u32) {
        let text = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }

    /// What older kernels get is what this one verifies, less strictly (scripts/try-kernels asks them).
    #[test]
    fn every_object_loads_that_can() {
        if let Err(why) = available() {
            println!("SKIP: every_object_loads_that_can: {why}");
            return;
        }
        let can_loop = release() >= (5, 17);
        let objects = OBJECTS.into_iter().filter(|o| !o.1.waiting).skip(usize::from(!can_loop));
        let loads = objects.flat_map(|object| [Comers::Nobody, Comers::Moved].map(|comers| (object, comers)));
        for ((bytes, capabilities), comers) in loads {
            let kernel = Kernel::load_one(bytes, capabilities, Setting { waiting: false, comers, ..Setting::PROBE });
            let kernel = kernel.unwrap_or_else(|e| panic!("refused: {e}"));
            kernel.attach().expect("attached");
            assert!(kernel.capabilities.pages, "the memory of pages was not found");
            assert_eq!(kernel.capabilities.loads, release() >= (6, 1), "areas are kept otherwise");
            kernel.object().misses(&TELL).expect("what was not told is known");
        }
    }
}
