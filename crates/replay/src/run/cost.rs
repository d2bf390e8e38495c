//! What a replay took of the machine beside what its calls did.
//!
//! Goals: who reads a result sees how much of it may be the engine's doing. Non-goals: time by thread (`reprise_measure`), memory and
//! cache that were asked for (`cache`).

use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};

use crate::engine::Carried;
use crate::sys::Used;

/// Of the worker, from the first action to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cost {
    /// Processor time outside the kernel: the engine's own, in nanoseconds.
    pub user_ns: u64,
    /// Processor time in the kernel: that of the calls, and of the engine's waiting and reading.
    pub system_ns: u64,
    /// Processor time of the threads that bring commands, in both; 0 where they are mapped.
    pub plan_ns: u64,
    /// Processor time of the thread that writes the log, in both.
    pub log_ns: u64,
    /// Bytes of the plan that were read, past the page cache where that is possible.
    pub plan_bytes: u64,
    /// Bytes of the log that went through the page cache; those of threads that ended meanwhile are not counted.
    pub log_bytes: u64,
    /// How often a thread slept.
    pub voluntary_switches: u64,
    /// How often a thread lost its processor to another.
    pub involuntary_switches: u64,
    /// The most memory that was resident at once, with what was mapped of plan and files.
    pub resident_bytes: u64,
    /// What the list of permitted system calls adds to each call, in nanoseconds, as measured at the start; 0 without such a list.
    #[serde(default)]
    pub list_ns: u64,
}

impl Cost {
    pub(super) fn of(before: &Used, after: &Used, carried: &Carried, list_ns: u64) -> Cost {
        Cost {
            user_ns: after.user_ns.saturating_sub(before.user_ns),
            system_ns: after.system_ns.saturating_sub(before.system_ns),
            plan_ns: carried.plan_ns.load(Ordering::Relaxed),
            log_ns: carried.log_ns.load(Ordering::Relaxed),
            plan_bytes: carried.plan_bytes.load(Ordering::Relaxed),
            log_bytes: carried.log_bytes.load(Ordering::Relaxed),
            voluntary_switches: after.voluntary_switches.saturating_sub(before.voluntary_switches),
            involuntary_switches: after.involuntary_switches.saturating_sub(before.involuntary_switches),
            resident_bytes: after.resident_bytes,
            list_ns,
        }
    }

    /// As facts of a result (docs/FORMAT.md).
    pub(crate) fn facts(&self) -> [(&'static str, u64); 10] {
        [
            ("engine_user_ns", self.user_ns),
            ("engine_system_ns", self.system_ns),
            ("engine_plan_ns", self.plan_ns),
            ("engine_log_ns", self.log_ns),
            ("engine_plan_bytes", self.plan_bytes),
            ("engine_log_bytes", self.log_bytes),
            ("engine_resident_bytes", self.resident_bytes),
            ("engine_list_ns", self.list_ns),
            ("voluntary_switches", self.voluntary_switches),
            ("involuntary_switches", self.involuntary_switches),
        ]
    }
}
