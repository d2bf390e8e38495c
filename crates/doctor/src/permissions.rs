//! What the machine permits: the same probes that recorder and replay use, where there are any.

use std::fs::OpenOptions;

use reprise_replay::{confine, limit};

use crate::{Finding, Machine};

pub const EBPF: &str = "eBPF";
pub const PTRACE: &str = "ptrace";
pub const CONFINEMENT: &str = "confinement";

/// Memory that the probe of control groups asks for, in bytes.
const SOME_BYTES: u64 = 64 << 20;

/// All of them.
pub fn all(machine: &Machine) -> Vec<Finding> {
    let looks: [fn(&Machine) -> Finding; 9] =
        [ebpf, ptrace, confinement, seccomp, io_uring, control_groups, drop_caches, fuse, perf];
    looks.map(|look| look(machine)).into()
}

const NOT_ASKED: &str = "only the machine itself can be asked";

fn ebpf(machine: &Machine) -> Finding {
    if !machine.is_here() {
        return Finding::unknown(EBPF, NOT_ASKED);
    }
    match reprise_capture::ebpf::available() {
        Ok(_) => Finding::good(EBPF, "programs are recorded in the kernel"),
        Err(reason) => {
            Finding::missing(EBPF, reason.to_string(), "sudo reprise record --backend ebpf …; ptrace serves without")
        }
    }
}

fn ptrace(machine: &Machine) -> Finding {
    match machine.number("/proc/sys/kernel/yama/ptrace_scope") {
        Some(3) => Finding::missing(
            PTRACE,
            "forbidden for all (kernel.yama.ptrace_scope = 3)",
            "boot with kernel.yama.ptrace_scope=1: it cannot be lowered while the machine runs",
        ),
        Some(_) | None => Finding::good(PTRACE, "a program's own children may be traced"),
    }
}

fn confinement(machine: &Machine) -> Finding {
    if !machine.is_here() {
        return Finding::unknown(CONFINEMENT, NOT_ASKED);
    }
    match confine::probe() {
        Ok(capability) => Finding::good(CONFINEMENT, capability.to_string()),
        Err(error) => {
            Finding::missing(CONFINEMENT, error.to_string(), "sysctl -w user.max_user_namespaces=10000, or run as root")
        }
    }
}

fn seccomp(machine: &Machine) -> Finding {
    match machine.text("/proc/sys/kernel/seccomp/actions_avail") {
        Some(actions) if actions.contains("trace") => Finding::good("seccomp", "filters can hand calls to a tracer"),
        _ => Finding::missing("seccomp", "no filters: each call is stopped at", "a kernel with CONFIG_SECCOMP_FILTER"),
    }
}

fn io_uring(machine: &Machine) -> Finding {
    match machine.number("/proc/sys/kernel/io_uring_disabled") {
        Some(0) => Finding::good("io_uring", "permitted to all"),
        Some(1) => Finding::missing("io_uring", "permitted to a group only", "sysctl -w kernel.io_uring_disabled=0"),
        Some(_) => Finding::missing("io_uring", "switched off", "sysctl -w kernel.io_uring_disabled=0"),
        None => Finding::unknown("io_uring", "the kernel has no switch for it (older than 6.6, or built without)"),
    }
}

fn control_groups(machine: &Machine) -> Finding {
    const WHAT: &str = "control groups";
    let version = match machine.text("/sys/fs/cgroup/cgroup.controllers") {
        Some(_) => "version 2",
        None if machine.path("/sys/fs/cgroup/memory").exists() => "version 1",
        None => return Finding::missing(WHAT, "none are mounted", "mount -t cgroup2 none /sys/fs/cgroup"),
    };
    if !machine.is_here() {
        return Finding::unknown(WHAT, format!("{version}; whether one can be made, {NOT_ASKED}"));
    }
    match limit::MemoryGroup::probe(SOME_BYTES) {
        Ok(()) => Finding::good(WHAT, format!("{version}; replay --memory can limit memory")),
        Err(error) => Finding::missing(
            WHAT,
            format!("{version}; no limit on memory: {error}"),
            "systemd-run --user --scope -p Delegate=yes reprise replay --memory …, or run as root",
        ),
    }
}

fn drop_caches(machine: &Machine) -> Finding {
    match OpenOptions::new().write(true).open(machine.path("/proc/sys/vm/drop_caches")) {
        Ok(_) => Finding::good("drop_caches", "replay --cold empties the machine's caches"),
        Err(_) => Finding::missing(
            "drop_caches",
            "replay --cold can only drop the replayed files from the cache",
            "run replays as root",
        ),
    }
}

fn fuse(machine: &Machine) -> Finding {
    match machine.path("/dev/fuse").exists() {
        true => Finding::good("FUSE", "/dev/fuse is there"),
        false => {
            Finding::missing("FUSE", "no /dev/fuse: file systems in user space cannot be mounted", "modprobe fuse")
        }
    }
}

/// Capabilities that permit what `perf_event_paranoid` forbids: CAP_SYS_ADMIN and CAP_PERFMON.
const COUNTS_EVENTS: u64 = 1 << 21 | 1 << 38;

fn perf(machine: &Machine) -> Finding {
    let status = machine.text("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
    match machine.text("/proc/sys/kernel/perf_event_paranoid").and_then(|text| text.parse::<i64>().ok()) {
        Some(..=1) => Finding::good("perf", "events of the kernel can be counted"),
        Some(_) if effective.is_some_and(|bits| bits & COUNTS_EVENTS != 0) => {
            Finding::good("perf", "events of the kernel can be counted, by this user")
        }
        Some(n) => Finding::missing(
            "perf",
            format!("kernel.perf_event_paranoid is {n}: only root counts events of the kernel"),
            "sysctl -w kernel.perf_event_paranoid=1",
        ),
        None => Finding::unknown("perf", "the kernel has no performance events"),
    }
}
