//! Tables of what was around the program: the machine's state over time, its devices and mounts. All of them are optional.

use crate::name::Name;
use crate::table::table;

table! {
    /// The traced program and the machine at one instant.
    #[derive(serde::Serialize, serde::Deserialize)]
    Environment "environment" key(|e| e.time_ns) weight(|_| 0) {
        /// When, nanoseconds since the trace began.
        time_ns: u64,
        /// Processes of the traced program.
        processes: u32,
        /// Their resident memory, summed (`/proc/PID/statm`): a page that several share counts for each.
        resident_bytes: u64,
        /// Page cache of files, with tmpfs (`Cached` of `/proc/meminfo`).
        cached_bytes: u64,
        /// Page cache of block devices (`Buffers`).
        buffers_bytes: u64,
        /// Memory that waits to be written (`Dirty`).
        dirty_bytes: u64,
        /// Memory that is being written (`Writeback`).
        writeback_bytes: u64,
        /// Memory in no use (`MemFree`).
        free_bytes: u64,
        /// Memory that programs could still get (`MemAvailable`).
        available_bytes: u64,
        /// Processor time of all programs in user mode since boot, in nanoseconds.
        user_ns: u64,
        /// Processor time in the kernel since boot, interrupts included.
        system_ns: u64,
        /// Time that processors were idle while somebody waited for a device.
        iowait_ns: u64,
        /// Time that the hypervisor gave to others.
        steal_ns: u64,
        /// Time that processors were idle otherwise.
        idle_ns: u64,
        /// Time since boot in which some thread waited for a processor.
        cpu_some_ns: Option<u64>,
        /// Time since boot in which some thread waited for storage.
        io_some_ns: Option<u64>,
        /// Time since boot in which all active threads waited for storage.
        io_full_ns: Option<u64>,
        /// Time since boot in which some thread waited for memory.
        memory_some_ns: Option<u64>,
        /// Time since boot in which all active threads waited for memory.
        memory_full_ns: Option<u64>,
        /// The kernel's own average of `cpu_some_ns` over ten seconds, in parts per million.
        cpu_some_avg10_ppm: Option<u32>,
        /// Of `io_some_ns`.
        io_some_avg10_ppm: Option<u32>,
        /// Of `io_full_ns`.
        io_full_avg10_ppm: Option<u32>,
        /// Of `memory_some_ns`.
        memory_some_avg10_ppm: Option<u32>,
        /// Of `memory_full_ns`.
        memory_full_avg10_ppm: Option<u32>,
        /// Bytes in use on the file system of a replay's target, by whomever (`statvfs`).
        target_used_bytes: Option<u64>,
    }
}

table! {
    /// What a block device has done since boot, at the instant of a sample; a row only where something changed since its last.
    #[derive(serde::Serialize, serde::Deserialize)]
    DeviceSample "devices" key(|d| d.time_ns) weight(|d| d.name.len()) {
        /// When, nanoseconds since the trace began.
        time_ns: u64,
        /// Device number, as `tree.device` of a file on it.
        device: u64,
        /// Its name.
        name: String,
        /// Reads completed.
        reads: u64,
        /// Bytes read.
        read_bytes: u64,
        /// Time spent on reads, summed over requests, in nanoseconds.
        read_ns: u64,
        /// Writes completed.
        writes: u64,
        /// Bytes written.
        written_bytes: u64,
        /// Time spent on writes, summed over requests, in nanoseconds.
        write_ns: u64,
        /// Discards completed.
        discards: u64,
        /// Bytes discarded.
        discarded_bytes: u64,
        /// Flushes completed.
        flushes: u64,
        /// Time spent on flushes, in nanoseconds.
        flush_ns: u64,
        /// Requests under way.
        in_flight: u32,
        /// Time with at least one request under way, in nanoseconds.
        busy_ns: u64,
    }
}

table! {
    /// A mount, as the recorder saw it at the start.
    #[derive(serde::Serialize, serde::Deserialize)]
    Mount "mounts" key(|m| m.mount.into()) weight(|m| m.root.len() + m.point.len() + m.kind.len() + m.source.len() + m.options.len() + m.file_system_options.len()) {
        /// Its number.
        mount: u32,
        /// Number of the mount that it is mounted on.
        parent: u32,
        /// Device number, as `tree.device` of a file on it.
        device: u64,
        /// Directory of the file system that is mounted.
        root: Name,
        /// Where it is mounted.
        point: Name,
        /// Type of the file system.
        kind: String,
        /// What is mounted: a device, often.
        source: Name,
        /// Options of the mount.
        options: String,
        /// Options of the file system.
        file_system_options: String,
    }
}

table! {
    /// A setting of a block device's queue at the start.
    #[derive(serde::Serialize, serde::Deserialize)]
    QueueSetting "queues" key(|q| q.device) weight(|q| q.name.len() + q.setting.len() + q.value.len()) {
        /// Device number.
        device: u64,
        /// Its name.
        name: String,
        /// Name of the setting: a file of `/sys/block/NAME/queue`.
        setting: String,
        /// Its value; of a choice, the chosen one stands in brackets.
        value: String,
    }
}
