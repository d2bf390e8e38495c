//! What the kernel does by rules of its own, and does not say: bits and attributes that it takes away, reads that it ends early, calls
//! that it refuses before it looks at what they were given. Recorded, replayed, cut into slices; the kernel's own answers are the oracle.

mod means;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use means::{Said, in_kernel, mkdir, run};
use reprise_testkit::scratch::{Kind, LoopFs, Scratch, is_root};
use reprise_testkit::skip;

const PYTHON: &str = "/usr/bin/python3";

/// What the programs here begin with. A slice begins at `cut()`.
const PRELUDE: &str = r#"
import ctypes, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
def made(name, content=b"abc"):
    with open(name, "wb") as file:
        file.write(content)
def cut():
    os.access("/cut-here", os.F_OK)
def program(name):
    made(name)
    os.setxattr(name, "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))
"#;

/// A program of this test in a directory of its own, and the trace of it.
struct Recorded {
    scratch: Scratch,
}

impl Recorded {
    /// `None` where there is no Python: that in the path may be a script of many processes.
    fn new(name: &str, program: &str, options: &[&str]) -> Option<Recorded> {
        Recorded::below(name, &std::env::temp_dir(), program, options)
    }

    fn below(name: &str, base: &Path, program: &str, options: &[&str]) -> Option<Recorded> {
        if !Path::new(PYTHON).exists() {
            skip(name, "no /usr/bin/python3");
            return None;
        }
        let scratch = Scratch::below(base);
        mkdir(scratch.path(), "outside");
        std::fs::write(scratch.path().join("outside/file"), "it was there").unwrap();
        let work = PathBuf::from(mkdir(scratch.path(), "w"));
        std::fs::write(scratch.path().join("p.py"), format!("{PRELUDE}{program}")).unwrap();
        let command = ["--", PYTHON, "-S", "-E", "-B", "../p.py"];
        run(&work, &[&["record", "-q", "-o", "../t.reprise"], options, &command].concat()).ends(0);
        Some(Recorded { scratch })
    }

    fn dir(&self) -> &Path {
        self.scratch.path()
    }

    /// Replays the trace, or a slice of it.
    fn replay(&self, trace: &str) -> Said {
        let target = mkdir(self.dir(), &format!("{trace}-target"));
        run(self.dir(), &["replay", trace, "--target", &target, "-o", &format!("{trace}-result"), "-q", "--json"])
    }

    /// Nothing diverges, and the tree is what the model says.
    #[track_caller]
    fn replays(&self, trace: &str) {
        let said = self.replay(trace);
        assert_eq!(said.ends(0).json()["diverged"], 0, "{said:#?}");
        run(self.dir(), &["verify", "--tree", trace, &format!("{trace}-target")]).ends(0);
    }

    /// The same for the trace, and for the slice that begins at the cut.
    #[track_caller]
    fn replays_in_parts(&self) {
        self.replays("t.reprise");
        let query = "SELECT seq FROM actions WHERE path = '/cut-here'";
        let found = run(self.dir(), &["sql", "t.reprise", query, "--csv"]);
        let cut = found.ends(0).out.lines().nth(1).expect("the action at which the program is cut").to_owned();
        run(self.dir(), &["slice", "t.reprise", "-o", "behind", "--from", &format!("action:{cut}"), "-q"]).ends(0);
        self.replays("behind");
    }
}

/// A file system for a test; `None`: the test is skipped.
fn file_system(name: &str, kind: Kind, bytes: u64) -> Option<LoopFs> {
    let made = if is_root() { LoopFs::new(kind, bytes) } else { Err("loop devices need root".to_owned()) };
    made.map_err(|why| skip(name, &why)).ok()
}

/// Capabilities of a program go with any change of its content or owner, whoever makes it.
#[test]
fn capabilities_go_with_the_content_that_had_them() {
    let name = "capabilities_go_with_the_content_that_had_them";
    if !is_root() {
        return skip(name, "capabilities of files need root");
    }
    let program = r#"
for name in ("kept", "truncated", "emptied", "written", "owned", "changed"):
    program(name)
os.truncate("truncated", 1)
made("emptied")
fd = os.open("written", os.O_WRONLY)
os.write(fd, b"x")
os.chown("owned", -1, -1)
os.chmod("changed", 0o755)
cut()
for name in ("kept", "truncated", "emptied", "written", "owned", "changed"):
    try:
        os.getxattr(name, "security.capability")
    except OSError:
        pass
"#;
    let Some(recorded) = Recorded::new(name, program, &[]) else { return };
    recorded.replays_in_parts();
}

/// A replay is not permitted to set some attributes: that is told of the tree, too.
#[test]
fn attributes_that_were_not_compared_are_counted() {
    let name = "attributes_that_were_not_compared_are_counted";
    if !is_root() {
        return skip(name, "trusted attributes need root");
    }
    let program = r#"
made("f")
os.setxattr("f", "trusted.overlay.opaque", b"y")
os.setxattr("f", "user.a", b"1")
"#;
    let Some(recorded) = Recorded::new(name, program, &[]) else { return };
    assert_eq!(recorded.replay("t.reprise").ends(1).json()["diverged"], 1);
    let verify = ["verify", "--tree", "t.reprise", "t.reprise-target"];
    let said = run(recorded.dir(), &[&verify[..], &["--json"]].concat());
    let told = said.ends(0).json()["uncompared_attributes"].clone();
    let causes = told.as_object().unwrap();
    assert!(causes.keys().any(|why| why.starts_with("trusted.*")) && causes.values().all(|n| *n == 1), "{said:#?}");
    let said = run(recorded.dir(), &verify);
    assert!(said.ends(0).out.contains("as it should be, as far as it was compared"), "{said:#?}");
}

/// Numbers that `close_range` marks are told as marked, until a program is run.
#[test]
fn numbers_are_marked_for_the_next_program() {
    let program = r#"
fd = os.open("file", os.O_CREAT | os.O_RDWR)
os.dup2(fd, 50)
os.dup2(fd, 70)
CLOSE_RANGE_CLOEXEC = 4
assert libc.close_range(40, 60, CLOSE_RANGE_CLOEXEC) == 0
assert not os.get_inheritable(50) and os.get_inheritable(70)
"#;
    let name = "numbers_are_marked_for_the_next_program";
    for backend in ["ptrace", "auto"] {
        let Some(recorded) = Recorded::new(name, program, &["--backend", backend]) else { return };
        recorded.replays("t.reprise");
    }
}

/// Set-group-ID is for members of the group: the kernel leaves it out for others.
#[test]
fn who_is_not_in_a_group_gives_its_rights_to_nothing() {
    let name = "who_is_not_in_a_group_gives_its_rights_to_nothing";
    if !is_root() {
        return skip(name, "other users need root");
    }
    let program = r#"
import stat, threading
def use(place):
    os.close(os.open(place + "/program", os.O_CREAT | os.O_WRONLY, 0o2755))
    os.close(os.open(place + "/locked", os.O_CREAT | os.O_WRONLY, 0o2745))
    os.mkdir(place + "/directory", 0o2755)
    os.mknod(place + "/pipe", stat.S_IFIFO | 0o2755)
    made(place + "/changed")
    os.chmod(place + "/changed", 0o2755)
os.umask(0)
for place in ("others", "members", "own"):
    os.mkdir(place)
    os.chown(place, 99, 99 if place == "own" else 50)
    os.chmod(place, 0o2777)
def become(groups):
    os.seteuid(0)
    os.setgroups(groups)
    os.setegid(99)
    os.seteuid(99)
become([])
use("others")
use("own")
become([49, 50])
use("members")
if os.fork() == 0:
    os.mkdir("members/inner")
    use("members/inner")
    os._exit(0)
os.wait()
become([])
os.chmod("others", 0o2777)
os.seteuid(0)
cut()
for place, _, names in list(os.walk(".")):
    for name in [*names, "."]:
        os.stat(place + "/" + name)
"#;
    let Some(recorded) = Recorded::new(name, program, &[]) else { return };
    recorded.replays_in_parts();
}

/// Who is not in a file's group takes set-group-ID away by changing the file, also where the group may not execute (Linux 6.2).
#[test]
fn who_is_not_in_a_group_takes_its_rights_with_a_change() {
    let name = "who_is_not_in_a_group_takes_its_rights_with_a_change";
    if !is_root() {
        return skip(name, "other users need root");
    }
    let program = r#"
files = {}
for group in (50, 99):
    for mode in (0o2700, 0o2644, 0o2755, 0o6700):
        for change in ("write", "truncate", "allocate", "nothing"):
            made(f"{change}-{group}-{mode:o}")
            fd = files[group, mode, change] = os.open(f"{change}-{group}-{mode:o}", os.O_RDWR)
            os.fchown(fd, 99, group)
            os.fchmod(fd, mode)
made("given")
os.chown("given", 99, 50)
os.chmod("given", 0o2700)
cut()
os.setgroups([])
os.setegid(99)
os.seteuid(99)
for (_, _, change), fd in files.items():
    if change == "write":
        os.pwrite(fd, b"x", 1)
    elif change == "truncate":
        os.ftruncate(fd, 10)
    elif change == "allocate":
        os.posix_fallocate(fd, 0, 10)
os.chown("given", 99, 99)
os.seteuid(0)
for name in sorted(os.listdir(".")):
    os.stat(name)
"#;
    let Some(recorded) = Recorded::new(name, program, &[]) else { return };
    recorded.replays_in_parts();
}

/// ext4 has one block for the attributes of a file, tmpfs has more: that is no full target.
#[test]
fn a_target_without_room_for_an_attribute_is_not_full() {
    let name = "a_target_without_room_for_an_attribute_is_not_full";
    let memory = Path::new("/dev/shm");
    if !memory.exists() {
        return skip(name, "there is no /dev/shm");
    }
    let Some(ext4) = file_system(name, Kind::Ext4, 8 << 20) else { return };
    let program = r#"
made("f")
try:
    os.setxattr("f", "user.a", b"v" * 6000)
except OSError:
    made("no-attributes-here")
made("after")
"#;
    let Some(recorded) = Recorded::below(name, memory, program, &[]) else { return };
    if recorded.dir().join("w/no-attributes-here").exists() {
        return skip(name, "tmpfs has no attributes here");
    }
    let target = mkdir(&ext4.path(), "t");
    let command = ["replay", "t.reprise", "--target", &target, "-o", "r.reprise", "-q", "--json"];
    let said = run(recorded.dir(), &command);
    let document = said.json();
    assert_eq!((&document["end"], document["diverged"].as_u64()), (&"complete".into(), Some(1)), "{said:#?}");
    assert_eq!(document["divergences"][0]["call"], "setxattr", "{said:#?}");
    let after = Path::new(&target).join(recorded.dir().join("w/after").strip_prefix("/").unwrap());
    assert_eq!(std::fs::read(after).unwrap(), b"abc");
}

/// Calls gave a file a name before anything looked at it.
#[test]
fn names_that_calls_gave_were_not_there_before() {
    let name = "names_that_calls_gave_were_not_there_before";
    let program = r#"
os.link("../outside/file", "a")
os.link("a", "b")
os.stat("a")
os.unlink("b")
os.stat("a")
made("c")
os.rename("c", "a")
os.stat("../outside/file")
"#;
    let s = Scratch::new();
    if !in_kernel(name, s.path()) {
        return;
    }
    let Some(recorded) = Recorded::new(name, program, &["--backend", "ebpf", "--tree", "."]) else { return };
    recorded.replays("t.reprise");
}

/// Lengths that no memory has are refused before anything is read: what stands for it need not be there.
#[test]
fn what_nobody_reads_of_a_refused_call_takes_no_memory() {
    let name = "what_nobody_reads_of_a_refused_call_takes_no_memory";
    let program = r#"
class Piece(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("length", ctypes.c_size_t)]
fd = os.open("f", os.O_RDWR | os.O_CREAT)
content = ctypes.create_string_buffer(b"x" * (1 << 20))
at = ctypes.addressof(content)
most = ctypes.c_size_t(-1).value
def pieces(*lengths):
    return (Piece * len(lengths))(*(Piece(at, length) for length in lengths))
for vector in (pieces(most, 10), pieces(10, most), pieces(10, 1 << 40, most)):
    for call in (libc.writev, libc.readv, libc.pwritev, libc.preadv):
        call(fd, vector, len(vector), ctypes.c_long(0))
    libc.writev(900, vector, len(vector))
# Its second piece ends long before what was asked for.
libc.mmap.restype = ctypes.c_void_p
there = libc.mmap(None, ctypes.c_size_t(8192), 3, 0x22, -1, ctypes.c_long(0))
libc.munmap(ctypes.c_void_p(there + 4096), ctypes.c_size_t(4096))
assert libc.writev(fd, (Piece * 2)(Piece(at, 5000), Piece(there, 1 << 30)), 2) == 9096
libc.write(fd, ctypes.c_void_p(at), ctypes.c_size_t(-1))
libc.write(900, ctypes.c_void_p(at), ctypes.c_size_t(1 << 31))
libc.pread(fd, ctypes.c_void_p(at), ctypes.c_size_t(-1), ctypes.c_long(0))
libc.setxattr(b"f", b"user.a", ctypes.c_void_p(at), ctypes.c_size_t(-1), 0)
"#;
    let Some(recorded) = Recorded::new(name, program, &[]) else { return };
    let said = recorded.replay("t.reprise");
    let document = said.json();
    assert_eq!(said.ends(0).json()["diverged"], 0, "{said:#?}");
    let resident = document["engine"]["resident_bytes"].as_u64().unwrap();
    assert!(resident < 256 << 20, "{resident} bytes were resident");
    run(recorded.dir(), &["compile", "t.reprise", "-o", "plan", "-q"]).ends(0);
    let plan = std::fs::metadata(recorded.dir().join("plan")).unwrap().len();
    assert!(plan < 64 << 20, "the plan has {plan} bytes");
}

/// A read into memory that ends halfway returns what came until there.
#[test]
fn a_read_that_its_memory_ended_is_replayed_as_far_as_it_came() {
    let name = "a_read_that_its_memory_ended_is_replayed_as_far_as_it_came";
    let program = r#"
made("f", bytes(range(256)) * 256)
fd = os.open("f", os.O_RDONLY)
libc.mmap.restype = ctypes.c_void_p
memory = libc.mmap(None, ctypes.c_size_t(12288), 3, 0x22, -1, ctypes.c_long(0))
assert libc.munmap(ctypes.c_void_p(memory + 8192), ctypes.c_size_t(4096)) == 0
class Piece(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("length", ctypes.c_size_t)]
pieces = (Piece * 2)(Piece(memory, 100), Piece(memory + 4096, 8192))
came = [libc.pread(fd, ctypes.c_void_p(memory + 4096), ctypes.c_size_t(8192), ctypes.c_long(0)),
    libc.read(fd, ctypes.c_void_p(memory + 4096), ctypes.c_size_t(8192)),
    libc.readv(fd, pieces, 2), libc.read(fd, ctypes.c_void_p(memory), ctypes.c_size_t(50))]
made("came", " ".join(map(str, came)).encode())
"#;
    let Some(recorded) = Recorded::new(name, program, &[]) else { return };
    let came = std::fs::read_to_string(recorded.dir().join("w/came")).unwrap();
    assert_eq!(came, "4096 4096 4196 50");
    recorded.replays("t.reprise");
}

/// Direct I/O refuses memory for where it begins: so it does in a replay, whatever memory that has, and takes what it took.
#[test]
fn direct_io_takes_and_refuses_memory_as_it_did() {
    let name = "direct_io_takes_and_refuses_memory_as_it_did";
    let Some(ext4) = file_system(name, Kind::Ext4, 512 << 20) else { return };
    let program = r#"
LONG = 1 << 18
class Piece(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("length", ctypes.c_size_t)]
libc.mmap.restype = ctypes.c_void_p
memory = libc.mmap(None, ctypes.c_size_t(9 * LONG), 3, 0x22, -1, ctypes.c_long(0))
ctypes.memmove(memory, bytes(i * i % 251 for i in range(2 * LONG)), 2 * LONG)
fd = os.open("f", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
other = os.open("other", os.O_RDWR | os.O_CREAT)
came = []
# What was written from elsewhere first is taken by direct I/O all the same.
for content in (bytes(4096), bytes(LONG), b"a" * 16384):
    for fd_of, begin in ((other, 16), (fd, 0)):
        ctypes.memmove(memory + begin, content, len(content))
        came.append(libc.write(fd_of, ctypes.c_void_p(memory + begin), ctypes.c_size_t(len(content))))
for length in (512, 4096, 16384, LONG, 8 * LONG):
    for begin in (0, 1, 8, 0x450, 512):
        at = memory + begin
        ctypes.memmove(at, bytes((i + begin + length) % 253 for i in range(length)), length)
        for call in (libc.write, libc.pwrite, libc.read, libc.pread):
            came.append(call(fd, ctypes.c_void_p(at), ctypes.c_size_t(length), ctypes.c_long(4096)))
        pieces = (Piece * 2)(Piece(memory + length, 4096), Piece(at, length))
        for call in (libc.writev, libc.pwritev, libc.readv, libc.preadv):
            came.append(call(fd, pieces, 2, ctypes.c_long(8192)))
made("came", " ".join(map(str, came)).encode())
os.stat("f")
"#;
    for (backend, data) in [("ptrace", "full"), ("auto", "full"), ("auto", "none")] {
        let options = ["--backend", backend, "--data", data];
        let Some(recorded) = Recorded::below(name, &ext4.path(), program, &options) else { return };
        let came = std::fs::read_to_string(recorded.dir().join("w/came")).unwrap();
        if !came.contains(" -1 ") {
            return skip(name, "direct I/O takes any memory here");
        }
        recorded.replays("t.reprise");
    }
}

/// A forked process writes back what it has of its parent.
#[test]
fn a_mapping_of_the_parent_is_written_back_by_its_child() {
    let name = "a_mapping_of_the_parent_is_written_back_by_its_child";
    let program = r#"
made("f", b"x" * 16384)
fd = os.open("f", os.O_RDWR)
memory = mmap.mmap(fd, 16384)
if os.fork() == 0:
    memory[:5000] = b"A" * 5000
    memory.flush()
    os._exit(0)
os.wait()
memory.close()
"#;
    let Some(recorded) = Recorded::new(name, program, &[]) else { return };
    recorded.replays("t.reprise");
    let row = run(recorded.dir(), &["cat", "--call", "msync", "t.reprise-result"]);
    let row = &row.ends(0).out;
    assert!(row.contains("msync") && !row.contains("simulated"), "{row}");
}

/// A program that is run gets a table of its own: what it does not have, who shared the table has still.
#[test]
fn who_shares_its_descriptors_keeps_what_the_program_of_another_has_not() {
    let name = "who_shares_its_descriptors_keeps_what_the_program_of_another_has_not";
    let program = r#"
CLONE, CLONE_FILES, SIGCHLD = 56, 0x400, 17
kept, closed, shared = (os.open(name, os.O_CREAT | os.O_RDWR | os.O_APPEND) for name in ("kept", "closed", "shared"))
os.set_inheritable(shared, True)
child = libc.syscall(CLONE, CLONE_FILES | SIGCHLD, 0, 0, 0, 0)
if child == 0:
    os.close(closed)
    os.execv("/bin/sh", ["sh", "-c", f"echo child >&{shared}; exec {shared}>&-"])
os.waitpid(child, 0)
cut()
assert os.write(kept, b"parent") == 6 and not os.get_inheritable(kept)
assert os.write(shared, b"parent") == 6
assert libc.write(closed, b"nothing", 7) == -1
"#;
    for backend in ["ptrace", "auto"] {
        let Some(recorded) = Recorded::new(name, program, &["--backend", backend]) else { return };
        recorded.replays_in_parts();
    }
}

/// A message is taken, and what comes with it, by who has room for none of it, or for less; of a stream of bytes its descriptors come
/// before its first byte. Received numbers are marked as they are asked for, whatever the sender's are.
#[test]
fn descriptors_come_with_messages_of_any_length() {
    let name = "descriptors_come_with_messages_of_any_length";
    let program = r#"
import socket
def opened(name):
    return os.open(name, os.O_CREAT | os.O_RDWR)
for kind in (socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_STREAM):
    here, there = socket.socketpair(socket.AF_UNIX, kind)
    def received(room, flags=0):
        came = there.recvmsg(room, socket.CMSG_LEN(4), flags)[1]
        return [int.from_bytes(number, "little") for _, _, number in came]
    keeps_messages = kind != socket.SOCK_STREAM
    for n in range(8):
        fd = opened(f"{kind.name}{n}")
        os.set_inheritable(fd, n % 2 == 1)
        assert socket.send_fds(here, [b"x" * 100], [fd]) == 100
        os.close(fd)
        if keeps_messages and n == 3:
            assert here.send(b"") == 0 and os.write(here.fileno(), b"") == 0 and os.writev(here.fileno(), [b""]) == 0
    came = {}
    came[0] = received(0)
    if not keeps_messages:
        assert received(100) == []
    came[1] = received(100 if kind == socket.SOCK_STREAM else 7, socket.MSG_CMSG_CLOEXEC)
    assert os.read(there.fileno(), 0) == b"" and os.readv(there.fileno(), [bytearray()]) == 0
    # What is taken by a call that can take no descriptors is lost.
    libc.recv(there.fileno(), None, 0, 0)
    if not keeps_messages:
        assert received(100) == []
    peeked = received(100, socket.MSG_PEEK)
    came[3] = received(100)
    if keeps_messages:
        assert received(0) == [] and os.read(there.fileno(), 9) == b""
    came[4] = received(100, socket.MSG_CMSG_CLOEXEC)
    came[5] = received(0, socket.MSG_CMSG_CLOEXEC)
    if not keeps_messages:
        assert received(100) == []
    came[6], came[7] = received(100), received(100)
    here.shutdown(socket.SHUT_WR)
    if kind != socket.SOCK_DGRAM:
        assert received(100) == [] and received(0) == []
    marked = (1, 4, 5)
    for n, [fd] in came.items():
        assert os.get_inheritable(fd) == (n not in marked), (kind, n)
        os.write(fd, f"{kind.name} {n}".encode())
    os.write(peeked[0], b", looked at")
    for n in came:
        with open(f"{kind.name}{n}") as file:
            assert file.read() == f"{kind.name} {n}" + (", looked at" if n == 3 else ""), (kind, n)
"#;
    for backend in ["ptrace", "auto"] {
        let Some(recorded) = Recorded::new(name, program, &["--backend", backend]) else { return };
        recorded.replays("t.reprise");
    }
}

/// What a file without a name is changed to through the name of its descriptor, it is in a replay, too.
#[test]
fn files_without_names_are_changed_through_their_descriptors() {
    let name = "files_without_names_are_changed_through_their_descriptors";
    let program = r#"
UTIME, UTIMES, FUTIMESAT, SYMLINK_FOLLOW = 132, 235, 261, 0x400
def refused(call, *args):
    try:
        call(*args)
        assert False
    except OSError:
        pass
made("gone")
owner = 1000 if os.geteuid() == 0 else -1
files = [os.memfd_create("memory"), os.open(".", os.O_TMPFILE | os.O_RDWR), os.open("gone", os.O_RDWR)]
os.unlink("gone")
for n, fd in enumerate(files):
    path = f"/proc/self/fd/{fd}"
    os.truncate(path, 5000)
    assert len(os.pread(fd, 9000, 0)) == 5000
    refused(os.truncate, path, -1)
    os.chmod(path, 0o640)
    os.chown(path, owner, owner)
    os.chown(path, -1, -1)
    stat = os.fstat(fd)
    if n > 0:
        os.setxattr(path, "user.a", b"1")
        os.setxattr(path, "user.b", b"2")
        refused(os.setxattr, path, "user.a", b"3", os.XATTR_CREATE)
        os.removexattr(path, "user.b")
        refused(os.removexattr, path, "user.b")
        assert os.getxattr(path, "user.a") == b"1" and os.listxattr(path) == ["user.a"]
        assert os.getxattr(fd, "user.a") == b"1" and os.listxattr(fd) == ["user.a"]
for call, times, name in (UTIME, (5, 6), "utime"), (UTIMES, (5, 7, 6, 8), "utimes"), (FUTIMESAT, (5, 7, 6, 8), "futimesat"):
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR)
    path = f"/proc/self/fd/{fd}".encode()
    directory = [-100] if call == FUTIMESAT else []
    assert libc.syscall(call, *directory, path, (ctypes.c_int64 * len(times))(*times)) == 0
    assert libc.linkat(-100, path, -100, name.encode(), SYMLINK_FOLLOW) == 0
assert libc.linkat(-100, f"/proc/self/fd/{files[1]}".encode(), -100, b"named", SYMLINK_FOLLOW) == 0
"#;
    for backend in ["ptrace", "auto"] {
        let Some(recorded) = Recorded::new(name, program, &["--backend", backend]) else { return };
        recorded.replays("t.reprise");
        let work = recorded.dir().join("w");
        let there = recorded.dir().join("t.reprise-target").join(work.strip_prefix("/").unwrap());
        for (file, nanoseconds) in [("utime", 0), ("utimes", 8000), ("futimesat", 8000)] {
            let modified = |place: &Path| place.join(file).metadata().map(|m| (m.mtime(), m.mtime_nsec())).unwrap();
            assert_eq!((modified(&work), modified(&there)), ((6, nanoseconds), (6, nanoseconds)), "{file}");
        }
        // Where a descriptor does not suffice that is counted.
        let row = run(recorded.dir(), &["cat", "--call", "truncate,chown,setxattr,removexattr", "t.reprise-result"]);
        assert!(!row.ends(0).out.contains("unsupported"), "{row:?}");
    }
}

/// What a descriptor of a file without a name does not suffice for is counted as unsupported.
#[test]
fn changes_that_a_descriptor_does_not_suffice_for_are_counted() {
    let name = "changes_that_a_descriptor_does_not_suffice_for_are_counted";
    let program = r#"
made("read"); made("place")
read, place = os.open("read", os.O_RDONLY), os.open("place", os.O_PATH)
os.unlink("read"); os.unlink("place")
os.truncate(f"/proc/self/fd/{read}", 5000)
os.setxattr(f"/proc/self/fd/{place}", "user.a", b"1")
os.chown(f"/proc/self/fd/{place}", -1, -1)
"#;
    let Some(recorded) = Recorded::new(name, program, &[]) else { return };
    let said = recorded.replay("t.reprise");
    let told = said.ends(0).json();
    assert_eq!((&told["diverged"], &told["unsupported"]), (&0.into(), &2.into()), "{said:#?}");
}

/// Calls about extended attributes take the working directory for a descriptor, where the kernel does (Linux 6.13).
#[test]
fn attributes_of_the_working_directory() {
    let name = "attributes_of_the_working_directory";
    let program = r#"
HERE, CREATE = -100, 1
room = ctypes.create_string_buffer(100)
os.mkdir("d")
for directory in (".", "d"):
    os.chdir(directory)
    is_known = libc.fsetxattr(HERE, b"user.a", b"123", 3, 0) == 0
    libc.fsetxattr(HERE, b"user.b", b"4", 1, 0)
    cut()
    for got in (
        libc.fsetxattr(HERE, b"user.a", b"5", 1, CREATE) == -1,
        libc.fgetxattr(HERE, b"user.a", room, 100) == 3,
        libc.fgetxattr(HERE, b"user.none", room, 100) == -1,
    ):
        assert got or not is_known
    # Not all of them know it in every version that some do.
    libc.flistxattr(HERE, room, 100)
    libc.fremovexattr(HERE, b"user.b")
    os.listxattr(".")
    assert libc.fsetxattr(-1, b"user.c", b"6", 1, 0) == -1
"#;
    for backend in ["ptrace", "auto"] {
        let Some(recorded) = Recorded::new(name, program, &["--backend", backend]) else { return };
        recorded.replays_in_parts();
    }
}

/// A file that is given all blocks of a smaller one keeps what stands behind them.
#[test]
fn what_stands_behind_a_shorter_copy_stays() {
    let name = "what_stands_behind_a_shorter_copy_stays";
    let Some(xfs) = file_system(name, Kind::Xfs, Kind::Xfs.least_bytes()) else { return };
    let program = r#"
FICLONE = 0x40049409
made("short", b"s" * 4096)
made("long", b"l" * 69732)
cut()
source, target = os.open("short", os.O_RDONLY), os.open("long", os.O_RDWR)
assert libc.ioctl(target, ctypes.c_ulong(FICLONE), source) == 0
assert os.fstat(target).st_size == 69732 and os.pread(target, 9000, 0) == b"s" * 4096 + b"l" * 4904
"#;
    let Some(recorded) = Recorded::below(name, &xfs.path(), program, &[]) else { return };
    recorded.replays_in_parts();
}

/// A copy that a limit on the length of files cut short is as short in a replay, and one that met the end of its source goes on asking.
#[test]
fn a_copy_that_was_cut_short() {
    let program = r#"
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
made("s", b"s" * 500000)
cut()
resource.setrlimit(resource.RLIMIT_FSIZE, (300000, 300000))
source = os.open("s", os.O_RDONLY)
for name, copy in (
    ("range", lambda to, at, length: os.copy_file_range(source, to, length, at)),
    ("send", lambda to, at, length: os.sendfile(to, source, at, length)),
):
    target = os.open(name, os.O_RDWR | os.O_CREAT)
    assert copy(target, 0, 500000) == 300000
    os.ftruncate(target, 0)
    os.lseek(target, 0, 0)
    assert copy(target, 400000, 500000) == 100000
    assert copy(target, 0, 500000) == 200000
    assert os.fstat(target).st_size == 300000
"#;
    for backend in ["ptrace", "auto"] {
        let Some(recorded) = Recorded::new("a_copy_that_was_cut_short", program, &["--backend", backend]) else {
            return;
        };
        recorded.replays_in_parts();
    }
}

/// What is copied to a page behind the end of a file, which a store was refused for, was not stored.
#[test]
fn what_a_copy_brings_is_no_store() {
    let name = "what_a_copy_brings_is_no_store";
    if !in_kernel(name, Scratch::new().path()) {
        return;
    }
    let program = r#"
import resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
made("s", b"s" * 4096)
source, target = os.open("s", os.O_RDONLY), os.open("d", os.O_RDWR | os.O_CREAT)
os.ftruncate(target, 4096)
memory = mmap.mmap(target, 4096)
for copy in (lambda: os.copy_file_range(source, target, 4096, 0, 0), lambda: os.sendfile(target, source, 0, 4096)):
    os.lseek(target, 0, 0)
    os.ftruncate(target, 0)
    if os.fork() == 0:
        memory[0] = 1
    assert os.waitstatus_to_exitcode(os.wait()[1]) < 0, "a store behind the end"
    assert copy() == 4096
    memory[9] = 2
    assert os.pread(target, 3, 8) == b"s\x02s"
"#;
    let Some(recorded) = Recorded::new(name, program, &["--backend", "ebpf"]) else { return };
    recorded.replays("t.reprise");
}

/// A write whose buffer is a mapping of its file, from bytes that overlap those that it writes: it changes what it is given, and
/// copied upwards it writes again what it has written.
#[test]
fn a_file_that_is_written_to_from_itself() {
    let name = "a_file_that_is_written_to_from_itself";
    if !in_kernel(name, Scratch::new().path()) {
        return;
    }
    let program = r#"
made("f", bytes((i * 7 + i // 256) % 256 for i in range(65536)))
file = os.open("f", os.O_RDWR)
memory = mmap.mmap(file, 65536)
begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
for source, length, target in ((0, 30000, 10), (100, 30000, 0), (0, 8192, 32768), (40000, 9000, 40001)):
    assert libc.pwrite(file, ctypes.c_void_p(begin + source), length, target) == length
    os.pread(file, 65536, 0)
os.lseek(file, 7, 0)
assert libc.write(file, ctypes.c_void_p(begin), 20000) == 20000
end = os.open("f", os.O_WRONLY | os.O_APPEND)
assert libc.write(end, ctypes.c_void_p(begin), 5000) == 5000
assert os.pread(file, 5000, 65536) == memory[:5000]
os.pread(file, 65536, 0)
"#;
    let Some(recorded) = Recorded::new(name, program, &["--backend", "ebpf"]) else { return };
    recorded.replays("t.reprise");
}

/// The mask is taken off the mode of a socket's file also where a directory has a default access list.
#[test]
fn a_socket_where_there_is_a_default_access_list() {
    let name = "a_socket_where_there_is_a_default_access_list";
    let program = r#"
import socket, struct
entries = ((1, 7, -1), (2, 7, 1000), (4, 7, -1), (0x10, 7, -1), (0x20, 5, -1))
os.umask(0o22)
os.mkdir("d")
os.setxattr("d", "system.posix_acl_default", struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *e) for e in entries))
cut()
here = socket.socket(socket.AF_UNIX)
here.bind("d/s")
os.stat("d/s")
"#;
    let Some(recorded) = Recorded::new(name, program, &["--tree", "."]) else { return };
    recorded.replays_in_parts();
    let work = recorded.dir().join("w").canonicalize().unwrap();
    let replica = recorded.dir().join("t.reprise-target").join(work.strip_prefix("/").unwrap());
    let [made, replayed] = [&work, &replica].map(|dir| dir.join("d/s").metadata().unwrap().mode());
    assert_eq!(format!("{replayed:o}"), format!("{made:o}"));
}

/// XFS lists how it keeps an access list to who may see that.
#[test]
fn access_lists_that_are_listed_twice() {
    let name = "access_lists_that_are_listed_twice";
    let Some(xfs) = file_system(name, Kind::Xfs, Kind::Xfs.least_bytes()) else { return };
    let program = r#"
import struct
entries = ((1, 6, -1), (2, 4, 1000), (4, 4, -1), (0x10, 7, -1), (0x20, 4, -1))
made("a")
os.setxattr("a", "system.posix_acl_access", struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *e) for e in entries))
assert "trusted.SGI_ACL_FILE" in os.listxattr("a")
"#;
    let Some(recorded) = Recorded::below(name, &xfs.path(), program, &[]) else { return };
    recorded.replays("t.reprise");
}

/// A write behind the end that fails for its memory leaves the file as it was, or longer: which, the trace does not say.
#[test]
fn a_failed_write_that_may_have_made_a_file_longer() {
    let name = "a_failed_write_that_may_have_made_a_file_longer";
    let program = r#"
fd = os.open("f", os.O_RDWR | os.O_CREAT)
os.write(fd, b"x" * 1000)
assert libc.pwrite(fd, ctypes.c_void_p(8), ctypes.c_size_t(10), ctypes.c_long(500)) == -1
"#;
    let behind = "assert libc.pwrite(fd, ctypes.c_void_p(8), ctypes.c_size_t(10), ctypes.c_long(120000)) == -1\n";
    for (more, said) in [("", 0), (behind, 1)] {
        let Some(recorded) = Recorded::new(name, &format!("{program}{more}"), &[]) else { return };
        recorded.replay("t.reprise").ends(0);
        let verified = run(recorded.dir(), &["verify", "--tree", "t.reprise", "t.reprise-target"]);
        assert_eq!(verified.out.matches("it may have made the file longer").count(), said, "{verified:#?}");
    }
}

/// Who has a lease is to be signalled, as the flags of its open file say; nobody is in a replay.
#[test]
fn flags_of_who_has_a_lease() {
    let program = r#"
import fcntl
ASYNC = 0o20000
f, g = (os.open(name, os.O_RDWR | os.O_CREAT | more) for name, more in (("f", 0), ("g", ASYNC)))
fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)
cut()
assert all(fcntl.fcntl(fd, fcntl.F_GETFL) & ASYNC for fd in (f, g))
fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_UNLCK)
assert not fcntl.fcntl(f, fcntl.F_GETFL) & ASYNC
"#;
    let Some(recorded) = Recorded::new("flags_of_who_has_a_lease", program, &[]) else { return };
    recorded.replays_in_parts();
}
