//! Whatever a trace says, a replay reads, changes and runs nothing outside its target.
//!
//! Each trace is made by hand and asks for something outside, in the form of results that only the outside could give: the
//! secret's content, a change of the sentinel, a device, a program. The outside is then looked at by other means.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use reprise_testkit::program;
use reprise_trace::payload::append;
use reprise_trace::*;

const CREATE: u64 = 0o1101;
const READ: u64 = 0;
/// Values of `--confine`, and names of the targets.
const CONFINED: [&str; 2] = ["full", "lean"];
const AT_FDCWD: u64 = -100i64 as u64;

/// A trace under construction, of one process with one thread.
struct Script {
    writer: TraceWriter,
    next: u64,
}

impl Script {
    fn new(path: &Path) -> Script {
        let host = Host::default();
        let manifest = Manifest::new(Kind::Record, DataPolicy::Full, vec!["hostile".into()], "e".repeat(32), 0, host);
        let mut writer = TraceWriter::create(path, manifest, WriterOptions::default()).unwrap();
        let ids = vec![0; 4];
        let process =
            Process { pid: 7, uids: ids.clone(), gids: ids, cwd: "/w".into(), root: "/".into(), ..Default::default() };
        writer.process(process).unwrap();
        writer.thread(ThreadRow { tid: 7, ..Default::default() }).unwrap();
        let mut script = Script { writer, next: 0 };
        script.node(0, "", 2, 0o040755, "");
        script.node(2, "w", 3, 0o040777, "");
        script
    }

    fn node(&mut self, parent: u64, name: &str, inode: u64, mode: u32, target: &str) {
        let row = TreeNode {
            parent_device: u64::from(parent != 0),
            parent_inode: parent,
            name: name.into(),
            device: 1,
            inode,
            mode,
            nlink: 1,
            target: target.into(),
            filesystem: 0xef53,
            ..Default::default()
        };
        self.writer.node(row).unwrap();
    }

    fn call(&mut self, call: &str, args: [u64; 6], path: Option<&str>, path2: Option<&str>, result: i64) {
        self.full(call, args, (path, path2), Vec::new(), &[], result);
    }

    fn full(
        &mut self,
        call: &str,
        args: [u64; 6],
        paths: (Option<&str>, Option<&str>),
        input: Vec<u8>,
        data: &[u8],
        result: i64,
    ) {
        let data_bytes = data.len() as u64;
        let data = self.writer.blob(data, Keep::Always).unwrap();
        let action = Action {
            seq: self.next,
            call: call.to_owned().into(),
            args,
            path: paths.0.map(Name::from),
            path2: paths.1.map(Name::from),
            input,
            data,
            data_bytes,
            result,
            ..Default::default()
        };
        self.next += 1;
        self.writer.action(action).unwrap();
    }

    /// Opens a path, as the outside would allow it, and reads or overwrites it.
    fn touch(&mut self, path: &str, secret: &[u8]) {
        self.call("openat", [AT_FDCWD, 1, READ, 0, 0, 0], Some(path), None, 3);
        let n = secret.len() as u64;
        self.full("read", [3, 1, n, 0, 0, 0], (None, None), Vec::new(), secret, n as i64);
        self.call("close", [3, 0, 0, 0, 0, 0], None, None, 0);
        self.call("openat", [AT_FDCWD, 1, 0o1, 0, 0, 0], Some(path), None, 3);
        self.full("write", [3, 1, 5, 0, 0, 0], (None, None), Vec::new(), b"OWNED", 5);
        self.call("fchmod", [3, 0o777, 0, 0, 0, 0], None, None, 0);
        self.call("close", [3, 0, 0, 0, 0, 0], None, None, 0);
        self.call("truncate", [1, 0, 0, 0, 0, 0], Some(path), None, 0);
        self.call("chmod", [1, 0o777, 0, 0, 0, 0], Some(path), None, 0);
        self.call("unlink", [1, 0, 0, 0, 0, 0], Some(path), None, 0);
    }

    fn symlink(&mut self, target: &str, path: &str) {
        let mut input = Vec::new();
        append(&mut input, Some(target.as_bytes()));
        self.full("symlink", [1, 1, 0, 0, 0, 0], (Some(path), None), input, &[], 0);
    }
}

/// What must stay as it is: a file with a secret, and a directory.
struct Outside {
    dir: tempfile::TempDir,
    secret: PathBuf,
}

impl Outside {
    const SECRET: &'static [u8] = b"nobody may read this";

    fn new() -> Outside {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("secret");
        fs::write(&secret, Self::SECRET).unwrap();
        for confine in CONFINED {
            fs::create_dir(dir.path().join(confine)).unwrap();
        }
        Outside { dir, secret }
    }

    /// Replays what `write` asks for, in each confinement; the outside must not have changed.
    fn replay(&self, write: impl FnOnce(&mut Script, &str)) {
        let trace = self.dir.path().join("t.reprise");
        let mut script = Script::new(&trace);
        write(&mut script, self.secret.to_str().unwrap());
        script.writer.close(None).unwrap();
        CONFINED.into_iter().for_each(|confine| self.replay_in(confine, &trace));
    }

    fn replay_in(&self, confine: &str, trace: &Path) {
        let before = self.look();
        let target = self.dir.path().join(confine);
        let out = std::process::Command::new(program::reprise().unwrap())
            .args(["replay", "--json", "--confine", confine])
            .arg(trace)
            .arg("--target")
            .arg(&target)
            .arg("-o")
            .arg(self.dir.path().join(format!("{confine}.result")))
            .output()
            .unwrap();
        assert_eq!(self.look(), before, "the outside changed");
        let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
        assert!(!text.contains("panicked"), "{text}");
        assert!(text.contains("\"actions\""), "it was not replayed: {text}");
        assert!(!self.contains_secret(&target), "the secret came into the target");
    }

    fn look(&self) -> (Vec<u8>, u32, u64, Vec<std::ffi::OsString>) {
        let about = fs::symlink_metadata(&self.secret).unwrap();
        let mut names: Vec<_> = fs::read_dir("/").unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        (fs::read(&self.secret).unwrap(), about.mode(), about.nlink(), names)
    }

    /// The secret reaches the target only if the trace itself carries it there by a write; no trace here does.
    fn contains_secret(&self, dir: &Path) -> bool {
        fs::read_dir(dir).unwrap().flatten().any(|entry| {
            let path = entry.path();
            match fs::symlink_metadata(&path).unwrap() {
                about if about.is_dir() => self.contains_secret(&path),
                about if about.is_file() => {
                    fs::read(&path).is_ok_and(|b| b.windows(Self::SECRET.len()).any(|w| w == Self::SECRET))
                }
                _ => false,
            }
        })
    }
}

#[test]
fn absolute_paths_and_dots() {
    Outside::new().replay(|s, secret| {
        s.touch(secret, Outside::SECRET);
        let up = format!("{}{}", "../".repeat(40), &secret[1..]);
        s.touch(&up, Outside::SECRET);
        s.touch(&format!("/..//../{}", &secret[1..]), Outside::SECRET);
    });
}

#[test]
fn symbolic_links_to_the_outside() {
    Outside::new().replay(|s, secret| {
        s.symlink(secret, "/w/link");
        s.touch("/w/link", Outside::SECRET);
        s.symlink(&"../".repeat(30), "/w/up");
        s.touch(&format!("/w/up{secret}"), Outside::SECRET);
    });
}

#[test]
fn links_of_the_initial_tree() {
    Outside::new().replay(|s, secret| {
        s.node(3, "link", 9, 0o120777, secret);
        s.node(3, "dir", 10, 0o120777, "/");
        s.touch("/w/link", Outside::SECRET);
        s.touch(&format!("/w/dir{secret}"), Outside::SECRET);
        s.call("mkdir", [1, 0o755, 0, 0, 0, 0], Some("/w/dir/made-by-a-replay"), None, 0);
    });
}

#[test]
fn hard_links_and_renames_across() {
    Outside::new().replay(|s, secret| {
        s.call("link", [1, 1, 0, 0, 0, 0], Some(secret), Some("/w/hard"), 0);
        s.touch("/w/hard", Outside::SECRET);
        s.call("rename", [1, 1, 0, 0, 0, 0], Some(secret), Some("/w/moved"), 0);
        s.call("openat", [AT_FDCWD, 1, CREATE, 0o644, 0, 0], Some("/w/new"), None, 3);
        s.call("rename", [1, 1, 0, 0, 0, 0], Some("/w/new"), Some(secret), 0);
    });
}

#[test]
fn the_process_file_system() {
    Outside::new().replay(|s, secret| {
        for root in ["/proc/self/root", "/proc/1/root", "/proc/self/cwd/../../..", "/proc/self/fd/3/..", "/dev/fd/0/.."]
        {
            s.touch(&format!("{root}{secret}"), Outside::SECRET);
        }
    });
}

#[test]
fn a_root_directory_left_behind() {
    Outside::new().replay(|s, secret| {
        // The classical escape: keep a directory open, change the root below it, climb up.
        s.call("openat", [AT_FDCWD, 1, 0o200000, 0, 0, 0], Some("/"), None, 3);
        s.call("mkdir", [1, 0o755, 0, 0, 0, 0], Some("/w/jail"), None, 0);
        s.call("chroot", [1, 0, 0, 0, 0, 0], Some("/w/jail"), None, 0);
        s.call("fchdir", [3, 0, 0, 0, 0, 0], None, None, 0);
        for _ in 0..20 {
            s.call("chdir", [1, 0, 0, 0, 0, 0], Some(".."), None, 0);
        }
        s.call("chroot", [1, 0, 0, 0, 0, 0], Some("."), None, 0);
        s.touch(secret, Outside::SECRET);
    });
}

#[test]
fn devices_programs_and_mounts() {
    let outside = Outside::new();
    let mark = outside.dir.path().join("ran");
    outside.replay(|s, _| {
        s.call("mknod", [1, 0o060666, 0xfe00, 0, 0, 0], Some("/w/disk"), None, 0);
        s.touch("/w/disk", b"boot sector");
        s.node(3, "disk2", 12, 0o060666, "");
        s.touch("/w/disk2", b"boot sector");
        s.node(3, "disk3", 13, 0o060666, "");
        let mark = mark.to_str().unwrap();
        s.full(
            "execve",
            [1, 1, 1, 0, 0, 0],
            (Some("/bin/touch"), None),
            {
                let mut input = Vec::new();
                append(&mut input, Some(format!("touch\0{mark}\0").as_bytes()));
                input
            },
            &[],
            0,
        );
        let mut input = Vec::new();
        for text in ["/", "none"] {
            append(&mut input, Some(text.as_bytes()));
        }
        s.full("mount", [1, 1, 1, 4096, 0, 0], (Some("/w"), None), input, &[], 0);
        s.call("umount2", [1, 2, 0, 0, 0, 0], Some("/"), None, 0);
        s.call("pivot_root", [1, 1, 0, 0, 0, 0], Some("/w"), Some("/w"), 0);
        s.call("ptrace", [16, 1, 0, 0, 0, 0], None, None, 0);
        s.call("setns", [3, 0, 0, 0, 0, 0], None, None, 0);
    });
    assert!(!mark.exists(), "a program was run");
    for confine in CONFINED {
        let disk = fs::symlink_metadata(outside.dir.path().join(confine).join("w/disk3")).unwrap();
        assert!(disk.is_file(), "a device node was made");
    }
}

#[test]
fn descriptors_that_the_trace_did_not_open() {
    Outside::new().replay(|s, _| {
        for fd in (0..40).chain(1000..1030).chain([65535, 1 << 20, u64::from(u32::MAX)]) {
            s.full("write", [fd, 1, 5, 0, 0, 0], (None, None), Vec::new(), b"OWNED", 5);
            s.call("ftruncate", [fd, 0, 0, 0, 0, 0], None, None, 0);
            s.call("close", [fd, 0, 0, 0, 0, 0], None, None, 0);
        }
        s.call("close_range", [0, u32::MAX.into(), 0, 0, 0, 0], None, None, 0);
    });
}
