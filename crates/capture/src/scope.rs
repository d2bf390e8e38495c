//! Whom to record: a command, or what runs already.
//!
//! Goals: names that people have for processes, control groups and containers become what the kernel knows them by, and
//! errors say why that is not possible. Non-goals: recording them.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::CaptureError;
use crate::procfs;

/// Whom to record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Scope {
    /// The command, and all that it starts.
    #[default]
    Command,
    /// These processes with all their threads, and all that they start from now on.
    Processes {
        /// Their numbers.
        pids: Vec<i32>,
        /// Whether what they have started before is recorded, too.
        children: bool,
    },
    /// The processes of a control group and of those below it, now and in future.
    Group(Group),
    /// All processes but the recorder.
    System,
}

/// A control group of the unified hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its directory.
    pub path: PathBuf,
    /// Its number: that of its directory.
    pub id: u64,
    /// Its path in the hierarchy, by which it is known when it is removed and made again.
    pub name: PathBuf,
}

/// Where hierarchies of control groups are mounted.
const GROUPS: &str = "/sys/fs/cgroup";

impl Scope {
    /// In the words of the command line.
    pub fn name(&self) -> String {
        match self {
            Scope::Command => "a command".into(),
            Scope::Processes { pids, children } => {
                let list: Vec<String> = pids.iter().map(i32::to_string).collect();
                format!("--pid {}{}", list.join(","), if *children { " --with-children" } else { "" })
            }
            Scope::Group(group) => format!("--cgroup {}", group.path.display()),
            Scope::System => "--system".into(),
        }
    }

    /// Leaves those out of several processes that have ended, and gives them; not if none is left.
    #[cfg_attr(not(ebpf), allow(dead_code))] // for recording in the kernel alone
    pub(crate) fn leave_out_ended(&mut self) -> Vec<i32> {
        let Scope::Processes { pids, .. } = self else { return Vec::new() };
        let (ended, left): (Vec<i32>, Vec<i32>) = pids.iter().partition(|pid| has_ended(**pid));
        if left.is_empty() {
            return Vec::new();
        }
        *pids = left;
        ended
    }

    /// The processes that are named, with what they started if that is wanted: each of them can be recorded. Who has ended is
    /// left out, unless all have.
    #[cfg_attr(not(ebpf), allow(dead_code))] // for recording in the kernel alone
    pub(crate) fn processes(&self) -> Result<Vec<i32>, CaptureError> {
        let Scope::Processes { pids, children } = self else { return Ok(Vec::new()) };
        let mut all: Vec<i32> = Vec::new();
        let mut gone = Ok(());
        for pid in pids {
            match check(*pid) {
                Ok(()) => all.push(*pid),
                // Of several some may end at any time.
                Err(error) if has_ended(*pid) => gone = gone.and(Err(error)),
                Err(error) => return Err(error),
            }
        }
        if all.is_empty() {
            gone?;
        }
        if *children {
            all.extend(descendants(&all));
        }
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }
}

/// Whether there is no process of a number that one may have had.
fn has_ended(pid: i32) -> bool {
    pid > 0 && !Path::new(&format!("/proc/{pid}")).exists()
}

/// Whether a process can be recorded by this one.
fn check(pid: i32) -> Result<(), CaptureError> {
    let refused = |cause: &str, advice| Err(CaptureError::NoProcess { pid, cause: cause.to_owned(), advice });
    if pid == std::process::id() as i32 {
        return refused("it is the recorder itself", "give the number of another process");
    }
    let process = procfs::status(pid).process;
    if pid <= 0 || has_ended(pid) {
        return refused("there is no such process", "`ps -e` lists those that run");
    }
    if process != pid {
        let cause = format!("it is a thread of process {process}");
        return refused(&cause, "give the number of the process: all its threads are recorded");
    }
    if procfs::is_of_kernel(pid) {
        return refused(
            "it is a thread of the kernel, which makes no calls",
            "`--system` records who asked it to work",
        );
    }
    match fs::read_dir(format!("/proc/{pid}/fd")) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            refused("it belongs to another user", "record as root, or as its user with CAP_SYS_PTRACE")
        }
        _ => Ok(()),
    }
}

/// What these processes have started, and what that has: without the recorder.
fn descendants(of: &[i32]) -> Vec<i32> {
    let mut out: Vec<i32> = of.to_vec();
    let mut at = 0;
    while let Some(pid) = out.get(at).copied() {
        at += 1;
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let list = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            out.extend(list.split_whitespace().filter_map(|n| n.parse::<i32>().ok()));
        }
    }
    let recorder = std::process::id() as i32;
    out.retain(|pid| *pid != recorder);
    out
}

/// Where the unified hierarchy is mounted.
fn unified() -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let point = text.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        after.starts_with("cgroup2 ").then(|| before.split_whitespace().nth(4))?
    })?;
    Some(PathBuf::from(point))
}

/// The control group of this name: an absolute path, or one below where the hierarchy is mounted.
///
/// # Errors
/// There is none, or it is of a hierarchy that does not tell who is in it.
pub fn group(name: &Path) -> Result<Group, CaptureError> {
    let refused = |cause: &str, advice| {
        Err(CaptureError::NoGroup { name: name.display().to_string(), cause: cause.to_owned(), advice })
    };
    let Some(root) = unified() else {
        return refused(
            "this machine has no unified hierarchy (cgroup v2)",
            "record the processes themselves by --pid",
        );
    };
    let relative = name.strip_prefix("/").unwrap_or(name);
    let places = [name.to_path_buf(), root.join(relative), Path::new(GROUPS).join(relative)];
    let found = places.iter().filter(|path| path.is_absolute()).find(|path| path.join("cgroup.procs").exists());
    let Some(path) = found.and_then(|path| path.canonicalize().ok()) else {
        let advice = "`cat /proc/PID/cgroup` tells the group of a process, `systemd-cgls` lists all";
        return refused("there is no such control group", advice);
    };
    if !path.starts_with(&root) {
        let advice = "give its group in the unified hierarchy, or the processes in its cgroup.procs by --pid";
        return refused("it belongs to a hierarchy of version 1", advice);
    }
    match fs::metadata(&path) {
        Ok(directory) => {
            let name = Path::new("/").join(path.strip_prefix(&root).unwrap_or(&path));
            Ok(Group { id: directory.ino(), path, name })
        }
        Err(e) => refused(&e.to_string(), "check the rights to /sys/fs/cgroup"),
    }
}

/// The control group of a container: a directory that bears its number, as Docker, Podman, containerd and systemd name
/// them.
///
/// # Errors
/// There is none, or more than one.
pub fn container(name: &str) -> Result<Group, CaptureError> {
    let refused = |cause: String, advice| Err(CaptureError::NoGroup { name: name.to_owned(), cause, advice });
    let advice =
        "give its whole number (`docker ps --no-trunc`, `podman ps --no-trunc`), or its control group by --cgroup";
    let Some(root) = unified() else {
        return refused("this machine has no unified hierarchy (cgroup v2)".into(), advice);
    };
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            match is_of_container(&entry.file_name().to_string_lossy(), name) {
                true => found.push(entry.path()),
                false => open.push(entry.path()),
            }
        }
    }
    match found.as_slice() {
        [one] => group(one),
        [] => refused("no control group bears its number".into(), advice),
        [one, another, ..] => refused(format!("{} and {} bear its number", one.display(), another.display()), advice),
    }
}

/// Whether a directory is that of a container: its number or the beginning of it (twelve digits or more), or its name, bare
/// or as `docker-NUMBER.scope`, `libpod-NUMBER.scope`, `machine-NAME.scope`, `cri-containerd-NUMBER.scope`.
fn is_of_container(directory: &str, name: &str) -> bool {
    const SHORTEST: usize = 12;
    let bare = directory.strip_suffix(".scope").or_else(|| directory.strip_suffix(".service")).unwrap_or(directory);
    let number = bare.rsplit('-').next().unwrap_or(bare);
    let is_number = name.len() >= SHORTEST && name.bytes().all(|b| b.is_ascii_hexdigit());
    // Of what watches over a container the name bears its number, too.
    let watches = bare.starts_with("libpod-conmon-");
    let named = || bare == name || bare.split_once('-').is_some_and(|(_, rest)| rest == name);
    !watches && ((is_number && number.len() >= SHORTEST && number.starts_with(name)) || named())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_found_by_number_and_name() {
        let id = "4f5c3e1a2b9d4f5c3e1a2b9d4f5c3e1a2b9d4f5c3e1a2b9d4f5c3e1a2b9d4f5c";
        for directory in [id.to_owned(), format!("docker-{id}.scope"), format!("libpod-{id}.scope")] {
            assert!(is_of_container(&directory, id) && is_of_container(&directory, &id[..12]), "{directory}");
            assert!(!is_of_container(&directory, &id[..4]) && !is_of_container(&directory, &id[1..]), "{directory}");
        }
        assert!(!is_of_container(&format!("libpod-conmon-{id}.scope"), id));
        assert!(is_of_container("machine-web.scope", "web") && is_of_container("web", "web"));
        assert!(!is_of_container("system.slice", "web") && !is_of_container("website", "web"));
    }

    #[test]
    fn what_cannot_be_recorded_is_said() {
        let of = |pid| Scope::Processes { pids: vec![pid], children: false }.processes();
        let itself = of(std::process::id() as i32).expect_err("refused").to_string();
        assert!(itself.contains("recorder itself"), "{itself}");
        let nobody = of(i32::MAX).expect_err("refused").to_string();
        assert!(nobody.contains("no such process") && nobody.contains("ps"), "{nobody}");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a child");
        let pid = child.id() as i32;
        assert_eq!(of(pid).expect("can be recorded"), [pid]);
        let parent = std::process::id() as i32;
        assert!(descendants(&[parent]).contains(&pid) && !descendants(&[parent]).contains(&parent));
        let several = |pids: &[i32]| Scope::Processes { pids: pids.to_vec(), children: false };
        let mut some = several(&[i32::MAX, pid, i32::MAX - 1]);
        assert_eq!(some.processes().expect("one can be recorded"), [pid]);
        assert_eq!(some.leave_out_ended(), [i32::MAX, i32::MAX - 1]);
        assert_eq!((some.clone(), some.leave_out_ended()), (several(&[pid]), vec![]));
        let mut none = several(&[i32::MAX, i32::MAX - 1]);
        assert_eq!((none.leave_out_ended(), &none), (vec![], &several(&[i32::MAX, i32::MAX - 1])));
        let refused = none.processes().expect_err("refused").to_string();
        assert!(refused.contains(&i32::MAX.to_string()) && refused.contains("no such process"), "{refused}");
        assert!(
            several(&[0, pid]).processes().is_err() && several(&[pid, std::process::id() as i32]).processes().is_err()
        );
        child.kill().and_then(|()| child.wait()).expect("its end");
    }
}
