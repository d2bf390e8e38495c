//! How many threads this machine permits, in words: what a replay that cannot start one more has to tell.

use std::fs;

use super::place;

/// Each limit there is, and by what it is raised.
pub(crate) fn of_threads() -> String {
    let group = place::least("pids", "pids.max");
    let group =
        group.map(|(most, dir)| format!("{most} by a control group (write more to {}/pids.max)", dir.display()));
    let user = of_user().map(|most| format!("{most} to the user (`ulimit -u`)"));
    let number = |name: &str| fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok();
    let machine = ["kernel.threads-max", "kernel.pid_max"];
    let machine = machine.into_iter().filter_map(|name| Some(format!("{} by `sysctl {name}`", number(name)?.trim())));
    group.into_iter().chain(user).chain(machine).collect::<Vec<_>>().join(", ")
}

/// That of the user, if there is one; root is not bound by it.
fn of_user() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/limits").ok()?;
    text.lines().find_map(|line| line.strip_prefix("Max processes"))?.split_whitespace().next()?.parse().ok()
}
