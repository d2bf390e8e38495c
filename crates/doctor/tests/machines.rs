//! Machines made of files: each disturbance is found where it is, and only there.

use std::fs;
use std::path::Path;

use reprise_doctor::{Finding, Machine, Places, State, examine};

const QUIET: &[(&str, &str)] = &[
    ("proc/sys/kernel/yama/ptrace_scope", "1\n"),
    ("proc/sys/kernel/seccomp/actions_avail", "kill_process trap errno user_notif trace log allow\n"),
    ("proc/sys/kernel/io_uring_disabled", "0\n"),
    ("proc/sys/kernel/perf_event_paranoid", "-1\n"),
    ("proc/sys/vm/drop_caches", "0\n"),
    ("sys/fs/cgroup/cgroup.controllers", "cpu io memory\n"),
    ("dev/fuse", ""),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
    ("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
    ("proc/swaps", "Filename Type Size Used Priority\n"),
    ("proc/meminfo", "MemTotal:       16000000 kB\nMemAvailable:   12000000 kB\n"),
    ("proc/loadavg", "0.10 0.20 0.30 1/100 1234\n"),
    ("proc/pressure/cpu", "some avg10=0.50 avg60=9.00 avg300=9.00 total=1\n"),
    ("proc/pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=50.00\n"),
    ("proc/stat", "cpu  100 0 100 9800 0 0 0 0 0 0\n"),
    ("sys/block/sda/queue/scheduler", "none [mq-deadline] bfq\n"),
];

/// What is changed, what finding tells it, and how.
const CHANGES: &[(&str, &str, &str, State)] = &[
    ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n", "CPU governor", State::Disturbs),
    ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n", "turbo", State::Disturbs),
    ("proc/swaps", "Filename Type Size Used Priority\n/dev/sdb partition 1 0 -2\n", "swap", State::Disturbs),
    ("proc/meminfo", "MemTotal: 16000000 kB\nMemAvailable: 1500000 kB\n", "memory", State::Disturbs),
    ("proc/loadavg", "2.50 0.20 0.30 1/100 1234\n", "background load", State::Disturbs),
    ("proc/pressure/io", "some avg10=7.00 avg60=0.00 avg300=0.00 total=1\n", "pressure", State::Disturbs),
    ("proc/stat", "cpu  100 0 100 9700 0 0 0 100 0 0\n", "steal", State::Disturbs),
    ("proc/sys/kernel/yama/ptrace_scope", "3\n", "ptrace", State::Missing),
    ("proc/sys/kernel/io_uring_disabled", "2\n", "io_uring", State::Missing),
    ("proc/sys/kernel/perf_event_paranoid", "4\n", "perf", State::Missing),
    ("proc/sys/kernel/seccomp/actions_avail", "\n", "seccomp", State::Missing),
];

fn machine(root: &Path, files: &[(&str, &str)]) -> Machine {
    for (name, text) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    Machine::of_files(root)
}

fn findings(machine: &Machine) -> Vec<Finding> {
    let found = examine(machine, &Places::default());
    found.permits.into_iter().chain(found.disturbs).collect()
}

#[test]
fn a_quiet_machine_is_said_to_be_one() {
    let dir = tempfile::tempdir().unwrap();
    for finding in findings(&machine(dir.path(), QUIET)) {
        assert!(matches!(finding.state, State::Good | State::Unknown), "{finding:?}");
    }
}

#[test]
fn each_disturbance_is_found_and_can_be_mended() {
    for (name, text, what, state) in CHANGES {
        let dir = tempfile::tempdir().unwrap();
        machine(dir.path(), QUIET);
        let found = findings(&machine(dir.path(), &[(name, text)]));
        let wrong: Vec<&Finding> =
            found.iter().filter(|f| matches!(f.state, State::Disturbs | State::Missing)).collect();
        let [one] = wrong[..] else { panic!("{what}: {wrong:?}") };
        assert_eq!((one.what, one.state), (*what, *state));
        assert!(one.mend.is_some(), "{one:?}");
    }
}

#[test]
fn what_cannot_be_found_out_is_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let found = examine(&Machine::of_files(dir.path()), &Places::default());
    for finding in found.disturbs {
        assert_eq!(finding.state, State::Unknown, "{finding:?}");
    }
}

#[test]
fn places_are_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let places = Places { trace: Some(dir.path().to_owned()), target: Some(dir.path().to_owned()) };
    let found = examine(&machine(dir.path(), QUIET), &places).disturbs;
    let state = |what: &str| found.iter().find(|f| f.what == what).map(|f| f.state);
    assert_eq!(state("trace and target"), Some(State::Disturbs));
    assert!(matches!(state("room on the target"), Some(State::Good | State::Disturbs)));
}

#[test]
fn what_only_root_may_is_fine_for_root() {
    let dir = tempfile::tempdir().unwrap();
    for (capabilities, state) in [("0000000000000000", State::Missing), ("000001ffffffffff", State::Good)] {
        let status = format!("Name: reprise\nCapEff:\t{capabilities}\n");
        let files = [("proc/sys/kernel/perf_event_paranoid", "2\n"), ("proc/self/status", &*status)];
        let machine = machine(dir.path(), &files);
        let perf = findings(&machine).into_iter().find(|finding| finding.what == "perf").unwrap();
        assert_eq!(perf.state, state, "{perf:?}");
    }
}

#[test]
fn a_file_is_no_target() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let places = Places { trace: None, target: Some(file.path().to_owned()) };
    let found = examine(&Machine::of_files(file.path().parent().unwrap()), &places);
    let room = found.disturbs.iter().find(|finding| finding.what.starts_with("room")).unwrap();
    assert_eq!(room.state, State::Missing, "{room:?}");
}
