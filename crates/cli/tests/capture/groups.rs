//! Recording control groups: who is in one, and who comes into it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use reprise_testkit::scratch::Scratch;
use reprise_testkit::skip;

use crate::made::build;
use crate::means::{mkdir, run, until};
use crate::scopes::{Recorder, Server, acted, can_attach, replays_to};

/// A control group of version 2 of one's own; removed when dropped.
struct Group(PathBuf);

impl Group {
    /// One that can be recorded; else says why not.
    fn to_record(test: &str) -> Option<Group> {
        let made = can_attach(test).then(Group::make)?;
        made.inspect_err(|why| skip(test, why)).ok()
    }

    fn make() -> Result<Group, String> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let unified = mounts.lines().find(|line| line.contains(" - cgroup2 "));
        let root = unified.and_then(|line| line.split_whitespace().nth(4)).ok_or("no cgroup v2 is mounted")?;
        let path = Path::new(root).join(format!("reprise-test-{}", std::process::id()));
        fs::create_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Group(path))
    }

    fn add(&self, below: &str, pid: u32) {
        let place = self.0.join(below);
        fs::create_dir_all(&place).expect("a group");
        fs::write(place.join("cgroup.procs"), pid.to_string()).expect("moved");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let root = self.0.parent().expect("a root").to_owned();
        for place in [self.0.join("below"), self.0.clone()] {
            for pid in fs::read_to_string(place.join("cgroup.procs")).unwrap_or_default().lines() {
                let _ = fs::write(root.join("cgroup.procs"), pid);
            }
            let _ = fs::remove_dir(place);
        }
    }
}

#[test]
fn a_control_group() {
    let Some(group) = Group::to_record("a_control_group") else { return };
    let scratch = Scratch::new();
    let dir = scratch.path();
    let mut servers = ["in", "below", "out", "later"].map(|name| Server::start(dir, name));
    group.add("", servers[0].pid());
    group.add("below", servers[1].pid());
    let name = group.0.to_str().expect("UTF-8").to_owned();
    let recorder = Recorder::attach(dir, "t.reprise", &["--cgroup", &name]);
    servers.iter().for_each(Server::goes_on);
    group.add("below", servers[3].pid());
    servers.iter().for_each(Server::goes_on);
    servers.iter_mut().for_each(Server::pause);
    let trace = recorder.stop();
    let who = acted(&trace);
    let is_in = servers.each_ref().map(|server| who.contains(&server.pid()));
    assert_eq!(is_in, [true, true, false, true], "in, below, out, later");
    let mut started = trace.reader.processes().unwrap().into_iter().filter(|p| p.parent.is_some());
    assert!(started.all(|p| who.contains(&(p.pid as u32))), "what they start is recorded, too");
    for server in servers {
        server.resume();
        server.end();
    }
    drop(group);
    run(dir, &["record", "--backend", "ebpf", "--cgroup", &name]).fails(2, &["no such control group"]);
}

/// Who comes in is recorded from its next call on, however short it lives: it waits until what it has is known
/// (`tests/programs/comers.c`). A group that is removed and made again, as that of a service that starts again, is the same one.
#[test]
fn who_comes_into_a_group() {
    const COMERS: usize = 60;
    let Some(group) = Group::to_record("who_comes_into_a_group") else { return };
    let scratch = Scratch::new();
    let dir = scratch.path();
    let work = PathBuf::from(mkdir(dir, "work"));
    let program = build("comers", dir);
    let recorder = Recorder::attach(dir, "t.reprise", &["--cgroup", group.0.to_str().expect("UTF-8")]);
    let come = |place: &Path| {
        let comers = Command::new(&program).arg(place).arg(&group.0).arg(COMERS.to_string()).output().expect("run");
        assert!(comers.status.success(), "{comers:?}");
        let pids = String::from_utf8(comers.stdout).expect("text");
        pids.lines().map(|pid| pid.parse().expect("a number")).collect::<Vec<u32>>()
    };
    let mut pids = come(Path::new(&mkdir(&work, "first")));
    until("the last one has left the group", || fs::remove_dir(&group.0).is_ok());
    fs::create_dir(&group.0).expect("made again");
    pids.extend(come(Path::new(&mkdir(&work, "second"))));
    let trace = recorder.stop();
    let waiting = trace.reader.manifest().facts.get("waiting_for_room").cloned().unwrap_or_default();
    if waiting != "yes" {
        return skip("who_comes_into_a_group", &format!("threads can wait {waiting}"));
    }
    pids.sort_unstable();
    assert_eq!(acted(&trace), pids);
    assert_eq!(trace.losses(), [""; 0]);
    replays_to(dir, "t.reprise", &work, &work);
}
